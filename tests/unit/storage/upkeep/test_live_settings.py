"""A topic's settings may be changed while its log is open, and then hold for this very log: a row for each setting.

A row says what is seen of the setting before and after its change. All is done on one log, which is not opened again.
What other files show of a setting (its limits, its defaults, exact bounds) is not shown again here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from pykraft.common.core import finish
from pykraft.common.errors import KafkaError
from pykraft.common.settings.topic_config import FOREVER_MS, LOG_CONFIG, check_topic_settings
from pykraft.records.batch import HEADER_BYTES
from pykraft.records.compression import Compression, compress, decompress
from tests.harness.compaction import records
from tests.harness.log_laws import all_batches
from tests.harness.storage import DIRECTORY, LOGS, PARTITION, TOPIC_ID, ManualClock, batch, disk, started
from tests.harness.tree import ROOT

FOREVER = str(FOREVER_MS)
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "retention.ms": "-1"}
SHORTENED = {"retention.ms": "1000"}
PACKED_WELL = " ".join(str(number * number) for number in range(2000))
"""A text on which codecs do better the harder they try."""


class OpenLog:
    """A log with one record in it, its manager with the cleaner, and their clock."""

    def __init__(self, **settings: str) -> None:
        self.settings = settings
        self.filesystem = disk()
        self.clock = ManualClock()
        self.config = check_topic_settings(settings)
        self.manager = started(self.filesystem, self.config, clock=self.clock, config_for=lambda _: self.config)
        self.log = self.manager.get_or_create(PARTITION, TOPIC_ID)
        self.put("first")

    def change(self, setting: str, value: str) -> None:
        """The topic has another value of this setting from now on."""
        self.settings[setting] = value
        self.config = self.log.config = check_topic_settings(self.settings)

    def put(self, key: str | None = None, value: str | None = "v", wait_ms: int = 0) -> int:
        """Append a record made `wait_ms` from now, if need be with a key that no other record has; its offset."""
        key = f"key {self.log.log_end_offset}" if key is None else key
        info = self.log.append_as_leader(records((key, value), timestamp=self.clock.now_ms + wait_ms), 0)
        self.log.update_high_watermark(self.log.log_end_offset)
        return info.first_offset

    def roll(self) -> None:
        self.log.roll(self.log.log_end_offset)

    def compact(self) -> None:
        """Let the cleaner compact what there is, if it wants to, when all of it is five seconds old."""
        self.roll()
        self.clock.now_ms += 5000
        finish(self.manager.compact())

    @property
    def offsets(self) -> list[int]:
        """Of the records that are left."""
        return [record.offset for each in all_batches(self.log) for record in each.records()]


Effect = Callable[[OpenLog], Any]
"""Uses the log, and tells what was seen. It is asked again on the same log, so it counts only what it did itself."""


# --- what is seen -----------------------------------------------------------------------------------------------------


def answer_to(early_ms: int = 0, key: bytes | None = b"k", **how: Any) -> Effect:
    """What becomes of a batch with one record, made so long ago."""

    def effect(some: OpenLog) -> str:
        try:
            some.log.append_as_leader(batch(timestamp=some.clock.now_ms - early_ms, key=key, **how), 0)
        except KafkaError as error:
            return error.code.name
        return "taken"

    return effect


def codec(some: OpenLog) -> str:
    some.put()
    return all_batches(some.log)[-1].compression.name


def level(of: Compression, *candidates: int) -> Effect:
    """At which of these levels a batch was compressed."""

    def effect(some: OpenLog) -> list[int]:
        some.put(value=PACKED_WELL)
        packed = all_batches(some.log)[-1].buffer[HEADER_BYTES:]
        return [each for each in candidates if compress(of, decompress(of, packed), each) == packed]

    return effect


def whose_clock(some: OpenLog) -> str:
    """Which one stamps a record."""
    some.put(wait_ms=7)
    return "broker" if all_batches(some.log)[-1].max_timestamp == some.clock.now_ms else "producer"


def rolls(size: int = 10, wait_ms: int = 0) -> Effect:
    """Whether a record of so many bytes, so long after the first, does not go into the segment that is there."""

    def effect(some: OpenLog) -> bool:
        before = some.log.active_segment
        some.put(value="v" * size, wait_ms=wait_ms)
        return some.log.active_segment is not before

    return effect


def new_segments(some: OpenLog) -> int:
    """How many begin while five records come."""
    before = len(some.log.segments)
    for wait_ms in range(1, 6):
        some.put(wait_ms=wait_ms)
    return len(some.log.segments) - before


def index_entries(some: OpenLog) -> int:
    """How many more the active segment has for five records."""
    before = len(some.log.active_segment.offset_index)
    for wait_ms in range(1, 6):
        some.put(wait_ms=wait_ms)
    return len(some.log.active_segment.offset_index) - before


def is_flushed(some: OpenLog) -> bool:
    """Whether a record is on the disk a second later."""
    some.put()
    some.clock.now_ms += 1000
    finish(some.manager.flush_old())
    return some.log.recovery_point == some.log.log_end_offset


def who_shortens(some: OpenLog) -> list[str]:
    """Who deletes a segment of which all is five seconds old: retention has its turn first, then the cleaner."""
    some.put()
    some.roll()
    some.clock.now_ms += 5000
    found = []
    for name, turn in (
        ("retention", some.manager.delete_old_segments),
        ("cleaner", lambda: finish(some.manager.compact())),
    ):
        before = some.log.log_start_offset
        turn()
        found += [name] if some.log.log_start_offset > before else []
    return found


def keeps_files(some: OpenLog) -> bool:
    """Whether the files of a deleted segment are there a second later."""
    name = f"{some.log.segments[0].base_offset:020d}.log.deleted"
    some.put()
    some.roll()
    some.log.delete_segments(1)
    some.clock.now_ms += 1000
    some.manager.empty_trash()
    return name in some.filesystem.list(DIRECTORY)


def keeps_folder(some: OpenLog) -> bool:
    """Whether the folder of a deleted log is there a second later."""
    before = set(some.filesystem.list(LOGS))
    some.manager.delete(PARTITION)
    some.clock.now_ms += 1000
    some.manager.empty_trash()
    after = set(some.filesystem.list(LOGS))
    some.log = some.manager.get_or_create(PARTITION, TOPIC_ID)
    return bool(after - before)


def is_compacted(some: OpenLog) -> bool:
    """Whether of two records with one key the first goes."""
    first, _ = some.put("again"), some.put("again")
    some.compact()
    return first not in some.offsets


def tombstone_goes(some: OpenLog) -> bool:
    """Whether the second pass, five seconds after the first, takes a tombstone away."""
    tombstone = some.put("gone", None)
    for _ in range(2):
        some.put()
        some.compact()
    return tombstone not in some.offsets


def together(size: int = 10) -> Effect:
    """How many of three segments, with a record of so many bytes each, the cleaner puts into the last one it writes."""

    def effect(some: OpenLog) -> int:
        some.roll()
        offsets = []
        for _ in range(3):
            offsets.append(some.put(value="v" * size))
            some.roll()
        some.compact()
        last = some.log.segments[-2]
        return sum(offset >= last.base_offset for offset in offsets)

    return effect


# --- the table --------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What an effect is under a setting's value before and after; `others` are set all the time."""

    setting: str
    change: tuple[str, str]
    effect: Effect
    seen: tuple[Any, Any]
    others: Mapping[str, str] = MappingProxyType({})


