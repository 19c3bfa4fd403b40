"""What the tests of the Spark source share: a cluster in another process, a session, and a filled topic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import pykraft.spark
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess

TOPIC = "corpus"


@pytest.fixture(scope="session")
def kafka() -> Iterator[ClusterProcess]:
    """Three nodes of pykraft, with the corpus in a topic."""
    with ClusterProcess() as cluster:
        corpus.create(cluster.bootstrap_servers, TOPIC)
        corpus.fill(cluster.bootstrap_servers, TOPIC)
        yield cluster


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    """The session of this process; the tests of sessions end it, so it is asked for anew each time."""
    yield pykraft.spark.session()


@pytest.fixture(scope="session", autouse=True)
def _stopped_in_the_end() -> Iterator[None]:
    yield
    pykraft.spark.stop()
