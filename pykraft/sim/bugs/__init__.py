"""Bugs that can be planted into the nodes: each is a mistake that was made before, or that would be easy to make.

A simulator that finds nothing may be blind. So each of these bugs must die: in a simulated history a law breaks, and
the law names the mistake. No history is written for a bug; the seeds must come upon it.

A module has the bugs of one subject, each a function that replaces a method or two. `planting` has the registry, and
`recorded` says of each bug which part of Kafka it breaks, in which seed it dies, and by which law. It has more than 15
modules, for each subject has its own, and a module is short.
"""
