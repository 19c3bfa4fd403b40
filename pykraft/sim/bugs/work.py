"""Bugs that cost time or memory: each answer is right, and the node is too slow for it, or keeps too much."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from pykraft.broker.node import Node
from pykraft.broker.replication.purgatory import DelayedOperation, Purgatory
from pykraft.broker.requests.data.fetch_sessions import FetchSessionCache
from pykraft.broker.turns.slices import Work
from pykraft.common.core import Promise
from pykraft.common.time_slice import TimeSlice
from pykraft.coordinator.group.shard import GroupShard
from pykraft.protocol.messages.coordinators import CoordinatorRecord, OffsetCommitKey
from pykraft.sim.bugs.planting import bug, put
from pykraft.transport.server_channel import InboundRequest
from pykraft.transport.server_connection import Answer

_PAUSE_MS = 15


@bug
def a_commit_that_takes_in_all_earlier_ones_again() -> None:
    """A coordinator takes in, with each committed offset, all earlier ones again."""
    replay = GroupShard.replay

    def replay_all(self: GroupShard, record: CoordinatorRecord, producer_id: int) -> None:
        mine = self.__dict__
        if isinstance(record.key, OffsetCommitKey) and producer_id < 0 and not mine.get("is_again"):
            earlier = mine.setdefault("earlier", [])
            mine["is_again"] = True
            for each in earlier:
                self.replay(each, producer_id)
            mine["is_again"] = False
            earlier.append(record)
        replay(self, record, producer_id)

    put(GroupShard, "replay", replay_all)


@bug
def a_request_that_is_never_interrupted() -> None:
    """A request with many elements is answered in one turn, however long that takes."""
    go_on = Work.go_on

    def go_on_to_the_end(self: Work, listed: Any, time_slice: TimeSlice, now: int) -> bool:
        while not go_on(self, listed, time_slice, now):
            pass
        return True

    put(Work, "go_on", go_on_to_the_end)


@bug
def a_purgatory_that_keeps_what_clients_have_left() -> None:
    """A delayed operation whose client has hung up waits on until its time is over."""

    watch_all = Purgatory.watch

    def watch(
        self: Purgatory, operation: DelayedOperation, keys: Iterable[Hashable], deadline: int
    ) -> Callable[[Hashable], None]:
        promise = operation.promise
        before = promise._on_abandoned
        watch_also = watch_all(self, operation, keys, deadline)
        promise._on_abandoned = before
        return watch_also

    put(Purgatory, "watch", watch)


@bug
def a_session_table_without_an_end() -> None:
    """A broker keeps every fetch session, however many slots it has for them."""
    put(FetchSessionCache, "_has_room", lambda self, size: True)


@bug
def a_heartbeat_that_waits_for_a_pause_of_the_requests() -> None:
    """A broker sends its heartbeat when no request has come for a while, as if its clients ever paused."""
    start, handle, heard = Node.start, Node.handle, dict[Node, int]()

    def handle_and_note(self: Node, inbound: InboundRequest, now: int) -> Answer | Promise[Answer]:
        heard[self] = now
        return handle(self, inbound, now)

    def start_waiting(self: Node, now: int) -> None:
        start(self, now)
        if self.broker is not None:
            room = self.broker.lifecycle.room
            poll = room.poll
            room.poll = lambda then: then + 5 if then - heard.get(self, -_PAUSE_MS) < _PAUSE_MS else poll(then)

    put(Node, "handle", handle_and_note)
    put(Node, "start", start_waiting)
