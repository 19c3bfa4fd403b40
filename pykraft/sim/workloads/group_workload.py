"""A group at work: members that read and commit, and come and go while the brokers have their own trouble.

Each member is a host with a `GroupMember` in it. The group speaks one of the two protocols, in all its members; a run
may have a group of each.

The group has a few places. A member in a place may crash (its host is gone, without a word), leave in order, or be cut
off from all brokers for a while; then the place stays empty, or another host begins in it. A place that is static has a
``group.instance.id``, which each host in it uses.

When the storm ends, the members that are there must settle: one stable generation or epoch, each partition with an
owner, and everything read and committed. In some runs the last thing that happens is that a member and its
coordinator's node crash together: then only the next coordinator, which has never heard that member, can remove it.
"""

from collections.abc import Callable, Sequence, Set
from random import Random

from pykraft.client import config as keys
from pykraft.common.types import TopicPartition
from pykraft.sim.laws.group_laws import GroupLaws
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.trouble.clients import CLASSIC, GroupKnobs
from pykraft.sim.trouble.outages import Outages
from pykraft.sim.workloads.group_members import ClassicMember, ConsumerMember, GroupMember
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.dice import next_dice
from pykraft.sim.world.network import Network
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler

_AGAIN_MS = 100
"""After the storm another member comes after this if none is left: the last one's instance id may be taken for long."""


class Place:
    """A place in the group, with a member in it or not."""

    def __init__(self, number: int, instance_id: str | None) -> None:
        self.number = number
        self.instance_id = instance_id
        self.host: SimulatedClient | None = None
        self.member: GroupMember | None = None
        self.is_awaited = False
        """Another host will begin here."""


