"""A mutant's file: what it may say, and which words a wrong one gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.course.labs.mutants import Mutant, PatchError, read_mutant

SOLUTION = "def f(x):\n    if x:\n        return 1\n    return 2\n\n\ndef g(x):\n    return 1 + x\n"
GOOD = """Forgets the minus.
breaks: each minus
killed by: test_minus
@@
-        return 1
+        return 3
@@
 def g(x):
+    x += 1
     return 1 + x
"""


def mutant(folder: Path, text: str) -> Mutant:
    path = folder / "wrong.patch"
    path.write_text(text)
    return read_mutant(path)


def test_a_patch_has_a_mistake_a_killer_and_changes_in_several_places(tmp_path: Path) -> None:
    found = mutant(tmp_path, GOOD)
    assert (found.name, found.mistake, found.breaks, found.killer) == (
        "wrong",
        "Forgets the minus.",
        "each minus",
        "test_minus",
    )
    assert found.applied(SOLUTION) == SOLUTION.replace("        return 1\n", "        return 3\n").replace(
        "def g(x):\n", "def g(x):\n    x += 1\n"
    )


def test_a_line_is_found_as_a_whole_and_not_inside_another(tmp_path: Path) -> None:
    found = mutant(tmp_path, "Wrong.\nkilled by: test_f\n@@\n-    return 2\n+    return 3\n")
    assert found.applied("    return 2\n        return 2\n") == "    return 3\n        return 2\n"


@pytest.mark.parametrize(
    ("change", "solution", "words"),
    [
        ("-    return 7\n", SOLUTION, "occur nowhere in the solution"),
        ("-    return 2\n+    return 2\n", SOLUTION, "changes nothing"),
        ("-    return 2\n", "    return 2\n    return 2\n", "occur in 2 places"),
    ],
)
def test_a_patch_that_does_not_fit_the_solution_is_refused(
    tmp_path: Path, change: str, solution: str, words: str
) -> None:
    with pytest.raises(PatchError, match=words):
        mutant(tmp_path, f"Wrong.\nkilled by: test_f\n@@\n{change}").applied(solution)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Wrong.\n@@\n-a\n+b\n", "needs one sentence, a line 'killed by: test_...'"),
        ("Wrong\nkilled by: test_a\n@@\n-a\n+b\n", "needs one sentence"),
        ("Wrong.\nkilled by: test_a\n@@\n*a\n", r"begins with '-', '\+' or a space"),
        ("Wrong.\nkilled by: test_a\n@@\n+b\n", "needs one that stays"),
    ],
)
def test_a_file_of_another_form_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(PatchError, match=words):
        mutant(tmp_path, text)
