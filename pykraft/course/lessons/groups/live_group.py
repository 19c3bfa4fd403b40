"""A scenario: a consumer group on a live cluster, with members that join and leave, and a producer to switch on.

::

    group = nb.watch(LiveGroup(cluster, "orders", way="sticky"))
    group.join("ann", "ben")
    group.wait_until_shared()
    with group.producer(records_per_s=200):
        group.watch(2.0)
        group.join("cleo")
        group.watch_until(lambda: group.lag < 100)

Each member is a `Consumer` on a thread of its own: it polls, works `record_ms` on each record, and commits
automatically. The producer writes to the partitions in turn, on a thread of its own. `watch` asks the coordinator for
the committed offsets and the leaders for their log ends, twenty times a second; what it saw is in `seen`, in the form
that `pykraft.viz.lag_over_time` draws. Each partition's owners are in `owners`, for `pykraft.viz.ownership`.

A `way` is an assignor of the classic protocol, or "consumer" for the protocol of KIP-848. Waiting has a limit,
`patience_s`, and running into it is no error: what has come of it is for the lesson's claim to say.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from pykraft.client.administration.groups import ConsumerGroupDescription
from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer, ConsumerRebalanceListener
from pykraft.course.lessons.groups.ownership import Ownership, Spans, in_words, moved, stopped_s
from pykraft.producer import Producer
from pykraft.runtime.client_thread import ClientClosedError

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

CONSUMER = "consumer"
_LOOK_S = 0.05
_CLASSIC_TIMES = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 300}
"""The classic protocol leaves the times to the members; those of KIP-848 are the broker's."""
_numbers = count(1)


class LiveMember(ConsumerRebalanceListener):
    """One member, on its own thread."""

    def __init__(self, group: "LiveGroup", name: str, consumer: Consumer, record_ms: float) -> None:
        self.name = name
        self.read = 0
        """How many records it has worked on."""
        self.partitions: set[int] = set()
        """What it owns."""
        self.has_settled = False
        """It has been given an assignment, perhaps an empty one."""
        self._group = group
        self._consumer = consumer
        self._record_s = record_ms / 1000
        self._is_over = Event()
        self._consumer.subscribe([group.topic], listener=self)
        self._thread = Thread(target=self._run, name=name)
        self._thread.start()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.has_settled = True
        self._own(self.partitions | {key.partition for key in assigned})

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._own(self.partitions - {key.partition for key in revoked})

    def _own(self, partitions: set[int]) -> None:
        self.partitions = partitions
        self._group.note()

    def _run(self) -> None:
        with suppress(ClientClosedError):  # it was killed
            while not self._is_over.is_set():
                for records in self._consumer.poll(_LOOK_S * 1000).values():
                    time.sleep(self._record_s * len(records))
                    self.read += len(records)

    def kill(self) -> None:
        """Close its sockets, and send nothing."""
        self._consumer.kill()
        self._thread.join()
        self._own(set())

    def close(self, autocommit: bool = True) -> None:
        """Commit and leave, if it is alive."""
        self._is_over.set()
        self._thread.join()
        self._consumer.close(5, autocommit=autocommit)


