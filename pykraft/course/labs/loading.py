"""Loads a file of Python as a module: the learner's, a lab's solution, one of its mutants.

Every call makes a new module, without a cache of bytecode: if you save a file and check it within the same second, you
must not get the old one. Whatever the file is called, and whatever editor has written it, it is Python: it may begin
with a byte order mark, and lines may end as on Windows.
"""

import sys
from pathlib import Path
from types import ModuleType


def load(path: Path) -> ModuleType:
    """The module in a file, under a name of its own. Whatever its code raises comes through."""
    module = ModuleType(f"lab_{path.parent.name}_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    return module
