"""A unified diff is applied as ``patch`` would, and one that does not fit is refused in one sentence."""

from __future__ import annotations

import difflib
from pathlib import Path
from random import Random

import pytest

from pykraft.sim.search.patched import patched_package
from pykraft.sim.search.unified_diff import PatchRefused, apply, apply_all, parse

OLD = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
NEW = "one\ntwo\n3\nfour\nfive\nsix\nseven\neight\n"


def diff(old: str, new: str, name: str = "pykraft/numbers.py", context: int = 1) -> str:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=context
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def applied(patch: str, text: str) -> str:
    (only,) = parse(patch)
    return apply(only, text)


def test_what_diff_writes_is_applied() -> None:
    assert applied(diff(OLD, NEW), OLD) == NEW
    git = f"diff --git a/x b/x\nindex 1..2 100644\n{diff(OLD, NEW)}-- \n2.39\n"
    assert applied(git, OLD) == NEW
    assert applied(diff(OLD, OLD + "\nfar\n", context=3).replace("\n \n", "\n\n"), OLD) == OLD + "\nfar\n"


def test_any_difference_of_two_texts_is_applied() -> None:
    random = Random(3)
    for _ in range(300):
        old, new = ("".join(random.choice("aab\n\n") for _ in range(random.randrange(14))) for _ in range(2))
        if old != new:
            patch = diff(old, new, context=random.randrange(4))
            assert applied(patch, old) == new, (old, new, patch)


def test_a_hunk_is_found_where_its_lines_have_moved() -> None:
    moved = "zero\nzero\n" + OLD
    assert applied(diff(OLD, NEW), moved) == "zero\nzero\n" + NEW
    twice = "a\nx\nb\na\nx\nb\n"
    assert applied(diff(twice, "a\nx\nb\na\ny\nb\n"), twice) == "a\nx\nb\na\ny\nb\n", "the nearest place"


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("nothing", "no unified diff"),
        ("--- a/x\n+++ b/x\nhello\n", "line 3 begins no hunk of b/x"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n", "hunk 1 of b/x ends at line 5 of the patch: .*2 old and 2 new"),
        (
            diff(OLD, NEW).replace(" two", " zwei"),
            "hunk 1 does not apply .*'zwei' at line 2, and the file has 'two'",
        ),
        (diff(OLD, NEW).replace(" seven", " sieben"), "hunk 2 does not apply to .*'sieben' at line 7"),
        ("rename from x\nrename to y\n", "line 1 is 'rename from x': only changed lines"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused_in_one_sentence(patch: str, words: str) -> None:
    with pytest.raises(PatchRefused, match=words) as refused:
        applied(patch, OLD)
    assert "\n" not in str(refused.value)


def test_files_are_made_and_removed() -> None:
    made = "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    gone = "--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
    assert apply_all(parse(made + gone), {"old": "one\n"}) == {"new": "one\ntwo\n", "old": None}
    with pytest.raises(PatchRefused, match="it is there"):
        apply_all(parse(made), {"new": "one\n"})
    with pytest.raises(PatchRefused, match="there is no such file"):
        apply_all(parse(gone), {})


def test_a_patched_package_is_a_copy_without_what_was_compiled(tmp_path: Path) -> None:
    package = tmp_path / "pykraft"
    package.mkdir()
    (package / "numbers.py").write_text(OLD)
    for name in ("numbers.cpython-311.so", "others.cpython-311.so"):
        (package / name).touch()
    others = "--- a/tests/x.py\n+++ b/tests/x.py\n@@ -1 +1 @@\n-one\n+1\n"
    with patched_package(diff(OLD, NEW) + others, package) as (root, left_out):
        copy = root / "pykraft"
        assert (copy / "numbers.py").read_text() == NEW
        assert sorted(path.name for path in copy.iterdir()) == ["numbers.py", "others.cpython-311.so"]
        assert left_out == ["tests/x.py"]
    assert not root.exists() and (package / "numbers.py").read_text() == OLD


@pytest.mark.parametrize("name", ["../numbers.py", "/etc/passwd", "pykraft/../../x.py"])
def test_a_patch_stays_within_the_package(name: str, tmp_path: Path) -> None:
    patch = f"--- {name}\n+++ {name}\n@@ -1 +1 @@\n-one\n+1\n"
    with pytest.raises(PatchRefused, match="from the project's folder"), patched_package(patch, tmp_path):
        raise AssertionError("it was applied")
