"""Fetch sessions: a reader names its partitions once, and from then on only what has changed (KIP-227).

A follower of 1,000 partitions would send and get 1,000 of them several times a second, although most are idle. In a
session the broker remembers what the reader asks of each partition, and what the reader was answered last. Then a
request says only what is new, and so does its answer::

    request     session id, epoch   partitions it names                answer
    full        0, 0                all                                all; the id of a new session, 0 for none
    incremental id, 1 2 3 ...       new, altered, forgotten            those with news
    closing     id, 0               all                                as full; the old session is closed
    closing     id, -1              all                                all; id 0: there is no session any more

A partition has news if there are records, an error or a diverging epoch, or if its high watermark or log start offset
is not the one of the last answer. The last stable offset alone is no news, in Kafka neither.

*Each request of a session has the next epoch*, after 2,147,483,647 comes 1. An answer may be lost after the session has
noted it, so a reader that misses one begins again with a full fetch. A request with another epoch is refused; so is the
answer to a fetch that waited while another request of its session came.

*Fairness*: partitions are read in the session's order until the answer is full. One that gave records goes to the end.

*Quiet partitions*: of a follower's partitions most are idle, and a fetch that looks at each of them costs the broker
more than all else that it does. A partition becomes quiet when an answer had no news of it and the follower lacks
nothing: it is in sync, has the whole log, all of it is committed, and the follower knows that. The next fetches do not
look at it. It becomes loud again when a request names it, and when anything happens that an answer might have to tell::

    a record, the high watermark, the log start offset        Partition.end_quiet, before what waits is tried
    leader epoch, ISR, settings, deletion, other brokers      the same
    another process of the follower, another principal        FetchSession.read_by

The fetch that waits then waits for this partition, too. If none waits, a fetch that is under way answers at once, and
the next one looks at it. A quiet follower is caught up as long as its session fetches (`FollowerState`).

*The cache* has a number of slots. When all are taken, a new session evicts one that was not used for two minutes; else
one of less worth that is two minutes old: a follower's is worth more than a consumer's, and a larger one more than a
smaller one. A follower also evicts a consumer's young session. The reader of an evicted session hears that its id is
unknown, and begins again; a reader for which there is no room fetches without a session.

What is ours: quiet partitions, for Kafka looks at all partitions in each fetch. A session whose fetch waits in the
purgatory is not evicted. A session serves only the principal that began it (the authorizer is asked about each
partition at each fetch, as in Kafka). A client that says it is a follower counts as one if it may be one. A session
holds no more partitions than one request may name, and all sessions together no more than `MOST_PARTITIONS`. There are
no shards of the cache: one thread uses it.

Follows org.apache.kafka.server.{FetchSession,FetchManager,FetchContext,FetchSessionCacheShard}.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random
from typing import NamedTuple

from pykraft.broker.replication.fetching import FetchPlace, FetchResult
from pykraft.broker.replication.follower_state import FollowerState
from pykraft.broker.requests.data.partitions import Asked
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.metrics import Metrics
from pykraft.common.types import Uuid
from pykraft.protocol.messages.data import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchRequest, next_session_epoch
from pykraft.transport.server_channel import MAX_REQUEST_ELEMENTS

MIN_EVICTION_MS = 120_000
MOST_PARTITIONS = 200_000
"""Of all sessions together: some 135 MB."""
_LARGEST_ID = (1 << 31) - 1

Wanted = FetchRequest.Topic.Partition
"""What a request asks of one partition."""


class Reader(NamedTuple):
    """Whose fetch it is."""

    principal: str
    is_follower: bool
    uses_topic_ids: bool
    replica_id: int = -1
    broker_epoch: int = -1
    """Of a replica: which process of its broker it is."""


class CachedPartition:
    """What a reader asks of a partition, and what it was answered last."""

    __slots__ = ("follower", "high_watermark", "log_start_offset", "wanted")

    def __init__(self, wanted: Wanted, high_watermark: int = -1, log_start_offset: int = -1) -> None:
        self.wanted = wanted
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.follower: FollowerState | None = None
        """Set while the partition is quiet."""

    def note(self, result: FetchResult) -> bool:
        """Take down what the reader is answered; whether it is news."""
        is_news = (
            result.size > 0
            or result.is_news
            or self.high_watermark != result.high_watermark
            or self.log_start_offset != result.log_start_offset
        )
        self.high_watermark = taken_high_watermark(result)
        self.log_start_offset = result.log_start_offset
        return is_news


def taken_high_watermark(result: FetchResult) -> int:
    """The high watermark that a reader has taken from this answer; -1 if the next one tells it again. It takes none
    with an error, and a follower that has to truncate takes none before its log is the leader's. (Kafka's session
    believes that it has, and such a follower hears of it with the next record.)"""
    return -1 if result.error is not ErrorCode.NONE or result.diverging is not None else result.high_watermark


class FetchSession:
    """One reader's partitions."""

    __slots__ = (
        "created",
        "epoch",
        "has_missed_news",
        "join",
        "last_used",
        "loud",
        "partitions",
        "reader",
        "session_id",
        "size",
        "waiting",
    )

    def __init__(self, session_id: int, reader: Reader, partitions: dict[Asked, CachedPartition], now: int) -> None:
        self.session_id = session_id
        self.reader = reader
        self.partitions = partitions
        self.loud = dict(partitions)
        """Those that a fetch looks at, in the order in which they are read."""
        self.created = self.last_used = now
        self.epoch = next_session_epoch(INITIAL_EPOCH)
        """That the next request must have."""
        self.size = 0
        """How many partitions it had when it was last used."""
        self.waiting: Promise[bool] | None = None
        """The results of its last fetch that had to wait."""
        self.join: Callable[[Asked, FetchPlace], None]
        """Lets that fetch wait for another partition."""
        self.has_missed_news = False
        """Whether something has happened to a quiet partition while a fetch was under way and did not wait."""

    @property
    def is_waiting(self) -> bool:
        return self.waiting is not None and not (self.waiting.kept or self.waiting.abandoned)

    @property
    def is_old(self) -> bool:
        """Whether it was old enough to be evicted when it was last used."""
        return self.last_used - self.created > MIN_EVICTION_MS

    def update(self, wanted: Mapping[Asked, Wanted], forgotten: Iterable[Asked]) -> None:
        """A request has named these, and does not want those any more."""
        for asked, partition in wanted.items():
            cached = self.partitions.get(asked)
            if cached is None:
                self.partitions[asked] = self.loud[asked] = CachedPartition(partition)
            else:
                if cached.follower is not None:
                    cached.follower.end_quiet()
                cached.wanted = partition
        for asked in forgotten:
            cached = self.partitions.get(asked)
            if cached is not None:
                if cached.follower is not None:
                    cached.follower.end_quiet()
                del self.partitions[asked], self.loud[asked]

    def read_by(self, reader: Reader) -> None:
        """Another reader goes on with the session: each partition is looked at again."""
        self.reader = reader
        for cached in self.partitions.values():
            if cached.follower is not None:
                cached.follower.end_quiet()

    def rest(self, asked: Asked, follower: FollowerState, place: FetchPlace) -> None:
        """The partition is quiet from now on."""
        follower.begin_quiet(Quiet(self, asked, place))
        self.partitions[asked].follower = follower
        self.loud.pop(asked, None)

    def wake(self, asked: Asked, place: FetchPlace) -> None:
        """The partition is loud again."""
        cached = self.loud[asked] = self.partitions[asked]
        cached.follower = None
        if self.is_waiting:
            self.join(asked, place)
        else:
            self.has_missed_news = True


