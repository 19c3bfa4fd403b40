"""A topic's settings, and the broker's under other names, which hold where the topic has none.

Every key that Kafka 4.4 has for a topic is known here, with its default and its limits, so that a client may set it;
those that pykraft does not act on yet are listed in SKIPPED.md.

Follows org.apache.kafka.storage.internals.log.LogConfig and org.apache.kafka.server.config.ServerTopicConfigSynonyms.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import (
    HOURS_TO_MS,
    MINUTES_TO_MS,
    Config,
    ConfigDef,
    Key,
    Synonym,
    as_text,
    boolean,
    decimal,
    integer,
    names,
    string,
)

FOREVER_MS = (1 << 63) - 1
WEEK_MS = 7 * 24 * HOURS_TO_MS

SEGMENT_BYTES = integer(
    "segment.bytes",
    1 << 30,
    "a segment is rolled before it grows larger",
    at_least=1 << 20,
    synonyms=[Synonym("log.segment.bytes")],
)
INTERNAL_SEGMENT_BYTES = integer(
    "internal.segment.bytes",
    0,
    "segment.bytes below Kafka's limit of 1 MiB, for tests; 0 for none",
    at_least=0,
)
SEGMENT_MS = integer(
    "segment.ms",
    WEEK_MS,
    "a segment is rolled when its records span more time",
    at_least=1,
    synonyms=[Synonym("log.roll.ms"), Synonym("log.roll.hours", HOURS_TO_MS)],
    kind="long",
)
SEGMENT_JITTER_MS = integer(
    "segment.jitter.ms",
    0,
    "at most this much is taken off segment.ms, so that logs do not roll together",
    at_least=0,
    synonyms=[Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOURS_TO_MS)],
    kind="long",
)
SEGMENT_INDEX_BYTES = integer(
    "segment.index.bytes",
    10 << 20,
    "a segment is rolled before one of its indexes grows larger",
    at_least=4,
    synonyms=[Synonym("log.index.size.max.bytes")],
)
INDEX_INTERVAL_BYTES = integer(
    "index.interval.bytes",
    4096,
    "about this many bytes of log are between two entries of the indexes",
    at_least=0,
    synonyms=[Synonym("log.index.interval.bytes")],
)
MAX_MESSAGE_BYTES = integer(
    "max.message.bytes",
    1_048_588,
    "a larger batch is refused",
    at_least=0,
    synonyms=[Synonym("message.max.bytes")],
)
MAX_DECOMPRESSED_MESSAGE_BYTES = integer(
    "max.decompressed.message.bytes",
    2_147_483_639,
    "a larger record of a compressed batch is refused",
    at_least=1,
    at_most=2_147_483_639,
)
RETENTION_MS = integer(
    "retention.ms",
    WEEK_MS,
    "segments whose records are all older are deleted; -1 keeps them",
    at_least=-1,
    synonyms=[
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", MINUTES_TO_MS),
        Synonym("log.retention.hours", HOURS_TO_MS),
    ],
    kind="long",
)
RETENTION_BYTES = integer(
    "retention.bytes",
    -1,
    "old segments are deleted while the log is larger; -1 keeps them",
    synonyms=[Synonym("log.retention.bytes")],
    kind="long",
)
FLUSH_MESSAGES = integer(
    "flush.messages",
    FOREVER_MS,
    "sync the log after this many records; by default the operating system decides and replication protects",
    at_least=1,
    synonyms=[Synonym("log.flush.interval.messages")],
    kind="long",
)
FLUSH_MS = integer(
    "flush.ms",
    FOREVER_MS,
    "sync the log after this long",
    at_least=0,
    synonyms=[Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")],
    kind="long",
)
FILE_DELETE_DELAY_MS = integer(
    "file.delete.delay.ms",
    60_000,
    "deleted files stay this long under another name",
    at_least=0,
    synonyms=[Synonym("log.segment.delete.delay.ms")],
    kind="long",
)
CLEANUP_POLICY = names(
    "cleanup.policy",
    ["delete"],
    "old segments are deleted, or compacted to the last value of each key, or both",
    one_of=["compact", "delete"],
    synonyms=[Synonym("log.cleanup.policy")],
)
COMPRESSION_TYPE = string(
    "compression.type",
    "producer",
    "the codec of the log; producer keeps what comes",
    one_of=["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"],
)
COMPRESSION_GZIP_LEVEL = integer(
    "compression.gzip.level", -1, "level of gzip when the broker compresses", at_least=-1, at_most=9
)
COMPRESSION_LZ4_LEVEL = integer(
    "compression.lz4.level", 9, "level of lz4 when the broker compresses", at_least=1, at_most=17
)
COMPRESSION_ZSTD_LEVEL = integer(
    "compression.zstd.level", 3, "level of zstd when the broker compresses", at_least=-131072, at_most=22
)
MESSAGE_TIMESTAMP_TYPE = string(
    "message.timestamp.type",
    "CreateTime",
    "whose clock stamps the records, the producer's or the broker's",
    one_of=["CreateTime", "LogAppendTime"],
    synonyms=[Synonym("log.message.timestamp.type")],
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = integer(
    "message.timestamp.before.max.ms",
    FOREVER_MS,
    "how far a producer's timestamp may lie in the past",
    at_least=0,
    synonyms=[Synonym("log.message.timestamp.before.max.ms")],
    kind="long",
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = integer(
    "message.timestamp.after.max.ms",
    HOURS_TO_MS,
    "how far a producer's timestamp may lie in the future",
    at_least=0,
    synonyms=[Synonym("log.message.timestamp.after.max.ms")],
    kind="long",
)
MIN_INSYNC_REPLICAS = integer(
    "min.insync.replicas",
    1,
    "with fewer replicas in sync a write with acks=all is refused",
    at_least=1,
)
UNCLEAN_LEADER_ELECTION_ENABLE = boolean(
    "unclean.leader.election.enable", False, "whether a replica that is not in sync may lead when no other can"
)
DELETE_RETENTION_MS = integer(
    "delete.retention.ms",
    24 * HOURS_TO_MS,
    "compaction keeps tombstones and markers this long",
    at_least=0,
    synonyms=[Synonym("log.cleaner.delete.retention.ms")],
    kind="long",
)
MIN_COMPACTION_LAG_MS = integer(
    "min.compaction.lag.ms",
    0,
    "records younger than this are not compacted",
    at_least=0,
    synonyms=[Synonym("log.cleaner.min.compaction.lag.ms")],
    kind="long",
)
MAX_COMPACTION_LAG_MS = integer(
    "max.compaction.lag.ms",
    FOREVER_MS,
    "records older than this are compacted soon, however little there is to gain",
    at_least=1,
    synonyms=[Synonym("log.cleaner.max.compaction.lag.ms")],
    kind="long",
)
MIN_CLEANABLE_DIRTY_RATIO = decimal(
    "min.cleanable.dirty.ratio",
    0.5,
    "a log is compacted when this share of it is dirty",
    at_least=0,
    at_most=1,
    synonyms=[Synonym("log.cleaner.min.cleanable.ratio")],
)
ALL_REPLICAS = ("*",)


def _throttled_replicas(name: str, meaning: str) -> Key[tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        found = tuple(part.strip() for part in text.split(",") if part.strip())
        if found != ALL_REPLICAS and not all(map(_REPLICA.fullmatch, found)):
            raise ValueError(text)
        return found

    allowed = "* for all replicas, or a comma-separated list of partition:broker, such as 0:1,0:2"
    return Key(name, (), parse, allowed, meaning, "list")


_REPLICA = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")
LEADER_REPLICATION_THROTTLED_REPLICAS = _throttled_replicas(
    "leader.replication.throttled.replicas", "replicas whose leader holds their followers back (KIP-73)"
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = _throttled_replicas(
    "follower.replication.throttled.replicas", "replicas that are held back while they catch up (KIP-73)"
)
REMOTE_STORAGE_ENABLE = boolean("remote.storage.enable", False, "use tiered storage")

_NOT_ACTED_ON: list[Key[Any]] = [
    boolean("errors.deadletterqueue.group.enable", False, "whether share groups may put records here that they reject"),
    integer(
        "remote.copy.lag.bytes",
        -1,
        "a segment waits for this many bytes after it, until it is copied to tiered storage; -1 for no wait",
        at_least=-1,
        synonyms=[Synonym("log.remote.copy.lag.bytes")],
        kind="long",
    ),
    integer(
        "remote.copy.lag.ms",
        0,
        "a segment waits this long until it is copied to tiered storage",
        at_least=-1,
        synonyms=[Synonym("log.remote.copy.lag.ms")],
        kind="long",
    ),
    integer(
        "local.retention.bytes",
        -2,
        "how much stays on the broker's disk beside tiered storage",
        at_least=-2,
        synonyms=[Synonym("log.local.retention.bytes")],
        kind="long",
    ),
    integer(
        "local.retention.ms",
        -2,
        "how long data stays on the broker's disk beside tiered storage",
        at_least=-2,
        synonyms=[Synonym("log.local.retention.ms")],
        kind="long",
    ),
    boolean("preallocate", False, "allocate a segment's file at once", synonyms=[Synonym("log.preallocate")]),
    boolean("remote.log.copy.disable", False, "stop copying to tiered storage"),
    boolean("remote.log.delete.on.disable", False, "delete tiered data when tiering is switched off"),
    REMOTE_STORAGE_ENABLE,
]

LOG_CONFIG = ConfigDef(
    [
        SEGMENT_BYTES,
        INTERNAL_SEGMENT_BYTES,
        SEGMENT_MS,
        SEGMENT_JITTER_MS,
        SEGMENT_INDEX_BYTES,
        INDEX_INTERVAL_BYTES,
        MAX_MESSAGE_BYTES,
        MAX_DECOMPRESSED_MESSAGE_BYTES,
        RETENTION_MS,
        RETENTION_BYTES,
        FLUSH_MESSAGES,
        FLUSH_MS,
        FILE_DELETE_DELAY_MS,
        CLEANUP_POLICY,
        COMPRESSION_TYPE,
        COMPRESSION_GZIP_LEVEL,
        COMPRESSION_LZ4_LEVEL,
        COMPRESSION_ZSTD_LEVEL,
        MESSAGE_TIMESTAMP_TYPE,
        MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
        MESSAGE_TIMESTAMP_AFTER_MAX_MS,
        MIN_INSYNC_REPLICAS,
        UNCLEAN_LEADER_ELECTION_ENABLE,
        DELETE_RETENTION_MS,
        MIN_COMPACTION_LAG_MS,
        MAX_COMPACTION_LAG_MS,
        MIN_CLEANABLE_DIRTY_RATIO,
        LEADER_REPLICATION_THROTTLED_REPLICAS,
        FOLLOWER_REPLICATION_THROTTLED_REPLICAS,
        *_NOT_ACTED_ON,
    ]
)

INTERNAL_PREFIX = "internal."
"""Settings for tests begin so; no client sees them."""
INTERNAL_BROKER_SETTINGS = frozenset(
    {
        "group.consumer.regex.refresh.interval.ms",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "pykraft.metrics.listener",
        "unclean.leader.election.interval.ms",
    }
)
"""A client sees these only where a broker's file sets them, as in Kafka. Kafka has no setting named `pykraft...`."""

