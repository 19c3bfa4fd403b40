"""A transactional producer at work, and a reader of committed data that checks it.

The writer is the producer core that people use, with a *user*: a script (a generator) that does what a program with a
`Producer` does. It begins a transaction, sends numbered records to several partitions, and commits or aborts. After an
abortable error it aborts; after a fatal one it begins again with a new core under the same transactional id.

The writer notes what became of each transaction: committed, aborted, or *unknown*, if the producer failed while it was
being committed. A reader of committed data must see, in each partition, what was committed, in order, and nothing that
was aborted; of an unknown transaction all or nothing.
"""

from collections.abc import Callable, Generator
from random import Random
from typing import Any

from pykraft.client.config import CONSUMER_CONFIG, client_config, producer_config
from pykraft.client.consumer import ConsumerCore
from pykraft.client.errors import TransactionError, TransactionFatalError
from pykraft.client.producer import Outgoing, ProducerCore
from pykraft.client.transactions import TransactionManager
from pykraft.common.core import FOREVER, Poll, Promise
from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicPartition

_ROOM_MS = 10
_TAKE = 500

User = Generator[int, int, None]
"""What a writer's user does. It yields when to go on at the latest, or earlier if what it awaits is there."""


class TransactionalWriter:
    """A producer that writes transactions of its own accord. It is a RequestManager."""

    def __init__(
        self,
        transactional_id: str,
        settings: dict[str, object],
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        transactions: int,
        time_ms: Callable[[], int],
        random: Random,
    ) -> None:
        """It writes so many `transactions`, committed or not."""
        self._config = producer_config(
            {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id, **settings}
        )
        self._topic = topic
        self._partitions = partitions
        self._transactions = transactions
        self._time_ms = time_ms
        self._random = random
        self._begin_again()
        self.committed: list[tuple[TopicPartition, bytes]] = []
        self.aborted: list[tuple[TopicPartition, bytes]] = []
        self.unknown: list[list[tuple[TopicPartition, bytes]]] = []
        self.fatal_errors: list[TransactionFatalError] = []
        self._user: User | None = self._use()
        self._next_at = next(self._user)
        self._awaited: Promise[Any] | None = None

    def _begin_again(self) -> None:
        self._core = ProducerCore(self._config, self._random)
        assert self._core.transactions is not None
        self._manager: TransactionManager = self._core.transactions

    @property
    def is_done(self) -> bool:
        """All transactions are written."""
        return self._user is None

    # --- the host's side ----------------------------------------------------------------------------------------------

    def poll(self, now: int) -> Poll:
        requests: list[Any] = []
        deadline = FOREVER
        is_going_on = True
        while is_going_on:
            self._advance(now)
            poll = self._core.poll(now)
            requests += poll.requests
            deadline = poll.deadline
            is_going_on = self._is_due(now)
        return Poll(min(deadline, self._next_at) if self._user is not None else deadline, requests)

    def _is_due(self, now: int) -> bool:
        if self._user is None:
            return False
        return now >= self._next_at or (self._awaited is not None and self._awaited.kept)

    def _advance(self, now: int) -> None:
        """Let the user go on, if it is time."""
        if not self._is_due(now):
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
        now = yield from self._initialize(now)
        for number in range(self._transactions):
            now = yield from self._transact(number, now)
            now = yield now + self._random.choice((0, 0, 5, 50))

    def _initialize(self, now: int) -> Generator[int, int, int]:
        """Until it succeeds: the producer that comes later is the one that goes on."""
        while True:
            now, error = yield from self._await(self._manager.initialize(), now)
            if error is None:
                return now
            if isinstance(error, TransactionFatalError):
                self.fatal_errors.append(error)
                self._begin_again()

    def _transact(self, number: int, now: int) -> Generator[int, int, int]:
        """One transaction, to its end."""
        written: list[tuple[TopicPartition, bytes]] = []
        is_commit = self._random.random() < 0.7
        is_asked = False
        error: KafkaError | None
        try:
            self._manager.begin()
            now = yield from self._write(number, written, now)
            is_asked = is_commit
            now, error = yield from self._await(self._manager.commit() if is_commit else self._manager.abort(), now)
        except TransactionError as raised:  # a record was refused because another had failed before
            error = raised
        if error is None:
            (self.committed if is_commit else self.aborted).extend(written)
            return now
        if not isinstance(error, TransactionFatalError):
            now, error = yield from self._await(self._manager.abort(), now)
            if error is None:
                self.aborted += written
                return now
            is_asked = False
        if is_asked:
            self.unknown.append(written)
        else:
            self.aborted += written
        assert isinstance(error, TransactionFatalError), f"an abort has ended with {error}"
        self.fatal_errors.append(error)
        self._begin_again()
        return (yield from self._initialize(now))

    def _write(self, number: int, written: list[tuple[TopicPartition, bytes]], now: int) -> Generator[int, int, int]:
        for part in range(self._random.randint(0, 6)):
            partition = self._random.randrange(self._partitions)
            record = Outgoing(self._topic, None, b"%d.%d" % (number, part), (), partition, self._time_ms())
            while self._core.try_append(record, None, now) is not None:
                now = yield now + _ROOM_MS
            written.append((TopicPartition(self._topic, partition), record.value or b""))
        return now

    def _await(
        self, promise: Promise[KafkaError | None], now: int
    ) -> Generator[int, int, tuple[int, KafkaError | None]]:
        """Until it is kept."""
        self._awaited = promise
        while not promise.kept:
            now = yield FOREVER
        return now, promise.value


class CommittedReader:
    """A consumer that reads the committed records of all partitions from their beginning. It is a RequestManager."""

    def __init__(
        self, settings: dict[str, object], bootstrap_servers: str, topic: str, partitions: int, random: Random
    ) -> None:
        said = {"bootstrap.servers": bootstrap_servers, "isolation.level": "read_committed", **settings}
        self._core = ConsumerCore(client_config(CONSUMER_CONFIG, said), random)
        keys = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._core.assign(keys)
        self.values: dict[TopicPartition, list[bytes | None]] = {key: [] for key in keys}

    @property
    def count(self) -> int:
        """How many records it has read."""
        return sum(map(len, self.values.values()))

    def poll(self, now: int) -> Poll:
        for fetched in self._core.take(_TAKE):
            self.values[fetched.topic_partition].append(fetched.record.value)
        poll = self._core.poll(now)
        return Poll(now, poll.requests) if self._core.has_news else poll
