"""Kafka's own client integration tests, run class by class: against Kafka itself, or against nodes of pykraft.

    results = run_class("clients.consumer.PlaintextConsumerPollTest", against="pykraft")

The classes are those of kafka-clients-integration-tests as released, fetched by Maven. JUnit's console launcher runs
them. As they are, each test starts a Kafka in the same JVM. With our `RaftClusterInvocationContext` before Kafka's on
the class path, each test gets a cluster of pykraft in a process of its own (`outside_cluster`); a test that takes a
broker as an object is aborted there.

JUnit's report, an XML file, has a test case for each method and each configuration of its cluster.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple
from xml.etree import ElementTree

from tests.harness.apache_kafka import LOGGING, QUICK_START, Unavailable, compile_java, fetched_jars, java
from tests.harness.cache import kept
from tests.harness.tree import ROOT

FOLDER = ROOT / "tests" / "judges" / "kafka_clients"
POM = FOLDER / "pom.xml"
SHIM = FOLDER / "RaftClusterInvocationContext.java"
LIMIT_S = 900
"""For a class of 30 tests."""
EACH_S = 180
"""For a test. They wait 15 s for most things themselves, so that this ends only what hangs."""
ABORTED = "org.opentest4j.TestAbortedException: "
OUTSIDE = (sys.executable, "-m", "tests.harness.outside_cluster")


class Result(NamedTuple):
    """What became of a test: "passed", "failed" or "aborted", and the reason it gave."""

    outcome: str
    reason: str = ""


@functools.cache
def unavailable() -> str:
    """Why the tests cannot be run here; empty if they can."""
    try:
        java()
        fetched()
        compiled()
    except Unavailable as reason:
        return str(reason)
    return ""


def version() -> str:
    found = re.search(r"<kafka>(.+)</kafka>", POM.read_text())
    assert found is not None
    return found[1]


def fetched() -> pathlib.Path:
    """The folder with the tests' jars in libs/; another POM gets another folder."""
    pom = POM.read_text()
    digest = hashlib.sha256(pom.encode()).hexdigest()[:16]
    settings = {"logging.yaml": LOGGING.format(level="ERROR")}
    return fetched_jars(f"kafka-client-tests-{version()}-{digest}", pom, "Kafka's client tests", settings)


def compiled() -> pathlib.Path:
    """The folder with the class that puts an outside cluster in the place of Kafka's own."""

    def fill(coming: pathlib.Path) -> None:
        compile_java(SHIM, fetched(), coming)

    digest = hashlib.sha256(SHIM.read_bytes() + POM.read_bytes()).hexdigest()[:16]
    return kept(f"kafka-client-tests-shim-{digest}", fill)


def command(name: str, reports: pathlib.Path, *, against: str) -> list[str]:
    path = [f"{fetched() / 'libs'}/*"]
    if against == "pykraft":
        path.insert(0, str(compiled()))
    return [
        java(),
        "-Xmx1g",
        *QUICK_START,
        f"-Dlog4j2.configurationFile={fetched() / 'logging.yaml'}",
        f"-Djava.io.tmpdir={reports}",
        f"-Djunit.jupiter.execution.timeout.default={EACH_S}s",
        "-cp",
        os.pathsep.join(path),
        "org.junit.platform.console.ConsoleLauncher",
        *("execute", "--details=none", "--disable-banner", f"--reports-dir={reports}"),
        f"--select-class=org.apache.kafka.{name}",
    ]


def run_class(name: str, *, against: str) -> dict[str, Result]:
    """The results of the class's tests, by their names. The class is below org.apache.kafka; it is run against "kafka"
    itself or against "pykraft"."""
    reports = pathlib.Path(tempfile.mkdtemp(prefix="kafka-client-tests-"))
    environment = {**os.environ, "CLUSTER_COMMAND": "\n".join(OUTSIDE), "PYTHONPATH": str(ROOT)}
    environment["TMPDIR"] = str(reports)  # what the clusters leave when they are ended goes with the reports
    try:
        done = subprocess.run(
            command(name, reports, against=against),
            check=False,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        report = reports / "TEST-junit-jupiter.xml"
        assert report.exists(), (done.stdout + done.stderr)[-3000:]
        return results(report.read_text())
    finally:
        shutil.rmtree(reports, ignore_errors=True)


def results(report: str) -> dict[str, Result]:
    """What JUnit's report says, by the tests' names such as testCommit()[1]."""
    return {case.get("name", ""): _result(case) for case in ElementTree.fromstring(report).iter("testcase")}


def _result(case: ElementTree.Element) -> Result:
    for tag, outcome in (("failure", "failed"), ("error", "failed"), ("skipped", "aborted")):
        if (found := case.find(tag)) is not None:
            # A test that is aborted has its exception as a text, and where that was thrown.
            text = (found.text or "").strip().partition("\n")[0].removeprefix(ABORTED)
            return Result(outcome, found.get("message") or text)
    return Result("passed")
