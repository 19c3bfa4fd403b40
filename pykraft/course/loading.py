"""Loads a file of Python as a module: the learner's, a lab's solution, one of its mutants.

The module is made anew at every call, without a cache of bytecode: whoever saves a file and checks it within the same
second must not get the old one.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load(path: Path) -> ModuleType:
    """The module in a file, under a name of its own. Whatever its code raises comes through."""
    name = f"lab_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    return module
