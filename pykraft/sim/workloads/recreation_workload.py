"""A topic that is deleted and made again under its name, and clients that write and read it.

Whatever goes by the topic's name alone mistakes one topic for the other sooner or later: a new topic has the leader
epochs and the offsets that the old one had, and answers of brokers are late in these histories. Some are late by chance
(`network.Weather.late`); and of many a topic, what a follower asks of it is answered when there is the next one. So
each record begins with the id of the topic that it was meant for, and each topic has a history of its own
(`invariants.IncarnationHistory`):

* a record is in no other topic than the one that it was sent to;
* what was acknowledged is committed, and what is read is committed, both in the topic whose id was asked for;
* a topic whose deletion was acknowledged is gone;
* in the end the topic that is there, if one is, has all its replicas in sync.

The clients are as plain as can be: they send each record once, and forget everything when they hear of another id.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from pykraft.client.administration.admin import AdminCalls, NewTopic
from pykraft.common.core import FOREVER, Outbound, Poll, merge
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import ZERO_UUID, Endpoint, Node, TopicIdPartition, TopicPartition, Uuid
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from pykraft.records.batch import batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.sim.laws.invariants import RECREATED, RECREATED_GROUP, require
from pykraft.sim.laws.recreated_group_laws import RecreatedGroupLaws
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.trouble.recreations import RecreationKnobs
from pykraft.sim.workloads.group_recreation import GroupReader, GroupRecreator
from pykraft.sim.workloads.workload import admin_core
from pykraft.sim.world.network import Network
from pykraft.sim.world.scheduler import US_PER_MS

_PATIENCE_MS = 600
_REQUEST_MS = 8_000
"""How long a client waits: longer than an answer may be late."""
_LOOK_AGAIN_MS = 20
_LONGEST = 3
"""So many times longer than it takes to write its first record a topic may be there."""
_HELD_MS = (20, 400)
"""For so long after a topic's deletion has been asked for, answers to a follower are held."""
_FETCH_WAIT_MS = 50
_NO_SESSION_EPOCH = -1
ALL_REPLICAS = -1
"""acks=all. With less a record may be lost, and none is waited for."""


class TopicRecreator:
    """An admin client's core that makes the topic, deletes it, and makes it again. It is a RequestManager."""

    def __init__(
        self,
        knobs: RecreationKnobs,
        brokers: int,
        bootstrap_servers: str,
        newest_image: Callable[[], MetadataImage | None],
        hold_answers: Callable[[int, int], None],
        random: Random,
    ) -> None:
        """`hold_answers` lets no broker's answer reach this broker before that time."""
        self._metadata, self._driver = admin_core(bootstrap_servers, random)
        self._every_ms = knobs.every_ms
        self._held = knobs.held
        self._hold_answers = hold_answers
        # On the same brokers each time, so that a follower fetches both from the same leader.
        numbers, replicas = range(1, brokers + 1), min(3, brokers)
        places = {number: random.sample(numbers, replicas) for number in range(knobs.partitions)}
        self._topic = NewTopic(RECREATED, knobs.partitions, replicas, places, {"min.insync.replicas": "2"})
        self._newest_image = newest_image
        self._random = random
        self._act_at = 0
        self.is_active = True
        self.is_waiting = False
        self._deleted: set[Uuid] = set()
        """Whose deletion was acknowledged."""

    def poll(self, now: int) -> Poll:
        if self.is_active and not self.is_waiting and now >= self._act_at:
            self._act_at = now + 1
            self._act(now)
        deadline = self._act_at if self.is_active and not self.is_waiting else FOREVER
        return merge([Poll(max(now, deadline)), self._driver.poll(now), self._metadata.poll(now)])

    def on_first_write(self, followers: Sequence[int]) -> None:
        """A partition of the topic is about to have its first record. What a follower asks of it now may be answered
        when it follows the partition of the next topic, and has nothing of it either."""
        for follower in followers:
            if self._random.random() < self._held:
                self._hold_answers(follower, self._act_at + self._random.randint(*_HELD_MS))

    def _act(self, now: int) -> None:
        calls, image = AdminCalls(self._driver), self._newest_image()
        known = None if image is None else image.topic_ids.get(RECREATED)
        self.is_waiting = True
        if known is None:
            self._act_at = now + self._random.randint(1, _LONGEST * self._every_ms)
            made = calls.create_topics([self._topic], False, 1000, now + _PATIENCE_MS)
            made.then(lambda _: self._on_answer())
        else:
            deleted = calls.delete_topics([RECREATED], 1000, now + _PATIENCE_MS)
            deleted.then(lambda result: self._on_deleted(known, result))

    def _on_answer(self) -> None:
        self.is_waiting = False

    def _on_deleted(self, topic_id: Uuid, result: object) -> None:
        self.is_waiting = False
        if not isinstance(result, KafkaError) or result.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._deleted.add(topic_id)

    def check(self, image: MetadataImage) -> None:
        """What was acknowledged is so in the newest image."""
        back = sorted(self._deleted & image.topics.keys())
        require(not back, f"topics are there whose deletion was acknowledged: {back}")


