"""Compiles the one module that is worth it, `pykraft/records/walk.py`; everything else is in pyproject.toml.

Without a C compiler, or with PYKRAFT_PURE=1, the same module runs as Python: the installation says so, and goes on.
"""

import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

COMPILED = ["pykraft/records/walk.py"]
BUILDING = {"editable_wheel", "bdist_wheel", "build_ext"}
"""The commands that need it. setuptools is asked other things before, and a translation takes seconds."""
OF_ITS_OWN = ("--config-file=", "--follow-imports=skip")
"""The translator neither reads the settings of the project's type checker nor looks at other modules."""


def say(error: BaseException) -> None:
    sys.stderr.write(f"pykraft: {', '.join(COMPILED)} runs as Python: {error}\n")


def extensions() -> list[Extension]:
    """What is compiled: nothing where the translator is missing."""
    if os.environ.get("PYKRAFT_PURE") == "1" or not BUILDING.intersection(sys.argv):
        return []
    try:
        from mypyc.build import mypycify

        return mypycify([*OF_ITS_OWN, *COMPILED], opt_level="2")
    except (Exception, SystemExit) as error:
        say(error)
        return []


class BuildIfPossible(build_ext):
    """All of the extensions or none: they need each other."""

    def build_extensions(self) -> None:
        try:
            super().build_extensions()
        except Exception as error:
            say(error)
            self.extensions.clear()


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildIfPossible})
