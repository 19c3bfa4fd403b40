"""A lab: a file of the learner's own, the checks that look at it, and the live cluster that runs on it.

`lab` is the learner's interface. `grading` starts a process in which `checks` is a plugin of pytest; what both say is
in `check_terms`, the calls that went wrong in `calls` and `replay`. `plug` puts the learner's code into a cluster.
`mutations` makes small wrong changes to a solution, for tests of the graders.
"""
