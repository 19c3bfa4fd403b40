"""One member of a group in the simulator: the consumer core that people use, and a *user*.

The user is a script (a generator) that does what a program with a `Consumer` does. It polls, reads, commits in the
group's way, and sometimes does not poll for so long that its group removes it. It ends when it has closed its consumer,
or when another consumer has its ``group.instance.id``: the workload then starts another one, as a supervisor would.

The laws of the group hear of each request and response, and of what the rebalance listener is called with.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from random import Random
from typing import Any

from pykraft.client import config as keys
from pykraft.client.config import consumer_config
from pykraft.client.consuming.consumer import ConsumerCore
from pykraft.client.consuming.coordinator import ConsumerCoordinator
from pykraft.client.consuming.group_part import ASSIGNED, LOST, ListenerCall
from pykraft.client.consuming.heartbeats import MembershipState
from pykraft.client.consuming.membership import MemberState
from pykraft.client.consuming.reconciliation import Reconciliation
from pykraft.client.errors import ClientTimeoutError
from pykraft.common.core import FOREVER, Failure, Outbound, Poll, Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from pykraft.sim.laws.classic_group_laws import ClassicGroupLaws
from pykraft.sim.laws.consumer_group_laws import ConsumerGroupLaws
from pykraft.sim.laws.group_laws import GroupLaws
from pykraft.sim.laws.invariants import PartitionHistory
from pykraft.sim.laws.watcher import Watcher

CLOSE_MS = 1_000
_IDLE_MS = 100
_COMMIT_AGAIN_MS = 500
TAKEN = frozenset((ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID))
"""Another consumer has the same group.instance.id."""

User = Generator[tuple[int, int], int, None]
"""What a member's user does. It yields (a, b): it goes on at `a` if there is news, at `b` at the latest."""


class GroupMember(ABC):
    """One member with its user. It is a RequestManager."""

    ends_by = TAKEN
    """The errors after which its user ends."""

    def __init__(
        self,
        settings: dict[str, object],
        commits: str,
        topic: str,
        watcher: Watcher,
        laws: GroupLaws,
        random: Random,
        on_end: Callable[[], None],
    ) -> None:
        """`commits` is auto, sync or async; `on_end` is called once when the user has closed its consumer."""
        self.core = ConsumerCore(consumer_config(settings), random)
        self._subscribe(topic)
        assert self.core.group is not None
        self.group = self.core.group
        self._commits = commits
        self._limit: int = self.core.config[keys.MAX_POLL_RECORDS]
        self._timeout_ms: int = self.core.config[keys.DEFAULT_API_TIMEOUT_MS]
        self._pause_ms = random.choice((5, 30))
        self._watcher = watcher
        self._laws = laws
        self._on_end = on_end
        self._user: User | None = self._use()
        self._wait = next(self._user)
        self._awaited: Promise[Any] | None = None
        self._commit_again_at = 0
        self.is_leaving = False
        """It has been asked to close."""
        self.naps_until = 0
        """Until then its user does not poll."""

    def _subscribe(self, topic: str) -> None:
        self.core.subscribe([topic])

    # --- what each protocol does --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def member_id(self) -> str:
        """As the coordinator knows it."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The generation or epoch whose assignment it has taken over."""

    @property
    @abstractmethod
    def missing(self) -> str | None:
        """Why it has not settled; None if it has."""

    @abstractmethod
    def _take_over(self) -> None:
        """The listener hears that the assignment is taken over."""

    @abstractmethod
    def _give_up(self, call: ListenerCall) -> None:
        """The listener has done what it wants to do with the partitions that are taken away."""

    # --- the host's side ----------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        if self._user is not None and now >= self._next_at():
            self._awaited = None
            try:
                self._wait = self._user.send(now)
            except StopIteration:
                self._end()
            except KafkaError as error:
                if error.code not in self.ends_by:
                    raise
                self._end_by_error(now)
        poll = self.core.poll(now)
        deadline = min(poll.deadline, FOREVER if self._user is None else self._next_at())
        return Poll(deadline, [self._watched(outbound) for outbound in poll.requests])

    def _end(self) -> None:
        self._user = None
        self._on_end()

    def _end_by_error(self, now: int) -> None:
        """The user has got an error after which it ends."""
        self._end()

    def _next_at(self) -> int:
        """When its user goes on."""
        soonest, latest = self._wait
        if self._awaited is not None:
            is_ready = self._awaited.kept
        else:
            is_ready = self.core.has_news or self.is_leaving
        return max(self.naps_until, soonest if is_ready else latest)

    def _watched(self, outbound: Outbound) -> Outbound:
        """The same request; the laws hear its response, too."""
        hear = self._on_send(outbound.request)
        if hear is None:
            return outbound
        on_response = outbound.on_response

        def on_watched(response: Any, now: int) -> None:
            if not isinstance(response, Failure):
                hear(response)
            on_response(response, now)

        return outbound._replace(on_response=on_watched)

    def _on_send(self, request: Any) -> Callable[[Any], None] | None:
        """The laws hear of a request; returns what its response is to be given to."""
        laws = self._laws
        if isinstance(request, OffsetCommitRequest):
            sent = laws.send_commit(request)
            return lambda response: laws.hear_commit(request, sent, response)
        if isinstance(request, OffsetFetchRequest):
            known = laws.known_commits()
            return lambda response: laws.hear_offsets(known, response)
        return None

    # --- the user's side ----------------------------------------------------------------------------------------------

    def _use(self) -> User:
        now = yield 0, 0
        while not self.is_leaving:
            while (call := self.core.advance(now)) is not None:
                now = yield from self._listen(call, now)
            self._call_back()
            if self._read() or now >= self._commit_again_at:
                now = yield from self._commit(now)
            now = yield now + self._pause_ms, now + _IDLE_MS
        yield from self._close(now)

    def _read(self) -> int:
        """Read what has come; returns how many records."""
        try:
            taken = self.core.take(self._limit)
        except ClientTimeoutError:
            return 0  # the leader of a partition has not answered for long: the user tries again
        for fetched in taken:
            key, record = fetched.topic_partition, fetched.record
            self._history(key).consume(record.offset, record.value)
            self._laws.read(key, record.offset)
        self._watcher.progress.consumed += len(taken)
        return len(taken)

    def _history(self, key: TopicPartition) -> PartitionHistory:
        return self._watcher.history(key)

    def _listen(self, call: ListenerCall, now: int) -> Generator[tuple[int, int], int, int]:
        """The rebalance listener: commit what is taken away, take over what comes."""
        if call.method == ASSIGNED:
            self._take_over()
            return now
        if call.method != LOST and call.partitions and self._commits == "sync":
            now = yield from self._commit(now)
        self._give_up(call)
        return now

    def _commit(self, now: int) -> Generator[tuple[int, int], int, int]:
        """Commit what was read, in this group's way. The last commit may fail, too, so there is always another."""
        commits = self.group.commits
        self._commit_again_at = now + _COMMIT_AGAIN_MS
        if self._commits == "async":
            commits.commit_async(commits.consumed(), _ignore, now)
        elif self._commits == "sync":
            now = yield from self._await(commits.commit(commits.consumed(), now + self._timeout_ms), now)
        return now

    def _close(self, now: int) -> User:
        """As `Consumer.close` does it."""
        now = yield from self._await(self.group.commit_at_end(now + CLOSE_MS), now)
        call = self.group.depart()
        if call is not None:
            now = yield from self._listen(call, now)
        yield from self._await(self.group.leave("the consumer is being closed", now + CLOSE_MS), now)

    def _await(self, promise: Promise[Any], now: int) -> Generator[tuple[int, int], int, int]:
        self._awaited = promise
        now = yield now, now + max(self._timeout_ms, CLOSE_MS)
        if promise.kept and isinstance(promise.value, KafkaError) and promise.value.code in self.ends_by:
            raise promise.value
        return now

    def _call_back(self) -> None:
        for on_commit, offsets, error in self.group.commits.take_completed():
            on_commit(offsets, error)


