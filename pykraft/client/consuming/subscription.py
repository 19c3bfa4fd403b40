"""What a consumer reads: which partitions, and from where on in each.

A consumer either *assigns* itself partitions, or *subscribes* to topics and is given partitions; it cannot do both at
once, and the mode is left only by giving up everything. Topics are subscribed to by name, by a pattern that the client
matches against all topics it knows, or by a `SubscriptionPattern`, which the group's coordinator matches. Each
partition it reads is in one state::

    INITIALIZING ------------> FETCHING <---> AWAITING_VALIDATION
         |                     ^      |               |
         +---> AWAITING_RESET -+      |               |
                     ^                |               |
                     +----------------+---------------+

* INITIALIZING: the group's committed offset must be looked up. Only the partitions of a consumer in a group start here.
* AWAITING_RESET: there is no position, or it is not in the log. The log's start or end must be looked up.
* AWAITING_VALIDATION: the leader has changed since the position was read. The new leader is asked where the epoch of
  the last record that was read ends in its log; if before the position, records that were read are gone (KIP-320).
* FETCHING: there is a position, and records are fetched from it on.

Follows org.apache.kafka.clients.consumer.internals.SubscriptionState.
"""

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from pykraft.client.config import BY_DURATION, reset_duration_ms
from pykraft.client.errors import NoOffsetError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_EPOCH

_RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


class Mode(Enum):
    """How the consumer comes to its partitions."""

    NONE = "it reads nothing yet"
    ASSIGN = "assign() names partitions"
    SUBSCRIBE = "subscribe() names topics"
    PATTERN = "subscribe() names a pattern"
    COORDINATOR_PATTERN = "subscribe() names a SubscriptionPattern"

    @property
    def is_automatic(self) -> bool:
        """Partitions follow from subscribed topics."""
        return self in (Mode.SUBSCRIBE, Mode.PATTERN, Mode.COORDINATOR_PATTERN)


class SubscriptionPattern(NamedTuple):
    """A pattern that the group's coordinator matches, which takes ``group.protocol=consumer``. It is a regular
    expression of RE2."""

    pattern: str


class State(Enum):
    """Whether a partition can be fetched from, or what must come first."""

    INITIALIZING = "its committed offset must be looked up"
    AWAITING_RESET = "its position must be looked up"
    AWAITING_VALIDATION = "its position must be compared with the new leader's log"
    FETCHING = "records are fetched from its position on"


TRANSITIONS = frozenset(
    [
        (State.INITIALIZING, State.AWAITING_RESET),
        (State.INITIALIZING, State.FETCHING),
        (State.AWAITING_RESET, State.AWAITING_RESET),
        (State.AWAITING_RESET, State.FETCHING),
        (State.FETCHING, State.AWAITING_RESET),
        (State.FETCHING, State.AWAITING_VALIDATION),
        (State.FETCHING, State.FETCHING),
        (State.AWAITING_VALIDATION, State.AWAITING_RESET),
        (State.AWAITING_VALIDATION, State.AWAITING_VALIDATION),
        (State.AWAITING_VALIDATION, State.FETCHING),
    ]
)


class FetchPosition(NamedTuple):
    """The next offset to read, and the leader epoch of the record before it (-1: not known)."""

    offset: int
    offset_epoch: int = NO_EPOCH


class PartitionState:
    """One partition that is read."""

    __slots__ = (
        "checked_epoch",
        "high_watermark",
        "is_paused",
        "is_pending_revocation",
        "last_stable_offset",
        "position",
        "preferred_read_replica",
        "preferred_until",
        "reset_timestamp",
        "state",
    )

    def __init__(self, reset_timestamp: int | None, state: State = State.AWAITING_RESET) -> None:
        self.state = state
        self.position: FetchPosition | None = None
        self.reset_timestamp = reset_timestamp
        """-2 for the log's start, -1 for its end, another for the first record as young; None: no offset is chosen for
        the application."""
        self.is_paused = False
        self.is_pending_revocation = False
        """The group takes the partition away: its position is being committed, and must not advance any more."""
        self.checked_epoch = NO_EPOCH
        """The leader epoch under which the position is known to be right."""
        self.high_watermark = -1
        self.last_stable_offset = -1
        """Where a reader of committed data stops: at the first record of an open transaction."""
        self.preferred_read_replica: int | None = None
        """The follower that the leader has named to fetch from (KIP-392); None: fetch from the leader."""
        self.preferred_until = 0

    def prefer(self, replica: int, until: int) -> None:
        """Fetch from this follower, until that time. Naming it again does not prolong the time: the leader would not be
        asked any more."""
        if replica != self.preferred_read_replica:
            self.preferred_read_replica, self.preferred_until = replica, until

    def replica_at(self, now: int) -> int | None:
        """The follower to fetch from; None: the leader."""
        if self.preferred_read_replica is not None and now > self.preferred_until:
            self.preferred_read_replica = None
        return self.preferred_read_replica

    def lag(self, read_committed: bool) -> int | None:
        """How many offsets its reader is behind the end that it sees; None as long as that is not known."""
        end = self.last_stable_offset if read_committed else self.high_watermark
        return None if end < 0 or self.position is None else max(0, end - self.position.offset)

    @property
    def is_fetchable(self) -> bool:
        return self.state is State.FETCHING and not self.is_paused and not self.is_pending_revocation

    @property
    def has_position(self) -> bool:
        """It is known where to read, and that this is right; what was known before a reset does not count."""
        return self.state is State.FETCHING

    @property
    def consumed(self) -> FetchPosition | None:
        """What a commit would name; None without a position. A position in doubt counts: what was read was read."""
        return self.position if self.state in (State.FETCHING, State.AWAITING_VALIDATION) else None

    @property
    def is_lost(self) -> bool:
        """There is no position, and none may be chosen for the application."""
        return self.state is State.AWAITING_RESET and self.reset_timestamp is None

    def seek(self, position: FetchPosition, checked_epoch: int = NO_EPOCH) -> None:
        """Read from here on; `checked_epoch` is the leader epoch under which the position is known to be right."""
        self._move(State.FETCHING)
        self.position = position
        self.checked_epoch = checked_epoch

    def advance(self, position: FetchPosition) -> None:
        """What was before this position has been handed out."""
        assert self.state is State.FETCHING
        self.position = position

    def reset(self, timestamp: int) -> None:
        self._move(State.AWAITING_RESET)
        self.reset_timestamp = timestamp

    def lose(self) -> None:
        """The position is worth nothing, and no other may be chosen: the application must seek."""
        self._move(State.AWAITING_RESET)
        self.reset_timestamp = None

    def check(self, leader_epoch: int) -> None:
        """The partition's leader has this epoch now: whether the position is right must be asked again if the epoch is
        a new one."""
        if self.state is not State.FETCHING or self.position is None or leader_epoch <= self.checked_epoch:
            return
        self.preferred_read_replica = None  # the old leader has named it
        if self.checked_epoch == NO_EPOCH or self.position.offset_epoch == NO_EPOCH:
            self.checked_epoch = leader_epoch  # nothing was read yet that could be gone
        else:
            self._move(State.AWAITING_VALIDATION)

    def complete_check(self, leader_epoch: int) -> None:
        """The position is right under this leader."""
        self._move(State.FETCHING)
        self.checked_epoch = leader_epoch

    def _move(self, state: State) -> None:
        assert (self.state, state) in TRANSITIONS, f"a partition went from {self.state} to {state}"
        self.state = state