class _TopicClient:
    """Finds the topic that has the name now, and who leads its partitions."""

    def __init__(self, knobs: RecreationKnobs, bootstrap_servers: str, watcher: Watcher, random: Random) -> None:
        self._metadata, _ = admin_core(bootstrap_servers, random)
        self._metadata.may_create_topics = False
        self._metadata.add_topic(RECREATED)
        self._watcher = watcher
        self._places = [TopicPartition(RECREATED, number) for number in range(knobs.partitions)]
        self._busy: set[TopicPartition] = set()
        """A request is under way."""
        self._next_at = dict.fromkeys(self._places, 0)
        self.is_active = True

    def poll(self, now: int) -> Poll:
        requests = []
        for place in self._places if self.is_active else ():
            if place in self._busy or now < self._next_at[place]:
                continue
            found = self._find(place, now)
            if found is None:
                self._next_at[place] = max(self._next_at[place], now + _LOOK_AGAIN_MS)
            else:
                self._busy.add(place)
                requests.append(self._ask(*found))
        due = [self._next_at[place] for place in self._places if place not in self._busy]
        deadline = max(now, min(due, default=FOREVER)) if self.is_active else FOREVER
        return merge([Poll(deadline, requests), self._metadata.poll(now)])

    def _find(self, place: TopicPartition, now: int) -> tuple[TopicIdPartition, Node] | None:
        """The partition that is there now, and its leader, as far as this client knows; None if there is nothing to
        ask."""
        leader, topic_id = self._metadata.leader_of(place), self._metadata.topic_id(RECREATED)
        if leader is None or topic_id == ZERO_UUID:
            self._metadata.request_update()
            return None
        return TopicIdPartition(topic_id, *place), leader

    def _ask(self, key: TopicIdPartition, leader: Node) -> Outbound:
        raise NotImplementedError

    def _on_answer(self, key: TopicIdPartition, error_code: int | None, pause_ms: int, now: int) -> None:
        """An answer has come, or (None) none will."""
        self._busy.discard(key.topic_partition)
        self._next_at[key.topic_partition] = now + pause_ms
        if error_code != ErrorCode.NONE:
            self._metadata.request_update()


class IncarnationWriter(_TopicClient):
    """Writes records, each with the id of the topic that it is meant for. It is a RequestManager."""

    def __init__(
        self,
        knobs: RecreationKnobs,
        bootstrap_servers: str,
        watcher: Watcher,
        time_ms: Callable[[], int],
        on_first_write: Callable[[Sequence[int]], None],
        random: Random,
    ) -> None:
        """`on_first_write` is called with the followers of a new topic's partition that is about to have a record."""
        super().__init__(knobs, bootstrap_servers, watcher, random)
        self._pause_ms = knobs.write_every_ms
        self._begin_ms = knobs.every_ms
        self._begin_at: dict[TopicIdPartition, int] = {}
        self._begun: set[TopicIdPartition] = set()
        self._on_first_write = on_first_write
        self._nodes = {
            number: Node(number, endpoint.host, endpoint.port)
            for number, endpoint in enumerate(map(Endpoint.parse, bootstrap_servers.split(",")), 1)
        }
        self._time_ms = time_ms
        self._random = random
        self._count = 0

    def _find(self, place: TopicPartition, now: int) -> tuple[TopicIdPartition, Node] | None:
        """It hears of a new topic at once, and begins a while later: the followers ask for the first record before it
        is there."""
        image = self._watcher.newest_image()
        topic = None if image is None else image.topic_named(RECREATED)
        if image is None or topic is None:
            return None
        partition = topic.partitions[place.partition]
        if partition.leader not in self._nodes:
            return None
        key = TopicIdPartition(topic.topic_id, *place)
        if key not in self._begin_at:
            self._begin_at[key] = now + self._random.randint(1, self._begin_ms)
        if now < self._begin_at[key]:
            self._next_at[place] = self._begin_at[key]
            return None
        if key not in self._begun:
            self._begun.add(key)
            self._on_first_write([replica for replica in partition.replicas if replica != partition.leader])
        return key, self._nodes[partition.leader]

    def _ask(self, key: TopicIdPartition, leader: Node) -> Outbound:
        self._count += 1
        acks = self._random.choice((1, 1, 1, ALL_REPLICAS))
        value = f"{key.topic_id} {self._count}".encode()
        builder = RecordBatchBuilder()
        builder.append(self._time_ms(), None, value)
        topic = ProduceRequest.Topic
        part = topic.Partition(index=key.partition, records=memoryview(bytes(builder.build())))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=1_000,
            topic_data=[topic(name=RECREATED, topic_id=key.topic_id, partition_data=[part])],
        )

        def on_response(response: Any, now: int) -> None:
            error_code = None
            if isinstance(response, ProduceResponse):
                (answer,) = response.responses[0].partition_responses
                error_code = answer.error_code
                if not error_code and acks == ALL_REPLICAS:
                    self._watcher.history_of(key).acknowledge(answer.base_offset, value)
            self._on_answer(key, error_code, self._pause_ms, now)

        return Outbound("produce", leader, request, on_response, _REQUEST_MS)


