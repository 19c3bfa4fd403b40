"""Three nodes of pykraft for clients that know nothing of pykraft."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykraft import Cluster
from tests.harness.asking import PATIENT, UNDISTURBED


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A test that kills a node brings it back. Closing raises if one died without a kill."""
    with Cluster(nodes=3, properties=PATIENT | UNDISTURBED) as cluster:
        yield cluster


@pytest.fixture
def servers(cluster: Cluster) -> str:
    return cluster.bootstrap_servers
