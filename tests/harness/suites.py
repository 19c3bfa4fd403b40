"""What judges pykraft from outside, pinned: tests/interop/suites.txt names each archive by its version and digest.

A line is KIND NAME VERSION DIGEST. The digest is the one that the archive's registry gives, so that another archive of
the same name and version is noticed:

    python  the source distribution of a library in Python; requirements.lock has its digest, and those of its wheels
    npm     a package for Node.js, and its integrity
    go      a module, and its hash in go.sum
    maven   a jar that is in the class path of Apache Kafka or of its client tests; a jar's version is in its name

The functions say what is there: in the files that choose the versions, or in what was fetched by them. `python -m
tests.harness.suites` writes the table again; the digests of the libraries in Python stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import subprocess
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import NamedTuple

from tests.harness import apache_kafka, kafka_client_tests
from tests.harness.tree import ROOT
from tests.interop import members

TABLE = ROOT / "tests" / "interop" / "suites.txt"
LOCK = ROOT / "requirements.lock"
IN_ITS_NAME = "-"
HEADER = """\
# The clients and tests of other hands that judge pykraft: KIND NAME VERSION DIGEST, see tests/harness/suites.py.
"""


class Pin(NamedTuple):
    """One archive."""

    kind: str
    name: str
    version: str
    digest: str


def pinned(*kinds: str) -> set[Pin]:
    """The table, or its part of these kinds."""
    lines = (line.split() for line in TABLE.read_text().splitlines() if line and not line.startswith("#"))
    return {pin for pin in (Pin(*line) for line in lines) if not kinds or pin.kind in kinds}


def installed(name: str) -> str:
    """The version of a library in Python that is imported here."""
    return metadata.version(name)


def locked(name: str) -> tuple[str, set[str]]:
    """The version that requirements.lock has of a library, and the digests of its archives."""
    found = re.search(rf"^{re.escape(name)}==(\S+) \\\n((?:    --hash=.*\n)+)", LOCK.read_text(), re.MULTILINE)
    assert found is not None, f"requirements.lock does not name {name}"
    return found[1], set(re.findall(r"sha256:[0-9a-f]{64}", found[2]))


def npm_package() -> Pin:
    """kafkajs as npm has installed it."""
    lock = json.loads((members.kafkajs() / ".package-lock.json").read_text())
    (package,) = lock["packages"].values()
    return Pin("npm", "kafkajs", package["version"], package["integrity"])


def chosen_modules() -> set[Pin]:
    """The modules that go.sum has the contents of, not only the go.mod."""
    lines = (line.split() for line in (members.FRANZ / "go.sum").read_text().splitlines())
    return {Pin("go", name, version, digest) for name, version, digest in lines if not version.endswith("/go.mod")}


def built_modules() -> set[Pin]:
    """The modules in the program, as it says itself."""
    command = ["go", "version", "-m", str(members.franz())]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = (line.split() for line in told.splitlines())
    return {Pin("go", *words[1:]) for words in lines if words[0] == "dep"}


def jars(home: pathlib.Path) -> set[Pin]:
    """The jars in the class path of what was fetched into this folder."""
    return {
        Pin("maven", jar.name, IN_ITS_NAME, f"sha256:{hashlib.sha256(jar.read_bytes()).hexdigest()}")
        for jar in (home / "libs").iterdir()
    }


def kafka_jars() -> set[Pin]:
    return jars(apache_kafka.fetched(apache_kafka.VERSION))


def client_tests_jars() -> set[Pin]:
    return jars(kafka_client_tests.fetched())


def table_of(pins: Iterable[Pin]) -> str:
    return HEADER + "".join(" ".join(pin) + "\n" for pin in sorted(pins))


def everything() -> Iterator[Pin]:
    """The table as it should be; all of it has to be had here."""
    yield from pinned("python")
    yield npm_package()
    yield from chosen_modules()
    yield from kafka_jars() | client_tests_jars()


if __name__ == "__main__":
    TABLE.write_text(table_of(everything()))