def _ignore(offsets: object, error: object) -> None:
    """Whether an asynchronous commit succeeded does not matter to this user."""


class ClassicMember(GroupMember):
    """A member of a classic group."""

    group: ConsumerCoordinator
    _laws: ClassicGroupLaws
    _owned_generation = -1

    @property
    def member_id(self) -> str:
        return self.group.membership.generation.member_id

    @property
    def epoch(self) -> int:
        return self._owned_generation

    @property
    def missing(self) -> str | None:
        membership = self.group.membership
        if membership.state is not MemberState.STABLE:
            return f"it is {membership.state.name}"
        if membership.assignment is not None or membership.rejoin_reason is not None:
            return f"it must join again: {membership.rejoin_reason}"
        if self.epoch != membership.generation.id:
            return f"it has the assignment of generation {self.epoch}, not {membership.generation.id}"
        return None

    def _take_over(self) -> None:
        generation = self.group.membership.generation
        name = self.group.membership.instance_id or generation.member_id
        self._laws.own(generation.member_id, name, generation.id, frozenset(self.core.subscription.partitions))
        self._owned_generation = generation.id

    def _give_up(self, call: ListenerCall) -> None:
        """A generation says what its members own: nothing changes until the next."""


class ConsumerMember(GroupMember):
    """A member of a consumer group (KIP-848)."""

    group: Reconciliation
    _laws: ConsumerGroupLaws

    @property
    def member_id(self) -> str:
        return self.group.membership.member_id

    @property
    def epoch(self) -> int:
        return self.group.membership.epoch

    @property
    def missing(self) -> str | None:
        membership = self.group.membership
        if membership.state is not MembershipState.STABLE:
            return f"it is {membership.state.name}"
        return None if membership.current == membership.target else "it has not taken over its whole assignment"

    def _on_send(self, request: Any) -> Callable[[Any], None] | None:
        laws = self._laws
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            claim = laws.send_heartbeat(request)
            return lambda response: laws.hear_heartbeat(claim, response)
        return super()._on_send(request)

    def _take_over(self) -> None:
        self._laws.own(self.member_id, frozenset(self.core.subscription.partitions))

    def _give_up(self, call: ListenerCall) -> None:
        self._laws.give_up(self.member_id, call.partitions)
