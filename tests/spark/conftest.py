"""What the tests of the Spark source share: a cluster in another process, a session, and a filled topic.

A JVM takes seconds to start. So one session serves all modules but test_starting_and_stopping, which ends it, and comes
last.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import pykraft.spark
from pykraft.spark import class_archive
from tests.spark import corpus
from tests.spark.cluster_process import ClusterProcess

TOPIC = "corpus"
LAST = "test_starting_and_stopping.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever ends the session comes after everything that shares it."""
    items.sort(key=lambda item: item.path.name == LAST)


@pytest.fixture(scope="session")
def kafka() -> Iterator[ClusterProcess]:
    """Three nodes of pykraft, with the corpus in a topic."""
    with ClusterProcess() as cluster:
        corpus.create(cluster.bootstrap_servers, TOPIC)
        corpus.fill(cluster.bootstrap_servers, TOPIC)
        yield cluster


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    """The session of this process, on the Java of the wheel; some tests end it, so each test asks for it again.

    The set-up has made an archive of Spark's classes; without the set-up it is made now."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("JAVA_HOME", raising=False)
        class_archive.build()
        yield lesson()


def lesson() -> SparkSession:
    """The session that runs, or a new one like it."""
    return pykraft.spark.session("lesson", conf={"spark.sql.shuffle.partitions": "3"})


@pytest.fixture(scope="session", autouse=True)
def _stopped_in_the_end() -> Iterator[None]:
    yield
    pykraft.spark.stop()