class LiveGroup:
    """One group of a topic on a live cluster."""

    def __init__(
        self, cluster: "Cluster", topic: str, *, way: str = CONSUMER, record_ms: float = 0, patience_s: float = 20.0,
        **settings: Any,
    ) -> None:  # fmt: skip
        """`settings` are those of the members, beside what their way needs."""
        self.topic = topic
        self.group_id = f"{topic}-{next(_numbers)}"
        protocol: dict[str, Any] = (
            {"group_protocol": CONSUMER}
            if way == CONSUMER
            else {"partition_assignment_strategy": way, **_CLASSIC_TIMES}
        )
        self._cluster = cluster
        self._where: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": self.group_id}
        self._settings: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 200,
            "max_poll_records": 20,
        }
        self._settings |= protocol | settings
        self._record_ms = record_ms
        self._patience_s = patience_s
        self._observer = Consumer(**self._where)
        self._partitions = [TopicPartition(topic, p) for p in sorted(self._observer.partitions_for_topic(topic) or ())]
        self._ownership = Ownership([key.partition for key in self._partitions])
        self._lock = Lock()
        self.members: dict[str, LiveMember] = {}
        self._started = time.monotonic()
        self.events: dict[str, float] = {}
        """What was done, and in which second."""
        self.seen: dict[str, list[tuple[float, int, int, str]]] = {f"{topic}-{p}": [] for _, p in self._partitions}
        """By partition, oldest first: the second, the committed offset, the log end, the member that owns it."""
        self.note()

    # --- what befalls it ----------------------------------------------------------------------------------------------

    def join(self, *names: str) -> None:
        """A member starts under each of these names. One that is there leaves first."""
        for name in self.members.keys() & set(names):
            self.leave(name)
        self.events[in_words("join", names)] = self.now_s
        for name in names:
            consumer = Consumer(client_id=name, **self._where, **self._settings)
            self.members[name] = LiveMember(self, name, consumer, self._record_ms)

    def leave(self, name: str) -> None:
        """It commits, and tells the coordinator."""
        self.events[f"{name} leaves"] = self.now_s
        self.members.pop(name).close()
        self.note()

    def kill(self, name: str) -> None:
        """Its sockets close; it commits nothing, and tells nothing."""
        self.events[f"{name} is killed"] = self.now_s
        self.members.pop(name).kill()
        self.note()

    @contextmanager
    def producer(self, records_per_s: float) -> Iterator[None]:
        """Records flow into the topic meanwhile."""
        is_over = Event()

        def write() -> None:
            with Producer(bootstrap_servers=self._cluster.bootstrap_servers) as producer:
                written, started = 0, time.monotonic()
                while not is_over.wait(_LOOK_S / 2):
                    due = int((time.monotonic() - started) * records_per_s)
                    for number in range(written, due):
                        topic, partition = self._partitions[number % len(self._partitions)]
                        producer.send(topic, b"order", partition=partition)
                    written = due

        thread = Thread(target=write, name="producer")
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    # --- waiting ------------------------------------------------------------------------------------------------------

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for it, without looking at the lag."""
        deadline = time.monotonic() + self._patience_s
        while not condition() and time.monotonic() < deadline:
            time.sleep(_LOOK_S / 5)

    def wait_until_shared(self) -> None:
        """Wait until each partition has one owner, and no member has two partitions more than another one."""
        self.wait_until(self.is_shared)

    def is_shared(self) -> bool:
        owned = [len(member.partitions) for member in list(self.members.values())]
        has_all = sum(owned) == len(self._partitions) and len(self._owners()) == len(self._partitions)
        return has_all and max(owned) - min(owned) <= 1

    def watch(self, seconds: float) -> None:
        """Look at the lag for this long."""
        deadline = self.now_s + seconds
        self.watch_until(lambda: self.now_s >= deadline)

    def watch_until(self, condition: Callable[[], bool]) -> None:
        """Look at the lag until the condition holds."""
        deadline = time.monotonic() + self._patience_s
        while True:
            self._look()
            if condition() or time.monotonic() > deadline:
                return
            time.sleep(_LOOK_S)

    def _look(self) -> None:
        committed = self._observer.committed(self._partitions)
        ends = self._observer.end_offsets(self._partitions)
        owners, now_s = self._owners(), self.now_s
        for key, seen in zip(self._partitions, self.seen.values(), strict=True):
            offset = committed.get(key)
            seen.append((now_s, offset.offset if offset else 0, ends[key], owners.get(key.partition, "")))

    # --- what can be said of it ---------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Seconds since the group was made."""
        return time.monotonic() - self._started

    def note(self) -> None:
        """Note the owners, if they have changed. The members call it from their threads."""
        with self._lock:
            self._ownership.note(self.now_s, self._owners())

    def _owners(self) -> dict[int, str]:
        return {number: name for name, member in list(self.members.items()) for number in sorted(member.partitions)}

    @property
    def owners(self) -> Spans:
        """The owner of each partition, from when until when; "" while no member did."""
        with self._lock:
            return self._ownership.spans(self.now_s)

    def moved(self, since: str) -> int:
        """How often a partition got another owner than its last one, since this event."""
        return moved(self.owners, self.events[since], self.now_s)

    def stopped_s(self, since: str) -> float:
        """For how many seconds partitions had no owner since this event, all partitions together."""
        return stopped_s(self.owners, self.events[since], self.now_s)

    @property
    def lag(self) -> int:
        """Records that the group has not committed, over all partitions, when it was last looked at."""
        return sum(seen[-1][2] - seen[-1][1] for seen in self.seen.values())

    def describe(self) -> ConsumerGroupDescription:
        """What the coordinator answers to kafka-consumer-groups --describe."""
        with self._cluster.admin() as admin:
            return admin.describe_consumer_groups([self.group_id])[self.group_id]

    @property
    def leaders(self) -> dict[TopicPartition, int | None]:
        """The broker that leads each partition: members fetch there."""
        view = self._cluster.describe()
        return {key: view.leader(*key) for key in self._partitions}

    def close(self) -> None:
        """The members leave, and commit nothing more; all connections are closed."""
        for member in self.members.values():
            # The one before it has left, so the group rebalances: a commit might be refused, with a warning.
            member.close(autocommit=False)
        self._observer.close(5)
