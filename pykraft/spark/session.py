"""The Spark session of a notebook: started once, small and quiet, and with the source ``pykraft`` registered.

There is one session in a process, as Spark has it, so a second call of `session` returns the first one's. What a call
does not say does not matter; what it says must be so, or must become so by ending the session that is there (`stop`).

Where everything runs on this machine (``master="local[2]"``) the workers are given this process's interpreter and the
place of this package. On a cluster they get the package as a zip file (`shipping`), and `python` names an interpreter
that is there: PySpark takes no other minor version of Python than the one of this process.
"""

import atexit
import logging
import os
import re
import site
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pykraft.common.errors import ConfigError
from pykraft.runtime.temporary import TemporaryPlace
from pykraft.spark.gateway import Gateway, check_heap
from pykraft.spark.java import LITTLE_MEMORY, QUICK_START, JavaError
from pykraft.spark.shipping import package_folder, write_package
from pykraft.spark.source import PykraftDataSource

DEFAULTS: dict[str, object] = {
    "app_name": "pykraft",
    "master": "local[2]",
    "heap": "512m",
    "python": None,
    "java_options": (*QUICK_START, *LITTLE_MEMORY),
    "conf": {},
}

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}
_OUR_WORDS = {
    "spark.master": "master",
    "spark.app.name": "app_name",
    "spark.driver.memory": "heap",
    "spark.driver.extraJavaOptions": "java_options",
    "spark.pyspark.python": "python",
    "spark.pyspark.driver.python": "python",
}
"""Settings that decide how the JVM or the workers are started: said in `conf`, they would come too late."""
_MASTER = re.compile(r"local(\[(\*|\d+)(, *\d+)?\])?|spark://[^/,]+:\d+(,[^/,]+:\d+)*|k8s://.+|yarn")
_MASTER_ANSWERS_S = 5.0
_LOCAL = {
    "spark.sql.shuffle.partitions": "2",
    # A stream runs several queries a second, and Spark remembers a thousand of each for a page that is off.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.cleaner.periodicGC.interval": "20s",  # with LITTLE_MEMORY the heap shrinks then
}
_REMOTE = "SPARK_REMOTE"
_PYTHON_OF_THE_PATH = "python3"
"""What PySpark takes if PYSPARK_PYTHON is not set."""
_LOOPBACK = {"127.0.0.1", "localhost", "[::1]"}
_logger = logging.getLogger(__name__)
_CHATTY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""They print a block of JSON under every failed query."""


class _Running:
    """The session that runs, its JVM, and the folder of both."""

    def __init__(
        self, spark: SparkSession, gateway: Gateway, place: TemporaryPlace, settings: Mapping[str, object]
    ) -> None:
        self.spark = spark
        self.gateway = gateway
        self.place = place
        self.settings = settings

    @property
    def is_alive(self) -> bool:
        return self.gateway.is_running and SparkContext._active_spark_context is self.spark.sparkContext


class _Process:
    """What there is once in this process."""

    running: _Running | None = None


def session(
    app_name: str | None = None,
    master: str | None = None,
    *,
    heap: str | None = None,
    python: str | None = None,
    java_options: Sequence[str] | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """The Spark session of this process, with the source ``pykraft``; started if there is none.

    `master` is where it computes: ``local[2]`` (the default) is two threads of this machine, ``spark://host:port`` a
    cluster. `heap` is the JVM's memory ("512m"); `python` the interpreter of the workers (PYSPARK_PYTHON if that is
    set, else this process's own); `java_options` go to the JVM (the default is a quick start); `conf` are further
    settings of Spark. JavaError if there is no Java that runs, or Spark does not start; ConfigError if a setting makes
    no sense, or is not that of the session that runs.
    """
    wanted = {
        "app_name": app_name,
        "master": master,
        "heap": heap,
        "python": python,
        "java_options": None if java_options is None else tuple(java_options),
        "conf": None if conf is None else dict(conf),
    }
    said = {name: value for name, value in wanted.items() if value is not None}
    running = _Process.running
    if running is not None and running.is_alive:
        _check_same(running.settings, said)
        return running.spark
    stop()
    if SparkContext._active_spark_context is not None:
        raise ConfigError(
            "this process has a Spark session that pykraft did not start: pykraft.spark.register(spark) adds the"
            " source to it, or stop it first"
        )
    return _start({**DEFAULTS, **said})


def register(spark: SparkSession) -> None:
    """Add the source ``pykraft`` to a session that something else started. If it computes on a cluster, the code is
    sent there. If it computes on this machine, and PYSPARK_PYTHON did not name another interpreter when Spark started,
    the workers of the source have the interpreter of this process: ``python3`` of the PATH, which Spark would take, is
    another one in a virtual environment that is not activated."""
    place = TemporaryPlace("pykraft-spark-")
    atexit.register(place.remove)
    _register(spark, place.path)


def stop() -> None:
    """End the session that `session` started, and its JVM. Nothing happens if there is none."""
    running, _Process.running = _Process.running, None
    if running is None:
        return
    try:
        if running.is_alive:
            running.spark.stop()
    except Exception:  # after an exception in the middle of a call, PySpark takes one answer for another
        _logger.debug("Spark did not end in order", exc_info=True)
    finally:
        _let_go(running.gateway)
        running.place.remove()


atexit.register(stop)


def _check_same(settings: Mapping[str, object], said: Mapping[str, object]) -> None:
    for name, value in said.items():
        if settings[name] != value:
            raise ConfigError(
                f"a Spark session with {name}={settings[name]!r} runs in this process, so there can be none with"
                f" {name}={value!r}: pykraft.spark.stop() ends it"
            )


# --- starting ---------------------------------------------------------------------------------------------------------


def _start(settings: Mapping[str, object]) -> SparkSession:
    heap = check_heap(str(settings["heap"]))
    _check_master(str(settings["master"]))
    _check_conf(settings["conf"])
    java_options = settings["java_options"]
    assert isinstance(java_options, tuple)
    python = str(settings["python"] or os.environ.get("PYSPARK_PYTHON") or sys.executable)
    place = TemporaryPlace("pykraft-spark-")
    directory = place.path
    gateway = None
    try:
        gateway = Gateway(
            directory,
            heap=heap,
            java_options=java_options,
            settings=_spark_settings(settings, directory),
            environment=_jvm_environment(str(settings["master"]), python),
        )
        spark = _attach(gateway, python, str(settings["master"]))
        _register(spark, directory)
    except BaseException:
        if gateway is not None:
            _let_go(gateway)
        place.remove()
        raise
    for name in _CHATTY_LOGGERS:
        logging.getLogger(name).disabled = True
    _Process.running = _Running(spark, gateway, place, settings)
    return spark


def _spark_settings(settings: Mapping[str, object], directory: Path) -> dict[str, str]:
    """Spark's own settings; those of the user come last, and so win."""
    conf = settings["conf"]
    assert isinstance(conf, dict)
    master = str(settings["master"])
    folders = {"spark.local.dir": str(directory), "spark.sql.warehouse.dir": str(directory / "warehouse")}
    daemon = {"spark.python.daemon.module": "pykraft.spark.daemon"}
    local = {**_LOCAL, **folders, **daemon} if _is_local(master) else {}
    named = {"spark.master": master, "spark.app.name": str(settings["app_name"])}
    return {**_QUIET, **local, **named, **conf}


