"""Batches of a stream as transactions of Apache Kafka: drivers die at each step, and wake up late in each pair of them.

tests/spark/writing/test_exactly_once.py plays the same over pykraft. Here Kafka's own coordinators keep the marker,
fence the older driver, and abort what it left open; and its broker shows what a reader of committed records sees.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable, Iterator

import pytest

from pykraft.common.errors import ConfigError
from pykraft.spark.writing.exactly_once import ExactlyOnceCommit
from tests.harness import apache_kafka
from tests.harness.apache_kafka import FETCH_S, QUICK_START, ApacheKafka
from tests.spark.writing.test_exactly_once import BUGS, PAUSES, RESUMES, STEPS, Query, forget_marker, meet

pytestmark = pytest.mark.limit(FETCH_S + 300)


@pytest.fixture(scope="module")
def apache() -> Iterator[ApacheKafka]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    one_each = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with ApacheKafka(1, one_each, java_options=QUICK_START) as kafka:
        yield kafka


@pytest.fixture
def query(apache: ApacheKafka, tmp_path: pathlib.Path) -> Query:
    return Query(apache, tmp_path, ExactlyOnceCommit)


def test_a_batch_is_written_once_whenever_its_driver_dies(query: Query) -> None:
    query.write(0)
    for batch_id, step in enumerate(STEPS, start=1):
        assert query.die(batch_id, step)
        query.write(batch_id)
    query.assert_written_once(*range(len(STEPS) + 1))


@pytest.mark.parametrize(("pause", "resume"), list(itertools.product(PAUSES, RESUMES)))
def test_a_driver_that_wakes_up_late_writes_nothing_twice(query: Query, pause: str, resume: str) -> None:
    query.write(0)
    meet(query, pause, resume)
    query.write(2)
    query.assert_written_once(0, 1, 2)


def test_a_restart_without_a_marker_is_refused(query: Query) -> None:
    query.write(0, 1)
    forget_marker(query)
    query.run_id = "second"
    with pytest.raises(ConfigError, match="has no committed offset any more"):
        query.write(2)


@pytest.mark.parametrize(("kind", "story"), BUGS, ids=[kind.__name__ for kind, _ in BUGS])
def test_a_planted_bug_breaks_the_law(
    apache: ApacheKafka, tmp_path: pathlib.Path, kind: type[ExactlyOnceCommit], story: Callable[[Query], None]
) -> None:
    with pytest.raises(AssertionError):
        story(Query(apache, tmp_path, kind))
