"""The bank under storms: who of its clients comes and goes, and what befalls them.

There are a few places, each with a transactional id of its own: some for tellers, some for copiers. In a place a host
crashes and another one begins; or another one begins while the old one is still there, and becomes a *zombie*; or the
program naps within a transaction, for longer than the coordinator waits; or the host is cut off from all brokers. The
brokers have their own trouble meanwhile.

When the storm ends, each place must have a client that is well, everything that was decided must be seen, and no
transaction may be open anywhere.
"""

from collections.abc import Callable, Sequence, Set
from functools import partial
from random import Random

from pykraft.client.errors import TransactionFatalError
from pykraft.common.core import Poll
from pykraft.sim.laws.progress import Progress
from pykraft.sim.laws.transaction_laws import BANK, COPY, Ledger
from pykraft.sim.trouble.knobs import TransactionKnobs
from pykraft.sim.trouble.outages import Outages
from pykraft.sim.workloads.transaction_workload import CommittedReader, Copier, Teller
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.dice import next_dice
from pykraft.sim.world.network import Network
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler

_LONGEST_CUT_MS = 2_000
COPIERS = "copiers"
"""The copiers' group."""


class _Place:
    """A transactional id, and the client that has it now."""

    def __init__(self, transactional_id: str, is_copier: bool) -> None:
        self.transactional_id = transactional_id
        self.is_copier = is_copier
        self.hosts: dict[str, tuple[SimulatedClient, Teller | Copier]] = {}
        """By name, the newest last; the others are zombies."""
        self.is_awaited = False
        """Another one will begin here."""

    @property
    def newest(self) -> tuple[SimulatedClient, Teller | Copier] | None:
        return next(reversed(self.hosts.values()), None)


