"""Which floods there are, in an order in which each meets the state that it needs.

Every array of every API is tried with every kind of entries. Requests that take something of the state away come last;
they are not exempt. `LAST` names them in order, each with what it takes. An API that is not named, also one that is
declared tomorrow, comes before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pykraft.protocol.api import ListenerKind
from tests.flood.generator import MOST, Flood, Target, has_long_entries, targets, variants
from tests.flood.vocabulary import KINDS, LONG, Kind

LAST: dict[str, str] = {
    "OffsetDelete": "offsets of the largest group",
    "LeaveGroup": "the classic group's member",
    "DeleteRecords": "records, for those who read them",
    "AlterConfigs": "the settings of topics and of the broker",
    "IncrementalAlterConfigs": "the same",
    "ElectLeaders": "leaders, by elections",
    "CreatePartitions": "the numbers of partitions",
    "AlterPartitionReassignments": "the places of replicas",
    "AssignReplicasToDirs": "the directories of replicas",
    "AlterPartition": "the ISRs",
    "CreateTopics": "memory: twenty thousand topics",
    "UpdateFeatures": "the levels of features",
    "ControllerRegistration": "the controller's registration",
    "BrokerRegistration": "the broker's registration",
    "BrokerHeartbeat": "log directories",
    "DeleteGroups": "all groups",
    "DeleteTopics": "all topics",
    "Vote": "the quorum's leader",
    "BeginQuorumEpoch": "the quorum's leader",
    "EndQuorumEpoch": "the quorum's leader",
    "UpdateRaftVoter": "the quorum's voters",
}
"""What each of these takes from those that come after it."""
_PLACES = {name: place for place, name in enumerate(LAST, 1)}


def ordered() -> list[Target]:
    """Every array on both listeners; those of `LAST` come last."""
    found = [target for listener in ListenerKind for target in targets(listener)]
    return sorted(found, key=lambda target: _PLACES.get(target.api.name, 0))


def sample(every: int) -> Iterator[Flood]:
    """One flood, as large as it may be, of each of these arrays: one in `every`. Kinds and variants take turns."""
    for number, target in enumerate(ordered()[::every]):
        ways = variants(target)
        yield Flood(target, KINDS[number % len(KINDS)], MOST, ways[number % len(ways)])


def floods(listeners: Iterable[ListenerKind], sizes: Sequence[int], kinds: Sequence[Kind] = KINDS) -> Iterator[Flood]:
    """All of them: of one array the small ones first."""
    chosen = set(listeners)
    for target in ordered():
        if target.listener not in chosen:
            continue
        for variant in variants(target):
            for kind in kinds:
                for size in sizes:
                    yield Flood(target, kind, size, variant)
            if has_long_entries(target):
                yield Flood(target, LONG, max(sizes), variant)
