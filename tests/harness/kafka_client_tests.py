"""Kafka's own client integration tests, run class by class: against nodes of pykraft, or of Apache Kafka.

    results = run_class("clients.consumer.PlaintextConsumerPollTest", against="pykraft")

The classes are those of kafka-clients-integration-tests as released, fetched by Maven. JUnit's console launcher runs
them. As they are, each test starts a Kafka in the same JVM. With our `RaftClusterInvocationContext` before Kafka's on
the class path, each test gets a cluster outside (`outside_cluster`), of either side; a test that takes a broker as an
object is aborted there.

JUnit's report, an XML file, has a test case for each method and each configuration of its cluster.

`kafka_clients/listed.txt` says what is expected of pykraft, class by class (`listed`):

    clients.admin.DeleteTopicTest 22                             the class has 22 tests
        testIncreasePartitionCount()[1]  object: a broker's log  and this one does not pass, for a reason of this kind
    clients.consumer.ShareConsumerTest needs ShareFetch          the class is not run: pykraft has no such API

`complaints` compares that with the results. A test that fails and is not listed is wrong, and so is a listed one that
passes.
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
import zipfile
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
LISTED = FOLDER / "listed.txt"
KINDS = {
    "class": "the servers load a Java class of the test",
    "object": "the test reads or changes a broker or controller as an object of its own JVM",
    "kafka": "it fails against Apache Kafka through the same shim, too",
    "later": "it needs what pykraft does not have yet",
}
OUTSIDE = (sys.executable, "-m", "tests.harness.outside_cluster")
TESTS_JAR = "kafka-clients-integration-tests-{version}-test.jar"


class Result(NamedTuple):
    """What became of a test: "passed", "failed" or "aborted", and the reason it gave."""

    outcome: str
    reason: str = ""


class Listed(NamedTuple):
    """What is expected of a class: how many tests it has, and why some do not pass; or the API that all of it needs."""

    found: int
    reasons: dict[str, str]
    needs: str = ""


def listed(text: str) -> dict[str, Listed]:
    """The list, by class. ValueError names a reason of no kind."""
    classes: dict[str, Listed] = {}
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if line.startswith("    "):
            name, kind = words[0], words[1].removesuffix(":")
            if kind not in KINDS or len(words) < 3:
                raise ValueError(f"{name}: a reason is one of {', '.join(KINDS)}, a colon, and more words")
            classes[next(reversed(classes))].reasons[name] = " ".join(words[1:])
        elif words:
            needs = words[2] if words[1] == "needs" else ""
            classes[words[0]] = Listed(0 if needs else int(words[1]), {}, needs)
    return classes


def complaints(expected: Listed, results: dict[str, Result], *, against: str = "pykraft") -> list[str]:
    """What the results of a class have that the list does not say, in sentences. Against Kafka itself those fail that
    are listed for it, and the others that are listed may pass or not."""
    wrong = [] if len(results) == expected.found else [f"{len(results)} tests were found, not {expected.found}"]
    wrong += [f"{name} is listed, and is no test" for name in sorted(expected.reasons.keys() - results.keys())]
    for name, result in sorted(results.items()):
        reason = expected.reasons.get(name)
        if reason is None and result.outcome != "passed":
            wrong.append(f"{name} {result.outcome}, and is not listed: {result.reason}")
        must_fail = reason is not None and (against == "pykraft" or reason.startswith("kafka:"))
        if must_fail and result.outcome == "passed":
            wrong.append(f"{name} passed, and is listed ({reason})")
    return wrong


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


def classes() -> list[str]:
    """The classes with tests in the jar, below org.apache.kafka."""
    with zipfile.ZipFile(fetched() / "libs" / TESTS_JAR.format(version=version())) as jar:
        names = [name for name in jar.namelist() if name.endswith("Test.class") and "$" not in name]
    return sorted(name.removeprefix("org/apache/kafka/").removesuffix(".class").replace("/", ".") for name in names)


def command(name: str, reports: pathlib.Path) -> list[str]:
    path = [str(compiled()), f"{fetched() / 'libs'}/*"]
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
        f"--select-{'method' if '#' in name else 'class'}=org.apache.kafka.{name}",
    ]


def run_class(name: str, *, against: str) -> dict[str, Result]:
    """The results of the class's tests, by their names. The class is below org.apache.kafka, and may have a method of
    it after a "#"; it is run against nodes of "pykraft" or of "kafka"."""
    reports = pathlib.Path(tempfile.mkdtemp(prefix="kafka-client-tests-"))
    environment = {**os.environ, "CLUSTER_COMMAND": "\n".join((*OUTSIDE, against)), "PYTHONPATH": str(ROOT)}
    environment["TMPDIR"] = str(reports)  # what the clusters leave when they are ended goes with the reports
    try:
        done = subprocess.run(
            command(name, reports),
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
