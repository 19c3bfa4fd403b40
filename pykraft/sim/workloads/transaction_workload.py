"""Clients at work with transactions: tellers, copiers, and readers of committed data.

Each is a host with the cores that people use, and a *user*: a script (a generator) that does what a program does. A
`Teller` writes transfers to the bank: it begins a transaction, sends amounts to several partitions, and commits or
aborts. A `Copier` is a member of a group: it reads the bank's committed records and writes them to the copy, with its
offsets in the same transaction. A `CommittedReader` reads all partitions of a topic, and shows the ledger what it sees.

After an abortable error a user aborts and goes on. After a fatal one it ends: it has been fenced, or its transaction
has timed out. Its runner may begin another one in its place.
"""

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from random import Random
from typing import Any

from pykraft.client import config as keys
from pykraft.client.config import CONSUMER_CONFIG, client_config, consumer_config, producer_config
from pykraft.client.consuming.commits import OffsetAndMetadata
from pykraft.client.consuming.consumer import ConsumerCore
from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.client.errors import ClientTimeoutError, TransactionError, TransactionFatalError
from pykraft.client.producing.producer import Outgoing, ProducerCore
from pykraft.client.producing.transactions import TransactionManager
from pykraft.common.core import FOREVER, Poll, Promise, RequestManager, merge
from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicPartition
from pykraft.sim.laws.transaction_laws import BANK, COPY, Ledger, Outcome, Transfer
from pykraft.sim.world.encoders import encode

_ROOM_MS = 10
_IDLE_MS = 50
_PAUSE_MS = 5
_TAKE = 500

User = Generator[int, int, None]
"""What a user does. It yields when to go on at the latest; earlier if what it awaits is there."""
Step = Generator[int, int, KafkaError | None]
"""A part of that, which ends with an error or None."""


class TransactionalUser:
    """A program with a transactional producer. It is a RequestManager."""

    def __init__(
        self,
        transactional_id: str,
        settings: dict[str, object],
        bootstrap_servers: str,
        time_ms: Callable[[], int],
        random: Random,
    ) -> None:
        said = {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id, **settings}
        self.producer = ProducerCore(producer_config(said), random, encode)
        assert self.producer.transactions is not None
        self.transactions: TransactionManager = self.producer.transactions
        self._time_ms = time_ms
        self._random = random
        self._cores: list[RequestManager] = [self.producer]
        self._awaited: Promise[Any] | None = None
        self._user: User | None = self._use()
        self._next_at = next(self._user)
        self.error: TransactionFatalError | None = None
        """Why it has ended."""
        self.is_pausing = False
        """It begins no transaction."""
        self.is_idle = False
        """It is between two transactions."""
        self.nap_ms = 0
        """For this long its program does nothing after the next record that it sends."""
        self.naps_until = 0

    @property
    def is_done(self) -> bool:
        return self._user is None

    # --- the host's side ----------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        requests: list[Any] = []
        while True:
            self._advance(now)
            poll = merge([core.poll(now) for core in self._cores])
            requests += poll.requests
            if now < self._due_at():
                return Poll(min(poll.deadline, self._due_at()), requests)

    def _due_at(self) -> int:
        """When the user goes on."""
        if self._user is None:
            return FOREVER
        is_ready = self._awaited is not None and self._awaited.kept
        return max(self.naps_until, 0 if is_ready else self._next_at)

    def _advance(self, now: int) -> None:
        """Let the user go on, if it is time."""
        if now < self._due_at():
            return
        assert self._user is not None
        self._awaited = None
        try:
            self._next_at = self._user.send(now)
        except StopIteration:
            self._user = None

    # --- the user's side ----------------------------------------------------------------------------------------------

    def _use(self) -> User:
        now = yield 0
        error = yield from self._await(self.transactions.initialize())
        while error is None:
            self.is_idle = True
            now = yield from self._rest(now)
            if not self.is_pausing:
                self.is_idle = False
                error = yield from self._transact()
        assert isinstance(error, TransactionFatalError), f"a producer ends with {error!r}"
        self.error = error

    @abstractmethod
    def _rest(self, now: int) -> Generator[int, int, int]:
        """Wait until there is something to do, or until it may be asked to pause."""

    @abstractmethod
    def _transact(self) -> Step:
        """One transaction, to its end; what it returns is a fatal error."""

    def _await(self, promise: "Promise[KafkaError | None]") -> Step:
        """Until it is kept."""
        while not promise.kept:
            self._awaited = promise
            yield FOREVER
        return promise.value

    def _send(self, topic: str, partition: int, value: bytes) -> Generator[int, int, None]:
        """Hand over a record, once there is room. TransactionError: the transaction has failed."""
        now = yield 0
        record = Outgoing(topic, None, value, (), partition, self._time_ms())
        while self.producer.try_append(record, None, now) is not None:
            now = yield now + _ROOM_MS
        if self.nap_ms:
            self.naps_until, self.nap_ms = now + self.nap_ms, 0
            yield 0


