"""A check that fails whatever is handed in. A run in which it passes is not the lab's: something in the file that was
checked has changed the checks from inside.

A grader's run has it after the lab's own checks, and its report leaves it out (`grading`).
"""

import pytest

from pykraft.course.labs.check_terms import CANARY


@pytest.mark.task(CANARY, points=0)
def test_that_fails() -> None:
    """Nothing passes this."""
    assert CANARY == "", "the canary fails, as it should"
