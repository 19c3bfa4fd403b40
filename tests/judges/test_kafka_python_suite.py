"""kafka-python's own integration tests of logins, TLS, rules of access and the other calls of its admin client, against
nodes of ours. They are in its source archive, as `suites.txt` pins it; what they start is `kafka_python.our_brokers`.

(The archive of aiokafka has no tests. Those in its repository start Kafka in a container, and set users and rules by
commands in there.)
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest

from tests.harness import suites
from tests.harness.cache import kept
from tests.harness.tree import ROOT

pytestmark = [pytest.mark.long, pytest.mark.limit(600)]

FETCH_S, RUN_S = 300, 500
VERSION_OF_BROKERS = "4.1"
"""Which Kafka the tests take our nodes for: those of newer ones are left out."""


@pytest.fixture(scope="module")
def suite() -> pathlib.Path:
    """The folder with their package `test`."""
    version = suites.installed("kafka-python")

    def fill(coming: pathlib.Path) -> None:
        archive = ["--no-deps", "--no-binary", ":all:", f"kafka-python=={version}"]
        command = [sys.executable, "-m", "pip", "download", "-q", *archive, "-d", str(coming)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=FETCH_S)
        if done.returncode:
            pytest.skip(f"the archive of kafka-python cannot be fetched: {done.stderr.strip()[-200:]}")
        (path,) = coming.glob("*.tar.gz")
        with tarfile.open(path) as opened:
            opened.extractall(coming, filter="data")
        (coming / f"kafka_python-{version}" / "test").rename(coming / "test")
        (coming / "test" / "__init__.py").touch()  # otherwise Python's own package of this name hides it

    return kept(f"kafka-python-suite-{version}", fill)


def passed(suite: pathlib.Path, *files: str) -> tuple[int, str]:
    """How many tests of these files have passed, and what pytest says; all that are run must pass."""
    environment = {**os.environ, "PYTHONPATH": f"{suite}{os.pathsep}{ROOT}", "KAFKA_VERSION": VERSION_OF_BROKERS}
    chosen = [f"test/integration/{name}.py" for name in files]
    options = ("-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(suite), "-rs")
    command = [sys.executable, "-m", "pytest", "-p", "tests.judges.kafka_python.our_brokers", *options, *chosen]
    done = subprocess.run(
        command, check=False, cwd=suite, env=environment, capture_output=True, text=True, timeout=RUN_S
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-6000:]
    found = re.search(r"(\d+) passed", said)
    assert found is not None, said[-3000:]
    return int(found[1]), said


def test_its_tests_of_logins_and_of_tls_pass(suite: pathlib.Path) -> None:
    """By PLAIN and both kinds of SCRAM it creates a topic, writes and reads, and asks for metadata; and two of TLS."""
    count, said = passed(suite, "test_sasl_integration", "test_ssl_integration")
    assert (count, "skipped" in said) == (11, False), said


def test_its_tests_of_rules_and_of_the_admin_client_pass(suite: pathlib.Path) -> None:
    count, said = passed(suite, "test_admin_integration")
    assert (count, "skipped" in said) == (22, False), said
