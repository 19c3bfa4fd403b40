"""``NETWORK=staged``: the clusters of a test run have Kafka's threads, unless a test says otherwise.

    NETWORK=staged python -m pytest tests/cluster tests/conformance

A test that is about the one thread of a node has the mark `fused_only`, and does not run then.
"""

from __future__ import annotations

import os

import pytest

NETWORK = os.environ.get("NETWORK", "fused")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fused_only(why): about a node of one thread; not run with NETWORK=staged")
    if NETWORK != "fused":
        from pykraft import Cluster  # takes half a second, and suites without nodes do without

        assert Cluster.__init__.__kwdefaults__ is not None
        Cluster.__init__.__kwdefaults__["network"] = NETWORK


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if NETWORK != "fused":
        others = [item for item in items if item.get_closest_marker("fused_only") is not None]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