class GroupWorkload:
    """The members of one group, and what befalls them."""

    strikes: tuple[str, ...] = ("crash", "crash", "leave", "join", "join", "cut", "nap")
    """What befalls them, each as likely as the others."""

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
        left_out: Set[str] = frozenset(),
    ) -> None:
        """The hosts that are `left_out` do not begin: their place stays empty, until another host begins in it."""
        self._left_out = left_out
        self.begun: list[str] = []
        """The names of the hosts that have begun."""
        self.group_id = knobs.group_id
        self.laws = laws
        self._knobs = knobs
        self.topic = topic
        self._servers = bootstrap_servers
        self._brokers = brokers
        self._scheduler = scheduler
        self._network = network
        self._watcher = watcher
        self._random = random
        self._report = report
        self._outages = Outages(scheduler, network, report)
        self._hosts = 0
        self._is_over = False
        self._gone: dict[str, str] = {}
        self._places = [Place(n, f"i{n}" if n < knobs.static_members else None) for n in range(knobs.members)]

    @property
    def members(self) -> list[GroupMember]:
        return [place.member for place in self._places if place.member is not None]

    @property
    def hosts(self) -> dict[str, GroupMember]:
        """The members by the names of their hosts."""
        return {place.host.name: place.member for place in self._places if place.host and place.member}

    @property
    def names(self) -> dict[str, str]:
        """The names of the hosts by the ids of their members, also of those that are gone."""
        return self._gone | {member.member_id: name for name, member in self.hosts.items()}

    def begin(self) -> None:
        for place in self._places:
            self._start_later(place, self._random.choice((0, 0, 100, 1_000)))
        self._plan_next()

    def end(self) -> None:
        """No more trouble; the members that are there stay."""
        self._is_over = True
        for member in self.members:
            member.naps_until = 0
        if not any(place.is_awaited or self._is_well(place) for place in self._places):
            self._start_later(self._places[0], 0)

    @property
    def loses_one_at_the_end(self) -> bool:
        """Whether a member is to crash together with the coordinator's node, and others are there to go on."""
        return self._knobs.crashes_at_end and sum(self._is_well(place) for place in self._places) > 1

    def lose_one(self) -> None:
        """A member crashes."""
        self._crash()

    def lose(self, name: str) -> None:
        """The member on this host crashes, if it is there."""
        for place in self._places:
            if place.host is not None and place.host.name == name:
                self._lose(place, name)

    def join(self) -> None:
        """A member begins in a place that is free, if there is one."""
        self._join()

    def nap(self, name: str, ms: int) -> None:
        """The user of the member on this host does not poll for this long."""
        if (member := self.hosts.get(name)) is not None:
            self._nap_until(name, member, self._scheduler.now + ms)

    # --- hosts --------------------------------------------------------------------------------------------------------

    def _start_later(self, place: Place, delay_ms: int) -> None:
        place.is_awaited = True
        self._scheduler.after(delay_ms * US_PER_MS + 1, lambda: self._start(place))

    def _start(self, place: Place) -> None:
        place.is_awaited = False
        if place.host is not None:
            return
        self._hosts += 1
        name = f"{self._knobs.protocol}-member-{self._hosts}"
        settings = {"bootstrap.servers": self._servers, "group.id": self.group_id, **self._knobs.settings}
        if place.instance_id is not None:
            settings["group.instance.id"] = place.instance_id
        random = next_dice(self._random)
        if name in self._left_out:
            return
        self.begun.append(name)
        host: SimulatedClient

        def on_end() -> None:
            self._scheduler.after(1, lambda: self._on_end(place, host))

        member = self._make_member(settings, random, on_end)
        host = SimulatedClient(name, member, self._scheduler, self._network, random)
        place.host, place.member = host, member
        self._report("member_begins", {"member": name, "place": place.number})
        host.act(lambda: None)

    def _make_member(self, settings: dict[str, object], random: Random, on_end: Callable[[], None]) -> GroupMember:
        member_type = ClassicMember if self._knobs.protocol == CLASSIC else ConsumerMember
        return member_type(settings, self._knobs.commits, self.topic, self._watcher, self.laws, random, on_end)

    def _on_end(self, place: Place, host: SimulatedClient) -> None:
        """The user has closed its consumer, or had to."""
        if place.host is host:
            self._report("member_ends", {"member": host.name})
            self._remove(place)
            if self._is_over and not self.members and not any(each.is_awaited for each in self._places):
                self._start_later(place, _AGAIN_MS)

    def _remove(self, place: Place) -> None:
        """The host is gone; perhaps another one comes."""
        assert place.host is not None and place.member is not None
        self._gone[place.member.member_id] = place.host.name
        place.host.crash()
        place.host = place.member = None
        if not self._is_over and self._random.random() < self._knobs.replaced:
            self._start_later(place, self._random.randint(*self._knobs.restart_ms))

    @staticmethod
    def _is_well(place: Place) -> bool:
        return place.member is not None and not place.member.is_leaving

    # --- trouble ------------------------------------------------------------------------------------------------------

    def _plan_next(self) -> None:
        pause_ms = self._random.expovariate(1 / self._knobs.event_every_ms)
        self._scheduler.after(round(pause_ms * US_PER_MS) + 1, self._strike)

    def _strike(self) -> None:
        if self._is_over:
            return
        self._plan_next()
        getattr(self, f"_{self._random.choice(self.strikes)}")()

    def _choose(self) -> Place | None:
        well = [place for place in self._places if self._is_well(place)]
        return self._random.choice(well) if well else None

    def _crash(self) -> None:
        if (place := self._choose()) is not None and place.host is not None:
            self._lose(place, place.host.name)

    def _lose(self, place: Place, name: str) -> None:
        self._report("member_crashes", {"member": name})
        self._watcher.progress.count(self._knobs.protocol, "members_lost")
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
            until = self._scheduler.now + self._random.randint(longest // 2, 2 * longest)
            self._nap_until(place.host.name, place.member, until)

    def _nap_until(self, name: str, member: GroupMember, until: int) -> None:
        member.naps_until = until
        self._report("member_naps", {"member": name, "until": until})

    def _cut(self) -> None:
        if (place := self._choose()) is not None and place.host is not None:
            self._outages.cut_client(place.host.name, self._brokers, 2 * self._knobs.session_ms, self._random)

    # --- settling -----------------------------------------------------------------------------------------------------

    def places(self, partitions: int) -> list[TopicPartition]:
        """What its members read: of a topic with this many partitions."""
        return [TopicPartition(self.topic, number) for number in range(partitions)]

    def missing(self, partitions: Sequence[TopicPartition]) -> str | None:
        """Why the members have not settled, and read and committed all there is; None if they have."""
        if any(place.is_awaited or (place.member is not None and place.member.is_leaving) for place in self._places):
            return "a member is about to come or to go"
        for place in self._places:
            if place.member is not None and place.host is not None and (why := place.member.missing) is not None:
                return f"{place.host.name}: {why}"
        epochs = {member.epoch for member in self.members}
        if epochs != {self.laws.epoch}:
            return f"the members of {self.group_id} are in epochs {sorted(epochs)}, the group is in {self.laws.epoch}"
        owned = [key for member in self.members for key in member.core.subscription.partitions]
        if sorted(owned) != sorted(partitions):
            return f"the members of {self.group_id} own {sorted(owned)}"
        for key in partitions:
            end, place_of = len(self._watcher.history(key).values), self.laws.place(key)
            if end and (place_of.read_up_to, place_of.offset) != (end, end):
                return f"{key}: the group has read {place_of.read_up_to} of {end} and committed {place_of.offset}"
        return None
