"""Where the replicas of new partitions go.

Replicas are striped: over the racks, so that a partition survives the loss of one, and over the brokers of each rack,
so that leaders and followers are spread evenly. The first replica leads, so it is put on a broker that is not fenced.
With brokers 0 1 2 in rack A, 3 4 5 in rack B, and replication factor 2, partitions go to (0, 3), (4, 1), (2, 5), ...;
brokers without a rack form one rack. Each placement starts at a random rack and broker, so that topics of one
partition do not all land on the first broker.

Follows org.apache.kafka.metadata.placement.StripedReplicaPlacer.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from pykraft.common.errors import ErrorCode, KafkaError


class UsableBroker(NamedTuple):
    id: int
    rack: str
    fenced: bool


class _BrokerList:
    """Brokers of one rack in turn: each round begins one broker further, and visits every broker once."""

    def __init__(self, ids: Sequence[int], random: Random) -> None:
        self._ids = list(ids)
        self._offset = random.randrange(len(self._ids)) if self._ids else 0
        self._index = 0

    def begin_round(self) -> None:
        self._index = 0
        self._offset = (self._offset + 1) % len(self._ids) if self._ids else 0

    def take(self) -> int | None:
        if self._index >= len(self._ids):
            return None
        self._index += 1
        return self._ids[(self._offset + self._index - 1) % len(self._ids)]


class _Rack:
    def __init__(self, brokers: Sequence[UsableBroker], random: Random) -> None:
        self.unfenced = _BrokerList([broker.id for broker in brokers if not broker.fenced], random)
        self.fenced = _BrokerList([broker.id for broker in brokers if broker.fenced], random)
        self._begun = -1

    def begin(self, number: int) -> None:
        """Partition `number` takes its first broker here."""
        if self._begun != number:
            self._begun = number
            self.unfenced.begin_round()
            self.fenced.begin_round()

    def take(self) -> int | None:
        broker = self.unfenced.take()
        return self.fenced.take() if broker is None else broker


def place(
    brokers: Sequence[UsableBroker], partitions: int, replication_factor: int, random: Random
) -> list[tuple[int, ...]]:
    """The replicas of each partition; KafkaError(INVALID_REPLICATION_FACTOR) if there are too few brokers."""
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{replication_factor} replicas are wanted, {len(brokers)} brokers are registered",
        )
    if all(broker.fenced for broker in brokers):
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "all brokers are fenced")
    names = sorted({broker.rack for broker in brokers})
    racks = [_Rack([broker for broker in brokers if broker.rack == name], random) for name in names]
    random.shuffle(racks)
    return [_place_one(racks, number, replication_factor) for number in range(partitions)]


def _place_one(racks: list[_Rack], number: int, replication_factor: int) -> tuple[int, ...]:
    start = number % len(racks)
    in_order = racks[start:] + racks[:start]
    replicas: list[int] = []
    leader_rack = None
    for rack in in_order:
        rack.begin(number)
        leader = rack.unfenced.take() if leader_rack is None else None
        if leader is not None:
            replicas.append(leader)
            leader_rack = rack
    skip: _Rack | None = leader_rack  # it has given one already in this first turn
    while len(replicas) < replication_factor:
        for rack in in_order:
            if rack is skip:
                skip = None
                continue
            follower = rack.take() if len(replicas) < replication_factor else None
            if follower is not None:
                replicas.append(follower)
    return tuple(replicas)
