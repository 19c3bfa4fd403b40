"""The programs of incident 4: a `Mailer` is a member of a consumer group that sends a mail for each record.

A mailer polls, sends a mail for each record that the poll returned, and polls again: that poll commits what was sent.
`Mails` knows of each record how often a mail was sent, and which records no mailer will ever send. A mailer writes a
log and counts metrics, as Kafka's consumer does.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Generator, Mapping
from typing import NamedTuple

from pykraft.client.config import MAX_POLL_INTERVAL_MS, MAX_POLL_RECORDS, consumer_config
from pykraft.client.consuming.consumer import ConsumerCore
from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.client.consuming.group_part import GroupPart
from pykraft.client.consuming.heartbeats import ConsumerMembership, MembershipState
from pykraft.common.core import FOREVER, Poll
from pykraft.common.errors import KafkaError
from pykraft.course.incidents.readers import Reading
from pykraft.course.incidents.world import World

MS_PER_MAIL = 40
_SLICE = 10
"""This many mails are one step of the program."""
_SHORT_MS, _IDLE_MS, _CLOSE_MS = 5, 1_000, 5_000
_LOG_LINES = 14
BEFORE, AFTER = "before", "after"
Places = set[tuple[int, int]]
"""Records, each by partition and offset."""


class Mails:
    """What became of the records of a topic: a mail for each, more than one, or none."""

    def __init__(self, world: World, reading: Reading, partitions: int) -> None:
        self._world, self._reading, self._partitions = world, reading, partitions
        self._sent: Counter[tuple[int, int]] = Counter()
        self.again = self.old_again = 0
        """Mails for records that had one already; and those of them that were settled before `settle`."""
        self.last_again_ms = 0
        self._settled: Mapping[int, int] = {}
        self._looked: dict[int, int] = defaultdict(int)
        self._skipped: Places = set()

    def send(self, record: FetchedRecord) -> None:
        place = record.topic_partition.partition, record.record.offset
        if self._sent[place]:
            self.again += 1
            self.old_again += place[1] < self._settled.get(place[0], 0)
            self.last_again_ms = self._world.now_ms
        self._sent[place] += 1

    @property
    def sent(self) -> int:
        """Records that have had a mail."""
        return len(self._sent)

    def settle(self) -> None:
        """A mail for what is committed now would be one for an old record."""
        self._settled = dict(self._reading.committed())

    def waiting(self) -> int:
        """Records without a mail."""
        return self.ends() - self.sent

    def ends(self) -> int:
        leaders = (self._world.leader(self._reading.topic, number) for number in range(self._partitions))
        return sum(leader.log.high_watermark for leader in leaders if leader is not None)

    def never(self, held: Places) -> int:
        """Records that the group has committed and no mailer has sent, nor holds."""
        for number, offset in self._reading.committed().items():
            self._skipped |= {(number, each) for each in range(self._looked[number], offset)}
            self._looked[number] = max(offset, self._looked[number])
        self._skipped = {place for place in self._skipped if not self._sent[place]}
        return len(self._skipped - held)


class Said(NamedTuple):
    """A line of a mailer's log."""

    ms: int
    text: str


