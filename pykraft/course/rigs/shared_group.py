"""A scenario: consumers share a group, records flow, and one consumer is killed.

::

    group = nb.watch(SharedGroup(cluster, "arrivals", ["consumer 1", "consumer 2"], session_timeout_ms=1000))
    group.wait_until_shared()
    group.flow(0.8)
    group.kill("consumer 1")
    group.flow_until(group.is_taken_over)
    group.drain()

Each member is a `Consumer` on a thread of its own: it polls, and commits automatically. While the records flow, this
scenario writes, and asks the coordinator for the group's committed offsets and the leaders for their log ends, twenty
times a second. What it saw is in `seen`, in the form that `pykraft.viz.lag_over_time` draws.

A killed member closes its sockets and sends nothing: no commit, no LeaveGroup. Waiting has a limit, `patience_s`, and
running into it is no error: whether the other member took over is for the lesson's claim to say.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer
from pykraft.producer import Producer
from pykraft.runtime.client_thread import ClientClosedError

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

_LOOK_S = 0.05
_LOOKS_AT_REST = 4
_COMMIT_INTERVAL_MS = 200
_HEARTBEATS_PER_SESSION = 5
_numbers = count(1)


class GroupMember:
    """One member of the group, on its own thread."""

    def __init__(self, name: str, topic: str, consumer: Consumer) -> None:
        self.name = name
        self.offsets: list[tuple[int, int]] = []
        """What it has read, in order: partition and offset."""
        self.is_alive = True
        self._consumer = consumer
        self._is_over = Event()
        self._consumer.subscribe([topic])
        self._thread = Thread(target=self._read, name=name)
        self._thread.start()

    @property
    def partitions(self) -> set[int]:
        """What it owns, as far as it knows; nothing after it was killed."""
        return {key.partition for key in self._consumer.assignment()} if self.is_alive else set()

    def _read(self) -> None:
        with suppress(ClientClosedError):  # it was killed
            while not self._is_over.is_set():
                for key, records in self._consumer.poll(_LOOK_S * 1000).items():
                    self.offsets += [(key.partition, record.offset) for record in records]

    def kill(self) -> None:
        """Close its sockets, and send nothing."""
        self.is_alive = False
        self._consumer.kill()
        self._thread.join()

    def close(self) -> None:
        """Commit and leave, if it is alive."""
        self.is_alive = False
        self._is_over.set()
        self._thread.join()
        self._consumer.close(5)


class SharedGroup:
    """Some consumers of one topic in one group, and records that flow into the topic."""

    def __init__(
        self,
        cluster: "Cluster",
        topic: str,
        names: Sequence[str],
        *,
        session_timeout_ms: int,
        records_per_s: int = 400,
        patience_s: float = 15.0,
    ) -> None:
        """The members join at once. Each partition gets its first record meanwhile: the producer's first answer takes
        longer than those that follow. The group is a new one, so it begins at the start of the topic."""
        servers = cluster.bootstrap_servers
        group: dict[str, Any] = {"bootstrap_servers": servers, "group_id": f"{topic}-{next(_numbers)}"}
        settings: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": _COMMIT_INTERVAL_MS,
            "session_timeout_ms": session_timeout_ms,
            "heartbeat_interval_ms": session_timeout_ms // _HEARTBEATS_PER_SESSION,
        }
        self._records_per_s = records_per_s
        self._patience_s = patience_s
        self._observer = Consumer(**group)
        self._producer = Producer(bootstrap_servers=servers)
        self._partitions = [TopicPartition(topic, p) for p in sorted(self._observer.partitions_for_topic(topic) or ())]
        self.written = 0
        """How many records were written."""
        self._ends = dict.fromkeys(self._partitions, 0)
        self._started: float | None = None
        self.killed: str | None = None
        self.moments: dict[str, float] = {}
        """What happened, and in which second of the flow."""
        self.seen: dict[str, list[tuple[float, int, int, str]]] = {f"{topic}-{p}": [] for _, p in self._partitions}
        """By partition, oldest first: the second, the committed offset, the log end, the member that owns it."""
        self.members = {name: GroupMember(name, topic, Consumer(**group, **settings)) for name in names}
        self._write_up_to(len(self._partitions))
        self._producer.flush(self._patience_s)

    # --- the flow -----------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Seconds since the records began to flow."""
        if self._started is None:
            self._started = time.monotonic()
        return time.monotonic() - self._started

    def wait_until_shared(self) -> None:
        """Wait, without records, until each member owns a partition."""
        deadline = time.monotonic() + self._patience_s
        while not self.is_shared() and time.monotonic() < deadline:
            time.sleep(_LOOK_S / 5)

    def flow_until(self, condition: Callable[[], bool]) -> None:
        """Write records, and watch the group, until the condition holds."""
        self._watch_until(condition, self._write)

    def flow(self, seconds: float) -> None:
        """Write records, and watch the group, for some seconds."""
        deadline = self.now_s + seconds
        self.flow_until(lambda: self.now_s >= deadline)

    def drain(self) -> None:
        """Write no more, and watch the group until it has committed everything, and a moment longer."""
        self._producer.flush(self._patience_s)
        self._watch_until(lambda: self.lag == 0, lambda: None)
        for _ in range(_LOOKS_AT_REST):
            time.sleep(_LOOK_S)
            self._look()

    def _watch_until(self, condition: Callable[[], bool], meanwhile: Callable[[], None]) -> None:
        deadline = time.monotonic() + self._patience_s
        while True:
            self._look()
            if condition() or time.monotonic() > deadline:
                return
            meanwhile()
            time.sleep(_LOOK_S)

    def _write(self) -> None:
        """Write the records that are due by now."""
        self._write_up_to(len(self._partitions) + int(self.now_s * self._records_per_s))

    def _write_up_to(self, count: int) -> None:
        """Write to the partitions in turn until there are this many records."""
        for number in range(self.written, count):
            topic, partition = self._partitions[number % len(self._partitions)]
            self._producer.send(topic, b"%d" % number, partition=partition)
        self.written = max(self.written, count)

    def _look(self) -> None:
        committed = self._observer.committed(self._partitions)
        self._ends = self._observer.end_offsets(self._partitions)
        owners = {partition: member.name for member in self.members.values() for partition in member.partitions}
        now_s = self.now_s
        for key, seen in zip(self._partitions, self.seen.values(), strict=True):
            offset = committed.get(key)
            seen.append((now_s, offset.offset if offset else 0, self._ends[key], owners.get(key.partition, "")))
        if self.is_taken_over():
            self.moments.setdefault("taken over", now_s)

    # --- what can be said of the group --------------------------------------------------------------------------------

    def is_shared(self) -> bool:
        """Each member owns a partition, and each partition has a member."""
        owned = [member.partitions for member in self.members.values()]
        return all(owned) and set().union(*owned) == {key.partition for key in self._partitions}

    def is_taken_over(self) -> bool:
        """One member owns all partitions, and another one is dead."""
        return self.killed is not None and any(
            len(member.partitions) == len(self._partitions) for member in self.members.values()
        )

    @property
    def lag(self) -> int:
        """Records that the group has not committed, over all partitions, when it was last looked at."""
        return sum(seen[-1][2] - seen[-1][1] for seen in self.seen.values())

    @property
    def owners(self) -> dict[str, str]:
        """The member of each partition, when the group was last looked at; "" if there was none."""
        return {name: seen[-1][3] for name, seen in self.seen.items()}

    @property
    def highest_lag(self) -> int:
        """The largest lag of a partition so far."""
        return max(end - committed for seen in self.seen.values() for _, committed, end, _ in seen)

    @property
    def takeover_s(self) -> float:
        """Seconds from the kill until one member owned all partitions; infinite if that has not happened."""
        return self.moments.get("taken over", float("inf")) - self.moments["killed"]

    @property
    def unread(self) -> int:
        """Records in the topic that no member has read."""
        return sum(self._ends.values()) - len(self._read_once())

    @property
    def read_again(self) -> int:
        """Records that were read more than once."""
        return sum(len(member.offsets) for member in self.members.values()) - len(self._read_once())

    def _read_once(self) -> set[tuple[int, int]]:
        return {place for member in self.members.values() for place in member.offsets}

    # --- the end ------------------------------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """Close the member's sockets. It sends nothing: no commit, no LeaveGroup."""
        self.members[name].kill()
        self.killed = name
        self.moments["killed"] = self.now_s

    def close(self) -> None:
        """The members that are alive commit and leave; all connections are closed."""
        for member in self.members.values():
            member.close()
        self._producer.close(5)
        self._observer.close(5)