def _jvm_environment(master: str, python: str) -> dict[str, str]:
    found = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    if _is_local(master) or _LOOPBACK.issuperset(_hosts(master)):
        found.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if _is_local(master):
        root = str(package_folder().parent)
        if root not in site.getsitepackages():  # it is not installed, but found where this process was started
            found["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return found


def _attach(gateway: Gateway, python: str, master: str) -> SparkSession:
    """Make PySpark use this JVM, and the session in it; JavaError if Spark does not start in it."""
    found = {
        "PYSPARK_GATEWAY_PORT": str(gateway.port),
        "PYSPARK_GATEWAY_SECRET": gateway.secret,
        "PYSPARK_PYTHON": python,
    }
    with _set_in_environment(found):
        SparkContext._ensure_initialized(gateway=launch_gateway())  # type: ignore[no-untyped-call]
        try:
            return SparkSession.builder.getOrCreate()
        except (Py4JJavaError, PySparkException) as error:  # its words are in the JVM, which is about to end
            words = str(error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error)
            first_line = words.partition("\n")[0]
            raise JavaError(f"Spark does not start on {master}: {first_line}") from None


def _register(spark: SparkSession, directory: Path) -> None:
    """Add the source. The code goes first: Spark notes with the source what its workers are to be given."""
    context = spark.sparkContext
    before = context.pythonExec
    if not _is_local(str(context.master)):
        package = directory / "pykraft.zip"
        write_package(package)
        context.addPyFile(str(package))
    elif before == _PYTHON_OF_THE_PATH:
        context.pythonExec = sys.executable  # Spark notes this one, too
    try:
        spark.dataSource.register(PykraftDataSource)
    finally:
        context.pythonExec = before


def _check_master(master: str) -> None:
    if not _MASTER.fullmatch(master):
        raise ConfigError(f"master is {master!r}, but must be like local[2], spark://host:7077, k8s://... or yarn")
    if master.startswith("spark://") and not any(map(_answers, master.removeprefix("spark://").split(","))):
        # Spark itself goes on asking for a minute, and says then that something else was stopped.
        raise JavaError(f"no master answers at {master}: is the master of the cluster running, and this its address?")


def _check_conf(conf: object) -> None:
    assert isinstance(conf, dict)
    for name, word in _OUR_WORDS.items():
        if name in conf:
            raise ConfigError(f"{name} has no effect in conf: say {word}=... to session()")
    if os.environ.get(_REMOTE):
        raise ConfigError(f"{_REMOTE} is set, and Spark would look there for a session and start none: unset it")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with (
        suppress(OSError, UnicodeError),  # UnicodeError: of a name that no host can have
        socket.create_connection((host.strip("[]"), int(port)), timeout=_MASTER_ANSWERS_S),
    ):
        return True
    return False


def _hosts(master: str) -> set[str]:
    """The hosts that a standalone cluster's master runs on."""
    return {address.rpartition(":")[0] for address in master.removeprefix("spark://").split(",")}


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _let_go(gateway: Gateway) -> None:
    """Make PySpark forget the JVM, so that the next session gets another one, and end it. What a stop in order has done
    before is done here too: the JVM may have died, or may not be understood any more."""
    context, SparkContext._active_spark_context = SparkContext._active_spark_context, None
    if context is not None and context._accumulatorServer is not None:
        context._accumulatorServer.shutdown()
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    connections, SparkContext._gateway = SparkContext._gateway, None
    SparkContext._jvm = None
    try:
        if connections is not None:
            connections.shutdown()
    finally:
        gateway.close()


@contextmanager
def _set_in_environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
