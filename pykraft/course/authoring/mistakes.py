"""The instructor's list of common mistakes in the labs, made from the mutants.

A mutant is a mistake that a learner might make, and the check that finds it. So what an instructor will see in the room
is known: INSTRUCTOR.md lists it between two marks, and ``python -m pykraft course build lab08`` makes the list again.
"""

from collections.abc import Iterator

from pykraft.course.labs.mutants import mutants
from pykraft.course.places import NOTEBOOKS, lab_folders

BEGIN, END = "<!-- mistakes: made from labs/*/mutants -->", "<!-- end of mistakes -->"
PAGE = NOTEBOOKS / "INSTRUCTOR.md"


def mistakes() -> str:
    """The list, with its marks, in Markdown."""
    return "\n".join([BEGIN, *_lines(), "", END])


def _lines() -> Iterator[str]:
    for folder in lab_folders():
        yield from ("", f"**Lab {folder.name[3:5]}, {folder.name[6:].replace('_', ' ')}**", "")
        for mutant in mutants(folder):
            yield f"- {mutant.mistake} Fails: *{mutant.killer.removeprefix('test_').replace('_', ' ')}*."


def with_mistakes(page: str) -> str:
    """The page with the list made again. ValueError if it has no place for it."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"INSTRUCTOR.md has no place for the mistakes: it needs {BEGIN} and {END}")
    return before + mistakes() + after