_WITHOUT_DEFAULT = (
    FOLLOWER_REPLICATION_THROTTLED_REPLICAS.name,
    LEADER_REPLICATION_THROTTLED_REPLICAS.name,
    "errors.deadletterqueue.group.enable",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
)
"""What a broker can say nothing of for all its topics."""


def broker_names(key: Key[Any]) -> tuple[Synonym, ...]:
    """The names under which a broker has the default of this setting of a topic, the strongest first."""
    return () if key.name in _WITHOUT_DEFAULT else key.synonyms or (Synonym(key.name),)


def _broker_keys() -> Iterator[Key[Any]]:
    for key in LOG_CONFIG.keys.values():
        names_of_brokers = broker_names(key)
        for synonym in names_of_brokers:
            # Of several names it is the last that has the default: hours for what may also be said in milliseconds.
            default = as_text(_scaled_down(key.default, synonym.scale)) if synonym is names_of_brokers[-1] else None
            kind = "int" if synonym.scale > 1 else key.kind
            yield Key(synonym.name, default, str, key.allowed, key.meaning, kind)


def _scaled_down(value: Any, scale: int) -> Any:
    return value if scale == 1 else value // scale


BROKER_DEFAULTS: dict[str, Key[Any]] = {key.name: key for key in _broker_keys()}
"""The settings of a broker that are the defaults of its topics. Their values are text: `LOG_CONFIG` reads them."""

