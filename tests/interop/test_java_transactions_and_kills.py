"""Kafka's producer and copier while nodes are killed twice; `make judges` has ten kills of the same.

A short run has the copier without kills (test_java_transactions), and kills under other clients (test_kill).
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from pykraft import Cluster
from tests.interop.java_copies import three_nodes, write_and_copy

pytestmark = [pytest.mark.long, pytest.mark.limit(120)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with three_nodes() as cluster:
        yield cluster


def test_nothing_is_lost_or_copied_twice_when_a_leader_and_a_coordinator_are_killed(
    cluster: Cluster, tmp_path: pathlib.Path
) -> None:
    write_and_copy(cluster, tmp_path, count=1000, throughput=500, kills_of_producer=1, kills_of_copier=1)
