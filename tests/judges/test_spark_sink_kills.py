"""A topic is copied exactly once, over pykraft and over Apache Kafka, while whole drivers, workers, leaders and
coordinators are killed with SIGKILL: twenty kills, at steps that a seed draws.

Each driver is a process with a JVM of its own. What died is started again from the checkpoint.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import apache_kafka
from tests.harness.apache_kafka import FETCH_S, QUICK_START, ApacheKafka
from tests.harness.asking import PATIENT
from tests.spark.cluster_process import ClusterProcess
from tests.spark.copying import PROPERTIES, VICTIMS, Drivers, Rig

pytestmark = pytest.mark.limit(FETCH_S + 1800)

KILLS = 20
PATIENCE_S = 300.0
"""A driver starts a JVM, and all that a first batch needs."""


@pytest.fixture(params=["pykraft", "Apache Kafka"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "pykraft":
        with ClusterProcess(3, "processes", **PROPERTIES) as processes:
            yield processes
    else:
        if reason := apache_kafka.available():
            pytest.skip(reason)
        with ApacheKafka(3, {**PATIENT, **PROPERTIES}, java_options=QUICK_START) as kafka:
            yield kafka


@pytest.mark.parametrize("seed", [1])
def test_each_record_is_copied_once_whatever_is_killed(cluster: Any, tmp_path: pathlib.Path, seed: int) -> None:
    drivers = Drivers(cluster.bootstrap_servers, tmp_path)
    rig = Rig(cluster.bootstrap_servers, cluster, drivers, tmp_path, seed, PATIENCE_S)
    try:
        for _ in range(KILLS):
            rig.strike(*rig.draw(VICTIMS))
        rig.finish()
    finally:
        drivers.close()
    assert len(rig.told) == KILLS
