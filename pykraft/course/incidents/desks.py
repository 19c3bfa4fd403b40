"""The programs of incident 5: a `Desk` books payments in transactions, a `Lane` hands them out, a `Book` checks.

A payment is two records of one transaction: a debit in partition 0 and a credit in partition 1. A desk takes the
payments of its lane in order, and tells the lane what it has committed. A desk that starts goes on where the lane knows
that the last one has committed; one that runs goes on where it is itself.
"""

from collections import Counter, deque
from collections.abc import Generator, Sequence

from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.client.errors import TransactionError, TransactionFatalError
from pykraft.client.producing.producer import Outgoing
from pykraft.common.core import FOREVER
from pykraft.common.errors import KafkaError
from pykraft.course.incidents.world import World
from pykraft.sim.workloads.transaction_workload import Step, TransactionalUser

SIDES = DEBIT, CREDIT = 0, 1
"""The partitions."""
_MOST, _ROOM_MS = 25, 10
_PAUSE_MS, _WORK_MS = 2_000, 300
_REFUSED_EVERY = 4
"""Of this many transactions one has a payment that is refused: it is aborted, and done again without that payment."""
_LOG_LINES = 8


class Lane:
    """The payments of one half of the customers, in order. One comes every `every_ms`."""

    def __init__(self, world: World, first: int, every_ms: float) -> None:
        self._world, self._first, self._every_ms = world, first, every_ms
        self._since_ms = world.now_ms
        self.done = 0
        """How many of them are committed, as its desk has said."""

    @property
    def placed(self) -> int:
        return self.placed_by(self._world.now_ms)

    def placed_by(self, ms: int) -> int:
        return max(0, int((ms - self._since_ms) / self._every_ms))

    def placed_ms(self, payment: int) -> float:
        """When a payment of this lane came."""
        return self._since_ms + (payment // 2 + 1) * self._every_ms

    def payments(self, start: int) -> list[int]:
        """The next ones for a desk that has got this far."""
        return [self._first + 2 * number for number in range(start, min(self.placed, start + _MOST))]


class Desk(TransactionalUser):
    """A producer that books the payments of a lane."""

    def __init__(self, world: World, name: str, topic: str, lane: Lane, begins: str) -> None:
        """`begins` is the first line of its log."""
        settings: dict[str, object] = {"client.id": name, "transaction.timeout.ms": 3_600_000}
        self.name, self._world, self._topic, self.lane = name, world, topic, lane
        self._at = lane.done
        self._count = 0
        self._began = world.now_ms, begins
        self._said: deque[tuple[int, str]] = deque(maxlen=_LOG_LINES)
        self.last_ms = world.now_ms
        """When it has ended a transaction last."""
        self.stops_in_next = False
        self.is_frozen = False
        """Its machine has stopped between the last record of a transaction and the commit."""
        super().__init__(name, settings, world.servers, lambda: world.time_ms, world.chance(name))

    def log(self) -> list[tuple[int, str]]:
        """How it began, and what it did last; each with its millisecond."""
        return [self._began, *self._said]

    def _say(self, text: str) -> None:
        self._said.append((self._world.now_ms, text))

    def wake(self) -> None:
        self.naps_until, self.is_frozen = 0, False

    def _rest(self, now: int) -> Generator[int, int, int]:
        return (yield now + _PAUSE_MS)

    def _transact(self) -> Step:
        payments = self.lane.payments(self._at)
        if not payments:
            return None
        self._count += 1
        is_refused = self._count % _REFUSED_EVERY == 0
        error: KafkaError | None
        try:
            self.transactions.begin()
            yield from self._write(payments)
            error = yield from self._await(self.transactions.abort() if is_refused else self.transactions.commit())
        except TransactionError as raised:
            is_refused, error = True, raised
            if not isinstance(raised, TransactionFatalError):
                error = yield from self._await(self.transactions.abort())
        return self._note(payments, is_refused, error)

    def _write(self, payments: list[int]) -> Generator[int, int, None]:
        now = yield 0
        for payment in payments:
            for side in SIDES:
                record = Outgoing(self._topic, None, b"%d" % payment, (), side, self._world.time_ms)
                while self.producer.try_append(record, None, now) is not None:
                    now = yield now + _ROOM_MS
        if self.stops_in_next:
            self.stops_in_next, self.is_frozen, self.naps_until = False, True, FOREVER
        yield now + _WORK_MS

    def _note(self, payments: list[int], is_aborted: bool, error: KafkaError | None) -> KafkaError | None:
        """What has become of a transaction."""
        about = f"{len(payments)} payments"
        if error is not None:
            self._say(f"{about}: {error.code.name}: {error.detail or error.code.text}")
            self._say("the producer is closed")
        elif is_aborted:
            self._say(f"{about}: one has no cover, all are aborted and come again")
        else:
            self._say(f"{about} are committed")
            self._at += len(payments)
            self.lane.done = max(self.lane.done, self._at)
        self.last_ms = self._world.now_ms
        return error


class Book:
    """What the ledger has read of the payments: both sides, one side, or a side more than once."""

    def __init__(self, world: World, lanes: Sequence[Lane], late_ms: int, half_ms: int) -> None:
        self._world, self._lanes, self._late_ms, self._half_ms = world, lanes, late_ms, half_ms
        self._sides: tuple[Counter[int], Counter[int]] = Counter(), Counter()
        self._single: dict[int, int] = {}
        """Payments of which one side has come, and when."""
        self.settled = self.twice = self._settled_late = 0
        self.last_settled_ms = self.last_twice_ms = 0

    def note(self, fetched: FetchedRecord) -> None:
        side, payment = fetched.topic_partition.partition, int(fetched.record.value or b"0")
        now_ms = self._world.now_ms
        self._sides[side][payment] += 1
        if self._sides[side][payment] > 1:
            self.twice += side == DEBIT
            self.last_twice_ms = now_ms
        elif self._sides[1 - side][payment]:
            self._single.pop(payment, None)
            self.settled += 1
            self.last_settled_ms = now_ms
            lane = self._lanes[payment % 2]
            self._settled_late += now_ms - lane.placed_ms(payment) > self._late_ms
        else:
            self._single[payment] = now_ms

    @property
    def waiting(self) -> int:
        return sum(lane.placed for lane in self._lanes) - self.settled

    @property
    def late(self) -> int:
        """Payments that were settled too late, or wait too long already."""
        due_ms = self._world.now_ms - self._late_ms
        due = sum(lane.placed_by(due_ms) for lane in self._lanes)
        return self._settled_late + max(0, due - self.settled)

    @property
    def half(self) -> int:
        """Payments of which the ledger has had one side only, for too long."""
        return sum(self._world.now_ms - since > self._half_ms for since in self._single.values())
