"""What a topic's settings mean for an append, worked out once.

A batch is asked a dozen things before it is written: is it too large, too late, is the segment full, or too old? To
look up each setting by its name would take as long as to write the batch. So a log keeps what does not depend on the
batch, and works it out again when a setting is changed.

Follows the fields of org.apache.kafka.storage.internals.log.LogConfig.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pykraft.common.settings.config import Config
from pykraft.common.settings.topic_config import (
    CLEANUP_POLICY,
    COMPRESSION_GZIP_LEVEL,
    COMPRESSION_LZ4_LEVEL,
    COMPRESSION_TYPE,
    COMPRESSION_ZSTD_LEVEL,
    FLUSH_MESSAGES,
    FOREVER_MS,
    INTERNAL_SEGMENT_BYTES,
    MAX_COMPACTION_LAG_MS,
    MAX_DECOMPRESSED_MESSAGE_BYTES,
    MAX_MESSAGE_BYTES,
    MESSAGE_TIMESTAMP_AFTER_MAX_MS,
    MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
    MESSAGE_TIMESTAMP_TYPE,
    MIN_INSYNC_REPLICAS,
    SEGMENT_BYTES,
    SEGMENT_JITTER_MS,
    SEGMENT_MS,
)
from pykraft.common.types import TopicPartition
from pykraft.records.compression import Compression
from pykraft.records.crc32c import crc32c

_LEVELS = {
    Compression.GZIP: COMPRESSION_GZIP_LEVEL,
    Compression.LZ4: COMPRESSION_LZ4_LEVEL,
    Compression.ZSTD: COMPRESSION_ZSTD_LEVEL,
}


@dataclass(frozen=True, slots=True)
class AppendRules:
    """The settings of one topic, as an append needs them."""

    max_message_bytes: int
    max_decompressed_bytes: int
    """How long a record of a compressed batch may be."""
    codec: Compression | None
    """What the records are packed with; None if the producer decides."""
    levels: Mapping[Compression, int]
    """How hard each codec that has levels is to try."""
    wants_keys: bool
    uses_append_time: bool
    before_max_ms: int
    after_max_ms: int
    """How far a record's timestamp may lie behind the broker's time, and ahead of it: for ever, if the broker's own
    replaces it."""
    max_segment_bytes: int
    max_segment_ms: int
    """How much time a segment may span. The active one is never compacted, so the wait for that is a limit as well."""
    segment_jitter_ms: int
    flush_messages: int
    min_insync_replicas: int
    """This many replicas must be in sync for an append that waits for all of them."""

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, config: Config) -> "AppendRules":
        """What a topic's settings come to. The partitions of a topic have one `Config` and are opened one after the
        other."""
        codec = config[COMPRESSION_TYPE]
        wants_keys = "compact" in config[CLEANUP_POLICY]
        uses_append_time = config[MESSAGE_TIMESTAMP_TYPE] == "LogAppendTime"
        before_max_ms = FOREVER_MS if uses_append_time else config[MESSAGE_TIMESTAMP_BEFORE_MAX_MS]
        after_max_ms = FOREVER_MS if uses_append_time else config[MESSAGE_TIMESTAMP_AFTER_MAX_MS]
        longest_ms = config[SEGMENT_MS]
        if wants_keys:
            longest_ms = min(longest_ms, config[MAX_COMPACTION_LAG_MS])
        return cls(
            max_message_bytes=config[MAX_MESSAGE_BYTES],
            max_decompressed_bytes=config[MAX_DECOMPRESSED_MESSAGE_BYTES],
            codec=None if codec == "producer" else Compression.named(codec),
            levels={one: config[level] for one, level in _LEVELS.items()},
            wants_keys=wants_keys,
            uses_append_time=uses_append_time,
            before_max_ms=before_max_ms,
            after_max_ms=after_max_ms,
            max_segment_bytes=config[INTERNAL_SEGMENT_BYTES] or config[SEGMENT_BYTES],
            max_segment_ms=longest_ms,
            segment_jitter_ms=min(config[SEGMENT_JITTER_MS], longest_ms),
            flush_messages=config[FLUSH_MESSAGES],
            min_insync_replicas=config[MIN_INSYNC_REPLICAS],
        )

    def max_ms_of(self, topic_partition: TopicPartition, base_offset: int) -> int:
        """How much time this segment may span. What is taken off is drawn by the segment's name: logs roll at different
        times, and a log each time it is asked at the same."""
        if not self.segment_jitter_ms:
            return self.max_segment_ms
        return self.max_segment_ms - crc32c(f"{topic_partition} {base_offset}".encode()) % self.segment_jitter_ms