class Teller(TransactionalUser):
    """Writes transfers between the partitions of the bank."""

    def __init__(
        self,
        name: str,
        transactional_id: str,
        settings: dict[str, object],
        bootstrap_servers: str,
        partitions: int,
        ledger: Ledger,
        time_ms: Callable[[], int],
        random: Random,
    ) -> None:
        """`name` is not that of another teller, whether or not they share a transactional id."""
        self.name = name
        self._partitions = partitions
        self._ledger = ledger
        self.transfer: Transfer | None = None
        """The one that it is about."""
        self.written = 0
        super().__init__(transactional_id, settings, bootstrap_servers, time_ms, random)

    def _rest(self, now: int) -> Generator[int, int, int]:
        return (yield now + self._random.choice((0, 0, 5, 50)) + _IDLE_MS * self.is_pausing)

    def _transact(self) -> Step:
        transfer = self.transfer = self._ledger.begin(self.name)
        is_commit = self._random.random() < 0.7
        error: KafkaError | None
        try:
            self.transactions.begin()
            yield from self._write(transfer)
            if is_commit:
                transfer.outcome = Outcome.ASKED
            error = yield from self._await(self.transactions.commit() if is_commit else self.transactions.abort())
        except TransactionError as raised:  # a record was refused because another had failed before
            error = raised
        if error is not None and not isinstance(error, TransactionFatalError):
            is_commit = False
            error = yield from self._await(self.transactions.abort())
        if error is None:
            transfer.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
        self.written += error is None
        return error

    def _write(self, transfer: Transfer) -> Generator[int, int, None]:
        amounts = [self._random.randint(-99, 99) for _ in range(self._random.choice((0, 1, 1, 3, 5)))]
        for amount in [*amounts, -sum(amounts)] if amounts else ():
            value = self._ledger.write(transfer, amount)
            yield from self._send(BANK, self._random.randrange(self._partitions), value)


class Copier(TransactionalUser):
    """A member of a group that copies the bank, exactly once."""

    def __init__(
        self,
        transactional_id: str,
        settings: dict[str, object],
        consumer_settings: dict[str, object],
        bootstrap_servers: str,
        time_ms: Callable[[], int],
        random: Random,
    ) -> None:
        """`consumer_settings` name the group."""
        said = {
            **consumer_settings,
            "bootstrap.servers": bootstrap_servers,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self.consumer = ConsumerCore(consumer_config(said), random)
        self.consumer.subscribe([BANK])
        self._limit: int = self.consumer.config[keys.MAX_POLL_RECORDS]
        self._taken: Sequence[FetchedRecord] = ()
        self._soonest = 0
        super().__init__(transactional_id, settings, bootstrap_servers, time_ms, random)
        self._cores.append(self.consumer)

    def _due_at(self) -> int:
        """Earlier if there is something to read."""
        latest = super()._due_at()
        is_early = self.is_idle and self.consumer.has_news and latest < FOREVER
        return max(self.naps_until, min(latest, self._soonest)) if is_early else latest

    def _rest(self, now: int) -> Generator[int, int, int]:
        self._soonest = now + _PAUSE_MS
        now = yield now + _IDLE_MS
        while self.consumer.advance(now) is not None:
            pass
        try:
            self._taken = self.consumer.take(self._limit)
        except ClientTimeoutError:
            self._taken = ()  # no broker has answered for this long: a program would poll again
        return now

    def _transact(self) -> Step:
        if not self._taken:
            return None
        group = self.consumer.group
        assert group is not None
        held_as, taken = group.held_as, self._taken
        offsets = {each.topic_partition: OffsetAndMetadata(each.record.offset + 1) for each in taken}
        error: KafkaError | None
        try:
            self.transactions.begin()
            for each in taken:
                yield from self._send(COPY, each.topic_partition.partition, bytes(each.record.value or b""))
            error = yield from self._await(self.transactions.send_offsets(offsets, held_as))
            if error is None:
                error = yield from self._await(self.transactions.commit())
        except TransactionError as raised:
            error = raised
        if error is not None and not isinstance(error, TransactionFatalError):
            error = yield from self._await(self.transactions.abort())
            if error is None:
                self._go_back(taken)
        return error

    def catch_up(self) -> None:
        """Copy as much as there is in one transaction: with few records in each it would take long."""
        self._limit = _TAKE

    def _go_back(self, taken: Sequence[FetchedRecord]) -> None:
        """What was taken is to be copied after all."""
        for each in reversed(taken):
            if each.topic_partition in self.consumer.subscription.partitions:
                self.consumer.seek(each.topic_partition, each.record.offset)


class CommittedReader:
    """A consumer that reads the committed records of all partitions from their beginning. It is a RequestManager."""

    def __init__(
        self,
        settings: dict[str, object],
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        on_record: Callable[[TopicPartition, bytes], None],
        random: Random,
    ) -> None:
        said = {**settings, "bootstrap.servers": bootstrap_servers, "isolation.level": "read_committed"}
        self._core = ConsumerCore(client_config(CONSUMER_CONFIG, {**said, "auto.offset.reset": "earliest"}), random)
        self._core.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        self._on_record = on_record
        self.count = 0
        """How many records it has read."""

    def poll(self, now: int) -> Poll:
        for fetched in self._core.take(_TAKE):
            self.count += 1
            self._on_record(fetched.topic_partition, bytes(fetched.record.value or b""))
        poll = self._core.poll(now)
        return Poll(now, poll.requests) if self._core.has_news else poll
