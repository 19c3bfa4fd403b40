"""Clients that ask brokers for much at once: requests of up to thousands of elements, one after the other.

What they ask for has little to do with what there is: offsets of a partition again and again, topics and groups that do
not exist, and offsets of a group without members, to be committed. An answer is not looked at.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from pykraft.broker.broker import Broker
from pykraft.common.core import FOREVER, Failure, Outbound, Poll
from pykraft.common.types import Node, Uuid
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import LATEST_TIMESTAMP, ListOffsetsRequest
from pykraft.protocol.messages.groups import DescribeGroupsRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest
from pykraft.sim.laws.progress import Progress
from pykraft.sim.trouble.work import WorkKnobs
from pykraft.sim.workloads.workload import TOPIC

_PATIENCE_MS = 5_000
BURDEN = "burden"
"""The group whose offsets are committed."""


class BurdenClient:
    """One such client. It is a RequestManager."""

    def __init__(
        self,
        knobs: WorkKnobs,
        brokers: Sequence[Node],
        topic_id: Callable[[], Uuid | None],
        progress: Progress,
        random: Random,
    ) -> None:
        self._knobs = knobs
        self._brokers = brokers
        self._topic_id = topic_id
        self._progress = progress
        self._random = random
        self._next = 1
        self.is_active = True

    def poll(self, now: int) -> Poll:
        if not self.is_active or now < self._next:
            return Poll(self._next if self.is_active else FOREVER)
        topic_id = self._topic_id()
        self._next = FOREVER if topic_id is not None else now + self._knobs.every_ms
        if topic_id is None:
            return Poll(self._next)
        random = self._random
        request = self._request(random.randint(1, self._knobs.most_elements), topic_id)
        broker = random.choice(self._brokers)
        return Poll(FOREVER, [Outbound(BURDEN, broker, request, self._on_answer, _PATIENCE_MS)])

    def _on_answer(self, answer: Any, now: int) -> None:
        self._progress.burdens += not isinstance(answer, Failure)
        self._next = now + round(self._random.expovariate(1 / self._knobs.every_ms))

    def _request(self, count: int, topic_id: Uuid) -> Any:
        kind = self._random.randrange(4)
        if kind == 0:
            topics = [MetadataRequest.Topic(name=f"unknown-{number}") for number in range(count)]
            return MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        if kind == 1:
            return DescribeGroupsRequest(groups=[f"unknown-{number}" for number in range(count)])
        if kind == 2:
            asked = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=LATEST_TIMESTAMP)
            return ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name=TOPIC, partitions=[asked] * count)])
        committed = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=count)
        topic = OffsetCommitRequest.Topic(name=TOPIC, topic_id=topic_id, partitions=[committed] * count)
        return OffsetCommitRequest(group_id=BURDEN, topics=[topic])


class BurdenWorkload:
    """All of them: a room of a seed in which work takes time."""

    def __init__(
        self,
        knobs: WorkKnobs,
        brokers: Sequence[Node],
        image: Callable[[], MetadataImage | None],
        progress: Progress,
        dice: Callable[[str], Random],
    ) -> None:
        def topic_id() -> Uuid | None:
            known = image()
            return None if known is None else known.topic_ids.get(TOPIC)

        self._clients = [
            BurdenClient(knobs, brokers, topic_id, progress, dice(f"burden {number}"))
            for number in range(knobs.clients)
        ]

    def clients(self) -> list[tuple[str, Any]]:
        """Each with its name."""
        return [(f"{BURDEN}-{number}", client) for number, client in enumerate(self._clients)]

    def end(self) -> None:
        """Nothing more is asked."""
        for client in self._clients:
            client.is_active = False

    def pause(self) -> None:
        """They write nothing of their own."""

    def missing(self, brokers: Sequence[tuple[int, Broker]]) -> str | None:
        """Nothing is waited for."""

    def check(self, image: MetadataImage) -> None:
        """They were promised nothing."""