AT_ONCE = [
    # Which batches are taken, and what becomes of them.
    Row("max.message.bytes", ("1000", "50"), answer_to(), ("taken", "MESSAGE_TOO_LARGE")),
    Row(
        "max.decompressed.message.bytes",
        ("1000", "5"),
        answer_to(compression=Compression.GZIP),
        ("taken", "INVALID_RECORD"),
    ),
    Row("cleanup.policy", ("delete", "compact"), answer_to(key=None), ("taken", "INVALID_RECORD")),
    Row("message.timestamp.before.max.ms", (FOREVER, "1000"), answer_to(early_ms=2000), ("taken", "INVALID_TIMESTAMP")),
    Row("message.timestamp.after.max.ms", ("5000", "1000"), answer_to(early_ms=-2000), ("taken", "INVALID_TIMESTAMP")),
    Row("message.timestamp.type", ("CreateTime", "LogAppendTime"), whose_clock, ("producer", "broker")),
    Row("compression.type", ("producer", "gzip"), codec, ("NONE", "GZIP")),
    Row(
        "compression.gzip.level",
        ("1", "9"),
        level(Compression.GZIP, 1, 9),
        ([1], [9]),
        {"compression.type": "gzip"},
    ),
    Row(
        "compression.lz4.level",
        ("9", "12"),
        level(Compression.LZ4, 9, 12),
        ([9], [12]),
        {"compression.type": "lz4"},
    ),
    Row(
        "compression.zstd.level",
        ("1", "12"),
        level(Compression.ZSTD, 1, 12),
        ([1], [12]),
        {"compression.type": "zstd"},
    ),
    # When a segment is full, or too old: also the one that is there.
    Row("segment.bytes", (str(1 << 30), str(1 << 20)), rolls(size=600_000), (False, True)),
    Row("internal.segment.bytes", ("1000", "100"), rolls(), (False, True)),
    Row("segment.ms", ("1000", "400"), rolls(wait_ms=500), (False, True)),
    Row("segment.jitter.ms", ("0", "1000"), rolls(wait_ms=1000), (False, True), {"segment.ms": "1000"}),
    Row("max.compaction.lag.ms", (FOREVER, "400"), rolls(wait_ms=500), (False, True), {"cleanup.policy": "compact"}),
    Row("cleanup.policy", ("delete", "compact"), rolls(wait_ms=500), (False, True), {"max.compaction.lag.ms": "400"}),
    # When it is synced.
    Row("flush.messages", (FOREVER, "1"), is_flushed, (False, True)),
    Row("flush.ms", (FOREVER, "1000"), is_flushed, (False, True)),
    # When it is deleted, and for how long its files stay. (What was deleted before the change stays as long as it was
    # to stay then.)
    Row("retention.ms", ("-1", "1000"), who_shortens, ([], ["retention"])),
    Row("retention.bytes", ("-1", "0"), who_shortens, ([], ["retention"])),
    Row("cleanup.policy", ("compact", "delete"), who_shortens, ([], ["retention"]), SHORTENED),
    Row("cleanup.policy", ("delete", "delete,compact"), who_shortens, (["retention"], ["cleaner"]), SHORTENED),
    Row("file.delete.delay.ms", ("60000", "500"), keeps_files, (True, False)),
    Row("file.delete.delay.ms", ("60000", "500"), keeps_folder, (True, False)),
    # What is compacted, and to what.
    Row("cleanup.policy", ("delete", "compact"), is_compacted, (False, True), {"min.cleanable.dirty.ratio": "0"}),
    Row("cleanup.policy", ("compact", "delete"), is_compacted, (True, False), COMPACTED),
    Row("min.cleanable.dirty.ratio", ("1", "0"), is_compacted, (False, True), COMPACTED),
    Row("min.compaction.lag.ms", ("0", "60000"), is_compacted, (True, False), COMPACTED),
    Row(
        "max.compaction.lag.ms",
        (FOREVER, "1000"),
        is_compacted,
        (False, True),
        {**COMPACTED, "min.cleanable.dirty.ratio": "1"},
    ),
    Row("delete.retention.ms", ("60000", "1000"), tombstone_goes, (False, True), COMPACTED),
    Row("segment.bytes", (str(1 << 20), str(1 << 30)), together(size=600_000), (1, 3), COMPACTED),
    Row("internal.segment.bytes", ("100", "100000"), together(), (1, 3), COMPACTED),
    Row("segment.index.bytes", ("10000", "12"), together(), (3, 1), COMPACTED),
]

