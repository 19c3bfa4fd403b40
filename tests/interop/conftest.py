"""Three nodes of pykraft, with the timeouts of the lessons, for clients that know nothing of pykraft."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykraft import Cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Whoever kills a node brings it back. Closing raises if one died that nobody killed."""
    # The records are of 2023, and the suite takes minutes: nobody looks for old segments.
    with Cluster(nodes=3, properties={"log.initial.task.delay.ms": "3600000"}) as cluster:
        yield cluster


@pytest.fixture
def servers(cluster: Cluster) -> str:
    return cluster.bootstrap_servers
