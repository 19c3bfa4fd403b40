"""What a real node survives ends a simulated history: a bug must not hide there."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.coordinator.group.shard import GroupShard
from pykraft.metadata.delta import MetadataDelta
from pykraft.simulation import Simulation, SimulationFailed

PLACES = {
    "the publisher of metadata": (ReplicaManager, "apply", 5),
    "a metadata record": (MetadataDelta, "replay", 60),
    "the load of a shard": (GroupShard, "on_loaded", 1),
}


class PlantedError(Exception):
    """What no code expects."""


@pytest.mark.survives_faults
@pytest.mark.parametrize("name", PLACES)
def test_an_exception_that_a_real_node_survives_ends_a_simulated_history(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, method, after = PLACES[name]
    original, left = getattr(owner, method), [after]

    def raising(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise PlantedError(name)
        return original(*arguments)

    monkeypatch.setattr(owner, method, raising)
    with pytest.raises(SimulationFailed) as failure:
        Simulation(1).run()
    assert "PlantedError" in str(failure.value) or "FatalFault" in str(failure.value)
    cause: BaseException | None = failure.value.__cause__
    while cause is not None and not isinstance(cause, PlantedError):
        cause = cause.__cause__
    assert cause is not None, "the failure leads to where it was raised"