FROM_THE_NEXT_SEGMENT_ON = [
    # A segment keeps the room of its indexes, and how sparse they are, as in Kafka.
    Row("index.interval.bytes", ("1000000", "0"), index_entries, (0, 4)),
    Row("segment.index.bytes", ("10000", "24"), new_segments, (0, 2), {"index.interval.bytes": "0"}),
]

OF_NO_EFFECT = {
    # SKIPPED.md says so.
    "local.retention.ms",
    "local.retention.bytes",
    "remote.copy.lag.ms",
    "remote.copy.lag.bytes",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "errors.deadletterqueue.group.enable",
    "preallocate",
}
OF_OTHERS = {
    # About elections: see test_controller_elections.
    "unclean.leader.election.enable",
    # About how fast replicas are copied: see test_server_replication_quotas.
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
    # About acknowledgements, of which a log knows nothing: see test_server_configs.
    "min.insync.replicas",
    # Only false is taken: see test_controller_configs.
    "remote.storage.enable",
}


def named(row: Row) -> str:
    return f"{row.setting} {row.change[0]} to {row.change[1]}, {row.effect.__qualname__.partition('.')[0]}"


def begun(row: Row) -> OpenLog:
    return OpenLog(**{**row.others, row.setting: row.change[0]})


@pytest.mark.parametrize("row", AT_ONCE, ids=named)
def test_a_change_holds_at_once_for_a_log_that_is_open(row: Row) -> None:
    some = begun(row)
    assert row.effect(some) == row.seen[0]
    some.change(row.setting, row.change[1])
    assert row.effect(some) == row.seen[1]


@pytest.mark.parametrize("row", FROM_THE_NEXT_SEGMENT_ON, ids=named)
def test_a_change_of_the_indexes_holds_from_the_next_segment_on(row: Row) -> None:
    some = begun(row)
    assert row.effect(some) == row.seen[0]
    some.change(row.setting, row.change[1])
    assert row.effect(some) == row.seen[0], "the segment was begun before"
    some.roll()
    assert row.effect(some) == row.seen[1]


def test_no_setting_is_forgotten() -> None:
    """A new setting needs a row, or a reason why there is none; a setting that gets an effect needs a row as well."""
    rows = [*AT_ONCE, *FROM_THE_NEXT_SEGMENT_ON]
    shown = {row.setting for row in rows}
    assert shown | OF_NO_EFFECT | OF_OTHERS == set(LOG_CONFIG.keys)
    assert not shown & (OF_NO_EFFECT | OF_OTHERS)
    skipped = (ROOT / "pykraft" / "SKIPPED.md").read_text()
    assert all(f"`{name}`" in skipped for name in OF_NO_EFFECT)
    assert all(row.change[0] != row.change[1] and row.seen[0] != row.seen[1] for row in rows)
