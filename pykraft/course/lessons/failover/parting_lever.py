"""The first picture of notebook 12: two logs that part, and the dialogue in which the follower truncates its own.

At each move the logs are pykraft's own (`UnifiedLog`), written on a disk in memory from the epochs that you type, one
record each. The follower truncates by one of two rules:

* *leader epochs*, the rule of today: it sends its log end and its last epoch, the leader answers with a diverging epoch
  (`fetching.diverging_end`), it truncates (`replica_fetcher.agreed_end`) and asks again;
* *high watermark*, the rule before Apache Kafka 0.11: it truncates to its own high watermark, and asks nothing.

Then the follower fetches what it lacks. What both logs had and the follower has truncated comes again, if the leader
lives for so long. If it dies first, those records are lost.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pykraft.broker.replication.fetching import FetchPlace, diverging_end
from pykraft.broker.replication.replica_fetcher import agreed_end
from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.common.types import TopicPartition
from pykraft.course.rigs.memory_log import empty_log
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.storage.answers import Isolation
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin
from pykraft.viz import Figure
from pykraft.viz.logs.parting_chart import parting_chart

EPOCHS, HIGH_WATERMARK = "leader epochs (today)", "high watermark (before 0.11)"
MOST_RECORDS = 12
_PARTITION = TopicPartition("t", 0)
_WHOLE_LOG = 1 << 20


class Parted(NamedTuple):
    """The two logs after a step, as the epoch of each record, and what was said in it."""

    follower: list[int]
    said: str
    gone: tuple[int, ...] = ()
    """Epochs of the records that this step has truncated."""


class Replica:
    """A replica's log, made of epochs."""

    def __init__(self, epochs: Sequence[int]) -> None:
        self.log: UnifiedLog = empty_log(_PARTITION, LOG_CONFIG.resolve())
        for epoch in epochs:
            builder = RecordBatchBuilder()
            builder.append(0, None, b"record")
            self.log.append_as_leader(RecordBatch(memoryview(builder.build())), epoch, AppendOrigin.CLIENT)

    @property
    def epochs(self) -> list[int]:
        return [batch.partition_leader_epoch for batch in batches(memoryview(self.read_from(0)))]

    def read_from(self, offset: int) -> bytearray:
        """A copy of all batches from there on."""
        found = self.log.read(offset, _WHOLE_LOG, Isolation.LOG_END, True).records
        return bytearray(found if isinstance(found, bytes) else found.read(0, len(found)))


def draw_parting(leader: str, follower: str, rule: str, high_watermark: int, step: int) -> Figure:
    """Both logs after this many steps of the dialogue. ValueError if a log is not a list of rising epochs."""
    led = _epochs("leader", leader)
    steps = dialogue(led, _epochs("follower", follower), rule, high_watermark)
    number = min(step, len(steps) - 1)
    done = steps[: number + 1]
    shared = _agreement(led, steps[0].follower)
    kept = len(done[-1].follower)
    title = f"Step {number} of {len(steps) - 1}: {done[-1].said}"
    return parting_chart(
        led, steps[0].follower, done[-1].follower, high_watermark=high_watermark if rule == HIGH_WATERMARK else None,
        title=title, note=_verdict(led, done[-1].follower, shared, kept), said=[each.said for each in done[1:]],
    )  # fmt: skip


def dialogue(leader: Sequence[int], follower: Sequence[int], rule: str, high_watermark: int) -> list[Parted]:
    """What the follower's log is after each step, from the beginning until it has fetched all."""
    led, followed = Replica(leader), Replica(follower)
    steps = [Parted(list(follower), "two logs")]
    if rule == HIGH_WATERMARK:
        end = min(high_watermark, followed.log.log_end_offset)
        steps.append(_truncated(followed, end, f"it truncates to its high watermark, {end}"))
    else:
        steps += _asked(led, followed)
    end = followed.log.log_end_offset
    if end >= led.log.log_end_offset:
        return [*steps, Parted(followed.epochs, "it has nothing to fetch")]
    followed.log.append_as_follower(memoryview(led.read_from(end)))
    return [*steps, Parted(followed.epochs, f"it fetches the leader's records from offset {end} on")]


def _asked(led: Replica, followed: Replica) -> list[Parted]:
    """One step for each question and answer."""
    found: list[Parted] = []
    while True:
        end, epoch = followed.log.log_end_offset, followed.log.latest_epoch
        answer = diverging_end(led, FetchPlace(_PARTITION, end, _WHOLE_LOG, -1, epoch)) if end else None
        question = f"Follower: {end} records, the last of epoch {epoch}? Leader:"
        if answer is None:
            return [
                *found,
                Parted(followed.epochs, f"{question} the beginning of my log." if end else "its log is empty"),
            ]
        agreed = agreed_end(followed.log, answer)
        said = f"{question} my epoch {answer.epoch} ends at {answer.offset}. Truncate to {agreed}"
        found.append(_truncated(followed, agreed, said))


def _truncated(followed: Replica, end: int, said: str) -> Parted:
    before = followed.epochs
    followed.log.truncate_to(end)
    return Parted(followed.epochs, said, tuple(before[end:]))


def _verdict(leader: Sequence[int], follower: Sequence[int], shared: int, kept: int) -> str:
    """What this step means for the records."""
    if kept < shared:
        return f"If the leader dies now, {_counted(shared - kept)} that both had are lost."
    differing = sum(one != other for one, other in zip(leader, follower, strict=False))
    if differing:
        return f"At {differing} offsets the two logs have different records."
    if list(leader) == list(follower):
        return "Both logs are equal."
    return f"The follower's log is the beginning of the leader's; all {shared} that both had are there."


def _agreement(leader: Sequence[int], follower: Sequence[int]) -> int:
    """How many records both logs begin with."""
    parts = [offset for offset, (one, other) in enumerate(zip(leader, follower, strict=False)) if one != other]
    return parts[0] if parts else min(len(leader), len(follower))


def _counted(records: int) -> str:
    return "1 record" if records == 1 else f"{records} records"


def _epochs(name: str, text: str) -> list[int]:
    words = text.split()
    if not 1 <= len(words) <= MOST_RECORDS or not all(word.isdecimal() and len(word) == 1 for word in words):
        raise ValueError(f"{name}: type 1 to {MOST_RECORDS} epochs from 0 to 9, with spaces between them")
    found = [int(word) for word in words]
    if found != sorted(found):
        raise ValueError(f"{name}: epochs never fall within a log, and yours are {text}")
    return found
