"""Kafka's producer and copier while nodes are killed ten times; `make test` has two kills of the same."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from pykraft import Cluster
from tests.interop.java_copies import three_nodes, write_and_copy

pytestmark = pytest.mark.limit(540)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with three_nodes() as cluster:
        yield cluster


def test_nothing_is_lost_or_copied_twice_while_leaders_and_coordinators_are_killed(
    cluster: Cluster, tmp_path: pathlib.Path
) -> None:
    write_and_copy(cluster, tmp_path, count=3000, throughput=100, kills_of_producer=3, kills_of_copier=7)