DYNAMIC_TOPIC_DEFAULTS = frozenset(
    broker_names(key)[0].name
    for key in LOG_CONFIG.keys.values()
    if broker_names(key) and not key.name.startswith(INTERNAL_PREFIX)
)
"""Those that may be changed while brokers run: of several names for a setting only the strongest."""


def check_topic_settings(settings: Mapping[str, str | None], *defaults: Mapping[str, str]) -> Config:
    """What holds for a topic with these settings over these defaults of its broker; ConfigError says what is wrong."""
    for name, value in settings.items():
        if name not in LOG_CONFIG.keys:
            raise ConfigError(f"{name or 'a name of no letters'} is no setting of a topic")
        if value is None:
            raise ConfigError(f"{name} is null")
    config = LOG_CONFIG.resolve({name: value for name, value in settings.items() if value is not None}, *defaults)
    if config[MIN_COMPACTION_LAG_MS] > config[MAX_COMPACTION_LAG_MS]:
        raise ConfigError(
            f"min.compaction.lag.ms is {config[MIN_COMPACTION_LAG_MS]}, but must be at most max.compaction.lag.ms, "
            f"which is {config[MAX_COMPACTION_LAG_MS]}"
        )
    if config[RETENTION_MS] == 0 and RETENTION_MS.name not in settings:
        said = next(synonym.name for layer in defaults for synonym in RETENTION_MS.synonyms if synonym.name in layer)
        raise ConfigError(f"{said} is 0, but must be -1 or at least 1: only a topic of its own keeps nothing")
    if config[COMPRESSION_GZIP_LEVEL] == 0:
        raise ConfigError("compression.gzip.level is 0, but must be -1 or 1 to 9")
    if config[REMOTE_STORAGE_ENABLE]:
        raise ConfigError("remote.storage.enable is true, but the brokers have no tiered storage")
    return config