class Mailer:
    """A consumer and its program. It is a RequestManager."""

    def __init__(
        self, world: World, name: str, topic: str, mails: Mails, settings: Mapping[str, object], commits: str
    ) -> None:
        """`commits` is when a mailer commits: `AFTER` it has sent its mails, or `BEFORE`."""
        given = {"bootstrap.servers": world.servers, "client.id": name, "group.protocol": "consumer", **settings}
        self.name, self._world, self._mails, self._commits = name, world, mails, commits
        self.config = consumer_config(given)
        self._core = ConsumerCore(self.config, world.chance(name))
        self._core.subscribe([topic])
        group = self._core.group
        assert group is not None and isinstance(group.membership, ConsumerMembership)
        self._group: GroupPart = group
        self._membership = group.membership
        self._state = self._membership.state
        self.log: deque[Said] = deque(maxlen=_LOG_LINES)
        self._polled_ms = world.now_ms
        self.longest_ms = self.rebalances = self.refusals = 0
        """The longest time between two polls; how often its assignment changed; how many commits were refused."""
        self.hand: Places = set()
        """Records that it has polled, and has not sent."""
        self.is_leaving = self.has_left = False
        self._program = self._run()
        self._wait = next(self._program)

    @property
    def partitions(self) -> list[int]:
        """What it owns, as far as it knows."""
        return sorted(key.partition for key in self._core.subscription.partitions)

    @property
    def is_member(self) -> bool:
        """It is one to the coordinator: it has an epoch."""
        return self._membership.epoch > 0

    @property
    def idle_ms(self) -> int:
        """Since its last poll."""
        return self._world.now_ms - self._polled_ms

    def poll(self, now: int) -> Poll:
        if now >= self._next_at():
            self._wait = self._program.send(now)
        poll = self._core.poll(now)
        self._note_state()
        return Poll(min(poll.deadline, self._next_at()), poll.requests)

    def _next_at(self) -> int:
        soonest, latest = self._wait
        return soonest if self._core.has_news or self.is_leaving else latest

    def _say(self, text: str) -> None:
        self.log.append(Said(self._world.now_ms, text))

    def _note_state(self) -> None:
        state, before = self._membership.state, self._state
        self._state = state
        if state is before:
            return
        if state is MembershipState.STALE:
            limit_ms = self.config[MAX_POLL_INTERVAL_MS]
            self._say(f"poll() was not called for max.poll.interval.ms={limit_ms}: leaving the group")
        elif state is MembershipState.JOINING:
            self._say("joining the group")
        elif state is MembershipState.FENCED:
            self._say("removed from the group by its coordinator")

    # --- the program --------------------------------------------------------------------------------------------------

    def _run(self) -> Generator[tuple[int, int], int, None]:
        """It yields (a, b): it goes on at `a` if there is news, at `b` at the latest."""
        now = yield 0, 0
        while not self.is_leaving:
            taken = self._take(now)
            if not taken:
                now = yield now + _SHORT_MS, now + _IDLE_MS
                continue
            for start in range(0, len(taken), _SLICE):
                mails = taken[start : start + _SLICE]
                now = yield now + MS_PER_MAIL * len(mails), now + MS_PER_MAIL * len(mails)
                if self.is_leaving:
                    break
                for record in mails:
                    self._mails.send(record)
                    self.hand.discard(_place(record))
        self.hand.clear()
        self._group.depart()
        left = self._group.leave("the consumer is closed", now + _CLOSE_MS)
        while not left.kept:
            now = yield now + _SHORT_MS, now + _SHORT_MS
        self._core.unsubscribe()
        self.has_left = True
        while True:
            yield FOREVER, FOREVER

    def _take(self, now: int) -> list[FetchedRecord]:
        """One poll of the program."""
        self.longest_ms = max(self.longest_ms, now - self._polled_ms)
        self._polled_ms = now
        while (call := self._core.advance(now)) is not None:
            self.rebalances += 1
            names = ", ".join(str(key.partition) for key in call.partitions) or "none"
            self._say(f"{call.method}: partitions {names}")
        for on_commit, offsets, error in self._group.commits.take_completed():
            on_commit(offsets, error)
            if error is not None:
                self.refusals += 1
                reason = error.code.name if isinstance(error, KafkaError) else str(error)
                self._say(f"the commit of {len(offsets)} partitions was refused: {reason}")
        taken = self._core.take(self.config[MAX_POLL_RECORDS])
        if taken:
            self.hand = set(map(_place, taken))
            self._say(f"poll() returned {len(taken)} records")
            if self._commits == BEFORE:
                self._group.commits.commit_async(self._group.commits.consumed(), lambda *_: None, now)
        return taken


def _place(record: FetchedRecord) -> tuple[int, int]:
    return record.topic_partition.partition, record.record.offset
