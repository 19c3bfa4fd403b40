"""The query of `copying` on a standalone cluster, whose executors have neither pykraft nor these tests.

What the query needs of these tests goes there as pykraft does, in a zip file. `ClusterDrivers` are processes with a
driver of their own: python -m tests.spark.on_cluster SERVERS DIRECTORY MASTER PYTHON.
"""

from __future__ import annotations

import pathlib
import sys
import zipfile
from contextlib import suppress

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import pykraft.spark
from pykraft.spark.java import QUICK_START
from tests.harness.tree import ROOT
from tests.spark.copying import STARTS, Drivers, start_query

CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": " ".join(QUICK_START),
    "spark.sql.shuffle.partitions": "2",
}
_SENT = ("tests/spark/killed_sink.py", "tests/harness/waiting.py")


def session(master: str, python: str, directory: pathlib.Path) -> SparkSession:
    """A session there; the executors get what `killed_sink` needs."""
    spark = pykraft.spark.session(master=master, python=python, conf=CONF)
    package = directory / "tests.zip"
    with zipfile.ZipFile(package, "w") as archive:
        for module in _SENT:
            archive.write(ROOT / module, module)
        for folder in {parent for module in _SENT for parent in pathlib.PurePath(module).parents[:-1]}:
            archive.writestr(f"{folder}/__init__.py", "")
    spark.sparkContext.addPyFile(str(package))
    return spark


class ClusterDrivers(Drivers):
    """Runs the query on the cluster from a process of its own."""

    def __init__(self, servers: str, directory: pathlib.Path, master: str, python: str) -> None:
        super().__init__(servers, directory)
        self._command = [sys.executable, "-m", "tests.spark.on_cluster", servers, str(directory), master, python]


def main() -> None:
    servers, folder, master, python = sys.argv[1:]
    directory = pathlib.Path(folder)
    spark = session(master, python, directory)
    for _ in range(STARTS):
        with suppress(StreamingQueryException):
            start_query(spark, servers, directory).awaitTermination()


if __name__ == "__main__":
    main()
