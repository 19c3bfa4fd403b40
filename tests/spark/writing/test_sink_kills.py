"""A topic is copied exactly once while workers and coordinators are killed with SIGKILL, three kills.

`make judges` makes twenty of them, over Apache Kafka too, and kills whole drivers. A short run has no kills: there
Spark repeats a batch by itself (test_sink), and drivers die between any two steps (test_exactly_once).
"""

from __future__ import annotations

import pathlib

import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster_process import ClusterProcess
from tests.spark.copying import PROPERTIES, Copier, Rig
from tests.spark.killed_sink import COMMIT_STEPS

pytestmark = [pytest.mark.long, pytest.mark.limit(180)]

SEED = 31
"""The worker with the commit dies when the transaction is committed and the checkpoint does not know."""


def test_each_record_is_copied_once_whatever_is_killed(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """A worker with a task, the driver's worker with a commit, and a coordinator: where, the seed says."""
    with ClusterProcess(3, "processes", **PROPERTIES) as cluster:
        servers = cluster.bootstrap_servers
        rig = Rig(servers, cluster, Copier(spark, servers, tmp_path), tmp_path, SEED)
        rig.strike("worker", "stage")
        rig.strike(*rig.draw(("worker",), (*COMMIT_STEPS, "done")))
        rig.strike(*rig.draw(("transactions", "offsets"), ("begin", "send", "mark", "commit")))
        rig.finish()
