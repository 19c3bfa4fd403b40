"""A copy of the package with a patch applied, in a directory that is removed again.

The package that runs stays as it is: the copy is imported by processes of their own (`pykraft.sim.search.workers`).
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from pykraft.sim.search.unified_diff import FilePatch, PatchRefused, apply_all, parse

PACKAGE = Path(__file__).parents[2]
_COMPILED = ("so", "pyd")


@contextmanager
def patched_package(text: str, package: Path = PACKAGE) -> Iterator[tuple[Path, Sequence[str]]]:
    """The directory that has the patched package, and the files of the patch that are none of its own, which are left
    out. PatchRefused: it cannot be applied."""
    patches, others = _of_package(parse(text), package)
    names = [patch.path for patch in patches]
    files = {name: (package / name).read_text("utf-8") for name in names if (package / name).is_file()}
    changed = apply_all(patches, files)
    with TemporaryDirectory(prefix="pykraft-patched-") as directory:
        copy = Path(directory, package.name)
        shutil.copytree(package, copy)
        for name, new in changed.items():
            _replace(copy / name, new)
        yield Path(directory), others


def _of_package(patches: list[FilePatch], package: Path) -> tuple[list[FilePatch], list[str]]:
    """The patches of the package's files, named from its folder; and the other files."""
    ours, others = [], []
    for patch in patches:
        parts = PurePosixPath(patch.path).parts
        if patch.path.startswith("/") or ".." in parts:
            raise PatchRefused(f"the patch changes {patch.path}: name files from the project's folder on")
        inside = parts[1:] if parts[0] == package.name else parts
        if parts[0] == package.name or package.joinpath(*parts).is_file():
            ours.append(FilePatch("/".join(inside), patch.hunks, patch.is_new, patch.is_deleted))
        else:
            others.append(patch.path)
    if not ours:
        raise PatchRefused(f"the patch changes {', '.join(others)}, and nothing in {package.name}/")
    return ours, others


def _replace(path: Path, text: str | None) -> None:
    """Write a file, and remove what was compiled from its old text."""
    for kind in _COMPILED:
        for compiled in path.parent.glob(f"{path.stem}.*{kind}"):
            compiled.unlink()
    if text is None:
        path.unlink()
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
