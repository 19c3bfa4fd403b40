"""A consumer group at work: members that read and commit, and come and go while the brokers have their own trouble.

Each member is a host with the consumer core that people use, and a *user*: a script (a generator) that does what a
program with a `Consumer` does. It polls, reads, commits in the group's way, and sometimes does not poll for so long
that its group gives it up.

The group has a few places. A member in a place may crash (its host is gone, without a word), leave in order, or be cut
off from all brokers for a while; then the place stays empty, or another host begins in it. A place that is static has a
``group.instance.id``, which each host in it uses.

When the storm ends, the members that are there must settle: one stable generation, each partition with an owner, and
everything read and committed.
"""

from collections.abc import Callable, Generator, Sequence
from random import Random
from typing import Any

from pykraft.client import config as keys
from pykraft.client.config import consumer_config
from pykraft.client.consumer import ConsumerCore
from pykraft.client.coordinator import ConsumerCoordinator
from pykraft.client.errors import FencedInstanceIdError
from pykraft.client.group_part import ASSIGNED, LOST, ListenerCall
from pykraft.client.membership import MemberState
from pykraft.common.core import FOREVER, Failure, Outbound, Poll, Promise
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from pykraft.sim.group_laws import GroupLaws
from pykraft.sim.hosts import SimulatedClient
from pykraft.sim.knobs import GroupKnobs
from pykraft.sim.network import Network
from pykraft.sim.scheduler import US_PER_MS, Scheduler
from pykraft.sim.watcher import Watcher

GROUP = "g"
_IDLE_MS = 100
_COMMIT_AGAIN_MS = 500
_CLOSE_MS = 1_000

User = Generator[tuple[int, int], int, None]
"""What a member's user does. It yields (a, b): it goes on at `a` if there is news, at `b` at the latest."""


class GroupMember:
    """One member with its user. It is a RequestManager."""

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
        self.core.subscribe([topic])
        group = self.core.group
        assert isinstance(group, ConsumerCoordinator)
        self.group = group
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
        self.owned_generation = -1
        """The generation whose assignment it has taken over."""

    # --- the host's side ----------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        if self._user is not None and now >= self._next_at():
            self._awaited = None
            try:
                self._wait = self._user.send(now)
            except (StopIteration, FencedInstanceIdError):
                self._user = None
                self._on_end()
        poll = self.core.poll(now)
        deadline = min(poll.deadline, FOREVER if self._user is None else self._next_at())
        return Poll(deadline, [self._watched(outbound) for outbound in poll.requests])

    def _next_at(self) -> int:
        """When its user goes on."""
        soonest, latest = self._wait
        if self._awaited is not None:
            is_ready = self._awaited.kept
        else:
            is_ready = self.core.has_news or self.is_leaving
        return max(self.naps_until, soonest if is_ready else latest)

    def _watched(self, outbound: Outbound) -> Outbound:
        """The same request, whose answer the laws hear of, too."""
        request, on_response = outbound.request, outbound.on_response
        if isinstance(request, OffsetCommitRequest):
            sent = self._laws.send_commit(request)

            def on_commit(response: Any, now: int) -> None:
                if not isinstance(response, Failure):
                    self._laws.hear_commit(request, sent, response)
                on_response(response, now)

            return outbound._replace(on_response=on_commit)
        if isinstance(request, OffsetFetchRequest):
            known = self._laws.known_commits()

            def on_fetched(response: Any, now: int) -> None:
                if not isinstance(response, Failure):
                    self._laws.hear_offsets(known, response)
                on_response(response, now)

            return outbound._replace(on_response=on_fetched)
        return outbound

    # --- the user's side ----------------------------------------------------------------------------------------------

    def _use(self) -> User:
        now = yield 0, 0
        while not self.is_leaving:
            while (call := self.core.advance(now)) is not None:
                now = yield from self._listen(call, now)
            self._call_back()
            taken = self.core.take(self._limit)
            for fetched in taken:
                key, record = fetched.topic_partition, fetched.record
                self._watcher.history(key).consume(record.offset, record.value)
                self._laws.read(key, record.offset)
                self._watcher.progress.consumed += 1
            if taken or now >= self._commit_again_at:
                now = yield from self._commit(now)
            now = yield now + self._pause_ms, now + _IDLE_MS
        yield from self._close(now)

    def _listen(self, call: ListenerCall, now: int) -> Generator[tuple[int, int], int, int]:
        """The rebalance listener: commit what is taken away, take over what comes."""
        generation = self.group.membership.generation
        if call.method == ASSIGNED:
            name = self.group.membership.instance_id or generation.member_id
            self._laws.own(generation.member_id, name, generation.id, frozenset(self.core.subscription.partitions))
            self.owned_generation = generation.id
        elif call.method != LOST and call.partitions and self._commits == "sync":
            now = yield from self._commit(now)
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
        now = yield from self._await(self.group.commit_at_end(now + _CLOSE_MS), now)
        call = self.group.depart()
        if call is not None:
            now = yield from self._listen(call, now)
        yield from self._await(self.group.leave("the consumer is being closed", now + _CLOSE_MS), now)

    def _await(self, promise: Promise[Any], now: int) -> Generator[tuple[int, int], int, int]:
        self._awaited = promise
        now = yield now, now + max(self._timeout_ms, _CLOSE_MS)
        if promise.kept and isinstance(promise.value, FencedInstanceIdError):
            raise promise.value
        return now

    def _call_back(self) -> None:
        for on_commit, offsets, error in self.group.commits.take_completed():
            on_commit(offsets, error)

    # --- how it is ----------------------------------------------------------------------------------------------------

    @property
    def missing(self) -> str | None:
        """Why it has not settled; None if it has."""
        membership = self.group.membership
        if membership.state is not MemberState.STABLE:
            return f"it is {membership.state.name}"
        if membership.assignment is not None or membership.rejoin_reason is not None:
            return f"it must join again: {membership.rejoin_reason}"
        if self.owned_generation != membership.generation.id:
            return f"it has the assignment of generation {self.owned_generation}, not {membership.generation.id}"
        return None


