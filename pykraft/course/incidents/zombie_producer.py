"""Incident 5: a zombie's open transaction holds back the last stable offset, and the zombie will come back.

READING ON SPOILS THE INCIDENT.

Desks book payments, each payment with a debit and a credit in one transaction. The machine of desk-2 froze between the
last record and the commit. Its successor was started as desk-3, with a transactional id of its own: so nothing fenced
desk-2, and nothing aborted its transaction. The successor books the same payments again, and all desks commit beyond
the open transaction. But a ``read_committed`` consumer reads only up to the last stable offset, and that is where the
open transaction begins. It is open for ``transaction.timeout.ms``: an hour.

The second blow: when the ledger has caught up, the machine of desk-2 goes on where it stopped. If its epoch was fenced
it gets PRODUCER_FENCED and closes. If only its markers were written, or if it was never ended, it commits and goes on
to book what desk-3 has booked already.
"""

from collections.abc import Sequence
from typing import ClassVar

from pykraft.course.incidents.desks import CREDIT, DEBIT, SIDES, Book, Desk, Lane
from pykraft.course.incidents.drawing import Card, Row
from pykraft.course.incidents.incident import Counter, Incident, Script, WrongCure, in_time_of_page
from pykraft.course.incidents.readers import Reading, Worker
from pykraft.course.incidents.terminal import Verb
from pykraft.course.incidents.world import World
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.scheduler import US_PER_MS

TOPIC, GROUP = "bookings", "ledger"
_NAMES = {DEBIT: "debits", CREDIT: "credits"}
_MS_PER_PAYMENT = 250
_LEDGER_PER_S = 400
_LATE_MS, _HALF_MS, _SMALL_LAG, _FLOWS_S, _RIGHT_S = 20_000, 15_000, 100, 10, 20
_FULL_LAG = 2_000
_LEVELS = ("read_committed", "read_uncommitted")


