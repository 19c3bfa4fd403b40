"""What is written down of the cases is in step with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.dialogue import FOLDER, WHY, difference, read_sections

CASES = {f"{path.stem}.{case}" for path in sorted(FOLDER.glob("answers/*.txt")) for case in read_sections(path)}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("differences*.txt")), ids=lambda path: path.stem)
def test_each_difference_is_of_a_case_and_has_a_reason(path: Path) -> None:
    for name, lines in read_sections(path).items():
        assert name in CASES, f"{name}: there is no such case (any more)"
        reason = lines[0].removeprefix(WHY).strip()
        assert lines[0].startswith(WHY), name
        assert len(reason) > 1, f"{name} has no reason"


def test_each_answer_is_of_a_case() -> None:
    for path in sorted(FOLDER.glob("answers/*.txt")):
        text = (FOLDER / f"test_{path.stem}.py").read_text()
        for case in read_sections(path):
            assert f"def test_{case}(" in text, f"{path.name} has answers to {case}, which no test asks"


def test_what_differs_is_shown_with_its_question() -> None:
    apache = ["> one", "  a", "  b", "> two", "  c"]
    assert difference(apache, apache) == []
    assert difference(apache, ["> one", "  a", "  B", "> two", "  c"]) == ["> one", "-   b", "+   B"]
    assert difference(apache, ["> one", "  a", "> two", "  c"]) == ["> one", "-   b"]
    assert difference(apache, ["> one", "  a", "  b"]) == ["> two", "> not asked", "-   c"]