class Quiet(NamedTuple):
    """A quiet partition of a session. It is the `QuietPartition` of its follower."""

    session: FetchSession
    asked: Asked
    place: FetchPlace
    """What each fetch asks of it."""

    @property
    def last_fetch(self) -> int:
        return self.session.last_used

    def wake(self) -> None:
        self.session.wake(self.asked, self.place)


class FetchContext:
    """What one fetch is about, and what of it is answered. This one belongs to no session."""

    def __init__(self, wanted: dict[Asked, Wanted]) -> None:
        self.wanted = wanted
        """The partitions that the fetch looks at."""

    @property
    def may_wait(self) -> bool:
        """Whether the fetch may wait for news; else it is answered with what there is."""
        return bool(self.wanted)

    @property
    def error(self) -> ErrorCode:
        """Why the fetch is not answered after all."""
        return ErrorCode.NONE

    def begin_wait(self, waiting: Promise[bool], join: Callable[[FetchPlace], None]) -> None:
        """The fetch waits until it is time to read. `join` lets it wait for another partition, which it reads last."""

    def note(self, asked: Asked, result: FetchResult) -> bool:
        """Whether the result is to be in the answer, where it will be noted as known to the reader."""
        return True

    def rest(self, asked: Asked, follower: FollowerState, place: FetchPlace) -> None:
        """The follower lacks nothing of this partition, and knows it: until something happens, no fetch looks at it."""

    def session_id(self, now: int) -> int:
        """The session that the answer names, when all results are noted."""
        return NO_SESSION

    @property
    def id_of_throttled(self) -> int:
        """The session that an answer names which tells nothing, because the reader has used up its quota."""
        return NO_SESSION


