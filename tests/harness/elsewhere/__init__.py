"""Other Pythons on which simulated histories run, to compare them: versions of CPython that are installed, and Pyodide.

Pyodide is CPython in WebAssembly, with words of 32 bits; npm has it as a package for Node.js, which is fetched once
into the user's cache. None of them needs a library: `STAND_INS` has plain Python in their place.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from tests.harness.apache_kafka import Unavailable
from tests.harness.cache import kept
from tests.harness.tree import ROOT

HERE = pathlib.Path(__file__).parent
STAND_INS = HERE / "stand_ins"
PYODIDE_VERSION = "314.0.7"
PYODIDE_INTEGRITY = "sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
OLDEST = (3, 11)
_FETCH_S = 300
_ASK = "import sys; print(*sys.version_info[:3], sys.implementation.name)"


def pythons() -> Mapping[str, pathlib.Path]:
    """By version, each CPython of this machine that pykraft supports, but for the one that runs this."""
    found: dict[str, pathlib.Path] = {}
    for path in _candidates():
        asked = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, check=False)
        major, minor, micro, name = (*asked.stdout.split(), *[""] * 4)[:4]
        if asked.returncode or name != "cpython" or (int(major), int(minor)) < OLDEST:
            continue
        if (int(major), int(minor)) != sys.version_info[:2]:
            found.setdefault(f"{major}.{minor}.{micro}", path)
    return found


def _candidates() -> Iterator[pathlib.Path]:
    names = [f"python3.{minor}" for minor in range(OLDEST[1], 20)]
    folders = [pathlib.Path(each) for each in os.get_exec_path()]
    folders += sorted((pathlib.Path.home() / ".pyenv" / "versions").glob("*/bin"))
    for folder in folders:
        yield from (folder / name for name in names if (folder / name).is_file())


def pyodide() -> pathlib.Path:
    """The folder with Pyodide. Unavailable if it cannot be had, or is another one than it should be."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise Unavailable("there is no Node.js")

    def fill(coming: pathlib.Path) -> None:
        command = [npm, "install", "--prefix", str(coming), "--no-audit", "--no-fund", f"pyodide@{PYODIDE_VERSION}"]
        if subprocess.run(command, check=False, capture_output=True, timeout=_FETCH_S).returncode:
            raise Unavailable("npm cannot fetch pyodide")

    home = kept(f"npm-pyodide-{PYODIDE_VERSION}", fill) / "node_modules"
    integrity = json.loads((home / ".package-lock.json").read_text())["packages"]["node_modules/pyodide"]["integrity"]
    assert integrity == PYODIDE_INTEGRITY, f"this is another pyodide {PYODIDE_VERSION}: {integrity}"
    return home / "pyodide"


def digests_of(python: pathlib.Path, given: Sequence[str], hash_seed: str) -> list[str]:
    """What tests/sim/digests.py prints under another CPython, without any library."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, STAND_INS)))}
    command = [str(python), "-B", "-s", "-m", "tests.sim.digests", *given]
    return _lines(command, environment | {"PYTHONHASHSEED": hash_seed})


def digests_of_pyodide(given: Sequence[str], hash_seed: str) -> list[str]:
    """The same under Pyodide."""
    command = ["node", str(HERE / "pyodide.mjs"), str(pyodide()), str(ROOT), "tests.sim.digests", *given]
    return _lines(command, {**os.environ, "PYTHONHASHSEED": hash_seed})


def _lines(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