class ZombieProducer(Incident):
    NUMBER, TITLE = 5, "The ledger stands still"
    TOPICS = (TOPIC,)
    LOSS = "payments are booked wrong"
    PAGER = (
        "SEV 1 · ledger: no payment has been settled for a minute and a half, and they must be within 20 s. The desks "
        "that run book without errors (debit in bookings-0, credit in bookings-1). The ledger polls and gets nothing."
    )
    CURE: ClassVar[Script] = (
        (10, "kafka-consumer-groups --describe --group ledger"),
        (20, "kafka-transactions list"),
        (30, "kafka-transactions list --duration-filter 10000"),
        (40, "kafka-transactions describe --transactional-id desk-2"),
        (50, "log desk-3"),
        (60, "kafka-transactions forceTerminateTransaction --transactionalId desk-2"),
    )
    WRONG = (
        WrongCure(
            "abort the transaction in its partitions",
            (
                (10, "kafka-transactions abort --topic bookings --partition 0 --start-offset 194"),
                (15, "kafka-transactions abort --topic bookings --partition 1 --start-offset 194"),
            ),
            "The markers let the ledger go on. But the coordinator still knows desk-2 as the owner of its id. When its "
            "machine comes back it commits, and goes on to book what desk-3 has booked.",
        ),
        WrongCure(
            "isolation.level=read_uncommitted",
            ((10, "set-ledger isolation.level=read_uncommitted"),),
            "The ledger reads all at once: also what desk-2 never committed, and each transaction that was aborted.",
        ),
    )
    STORY = (
        "The machine of desk-2 froze with a transaction open: it had written its debits and credits, and not "
        "committed. A `read_committed` consumer reads up to the last stable offset, the begin of the first open "
        "transaction. So the ledger had to wait, though desk-1 and desk-3 committed beyond that offset.",
        "A producer that starts with the same `transactional.id` fences the one before, and aborts what it left open. "
        "desk-3 was started with an id of its own, so nothing fenced desk-2. And `transaction.timeout.ms` was an hour.",
        "The cure is to end the transaction at its coordinator: `forceTerminateTransaction` aborts it in all "
        "partitions and fences the producer. That showed when the machine of desk-2 came back: its commit was refused. "
        "`abort` writes a marker into one partition, for transactions that no coordinator knows any more; it fences "
        "nothing. Better than any cure: a `transactional.id` that belongs to the work, so the successor has it, too.",
    )
    SHOWN_BY = (
        ("kafka-consumer-groups --describe --group ledger", "the offsets stand, the log end offsets grow"),
        ("kafka-transactions list --duration-filter 10000", "one transaction has been open for longer than 10 s"),
        ("kafka-transactions describe --transactional-id desk-2", "since when, in which partitions, and its timeout"),
        ("kafka-transactions describe-producers --topic bookings --partition 0", "its start is the ledger's offset"),
        ("log desk-3", "it was started in place of desk-2, with another transactional.id"),
        ("kafka-transactions find-hanging --topic bookings", "nothing: a coordinator knows the transaction"),
    )

    def build(self) -> World:
        own = {
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.max.timeout.ms": 3_600_000,
        }
        return World(self.seed, brokers=1, properties=own)

    def prepare(self) -> None:
        world = self.world
        world.run_to(4_000)
        self.terminal.run(f"kafka-topics --create --topic {TOPIC} --partitions {len(SIDES)} --replication-factor 1")
        self.lanes = [Lane(world, first, _MS_PER_PAYMENT) for first in (0, 1)]
        self.desks: dict[str, tuple[SimulatedClient, Desk]] = {}
        self._start_desk("desk-1", self.lanes[0])
        self._start_desk("desk-2", self.lanes[1])
        self.level = _LEVELS[0]
        self.book, self.reading = Book(world, self.lanes, _LATE_MS, _HALF_MS), Reading(world, TOPIC, GROUP)
        self._start_ledger()
        world.run_to(world.now_ms + 20_000)
        zombie = self.desks["desk-2"][1]
        zombie.stops_in_next = True
        while not zombie.is_frozen:
            world.run_to(world.now_ms + 50)
        world.run_to(world.now_ms + 20_000)
        self._start_desk("desk-3", self.lanes[1], "started in place of desk-2, which does not answer")
        world.run_to(world.now_ms + 70_000)
        self._flows_s = self._right_s = 0
        self._is_back = False

    # --- its programs -------------------------------------------------------------------------------------------------

    def _start_desk(self, name: str, lane: Lane, why: str = "started") -> None:
        desk = Desk(self.world, name, TOPIC, lane, f"{why}; transactional.id={name}")
        self.desks[name] = self.world.start(name, desk), desk

    def _start_ledger(self) -> None:
        settings = {"isolation.level": self.level, "fetch.max.wait.ms": 500}
        self.worker = Worker(self.world, GROUP, self.reading, settings, _LEDGER_PER_S, on_record=self.book.note)
        self._ledger_host = self.world.start(GROUP, self.worker)

    def _stop_ledger(self) -> None:
        self.worker.is_leaving = True
        self._ledger_host.act(lambda: None)
        limit_us = self.world.scheduler.now_us + 10_000 * US_PER_MS
        while not self.worker.has_left and self.world.scheduler.now_us < limit_us:
            self.world.scheduler.run_next()
        self._ledger_host.crash()

    def own_verbs(self) -> list[Verb]:
        return [
            Verb("log NAME", "the last lines of a desk's log", self._log),
            Verb("restart-desk NAME", "stop a desk and start it with the same id", self._restart),
            Verb("set-ledger isolation.level=LEVEL", "restart the ledger with this level", self._set),
        ]

    def _named(self, words: Sequence[str]) -> Desk:
        if len(words) != 1 or words[0] not in self.desks:
            raise ValueError(f"say which desk: {', '.join(self.desks)}")
        desk = self.desks[words[0]][1]
        if desk.is_frozen:
            raise ValueError(f"the machine of {desk.name} does not answer")
        return desk

    def _log(self, words: list[str]) -> str:
        return "\n".join(in_time_of_page(self._named(words).log(), self.paged_ms))

    def _restart(self, words: list[str]) -> str:
        desk = self._named(words)
        self.desks[desk.name][0].crash()
        self._start_desk(desk.name, desk.lane)
        return f"{desk.name} is starting, with transactional.id={desk.name}"

    def _set(self, words: list[str]) -> str:
        name, _, value = (words[0] if len(words) == 1 else "").partition("=")
        if name != "isolation.level" or value not in _LEVELS:
            raise ValueError(f"say isolation.level={' or isolation.level='.join(_LEVELS)}")
        self.level = value
        self._stop_ledger()
        self._start_ledger()
        return f"the ledger restarts with isolation.level={value}"

    # --- the judge ----------------------------------------------------------------------------------------------------

    def _lag(self) -> int:
        return max(self.reading.lags().values(), default=0)

    def second(self) -> None:
        book, now_ms = self.book, self.world.now_ms
        flows = now_ms - book.last_settled_ms < 4_000 and self._lag() < _SMALL_LAG
        self._flows_s = self._flows_s + 1 if flows else 0
        if not self._is_back and self._flows_s >= _FLOWS_S:
            self._is_back, self._right_s = True, 0
            self.report("the machine of desk-2 answers again, and goes on where it stopped")
            host, zombie = self.desks["desk-2"]
            host.act(zombie.wake)
        is_right = (
            flows and now_ms - book.last_twice_ms > 5_000 and self.level == _LEVELS[0] and self.book.waiting < 100
        )
        self._right_s = self._right_s + 1 if is_right else 0

    def missing(self) -> str | None:
        if not self._is_back or self._right_s < _RIGHT_S:
            return "the ledger does not settle all payments in time"
        return None

    def is_lost(self) -> bool:
        return self.book.twice + self.book.half > 0

    # --- what is seen -------------------------------------------------------------------------------------------------

    def counters(self) -> tuple[Counter, ...]:
        book = self.book
        return (
            Counter("payments settled", book.settled),
            Counter("waiting", book.waiting, harm=True, usual=_SMALL_LAG),
            Counter("later than 20 s", book.late, harm=True),
            Counter("booked twice", book.twice, harm=True),
            Counter("booked on one side", book.half, harm=True),
        )

    def cards(self) -> list[Card]:
        found = []
        for name, (_, desk) in self.desks.items():
            quiet_s = (self.world.now_ms - desk.last_ms) // 1000
            backlog = desk.lane.placed - desk.lane.done
            row = Row("to book", backlog / 400, f"{backlog}", backlog > 100)
            if desk.is_frozen:
                found.append(Card(name, f"silent, {quiet_s} s", [], is_up=False))
            elif desk.is_done:
                found.append(Card(name, "closed", [], is_up=False))
            else:
                found.append(Card(name, f"booked {quiet_s} s ago", [row]))
        lags = self.reading.lags()
        rows = [
            Row(
                _NAMES[side],
                lags.get(side, 0) / _FULL_LAG,
                f"lag {lags.get(side, 0):,}",
                lags.get(side, 0) > _SMALL_LAG,
            )
            for side in SIDES
        ]
        return [*found, Card("ledger", self.level, rows)]