class FullFetchContext(FetchContext):
    """A fetch that names all its partitions, and begins a session if there is room."""

    def __init__(self, cache: "FetchSessionCache", reader: Reader, wanted: dict[Asked, Wanted]) -> None:
        super().__init__(wanted)
        self._cache = cache
        self._reader = reader
        self._partitions: dict[Asked, CachedPartition] = {}

    def note(self, asked: Asked, result: FetchResult) -> bool:
        cached = CachedPartition(self.wanted[asked], taken_high_watermark(result), result.log_start_offset)
        self._partitions[asked] = cached
        return True

    def session_id(self, now: int) -> int:
        return self._cache.begin(self._reader, self._partitions, now)


class IncrementalFetchContext(FetchContext):
    """A fetch that is about all partitions of its session, whichever it names. It looks at those that are loud."""

    def __init__(self, session: FetchSession) -> None:
        super().__init__({asked: cached.wanted for asked, cached in session.loud.items()})
        self._session = session
        self._epoch = session.epoch
        session.waiting, session.has_missed_news = None, False

    @property
    def may_wait(self) -> bool:
        return self._session.epoch == self._epoch and not self._session.has_missed_news

    @property
    def error(self) -> ErrorCode:
        is_last = self._session.epoch == self._epoch
        return ErrorCode.NONE if is_last else ErrorCode.INVALID_FETCH_SESSION_EPOCH

    def begin_wait(self, waiting: Promise[bool], join: Callable[[FetchPlace], None]) -> None:
        def join_as(asked: Asked, place: FetchPlace) -> None:
            self.wanted[asked] = self._session.partitions[asked].wanted
            join(place)

        self._session.waiting, self._session.join = waiting, join_as

    def note(self, asked: Asked, result: FetchResult) -> bool:
        cached = self._session.partitions.get(asked)
        if cached is None or not cached.note(result):
            return False
        if result.size > 0 and asked in self._session.loud:
            self._session.loud[asked] = self._session.loud.pop(asked)
        return True

    def rest(self, asked: Asked, follower: FollowerState, place: FetchPlace) -> None:
        cached = self._session.partitions.get(asked)
        if self.error is ErrorCode.NONE and cached is not None and cached.wanted is self.wanted[asked]:
            self._session.rest(asked, follower, place)

    def session_id(self, now: int) -> int:
        return self._session.session_id

    @property
    def id_of_throttled(self) -> int:
        return self._session.session_id


