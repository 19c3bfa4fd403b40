"""The parts of a lesson: predictions, claims that are checked, and a last cell that finds what was left open.

::

    from pykraft.course import notebook

    nb = notebook("00")

The parts of a lab: a file of the learner's own, checks, hints, a live cluster that runs the learner's code.

::

    from pykraft.course import Lab

    lab = Lab("08")
    lab.start()
"""

from pykraft.extras import require

require("pykraft.course", "course", "psutil", "pytest", "nbclient", "nbformat", "ipywidgets")

from pykraft.course.labs.lab import Lab, LabError  # noqa: E402 (it imports pytest)
from pykraft.course.lesson import Lesson, LessonError, notebook  # noqa: E402
from pykraft.course.sliders import sliders  # noqa: E402

__all__ = ["Lab", "LabError", "Lesson", "LessonError", "notebook", "sliders"]
