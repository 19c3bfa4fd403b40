"""What a lesson stands on: predictions, claims that are checked, and a last cell that finds what was left behind.

::

    from pykraft.course import notebook

    nb = notebook("00")
"""

from pykraft.course.lesson import Lesson, LessonError, notebook

__all__ = ["Lesson", "LessonError", "notebook"]
