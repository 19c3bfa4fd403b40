"""Members of a group that are cheap to play: a connection and a few variables each, all of them in one thread.

A real consumer costs a thread and a fetcher; fifty of them on a small machine would be measured themselves. These send
what a consumer's membership sends, and nothing else. A `ClassicMember` joins, syncs, sends heartbeats, and joins again
when its script says so; the leader assigns. A `ConsumerMember` (KIP-848) sends one kind of heartbeat, and acknowledges
each assignment at once, as a consumer without anything to finish does.

A `Line` is one connection. Requests go out whether or not the last one is answered, and `Lines.poll` hands each answer
to the line that it came on.
"""

from __future__ import annotations

import itertools
import selectors
import socket
import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Self

from pykraft.common.errors import ErrorCode
from pykraft.common.types import Uuid
from pykraft.protocol.header import SIZE, decode_response, encode_request
from pykraft.protocol.messages.coordinators import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykraft.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OwnedPartitions,
    SyncGroupRequest,
    SyncGroupResponse,
)
from pykraft.protocol.schema import Request

CLIENT_ID = "scripted"
PROTOCOL = "range"
HEARTBEAT_S = 0.1
"""A thirtieth of a consumer's default, so that the coordinator is measured and not the wait for the next heartbeat."""
SESSION_MS = 45_000
REBALANCE_MS = 60_000
_RECEIVE_BYTES = 1 << 16