class FetchSessionCache:
    """The sessions of a broker, the one that was not used for the longest time first."""

    def __init__(self, slots: int, random: Random, metrics: Metrics) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0
        """Of all sessions."""
        self._evictions = metrics.meter("FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec")
        metrics.gauge("FetchSessionCache", "NumIncrementalFetchSessions", lambda: len(self._sessions))
        metrics.gauge("FetchSessionCache", "NumIncrementalFetchPartitionsCached", lambda: self._partitions)

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def sessions(self) -> Collection[FetchSession]:
        return self._sessions.values()

    def session(self, session_id: int) -> FetchSession | None:
        """The session with this id, if there is one."""
        return self._sessions.get(session_id)

    def topics(self, session_id: int) -> set[str | Uuid]:
        """The topics in a session, as its reader names them; none if there is no such session."""
        session = self._sessions.get(session_id)
        return set() if session is None else {name or topic_id for name, topic_id, _ in session.partitions}

    def context(
        self,
        request: FetchRequest,
        wanted: dict[Asked, Wanted],
        forgotten: Iterable[Asked],
        reader: Reader,
        now: int,
    ) -> FetchContext:
        """What this request is about. KafkaError if it is of no session that this reader has here."""
        session = self._sessions.get(request.session_id)
        if session is not None and session.reader.principal != reader.principal:
            session = None
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None:
                self._remove(session)
            is_final = request.session_epoch == FINAL_EPOCH
            return FetchContext(wanted) if is_final else FullFetchContext(self, reader, wanted)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.reader.uses_topic_ids != reader.uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.reader != reader:
            session.read_by(reader)
        session.update(wanted, forgotten)
        if not session.partitions:
            self._remove(session)
            return FetchContext(wanted)
        self._touch(session, now)
        if session.size > MAX_REQUEST_ELEMENTS or self._partitions > MOST_PARTITIONS:
            self._remove(session)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = next_session_epoch(session.epoch)
        return IncrementalFetchContext(session)

    def begin(self, reader: Reader, partitions: dict[Asked, CachedPartition], now: int) -> int:
        """Begin a session with these partitions; its id, or 0 if there is no room for it."""
        if not self._make_room(reader.is_follower, len(partitions), now):
            return NO_SESSION
        session = FetchSession(self._new_id(), reader, partitions, now)
        self._sessions[session.session_id] = session
        self._touch(session, now)
        return session.session_id

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randint(1, _LARGEST_ID)
            if session_id not in self._sessions:
                return session_id

    def _touch(self, session: FetchSession, now: int) -> None:
        """The session is used."""
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        session.last_used = now
        self._partitions += len(session.partitions) - session.size
        session.size = len(session.partitions)

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        self._partitions -= session.size

    # --- eviction -----------------------------------------------------------------------------------------------------

    def _make_room(self, is_follower: bool, size: int, now: int) -> bool:
        if not self._has_room(size):
            victim = self._victim(is_follower, size, now)
            if victim is not None:
                self._remove(victim)
                self._evictions.mark()
        return self._has_room(size)

    def _has_room(self, size: int) -> bool:
        return len(self._sessions) < self._slots and self._partitions + size <= MOST_PARTITIONS

    def _victim(self, is_follower: bool, size: int, now: int) -> FetchSession | None:
        """The session that a new one of this size may replace."""
        idle = [session for session in self._sessions.values() if not session.is_waiting]
        if idle and now - idle[0].last_used > MIN_EVICTION_MS:
            return idle[0]
        evictable = [each for each in idle if each.is_old or (is_follower and not each.reader.is_follower)]
        least = min(evictable, key=lambda each: (*_worth(each), each.session_id), default=None)
        return least if least is not None and (is_follower, size) > _worth(least) else None


def _worth(session: FetchSession) -> tuple[bool, int]:
    return session.reader.is_follower, session.size