class SubscriptionState:
    """All partitions that a consumer reads."""

    def __init__(
        self, auto_offset_reset: str, time_ms: Callable[[], int] | None = None, in_group: bool = False
    ) -> None:
        """`time_ms` tells the time of day, from which ``by_duration`` counts back. In a group, partitions begin at
        their committed offsets."""
        self._auto_offset_reset = auto_offset_reset
        self._time_ms = time_ms
        self._in_group = in_group
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.coordinator_pattern: SubscriptionPattern | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}

    def assign(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these; those that were read already keep their position."""
        self._enter(Mode.ASSIGN)
        self._set(topic_partitions)
        if not self.partitions:
            self.mode = Mode.NONE

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics; `assign_from_subscription` will say which of their partitions. Outside of a group, other
        topics are given up at once; in a group, the next rebalance revokes them."""
        self._enter(Mode.SUBSCRIBE)
        self.topics = frozenset(topics)
        if not self._in_group:
            self._set(key for key in self.partitions if key.topic in self.topics)
        if not self.topics:
            self.mode = Mode.NONE

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Read the topics whose whole name matches; `match` will say which."""
        self._enter(Mode.PATTERN)
        self.pattern = pattern

    def subscribe_coordinator_pattern(self, pattern: SubscriptionPattern) -> None:
        """Read the partitions that the coordinator assigns, whatever their topics: it says which match."""
        self._enter(Mode.COORDINATOR_PATTERN)
        self.coordinator_pattern = pattern

    def match(self, topics: Iterable[str]) -> None:
        """These topics exist: subscribe to those that match the pattern."""
        assert self.pattern is not None
        self.topics = frozenset(filter(self.pattern.fullmatch, topics))

    def covers(self, topic: str) -> bool:
        """Whether the topic is subscribed to; also one that matches the pattern and was not known so far."""
        return topic in self.topics or (self.pattern is not None and self.pattern.fullmatch(topic) is not None)

    def assign_from_subscription(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """The partitions of the subscribed topics that are this consumer's."""
        assert self.mode.is_automatic
        self._set(topic_partitions)

    def forget(self, topic: str) -> None:
        """What was read of this topic was read of another one with its name."""
        self.partitions = {key: state for key, state in self.partitions.items() if key.topic != topic}

    def unsubscribe(self) -> None:
        self.mode = Mode.NONE
        self.topics = frozenset()
        self.pattern = self.coordinator_pattern = None
        self.partitions = {}

    def _enter(self, mode: Mode) -> None:
        if self.mode not in (Mode.NONE, mode):
            raise ValueError(f"{self.mode.value}, {mode.value}: a consumer does one of the two; unsubscribe() first")
        self.mode = mode

    def _set(self, topic_partitions: Iterable[TopicPartition]) -> None:
        before = self.partitions
        self.partitions = {key: before.get(key) or self._new_state() for key in sorted(set(topic_partitions))}

    def _new_state(self) -> PartitionState:
        if self._in_group:
            return PartitionState(None, State.INITIALIZING)
        return PartitionState(self._reset_timestamp())

    def reset(self, topic_partition: TopicPartition, offset: int | None = None) -> None:
        """The position is missing, or is not in the log: choose another, as ``auto.offset.reset`` says; NoOffsetError
        if it says not to."""
        timestamp = self._reset_timestamp()
        if timestamp is None:
            raise NoOffsetError(topic_partition, offset)
        self.partitions[topic_partition].reset(timestamp)

    @property
    def may_reset(self) -> bool:
        return self._reset_timestamp() is not None

    def _reset_timestamp(self) -> int | None:
        """Where a partition without a position begins, as ListOffsets names it; None if ``none`` forbids to choose."""
        if self._auto_offset_reset.startswith(BY_DURATION):
            assert self._time_ms is not None, "by_duration counts back from the time of day"
            return max(0, self._time_ms() - reset_duration_ms(self._auto_offset_reset))
        return _RESET_TIMESTAMPS.get(self._auto_offset_reset)