class TransactionStorm:
    """The clients of the bank, and what befalls them."""

    def __init__(
        self,
        knobs: TransactionKnobs,
        partitions: int,
        bootstrap_servers: str,
        brokers: Sequence[str],
        scheduler: Scheduler,
        network: Network,
        progress: Progress,
        time_ms: Callable[[], int],
        random: Random,
        report: Callable[[str, dict[str, object]], None],
        left_out: Set[str] = frozenset(),
    ) -> None:
        """The hosts that are `left_out` do not begin: their place stays empty, until another host begins in it."""
        self._left_out = left_out
        self.begun: list[str] = []
        """The names of the hosts that have begun."""
        self.ledger = Ledger()
        self._knobs = knobs
        self._partitions = partitions
        self._servers = bootstrap_servers
        self._brokers = brokers
        self._scheduler = scheduler
        self._network = network
        self._progress = progress
        self._time_ms = time_ms
        self._random = random
        self._report = report
        self._outages = Outages(scheduler, network, report)
        self._hosts = 0
        self._is_over = False
        self._places = [_Place(f"teller-{number}", False) for number in range(knobs.tellers)]
        self._places += [_Place(f"copier-{number}", True) for number in range(knobs.copiers)]

    def readers(self) -> list[tuple[str, CommittedReader]]:
        """The readers of the bank and of its copy, which stay for the whole run, by name."""
        shown = ((BANK, self.ledger.read), (COPY, self.ledger.read_copy))
        return [
            (
                f"{topic}-reader",
                CommittedReader(
                    self._knobs.consumer,
                    self._servers,
                    topic,
                    self._partitions,
                    on_record,
                    next_dice(self._random),
                ),
            )
            for topic, on_record in shown
        ]

    @property
    def hosts(self) -> dict[str, Teller | Copier]:
        """The clients that are there, by the names of their hosts."""
        return {name: client for place in self._places for name, (_, client) in place.hosts.items()}

    def begin(self) -> None:
        for place in self._places:
            self._start_later(place, self._random.choice((0, 0, 100, 1_000)))
        self._plan_next()

    def end(self) -> None:
        """No more trouble; each place has a client that is well."""
        self._is_over = True
        for place in self._places:
            for _, client in place.hosts.values():
                client.naps_until = client.nap_ms = 0
                if isinstance(client, Copier):
                    client.catch_up()
            if not place.hosts and not place.is_awaited:
                self._start_later(place, 0)

    def pause(self) -> None:
        """The tellers finish what they have begun."""
        for place in self._places:
            for _, client in place.hosts.values():
                client.is_pausing = not place.is_copier

    # --- hosts --------------------------------------------------------------------------------------------------------

    def _start_later(self, place: _Place, delay_ms: int) -> None:
        place.is_awaited = True
        self._scheduler.after(delay_ms * US_PER_MS + 1, lambda: self._start(place))

    def _start(self, place: _Place) -> None:
        place.is_awaited = False
        self._hosts += 1
        name, random = f"{place.transactional_id}.{self._hosts}", next_dice(self._random)
        if name in self._left_out:
            return
        self.begun.append(name)
        settings, consumer = self._knobs.producer, self._knobs.consumer
        client: Teller | Copier
        if place.is_copier:
            group = {**consumer, "group.id": COPIERS, **self._knobs.group}
            client = Copier(place.transactional_id, settings, group, self._servers, self._time_ms, random)
        else:
            client = Teller(
                *(name, place.transactional_id, settings, self._servers),
                *(self._partitions, self.ledger, self._time_ms, random),
            )
        if self._is_over and isinstance(client, Copier):
            client.catch_up()
        host = SimulatedClient(
            name, _Watched(name, client, self.ledger, partial(self._end_later, place, name)), *self._world, random
        )
        place.hosts[name] = host, client
        self._report("client_begins", {"client": name})
        host.act(lambda: None)

    @property
    def _world(self) -> tuple[Scheduler, Network]:
        return self._scheduler, self._network

    def _end_later(self, place: _Place, name: str) -> None:
        self._scheduler.after(1, lambda: self._on_end(place, name))

    def _on_end(self, place: _Place, name: str) -> None:
        """Its program has ended by itself."""
        if name not in place.hosts:
            return
        is_newest = next(reversed(place.hosts)) == name
        client = place.hosts[name][1]
        self._count(client.error, is_newest)
        self._report("client_ends", {"client": name, "error": str(client.error)})
        self._remove(place, name)
        if is_newest and not place.is_awaited:
            self._start_later(place, self._random.randint(*self._knobs.restart_ms))

    def _count(self, error: TransactionFatalError | None, is_newest: bool) -> None:
        if error is not None:
            self._progress.fenced += not is_newest
            # If no other producer has taken its place, the coordinator has aborted its transaction.
            self._progress.timed_out += is_newest

    def _remove(self, place: _Place, name: str) -> None:
        host, client = place.hosts.pop(name)
        host.crash()
        if isinstance(client, Teller) and client.transfer is not None:
            client.transfer.abandon()

    # --- trouble ------------------------------------------------------------------------------------------------------

    def _plan_next(self) -> None:
        pause_ms = self._random.expovariate(1 / self._knobs.event_every_ms)
        self._scheduler.after(round(pause_ms * US_PER_MS) + 1, self._strike)

    def _strike(self) -> None:
        if self._is_over:
            return
        self._plan_next()
        place = self._random.choice(self._places)
        if place.newest is not None:
            getattr(self, f"_{self._random.choice(('crash', 'replace', 'nap', 'cut'))}")(place, *place.newest)

    def _crash(self, place: _Place, host: SimulatedClient, client: Teller | Copier) -> None:
        self._report("client_crashes", {"client": host.name})
        self._remove(place, host.name)
        if not place.is_awaited:
            self._start_later(place, self._random.randint(*self._knobs.restart_ms))

    def _replace(self, place: _Place, host: SimulatedClient, client: Teller | Copier) -> None:
        """Another one begins, and the old one does not know."""
        if not place.is_awaited:
            self._start_later(place, 0)

    def _nap(self, place: _Place, host: SimulatedClient, client: Teller | Copier) -> None:
        timeout_ms = int(str(self._knobs.producer["transaction.timeout.ms"]))
        client.nap_ms = self._random.randint(timeout_ms // 2, 3 * timeout_ms)
        self._report("client_naps", {"client": host.name, "ms": client.nap_ms})

    def _cut(self, place: _Place, host: SimulatedClient, client: Teller | Copier) -> None:
        self._outages.cut_client(host.name, self._brokers, _LONGEST_CUT_MS, self._random)

    # --- settling -----------------------------------------------------------------------------------------------------

    def missing(self) -> str | None:
        """Why the clients are not done; None if they are, and have seen everything."""
        for place in self._places:
            if place.newest is None or place.is_awaited:
                return f"{place.transactional_id} is about to begin"
            for name, (_, client) in place.hosts.items():
                if not client.is_idle:
                    return f"{name} is in a transaction, or begins: {client.transactions.state.value}"
        return self.ledger.missing()


class _Watched:
    """A client that calls back at its end, and shows the ledger its identity. It is a RequestManager."""

    def __init__(self, name: str, client: Teller | Copier, ledger: Ledger, on_end: Callable[[], None]) -> None:
        self._name = name
        self._client = client
        self._ledger = ledger
        self._identity = client.transactions.identity
        self._on_end: Callable[[], None] | None = on_end

    def poll(self, now: int) -> Poll:
        poll = self._client.poll(now)
        if self._client.transactions.identity != self._identity:
            self._identity = self._client.transactions.identity
            self._ledger.note_identity(self._name, self._identity)
        if self._client.is_done and self._on_end is not None:
            self._on_end()
            self._on_end = None
        return poll
