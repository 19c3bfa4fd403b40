"""Where the replicas of new partitions go.

Replicas are striped: over the racks, so that a partition survives the loss of one, and over the brokers of each rack,
so that leaders and followers are spread evenly. Racks come first: each rack gets a replica of a partition before any
gets two, however few brokers it has. The first replica leads, so it is put on a broker that is not fenced; of a rack's
brokers, fenced ones get a replica only after all others. Brokers without a rack form one rack.

Partition n begins one rack after partition n - 1. Within a rack the brokers take turns: with each partition that takes
something from the rack, the turn begins one broker further. Three racks of three brokers, replication factor 3::

    partition 0    A0 B0 C0
    partition 1    B1 C1 A1
    partition 2    C2 A2 B2
    partition 3    A0 B0 C0      as partition 0

To repeat that for ever would give A1 no leader. So after as many partitions as there are unfenced brokers, racks and
brokers are shuffled. Each placement starts at a random rack and broker, so that topics of one partition do not all
start on the first broker.

The order in which random numbers are drawn is Kafka's: from the same numbers both place the same (the racks' turns are
drawn in the order of their names, in Kafka in that of a hash map).

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
        self._ids = sorted(ids)
        self._offset = random.randrange(len(self._ids)) if self._ids else 0
        self._taken = 0
        self._round = 0

    def shuffle(self, random: Random) -> None:
        random.shuffle(self._ids)

    def take(self, number: int) -> int | None:
        """The next broker of round `number`; None if the round has visited all."""
        if not self._ids:
            return None
        if self._round != number:
            self._round = number
            self._taken = 0
            self._offset = (self._offset + 1) % len(self._ids)
        if self._taken == len(self._ids):
            return None
        self._taken += 1
        return self._ids[(self._offset + self._taken - 1) % len(self._ids)]


class _Rack:
    def __init__(self, brokers: Sequence[UsableBroker], random: Random) -> None:
        self.fenced = _BrokerList([broker.id for broker in brokers if broker.fenced], random)
        self.unfenced = _BrokerList([broker.id for broker in brokers if not broker.fenced], random)

    def shuffle(self, random: Random) -> None:
        self.fenced.shuffle(random)
        self.unfenced.shuffle(random)

    def take(self, number: int) -> int | None:
        broker = self.unfenced.take(number)
        return self.fenced.take(number) if broker is None else broker


def place(
    brokers: Sequence[UsableBroker], partitions: int, replication_factor: int, random: Random
) -> list[tuple[int, ...]]:
    """The replicas of each partition; KafkaError(INVALID_REPLICATION_FACTOR) if there are too few brokers."""
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{replication_factor} replicas are wanted, {len(brokers)} brokers are registered and not cordoned",
        )
    unfenced = sum(not broker.fenced for broker in brokers)
    if not unfenced:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "all brokers are fenced or cordoned")
    names = sorted({broker.rack for broker in brokers})
    by_name = {name: _Rack([broker for broker in brokers if broker.rack == name], random) for name in names}
    racks = list(by_name.values())
    start, number = random.randrange(len(racks)) if len(racks) > 1 else 0, 0
    placed: list[tuple[int, ...]] = []
    for _ in range(partitions):
        if number == unfenced > 1:  # with one unfenced broker there is nothing to vary
            random.shuffle(racks)
            for rack in by_name.values():
                rack.shuffle(random)
            number = 0
        placed.append(_place_one(racks[start:] + racks[:start], number, replication_factor))
        number += 1
        start = (start + 1) % len(racks)
    return placed


def _place_one(racks: Sequence[_Rack], number: int, replication_factor: int) -> tuple[int, ...]:
    """The replicas of one partition: the leader from the first rack with an unfenced broker, then a replica of each
    rack in turn, the leader's rack left out in the first turn."""
    leads = ((rack, rack.unfenced.take(number)) for rack in racks)
    leader_rack, leader = next((rack, broker) for rack, broker in leads if broker is not None)
    replicas = [leader]
    skip: _Rack | None = leader_rack
    while True:
        for rack in racks:
            if len(replicas) == replication_factor:
                return tuple(replicas)
            if rack is skip:
                skip = None
                continue
            follower = rack.take(number)
            if follower is not None:
                replicas.append(follower)
