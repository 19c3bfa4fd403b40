"""Incident 4: a group rebalances for ever, for a full poll takes its members longer than they may be away.

READING ON SPOILS THE INCIDENT.

A mailer polls at most 500 invoices, and sends 25 mails a second. By day a poll returns a handful. After the run of the
night there is a backlog, so a poll returns 500: 20 s of work. But ``max.poll.interval.ms`` is 10 s. After 10 s the
consumer leaves its group, for its program seems to hang, and the coordinator gives its partitions to another mailer.
That one begins at the committed offset, with the same 500. The first one sends on meanwhile, and its commit is refused
in the end. So all invoices of the backlog are sent again and again, none is ever committed, and the backlog that keeps
the polls full never shrinks. The load was never too high: three mailers send 75 a second, and 6 a second come in.

The second blow: when the backlog is gone, there is another run, and the machine of the busiest mailer stops.
"""

from collections.abc import Sequence
from typing import ClassVar

from pykraft.course.incidents.drawing import Card, Row
from pykraft.course.incidents.incident import Counter, Incident, Script, WrongCure, in_time_of_page
from pykraft.course.incidents.mailers import AFTER, BEFORE, Mailer, Mails
from pykraft.course.incidents.programs import Orderer
from pykraft.course.incidents.readers import Reading
from pykraft.course.incidents.terminal import Verb
from pykraft.course.incidents.world import World
from pykraft.sim.world.client_hosts import SimulatedClient
from pykraft.sim.world.scheduler import US_PER_MS

TOPIC, PARTITIONS, GROUP = "invoices", 6, "mailer"
_PER_S, _RUN, _SECOND_RUN = 6, 4_200, 1_800
_MEMBERS, _MOST_MEMBERS = 3, 6
_SMALL, _RIGHT_S, _DARK_MS, _STRIKE_MS = 60, 20, 15_000, 4_000
_JOINS_MS = 3_000
"""A mailer that has just started is not in the group yet."""
_LATEST = {"auto.offset.reset": ("earliest", "latest"), "commit": (AFTER, BEFORE)}
_RANGES = {"max.poll.records": (1, 2_000), "max.poll.interval.ms": (1_000, 600_000)}
_PRODUCER = {"linger.ms": 500, "batch.size": 100_000}