def _ignore(offsets: object, error: object) -> None:
    """Whether an asynchronous commit went well is not looked at."""


class _Place:
    """A place in the group, with a member in it or not."""

    def __init__(self, number: int, instance_id: str | None) -> None:
        self.number = number
        self.instance_id = instance_id
        self.host: SimulatedClient | None = None
        self.member: GroupMember | None = None
        self.is_awaited = False
        """Another host will begin here."""


class GroupWorkload:
    """The members of the group, and what befalls them."""

    def __init__(
        self,
        knobs: GroupKnobs,
        topic: str,
        bootstrap_servers: str,
        brokers: Sequence[str],
        scheduler: Scheduler,
        network: Network,
        watcher: Watcher,
        laws: GroupLaws,
        random: Random,
        report: Callable[[str, dict[str, object]], None],
    ) -> None:
        self.laws = laws
        self._knobs = knobs
        self._topic = topic
        self._servers = bootstrap_servers
        self._brokers = brokers
        self._scheduler = scheduler
        self._network = network
        self._watcher = watcher
        self._random = random
        self._report = report
        self._hosts = 0
        self._is_over = False
        self._places = [_Place(n, f"i{n}" if n < knobs.static_members else None) for n in range(knobs.members)]

    @property
    def members(self) -> list[GroupMember]:
        return [place.member for place in self._places if place.member is not None]

    def begin(self) -> None:
        for place in self._places:
            self._start_later(place, self._random.choice((0, 0, 100, 1_000)))
        self._plan_next()

    def end(self) -> None:
        """No more trouble; whoever is there stays."""
        self._is_over = True
        for member in self.members:
            member.naps_until = 0
        if not any(place.is_awaited or self._is_well(place) for place in self._places):
            self._start_later(self._places[0], 0)

    # --- hosts --------------------------------------------------------------------------------------------------------

    def _start_later(self, place: _Place, delay_ms: int) -> None:
        place.is_awaited = True
        self._scheduler.after(delay_ms * US_PER_MS + 1, lambda: self._start(place))

    def _start(self, place: _Place) -> None:
        place.is_awaited = False
        if place.host is not None:
            return
        self._hosts += 1
        name = f"member-{self._hosts}"
        settings = {"bootstrap.servers": self._servers, "group.id": GROUP, **self._knobs.settings}
        if place.instance_id is not None:
            settings["group.instance.id"] = place.instance_id
        random = Random(self._random.random())
        host: SimulatedClient

        def on_end() -> None:
            self._scheduler.after(1, lambda: self._on_end(place, host))

        member = GroupMember(settings, self._knobs.commits, self._topic, self._watcher, self.laws, random, on_end)
        host = SimulatedClient(name, member, self._scheduler, self._network, random)
        place.host, place.member = host, member
        self._report("member_begins", {"member": name, "place": place.number})
        host.act(lambda: None)

    def _on_end(self, place: _Place, host: SimulatedClient) -> None:
        """The user has closed its consumer, or had to."""
        if place.host is host:
            self._report("member_ends", {"member": host.name})
            self._remove(place)
            if self._is_over and not self.members and not any(each.is_awaited for each in self._places):
                self._start_later(place, 0)

    def _remove(self, place: _Place) -> None:
        """The host is gone; perhaps another one comes."""
        assert place.host is not None
        place.host.crash()
        place.host = place.member = None
        if not self._is_over and self._random.random() < self._knobs.replaced:
            self._start_later(place, self._random.randint(*self._knobs.restart_ms))

    @staticmethod
    def _is_well(place: _Place) -> bool:
        return place.member is not None and not place.member.is_leaving

    # --- trouble ------------------------------------------------------------------------------------------------------

    def _plan_next(self) -> None:
        pause_ms = self._random.expovariate(1 / self._knobs.event_every_ms)
        self._scheduler.after(round(pause_ms * US_PER_MS) + 1, self._strike)

    def _strike(self) -> None:
        if self._is_over:
            return
        self._plan_next()
        kinds = ("crash", "crash", "leave", "join", "join", "cut", "nap")
        getattr(self, f"_{self._random.choice(kinds)}")()

    def _choose(self) -> _Place | None:
        well = [place for place in self._places if self._is_well(place)]
        return self._random.choice(well) if well else None

    def _crash(self) -> None:
        if (place := self._choose()) is not None and place.host is not None:
            self._report("member_crashes", {"member": place.host.name})
            self._watcher.progress.members_lost += 1
            self._remove(place)

    def _leave(self) -> None:
        if (place := self._choose()) is not None and place.member is not None and place.host is not None:
            self._report("member_leaves", {"member": place.host.name})
            place.member.is_leaving = True
            place.host.act(lambda: None)

    def _join(self) -> None:
        free = [place for place in self._places if place.host is None and not place.is_awaited]
        if free:
            self._start_later(self._random.choice(free), 0)

    def _nap(self) -> None:
        """Its user is busy for longer than its group allows."""
        if (place := self._choose()) is not None and place.member is not None and place.host is not None:
            longest: int = place.member.core.config[keys.MAX_POLL_INTERVAL_MS]
            place.member.naps_until = self._scheduler.now + self._random.randint(longest // 2, 2 * longest)
            self._report("member_naps", {"member": place.host.name, "until": place.member.naps_until})

    def _cut(self) -> None:
        """No broker hears it, or it hears none."""
        if (place := self._choose()) is None or place.host is None:
            return
        name = place.host.name
        links = [(name, broker) for broker in self._brokers] + [(broker, name) for broker in self._brokers]
        links = self._random.choice((links, links[: len(self._brokers)], links[len(self._brokers) :]))
        self._report("cut", {"links": links})
        for source, target in links:
            self._network.cut(source, target)

        def mend() -> None:
            self._report("mend", {"links": links})
            for source, target in links:
                self._network.mend(source, target)

        longest_ms = 2 * int(str(self._knobs.settings["session.timeout.ms"]))
        self._scheduler.after(self._random.randint(1, longest_ms) * US_PER_MS, mend)

    # --- settling -----------------------------------------------------------------------------------------------------

    def missing(self, partitions: Sequence[TopicPartition]) -> str | None:
        """Why the members have not settled, and read and committed all there is; None if they have."""
        if any(place.is_awaited or (place.member is not None and place.member.is_leaving) for place in self._places):
            return "a member is about to come or to go"
        for place in self._places:
            if place.member is not None and place.host is not None and (why := place.member.missing) is not None:
                return f"{place.host.name}: {why}"
        generations = {member.owned_generation for member in self.members}
        if generations != {self.laws.generation}:
            return f"the members are in generations {sorted(generations)}, the group is in {self.laws.generation}"
        owned = [key for member in self.members for key in member.core.subscription.partitions]
        if sorted(owned) != sorted(partitions):
            return f"the members own {sorted(owned)}"
        for key in partitions:
            end, place_of = len(self._watcher.history(key).values), self.laws.place(key)
            if end and (place_of.read_up_to, place_of.offset) != (end, end):
                return f"{key}: the group has read {place_of.read_up_to} of {end} and committed {place_of.offset}"
        return None