class Line:
    """One connection; answers come in the order of the requests."""

    def __init__(self, lines: Lines, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host, int(port)))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)
        self._unanswered: deque[Callable[[bytes], None]] = deque()
        self._received = bytearray()
        lines.add(self)

    def ask(self, request: Request, on_answer: Callable[[Any], None]) -> None:
        """Send a request in its newest version; `on_answer` gets the response."""
        version = type(request).versions[1]

        def decode(frame: bytes) -> None:
            on_answer(decode_response(type(request).response, version, memoryview(frame))[1])

        frame = b"".join(encode_request(request, version, next(self._correlation_ids), CLIENT_ID))
        self.send(frame, decode)

    def send(self, frame: bytes, on_frame: Callable[[bytes], None]) -> None:
        """Send bytes that have their size in front; `on_frame` gets those of the answer, without it."""
        self._unanswered.append(on_frame)
        self.sock.sendall(frame)

    def receive(self) -> None:
        """Read what has come, and hand out each complete answer."""
        data = self.sock.recv(_RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the broker has closed the connection of a scripted member")
        self._received += data
        start = 0
        while len(self._received) - start >= SIZE.size:
            end = start + SIZE.size + SIZE.unpack_from(self._received, start)[0]
            if end > len(self._received):
                break
            self._unanswered.popleft()(bytes(self._received[start + SIZE.size : end]))
            start = end
        del self._received[:start]


class Lines:
    """Connections that one thread watches."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._lines: list[Line] = []

    def add(self, line: Line) -> None:
        self._lines.append(line)
        self._selector.register(line.sock, selectors.EVENT_READ, line)

    def poll(self, timeout_s: float) -> None:
        """Wait for answers, and hand out what has come."""
        for key, _ in self._selector.select(timeout_s):
            key.data.receive()

    def close(self) -> None:
        for line in self._lines:
            line.sock.close()
        self._selector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Member(ABC):
    """One member. `partitions` are those of the topic that it may read, in the generation or epoch `epoch`."""

    def __init__(self, line: Line, group_id: str, topic: str, count: int) -> None:
        self._line = line
        self._group_id = group_id
        self._topic = topic
        self._count = count
        self._heartbeat_at = float("inf")
        self.member_id = ""
        self.epoch = -1
        self.partitions: tuple[int, ...] = ()
        self.is_settled = False
        """It has its assignment, and the coordinator wants nothing from it."""
        self._is_leaving = False
        self.has_left = False

    @abstractmethod
    def join(self) -> None:
        """Send the first request of a new member."""

    def leave(self) -> None:
        """Leave the group; `has_left` is true once that is answered. What else is answered does not count any more."""
        self._is_leaving = True
        self._heartbeat_at = float("inf")
        self._leave()

    @abstractmethod
    def _leave(self) -> None: ...

    @abstractmethod
    def _heartbeat(self) -> None: ...

    def on_time(self, now_s: float) -> float:
        """Send a heartbeat if one is due; when the next one is."""
        if now_s >= self._heartbeat_at:
            self._heartbeat_at = float("inf")
            self._heartbeat()
        return self._heartbeat_at

    def _wait(self) -> None:
        self._heartbeat_at = time.monotonic() + HEARTBEAT_S

    def _left(self, _: object) -> None:
        self.has_left = True

    def _ask(self, request: Request, on_answer: Callable[[Any], None]) -> None:
        """Send a request; what is answered to a member that leaves is dropped."""
        self._line.ask(request, lambda response: None if self._is_leaving else on_answer(response))


class ClassicMember(Member):
    """A member of a classic group."""

    def join(self) -> None:
        self.is_settled = False
        subscription = ConsumerProtocolSubscription(topics=[self._topic])
        metadata = _version_1(subscription)
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name=PROTOCOL, metadata=metadata)],
        )
        self._ask(request, self._joined)

    def _joined(self, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
            return
        assert not response.error_code, f"JoinGroup: {ErrorCode(response.error_code).name}"
        self.member_id, self.epoch = response.member_id, response.generation_id
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=self._assign([each.member_id for each in response.members]),
        )
        self._ask(request, self._synced)

    def _assign(self, member_ids: Sequence[str]) -> list[SyncGroupRequest.Assignment]:
        """Neighbouring partitions to each member, if this one leads and so knows them."""
        assignments = []
        for number, member_id in enumerate(sorted(member_ids)):
            first, last = (self._count * each // len(member_ids) for each in (number, number + 1))
            part = ConsumerProtocolAssignment.TopicPartition(topic=self._topic, partitions=range(first, last))
            data = _version_1(ConsumerProtocolAssignment(assigned_partitions=[part]))
            assignments.append(SyncGroupRequest.Assignment(member_id=member_id, assignment=data))
        return assignments

    def _synced(self, response: SyncGroupResponse) -> None:
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        assert not response.error_code, f"SyncGroup: {ErrorCode(response.error_code).name}"
        topics = ConsumerProtocolAssignment.decode(response.assignment, 1, 2).assigned_partitions
        self.partitions = tuple(number for topic in topics for number in topic.partitions)
        self.is_settled = True
        self._wait()

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(group_id=self._group_id, generation_id=self.epoch, member_id=self.member_id)
        self._ask(request, self._alive)

    def _alive(self, response: HeartbeatResponse) -> None:
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        assert not response.error_code, f"Heartbeat: {ErrorCode(response.error_code).name}"
        self._wait()

    def _leave(self) -> None:
        leaving = LeaveGroupRequest.Member(member_id=self.member_id)
        self._line.ask(LeaveGroupRequest(group_id=self._group_id, members=[leaving]), self._left)


def _version_1(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> bytes:
    """The message with its version in front, as a consumer gives it to the coordinator."""
    return (1).to_bytes(2, "big") + message.to_bytes(1)


class ConsumerMember(Member):
    """A member of a consumer group (KIP-848)."""

    def join(self) -> None:
        self.member_id = str(Uuid(uuid.uuid4().bytes))
        request = self._request(
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[self._topic],
            topic_partitions=[],
        )
        self._ask(request, self._answered)

    def _request(self, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(group_id=self._group_id, member_id=self.member_id, **fields)

    def _answered(self, response: ConsumerGroupHeartbeatResponse) -> None:
        assert not response.error_code, f"{ErrorCode(response.error_code).name}: {response.error_message}"
        self.epoch = response.member_epoch
        self.is_settled = response.assignment is None
        if response.assignment is None:
            self._wait()
            return
        owned: Sequence[OwnedPartitions] = response.assignment.topic_partitions
        self.partitions = tuple(number for topic in owned for number in topic.partitions)
        self._ask(self._request(member_epoch=self.epoch, topic_partitions=owned), self._answered)

    def _heartbeat(self) -> None:
        self._ask(self._request(member_epoch=self.epoch), self._answered)

    def _leave(self) -> None:
        self._line.ask(self._request(member_epoch=-1), self._left)


class ScriptedGroup:
    """The members of one group over one topic of `count` partitions."""

    def __init__(self, kind: type[Member], lines: Lines, address: str, group_id: str, topic: str, count: int) -> None:
        self._kind = kind
        self._lines = lines
        self._address = address
        self._about = (group_id, topic, count)
        self._count = count
        self.members: list[Member] = []

    def add(self, members: int) -> None:
        """Open connections for more members, which do not join yet."""
        for _ in range(members):
            self.members.append(self._kind(Line(self._lines, self._address), *self._about))

    def join(self, timeout_s: float) -> float:
        """Let all that are not in the group join at once; the seconds from the last request until the group settled."""
        for member in self.members:
            if member.epoch < 0:
                member.join()
        began = time.monotonic()
        self._run_until(self.has_settled, timeout_s)
        return time.monotonic() - began

    def leave(self, timeout_s: float) -> None:
        for member in self.members:
            member.leave()
        self._run_until(lambda: all(member.has_left for member in self.members), timeout_s)

    def has_settled(self) -> bool:
        """All are in the same generation or epoch, each partition has one owner, and all have the same share."""
        if len({member.epoch for member in self.members}) > 1 or not all(each.is_settled for each in self.members):
            return False
        shares = [len(member.partitions) for member in self.members]
        owned = {number for member in self.members for number in member.partitions}
        return len(owned) == sum(shares) == self._count and max(shares) - min(shares) <= 1

    def _run_until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            now_s = time.monotonic()
            assert now_s < deadline, f"the group has not settled after {timeout_s:g} s"
            due_s = min((member.on_time(now_s) for member in self.members), default=deadline)
            self._lines.poll(max(0.0, min(due_s, deadline) - now_s))
