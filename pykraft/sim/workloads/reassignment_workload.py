"""Reassignments by the administrator of `admin_workload`: partitions move, moves are cancelled, and what was promised
is remembered.

A partition that was sent to one place only, with an acknowledgement, ends there. Where there was more than one change,
or one that failed, the partition ends in one of the places that it was sent to or taken from: a request that was given
up, or was sent twice, may arrive after its successors. A partition on the move gets no second target, only a
cancellation.

Partitions that carry records keep at least two replicas, because one broker at a time may lose its power (`faults`).

Follows Jepsen's set workload: what was acknowledged stays.
"""

from collections.abc import Callable
from random import Random

from pykraft.client.administration.reassignments import ReassignmentCalls
from pykraft.common.types import TopicIdPartition, TopicPartition
from pykraft.controller.partitions.assignment import Assignment
from pykraft.metadata.image import MetadataImage
from pykraft.sim.laws.invariants import require

MADE = "made-"
"""So the topics of the administrator begin; they have no records."""
_CANCELS = 0.3

Place = frozenset[int]


class Reassignments:
    """What one administrator has asked for."""

    def __init__(self, brokers: int, random: Random) -> None:
        self._brokers = brokers
        self._random = random
        self._places: dict[TopicIdPartition, set[Place]] = {}
        """Where each partition may end that was sent somewhere."""

    def act(self, image: MetadataImage, calls: ReassignmentCalls, deadline: int, then: Callable[[], None]) -> None:
        """Ask for one change; `then` is called when it is answered."""
        key = self._choose(image)
        if key is None:
            then()
            return
        now = _now(image, key)
        if now.is_in_progress:
            target = None
        else:
            fewest = 1 if key.topic.startswith(MADE) else min(2, self._brokers)
            count = self._random.randint(fewest, min(3, self._brokers))
            target = self._random.sample(range(1, self._brokers + 1), count)

        def answered(result: object) -> None:
            error = result[key.topic_partition] if isinstance(result, dict) else result
            self._take(key, now, target, error)
            then()

        wanted = {key.topic_partition: target}
        calls.alter_partition_reassignments(wanted, True, 1000, deadline).then(answered)

    def _choose(self, image: MetadataImage) -> TopicIdPartition | None:
        """A partition to move; or one that moves, to cancel that."""
        keys = [
            TopicIdPartition(topic_id, topic.name, number)
            for topic_id, topic in sorted(image.topics.items())
            for number in sorted(topic.partitions)
        ]
        moving = [key for key in keys if _now(image, key).is_in_progress]
        cancels = self._random.random() < _CANCELS
        some = moving if cancels and moving else [key for key in keys if key not in moving]
        return self._random.choice(some) if some else None

    def _take(self, key: TopicIdPartition, now: Assignment, target: list[int] | None, error: object) -> None:
        """What the answer means for the places where the partition may end."""
        is_first = key not in self._places
        places = self._places.setdefault(key, set())
        if target is not None:
            places.add(frozenset(target))
        if not is_first or error or target is None:
            places |= {frozenset(now.original), frozenset(now.target)}

    def check(self, image: MetadataImage) -> None:
        """What was acknowledged is so in the newest image, where nothing is in progress any more."""
        for key, places in sorted(self._places.items()):
            partition = image.partition(key.topic_id, key.partition)
            require(
                partition is None or frozenset(partition.replicas) in places,
                f"{key.topic_partition} is on {partition and partition.replicas}, and was sent to "
                f"{sorted(map(sorted, places))}",
            )


def _now(image: MetadataImage, key: TopicIdPartition) -> Assignment:
    return Assignment.of(image.topics[key.topic_id].partitions[key.partition])


def in_progress(image: MetadataImage) -> TopicPartition | None:
    """A partition that is on the move."""
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            if Assignment.of(partition).is_in_progress:
                return TopicPartition(topic.name, number)
    return None
