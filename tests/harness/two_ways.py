"""The walk over records as Python, also where it is compiled: to compare both, and to plant bugs into it."""

import types
from pathlib import Path

from tests.harness.tree import ROOT

SOURCE: Path = ROOT / "pykraft" / "records" / "walk.py"


def as_python(source: str | None = None) -> types.ModuleType:
    """The module as Python runs it, from its own lines or from these."""
    module = types.ModuleType("walk_as_python")
    exec(compile(SOURCE.read_text() if source is None else source, str(SOURCE), "exec"), vars(module))
    return module