class EndlessRebalance(Incident):
    NUMBER, TITLE = 4, "Invoices come again and again"
    TOPICS = (TOPIC,)
    LOSS = "mails are missing, or too many"
    PAGER = (
        "SEV 1 · invoices: since the run of the night customers get the same invoice again and again, and new invoices "
        "wait. The mailers run, the mail server is fine (40 ms a mail). Restarting all mailers did not help."
    )
    CURE: ClassVar[Script] = (
        (10, "kafka-consumer-groups --describe --group mailer --state --verbose"),
        (15, "kafka-consumer-groups --describe --group mailer --members"),
        (20, "kafka-consumer-groups --describe --group mailer"),
        (25, "log mailer-1"),
        (30, "metrics mailer-1"),
        (35, "settings"),
        (45, "set-mailers max.poll.records=100"),
    )
    WRONG = (
        WrongCure(
            "commit before the mails are sent",
            ((10, "set-mailers commit=before"),),
            "Soon no invoice is sent again, and the lag is gone. Then a mailer's machine stops, and what it had "
            "committed and not sent is never sent.",
        ),
        WrongCure(
            "delete the group and start again",
            (
                *((10.0 + number, f"stop-mailer mailer-{number}") for number in range(1, _MEMBERS + 1)),
                (15, "kafka-consumer-groups --delete --group mailer"),
                *((20.0 + number, "start-mailer") for number in range(_MEMBERS)),
            ),
            "The group's offsets go with it. The new one begins at the start of the log, with invoices that were paid "
            "long ago, and its polls are as full as before.",
        ),
    )
    STORY = (
        "A mailer polled up to 500 invoices and needed 40 ms for each: 20 s. `max.poll.interval.ms` was 10 s. So it "
        "left the group in the middle of its work, and its partitions went to another mailer, which began at the "
        "committed offset with the same invoices. The first one sent on, and its commit was refused.",
        "By day a poll returns a handful of records, so it was never seen. The run of the night brought 4,200 at once. "
        "From then on each poll was full, none was committed, and the backlog stayed: the group could not get out by "
        "itself. Three mailers send 75 a second, and 6 a second come in.",
        "The cure is a smaller poll: `max.poll.records=100` is 4 s of work. A longer `max.poll.interval.ms` cures it, "
        "too, but then a mailer that hangs keeps its partitions for longer. When a mailer's machine stops, the "
        "invoices of its last poll are sent twice: at least once is what a commit after the work can promise. The "
        "smaller the poll, the fewer they are.",
    )
    SHOWN_BY = (
        (
            "kafka-consumer-groups --describe --group mailer --state --verbose",
            "at each look a larger group epoch, and another number of members",
        ),
        ("kafka-consumer-groups --describe --group mailer", "the current offsets do not move at all"),
        ("log mailer-1", "500 records, then `max.poll.interval.ms` is over, then the commit is refused"),
        ("metrics mailer-1", "time-between-poll-max is twice the setting"),
        ("settings", "500 records of 40 ms each are more than 10,000 ms"),
    )

    def build(self) -> World:
        own = {
            "offsets.topic.replication.factor": 1,
            "group.consumer.min.session.timeout.ms": 6_000,
            "group.consumer.session.timeout.ms": 6_000,
            "group.consumer.min.heartbeat.interval.ms": 1_000,
            "group.consumer.heartbeat.interval.ms": 1_000,
        }
        return World(self.seed, brokers=1, properties=own)

    def prepare(self) -> None:
        world = self.world
        world.run_to(4_000)
        self.terminal.run(f"kafka-topics --create --topic {TOPIC} --partitions {PARTITIONS} --replication-factor 1")
        self.settings: dict[str, object] = {
            "max.poll.records": 500, "max.poll.interval.ms": 10_000, "auto.offset.reset": "earliest", "commit": AFTER,
        }  # fmt: skip
        self.mails = Mails(world, Reading(world, TOPIC, GROUP), PARTITIONS)
        self.mailers: dict[str, tuple[SimulatedClient, Mailer]] = {}
        self._made = 0
        for _ in range(_MEMBERS):
            self._start()
        self.billing = Orderer(world, TOPIC, PARTITIONS, _PER_S, _PRODUCER)
        self._billing_host = world.start("billing", self.billing)
        world.run_to(world.now_ms + 60_000)
        self.mails.settle()
        self._bill(_RUN)
        world.run_to(world.now_ms + 45_000)
        self._right_s = 0
        self._struck_ms: int | None = None
        self._is_dark = False

    def _bill(self, invoices: int) -> None:
        """A run: this many invoices at once."""

        def place() -> None:
            for _ in range(invoices):
                self.billing.place(self.world.now_ms)

        self._billing_host.act(place)

    # --- its mailers --------------------------------------------------------------------------------------------------

    def own_verbs(self) -> list[Verb]:
        return [
            Verb("log NAME", "the last lines of a mailer's log", self._log),
            Verb("metrics NAME", "a mailer's metrics", self._metrics),
            Verb("settings", "the settings of all mailers", self._show),
            Verb("set-mailers NAME=VALUE", "change a setting; all mailers restart with it", self._set),
            Verb("start-mailer", "start one more mailer", self._start_one),
            Verb("stop-mailer NAME", "stop a mailer after the mail that it is sending", self._stop_one),
        ]

    def _named(self, words: Sequence[str]) -> Mailer:
        if len(words) != 1 or words[0] not in self.mailers:
            raise ValueError(f"say which mailer: {', '.join(self.mailers) or 'none runs'}")
        return self.mailers[words[0]][1]

    def _log(self, words: list[str]) -> str:
        return "\n".join(in_time_of_page(list(self._named(words).log), self.paged_ms))

    def _metrics(self, words: list[str]) -> str:
        mailer = self._named(words)
        return "\n".join(
            f"{name:<24}{value}"
            for name, value in (
                ("last-poll-seconds-ago", mailer.idle_ms // 1000),
                ("time-between-poll-max", f"{mailer.longest_ms:,} ms"),
                ("records in hand", len(mailer.hand)),
                ("rebalance-total", mailer.rebalances),
                ("commits refused", mailer.refusals),
            )
        )

    def _show(self, words: list[str]) -> str:
        if words:
            raise ValueError("settings takes no words: all mailers have the same")
        return "\n".join(f"{name}={value}" for name, value in self.settings.items())

    def _set(self, words: list[str]) -> str:
        name, _, value = (words[0] if len(words) == 1 else "").partition("=")
        if name in _RANGES:
            low, high = _RANGES[name]
            if not value.isdigit() or not low <= int(value) <= high:
                raise ValueError(f"{name} is {value}, but must be {low} to {high}")
            self.settings[name] = int(value)
        elif name in _LATEST:
            if value not in _LATEST[name]:
                raise ValueError(f"{name} is {value}, but must be {' or '.join(_LATEST[name])}")
            self.settings[name] = value
        else:
            raise ValueError(f"say one setting as NAME=VALUE: {', '.join(self.settings)}")
        again = len(self.mailers)
        for each in list(self.mailers):
            self._stop(each)
        for _ in range(again):
            self._start()
        return f"{again} mailers restart with {name}={value}: {', '.join(self.mailers)}"

    def _start_one(self, words: list[str]) -> str:
        if words:
            raise ValueError("start-mailer takes no words: it names the mailer itself")
        if len(self.mailers) >= _MOST_MEMBERS:
            raise ValueError(f"there are {_MOST_MEMBERS} mailers, and no room for more")
        return f"{self._start()} is starting"

    def _stop_one(self, words: list[str]) -> str:
        name = self._named(words).name
        self._stop(name)
        return f"{name} has left the group"

    def _start(self) -> str:
        self._made += 1
        name = f"{GROUP}-{self._made}"
        settings = {key: value for key, value in self.settings.items() if key != "commit"}
        settings |= {"group.id": GROUP, "fetch.max.wait.ms": 1_000}
        mailer = Mailer(self.world, name, TOPIC, self.mails, settings, str(self.settings["commit"]))
        self.mailers[name] = self.world.start(name, mailer), mailer
        return name

    def _stop(self, name: str) -> None:
        host, mailer = self.mailers.pop(name)
        mailer.is_leaving = True
        host.act(lambda: None)
        limit_us = self.world.scheduler.now_us + 10_000 * US_PER_MS
        while not mailer.has_left and self.world.scheduler.now_us < limit_us:
            self.world.scheduler.run_next()
        host.crash()

    # --- the judge ----------------------------------------------------------------------------------------------------

    def second(self) -> None:
        is_calm = self.world.now_ms - self.mails.last_again_ms > 1_500
        is_right = bool(self.mailers) and is_calm and self.mails.waiting() < _SMALL and not self._is_dark
        self._right_s = self._right_s + 1 if is_right else 0
        if self._struck_ms is None and self._right_s >= 5:
            self._struck_ms, self._right_s, self._is_dark = self.world.now_ms, 0, True
            self.report(f"a second run of the night: {_SECOND_RUN:,} invoices at once")
            self._bill(_SECOND_RUN)
            self.world.after(_STRIKE_MS, self._strike)

    def _strike(self) -> None:
        """The machine of the busiest mailer stops; the mailer starts on another one."""
        if not self.mailers:
            self._is_dark = False
            return
        name = max(self.mailers, key=lambda each: len(self.mailers[each][1].hand))
        self.mailers.pop(name)[0].crash()
        self.report(f"the machine of {name} has stopped")

        def replace() -> None:
            self._is_dark = False
            if len(self.mailers) < _MOST_MEMBERS:
                self.report(f"{self._start()} starts in its place")

        self.world.after(_DARK_MS, replace)

    def missing(self) -> str | None:
        if self._struck_ms is None or self._right_s < _RIGHT_S:
            return "invoices are sent again, or wait"
        return None

    def is_lost(self) -> bool:
        return self._never() + self.mails.old_again > 0

    # --- what is seen -------------------------------------------------------------------------------------------------

    def _never(self) -> int:
        return self.mails.never({place for _, mailer in self.mailers.values() for place in mailer.hand})

    def counters(self) -> tuple[Counter, ...]:
        mails = self.mails
        return (
            Counter("invoices sent", mails.sent),
            Counter("waiting", mails.waiting(), harm=True, usual=_SMALL),
            Counter("sent again", mails.again, harm=True),
            Counter("old ones sent again", mails.old_again, harm=True),
            Counter("never sent", self._never(), harm=True),
        )

    def cards(self) -> list[Card]:
        found = []
        for name, (_, mailer) in self.mailers.items():
            owned = ", ".join(map(str, mailer.partitions)) if mailer.is_member else ""
            is_away = not mailer.is_member
            warns = is_away and mailer.idle_ms > _JOINS_MS
            rows = [
                Row("since its last poll", mailer.idle_ms / 20_000, f"{mailer.idle_ms / 1000:.0f} s", warns),
                Row("mails still to send", len(mailer.hand) / 500, f"{len(mailer.hand)}"),
            ]
            found.append(Card(name, "not in the group" if is_away else f"owns {owned or 'nothing'}", rows))
        return found or [Card("no mailer runs", "", [], is_up=False)]