class IncarnationReader(_TopicClient):
    """Reads each topic of that name from its beginning. It is a RequestManager."""

    def __init__(self, knobs: RecreationKnobs, bootstrap_servers: str, watcher: Watcher, random: Random) -> None:
        super().__init__(knobs, bootstrap_servers, watcher, random)
        self._positions: dict[TopicIdPartition, int] = {}

    def _ask(self, key: TopicIdPartition, leader: Node) -> Outbound:
        topic = FetchRequest.Topic
        asked = topic.Partition(
            partition=key.partition, fetch_offset=self._positions.get(key, 0), partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=_NO_SESSION_EPOCH,
            topics=[topic(topic=RECREATED, topic_id=key.topic_id, partitions=[asked])],
        )

        def on_response(response: Any, now: int) -> None:
            error_code = None
            if isinstance(response, FetchResponse) and response.responses:
                (answer,) = response.responses[0].partitions
                error_code = answer.error_code
                self._read(key, answer.records or b"")
            self._on_answer(key, error_code, _LOOK_AGAIN_MS if error_code else 0, now)

        return Outbound("fetch", leader, request, on_response, _REQUEST_MS)

    def _read(self, key: TopicIdPartition, records: bytes | memoryview) -> None:
        history = self._watcher.history_of(key)
        for batch in batches(memoryview(records)):
            for record in batch.records():
                position = self._positions.get(key, 0)
                if record.offset >= position:
                    is_next = record.offset == position or history.is_lost
                    require(is_next, f"{history.name}: a consumer saw offset {record.offset} after {position - 1}")
                    history.consume(record.offset, record.value)
                    self._positions[key] = record.offset + 1
                    self._watcher.progress.consumed += 1


class RecreationWorkload:
    """The topic, the group, and those who use them."""

    def __init__(
        self,
        knobs: RecreationKnobs,
        brokers: int,
        bootstrap_servers: str,
        watcher: Watcher,
        time_ms: Callable[[], int],
        network: Network,
        dice: Callable[[str], Random],
    ) -> None:
        def hold_answers(broker_id: int, until_ms: int) -> None:
            network.hold_answers(f"node-{broker_id}", until_ms * US_PER_MS)

        newest, random = watcher.newest_image, dice("recreator")
        self.recreator = TopicRecreator(knobs, brokers, bootstrap_servers, newest, hold_answers, random)
        self.writer = IncarnationWriter(
            knobs, bootstrap_servers, watcher, time_ms, self.recreator.on_first_write, dice("incarnation writer")
        )
        self.reader = IncarnationReader(knobs, bootstrap_servers, watcher, dice("incarnation reader"))
        self.group_laws = watcher.groups[RECREATED_GROUP] = RecreatedGroupLaws(RECREATED_GROUP)
        laws, late_ms = self.group_laws, knobs.late_commit_ms
        self._group = GroupRecreator(bootstrap_servers, laws, late_ms, dice("group recreator"))
        self._group_reader = GroupReader(bootstrap_servers, laws, dice("group reader"))

    def clients(self) -> list[tuple[str, Any]]:
        """Each with its name."""
        return [
            ("recreator", self.recreator),
            ("again-writer", self.writer),
            ("again-reader", self.reader),
            ("again-group", self._group),
            ("again-group-reader", self._group_reader),
        ]

    @property
    def missing(self) -> str | None:
        """Why it has not settled; None if it has."""
        if self.recreator.is_waiting:
            return "a topic that is made again waits for an answer"
        if self._group.is_waiting or self._group_reader.is_waiting:
            return "a group that is made again waits for an answer"
        return None

    def end(self) -> None:
        """From now on the topic stays as it is."""
        self.recreator.is_active = False

    def pause(self) -> None:
        """Nothing more is written, and the group stays as it is."""
        for client in (self.writer, self._group, self._group_reader):
            client.is_active = False
