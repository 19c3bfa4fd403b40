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

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pykraft.extras import require

if TYPE_CHECKING:
    from pykraft.course.labs.lab import Lab, LabError
    from pykraft.course.lesson import Lesson, LessonError, notebook
    from pykraft.course.levers import lever

require("pykraft.course", "course", "psutil", "pytest", "nbclient", "nbformat", "ipywidgets")

__all__ = ["Lab", "LabError", "Lesson", "LessonError", "lever", "notebook"]

_MODULES = {
    "Lab": "labs.lab",
    "LabError": "labs.lab",
    "Lesson": "lesson",
    "LessonError": "lesson",
    "notebook": "lesson",
    "lever": "levers",
}
"""Where each name is. A lab's checks run in a process of their own, which needs none of them: loaded with this package,
they would take as long as the checks."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found
