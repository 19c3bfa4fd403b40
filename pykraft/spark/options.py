"""What may be said to the source: the options of Spark's own Kafka source, with its names and its defaults.

=================================  =====================================================================================
option                             meaning
=================================  =====================================================================================
kafka.bootstrap.servers            where to begin: ``host:port,host:port``; needed
kafka.*                            settings of a Kafka consumer, where they have a meaning here
subscribe                          topics: ``a,b``; this or one of the next two is needed
assign                             partitions: ``{"a": [0, 1], "b": [2]}``
subscribePattern                   topics whose names hold a match of this regular expression
startingOffsets                    ``earliest`` (a batch's default), ``latest`` (a stream's), or ``{"a": {"0": 23, "1":
                                   -2}}``; -2 means earliest, -1 means latest
endingOffsets                      ``latest`` (the default), or as above; that offset itself is not read
startingTimestamp, endingTimestamp milliseconds since 1970: from or up to the first record that is as young
starting-, endingOffsetsByTimestamp  the same for each partition: ``{"a": {"0": 1700000000000}}``
startingOffsetsByTimestampStrategy ``error`` (the default) or ``latest``, where no record is as young
includeHeaders                     ``true`` for the column `headers`
minPartitions                      cut the partitions' ranges of offsets into about this many tasks
maxRecordsPerPartition             cut them so that none has more offsets
maxOffsetsPerTrigger               a stream's batch reads about this many offsets, in proportion to what partitions hold
failOnDataLoss                     ``false`` to read what is there where an asked offset is not, or is no more
isolationLevel                     ``read_committed``: short for kafka.isolation.level
fetchOffset.numRetries             how often a stream asks again when its records seem to be gone (3 times)
fetchOffset.retryIntervalMs        the pause before it does (1000)
kafkaConsumer.pollTimeoutMs        how long a task waits for records that should be there
=================================  =====================================================================================

A time goes before an offset where both are given, as in Spark. A batch query accepts the options of a stream, and they
have no effect. A stream refuses the options that say where a batch ends. Everything else is refused with one sentence,
also a setting ``kafka.*`` that the consumer here does not have: an option that is passed over in silence, because of a
slip in its name, is an afternoon lost.

What Spark's own source does otherwise: it passes over unknown options; its regular expressions are Java's; it reads
nothing of a partition that `assign` names and that does not exist, and nothing of Kafka's internal topics, where here
the first is refused and a topic that is named is read; it takes 5.7 for offset 5; and a beginning behind the end of the
log is an error for it even where ``failOnDataLoss`` is ``false``.

Follows org.apache.spark.sql.kafka010.{KafkaSourceProvider,JsonUtils}.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pykraft.client.config import CONSUMER_CONFIG, DEFAULT_API_TIMEOUT_MS, bootstrap_endpoints, client_config
from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import Config, ConfigDef, Key, boolean, integer, names, string
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

EARLIEST = EARLIEST_TIMESTAMP
LATEST = LATEST_TIMESTAMP

ASSIGN = string("assign", "", "partitions to read")
SUBSCRIBE: Key[tuple[str, ...]] = names("subscribe", (), "topics to read")
SUBSCRIBE_PATTERN = string("subscribePattern", "", "topics to read, as a regular expression")
STARTING_OFFSETS = string("startingOffsets", "earliest", "where to begin")
ENDING_OFFSETS = string("endingOffsets", "latest", "where to end")
STARTING_TIMESTAMP = integer("startingTimestamp", -1, "milliseconds", at_least=0, kind="long")
ENDING_TIMESTAMP = integer("endingTimestamp", -1, "milliseconds", at_least=0, kind="long")
STARTING_BY_TIMESTAMP = string("startingOffsetsByTimestamp", "", "milliseconds for each partition")
ENDING_BY_TIMESTAMP = string("endingOffsetsByTimestamp", "", "milliseconds for each partition")
TIMESTAMP_STRATEGY = string("startingOffsetsByTimestampStrategy", "error", "", ["error", "latest"])
INCLUDE_HEADERS = boolean("includeHeaders", False, "whether there is a column `headers`")
MIN_PARTITIONS = integer("minPartitions", 0, "tasks", at_least=1)
MAX_RECORDS_PER_PARTITION = integer("maxRecordsPerPartition", 0, "offsets of a task", at_least=1, kind="long")
FAIL_ON_DATA_LOSS = boolean("failOnDataLoss", True, "whether missing records are an error")
PUSH_FILTERS = boolean("pushFilters", False, "whether filters narrow what is fetched; for a DataFrame of one query")
MAX_OFFSETS_PER_TRIGGER = integer("maxOffsetsPerTrigger", 0, "offsets of a stream's batch", at_least=1, kind="long")
ISOLATION_LEVEL = string("isolationLevel", "", "", ["read_uncommitted", "read_committed"])
LOSS_RETRIES = integer("fetchOffset.numRetries", 3, "how often a stream asks again", at_least=0)
LOSS_RETRY_INTERVAL_MS = integer("fetchOffset.retryIntervalMs", 1000, "milliseconds", at_least=0, kind="long")
POLL_TIMEOUT_MS = integer("kafkaConsumer.pollTimeoutMs", 0, "milliseconds", at_least=1, kind="long")

_DEFINITION = ConfigDef(
    [
        SUBSCRIBE,
        ASSIGN,
        SUBSCRIBE_PATTERN,
        STARTING_OFFSETS,
        ENDING_OFFSETS,
        STARTING_TIMESTAMP,
        ENDING_TIMESTAMP,
        STARTING_BY_TIMESTAMP,
        ENDING_BY_TIMESTAMP,
        TIMESTAMP_STRATEGY,
        INCLUDE_HEADERS,
        MIN_PARTITIONS,
        MAX_RECORDS_PER_PARTITION,
        PUSH_FILTERS,
        MAX_OFFSETS_PER_TRIGGER,
        FAIL_ON_DATA_LOSS,
        ISOLATION_LEVEL,
        LOSS_RETRIES,
        LOSS_RETRY_INTERVAL_MS,
        POLL_TIMEOUT_MS,
    ]
)
_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_WORDS_OF = {STARTING_OFFSETS.name: "earliest, latest (of a stream), or ", ENDING_OFFSETS.name: "latest, or "}
_WITHOUT_EFFECT = ("groupIdPrefix", "minOffsetsPerTrigger", "maxTriggerDelay")
_NOT_OF_A_STREAM = {
    **dict.fromkeys(
        (ENDING_OFFSETS.name, ENDING_TIMESTAMP.name, ENDING_BY_TIMESTAMP.name),
        "a stream has no end: trigger(availableNow=True) ends the query at the offsets of its start",
    ),
    **dict.fromkeys(
        _WITHOUT_EFFECT[1:], "Spark 4.3 gives a source in Python no limit with a delay: trigger(processingTime=...)"
    ),
}
_OF_A_TABLE = "provider"
"""Only ``CREATE TABLE ... USING pykraft`` says it. Spark 4.3 hands over a table's options then, and not to queries."""
_KAFKA = "kafka."
_REFUSED = {
    "auto.offset.reset": "startingOffsets says where to begin",
    "enable.auto.commit": "a query commits no offsets",
    "key.deserializer": "keys are bytes: cast the column",
    "value.deserializer": "values are bytes: cast the column",
    "interceptor.classes": "there are no interceptors",
}
_ISOLATION = "isolation.level"
_FETCH_BYTES = "max.partition.fetch.bytes"
_DEFAULT_FETCH_BYTES = 4 << 20
"""Each task reads one partition over a connection of its own: more than a consumer's 1 MiB pays."""


@dataclass(frozen=True)
class Bound:
    """One end of what is read: for each partition, or for all alike, an offset, `EARLIEST` or `LATEST`; or, `by_time`,
    a timestamp in milliseconds. `option` is where it was said."""

    option: str
    marks: int | Mapping[TopicPartition, int]
    by_time: bool = False


@dataclass(frozen=True)
class ReadOptions:
    """The options of one query, read and checked. It travels to the executors."""

    consumer: Config
    """The settings that began with ``kafka.``, without that."""
    topics: tuple[str, ...]
    """What was subscribed to; of a pattern or an assignment nothing is here."""
    pattern: str
    assigned: tuple[TopicPartition, ...]
    starting: Bound
    ending: Bound
    latest_if_none_as_young: bool
    include_headers: bool
    push_filters: bool
    """Whether Spark's filters may narrow what is fetched: see `pushdown`."""
    min_partitions: int
    """0 if it was not set."""
    max_records_per_partition: int
    """0 if it was not set."""
    max_offsets_per_trigger: int
    """0 if it was not set."""
    fail_on_data_loss: bool
    loss_retries: int
    """How often a stream looks again before it takes records for lost."""
    loss_retry_interval_ms: int
    patience_ms: int
    """How long a task, or the planning, waits for brokers that do not answer as they should."""


def check_options(options: Mapping[str, str]) -> bool:
    """Whether the schema has the column `headers`. ConfigError if an option makes sense neither in a batch query nor in
    a stream: Spark asks for the schema before it says which of them it is."""
    return _Said(options).values[INCLUDE_HEADERS]


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """What the options of a batch query say; ConfigError, with one sentence, if they do not make sense. Names may be in
    any case."""
    said = _Said(options)
    found = said.read_options(EARLIEST)
    _check_bounds(found.starting, found.ending)
    return found


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """The same for a stream, which begins at the end of the log where nothing else is said."""
    for option in options:
        for name, why in _NOT_OF_A_STREAM.items():
            if option.lower() == name.lower():
                raise ConfigError(f"{name} cannot be set: {why}")
    return _Said(options).read_options(LATEST)


class _Said:
    """What the user said: `values` of the source's own options, and the consumer's settings."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._own = _by_their_names(options)
        self.values = _DEFINITION.resolve(self._own)
        self._consumer = _consumer_config(options, self.values[ISOLATION_LEVEL])
        _check_what_to_read(self.values, self._own)
        self._pattern = _checked_pattern(self.values[SUBSCRIBE_PATTERN])

    def read_options(self, begin: int) -> ReadOptions:
        """All of it; `begin` is where the query begins if nothing is said."""
        values, said = self.values, self._own
        starting = _bound(values, said, STARTING_TIMESTAMP, STARTING_BY_TIMESTAMP, STARTING_OFFSETS)
        if starting.option not in said:
            starting = Bound(starting.option, begin)
        return ReadOptions(
            consumer=self._consumer,
            topics=values[SUBSCRIBE],
            pattern=self._pattern,
            assigned=_partitions(values[ASSIGN]) if ASSIGN.name in said else (),
            starting=starting,
            ending=_bound(values, said, ENDING_TIMESTAMP, ENDING_BY_TIMESTAMP, ENDING_OFFSETS),
            latest_if_none_as_young=values[TIMESTAMP_STRATEGY] == "latest",
            include_headers=values[INCLUDE_HEADERS],
            push_filters=values[PUSH_FILTERS],
            min_partitions=values[MIN_PARTITIONS],
            max_records_per_partition=values[MAX_RECORDS_PER_PARTITION],
            max_offsets_per_trigger=values[MAX_OFFSETS_PER_TRIGGER],
            fail_on_data_loss=values[FAIL_ON_DATA_LOSS],
            loss_retries=values[LOSS_RETRIES],
            loss_retry_interval_ms=values[LOSS_RETRY_INTERVAL_MS],
            patience_ms=values[POLL_TIMEOUT_MS] or self._consumer[DEFAULT_API_TIMEOUT_MS],
        )


def _by_their_names(options: Mapping[str, str]) -> dict[str, str]:
    """The source's own options, each under its name as it is written here."""
    names = {name.lower(): name for name in _DEFINITION.keys}
    without_effect = {name.lower() for name in _WITHOUT_EFFECT}
    if _OF_A_TABLE in options:
        raise ConfigError("a table forgets the options of this source: CREATE TEMPORARY VIEW keeps them")
    said = {}
    for option, value in options.items():
        lower = option.lower()
        if lower == TIMESTAMP_STRATEGY.name.lower():
            said[TIMESTAMP_STRATEGY.name] = value.lower()
        elif lower in names:
            said[names[lower]] = value
        elif not lower.startswith(_KAFKA) and lower not in without_effect:
            known = ", ".join(_DEFINITION.keys)
            raise ConfigError(f"{option} is no option of this source; it has kafka.bootstrap.servers, {known}")
    return said


def _consumer_config(options: Mapping[str, str], isolation_level: str) -> Config:
    """The settings of the consumer: all that begins with ``kafka.``."""
    settings: dict[str, object] = {_FETCH_BYTES: _DEFAULT_FETCH_BYTES, "auto.offset.reset": "none"}
    for option, value in options.items():
        if option.lower().startswith(_KAFKA):
            setting = option.lower().removeprefix(_KAFKA)
            if setting in _REFUSED:
                raise ConfigError(f"kafka.{setting} cannot be set: {_REFUSED[setting]}")
            settings[setting] = value
    if isolation_level and settings.setdefault(_ISOLATION, isolation_level) != isolation_level:
        raise ConfigError(f"isolationLevel is {isolation_level} and kafka.{_ISOLATION} is not: set one of them")
    try:
        consumer = client_config(CONSUMER_CONFIG, settings)
        bootstrap_endpoints(consumer)
    except ConfigError as error:
        raise ConfigError(f"kafka.{error}") from None
    return consumer


def _check_what_to_read(values: Config, said: Collection[str]) -> None:
    what = [name for name in (SUBSCRIBE.name, ASSIGN.name, SUBSCRIBE_PATTERN.name) if name in said]
    if len(what) != 1:
        found = " and ".join(what) or "none of them"
        raise ConfigError(f"one of subscribe, assign and subscribePattern says what to read, and here is {found}")
    if not values.as_dict()[what[0]]:
        raise ConfigError(f"{what[0]} is empty, but must say what to read")


def _checked_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"subscribePattern is {pattern!r}, which is no regular expression: {error}") from None
    return pattern


def _bound(values: Config, said: Collection[str], time: Key[int], times: Key[str], offsets: Key[str]) -> Bound:
    """One end of what is read: the first of these options that was given, or the default of the last."""
    if time.name in said:
        return Bound(time.name, values[time], by_time=True)
    if times.name in said:
        return Bound(times.name, _marks(times.name, values[times], lowest=0), by_time=True)
    text = values[offsets]
    if text.lower() in _WORDS:
        return Bound(offsets.name, _WORDS[text.lower()])
    return Bound(offsets.name, _marks(offsets.name, text, lowest=EARLIEST))


def _partitions(text: str) -> tuple[TopicPartition, ...]:
    """What ``{"a": [0, 1], "b": [2]}`` names, in order."""
    found = {
        TopicPartition(topic, number)
        for topic, numbers in _object("assign", text, '{"topicA": [0, 1], "topicB": [2]}').items()
        for number in _checked_numbers(numbers, text)
    }
    if not found:
        raise ConfigError(f"assign is {text!r}, but must say what to read")
    return tuple(sorted(found))


def _checked_numbers(numbers: object, text: str) -> list[int]:
    if not isinstance(numbers, list) or not all(_is_whole(number) and number >= 0 for number in numbers):
        raise ConfigError(f'assign is {text!r}, but must be like {{"topicA": [0, 1], "topicB": [2]}}')
    return numbers


def _marks(option: str, text: str, lowest: int) -> dict[TopicPartition, int]:
    """What ``{"a": {"0": 23, "1": -2}}`` says of each partition."""
    example = '{"topicA": {"0": 23, "1": 0}, "topicB": {"0": 7}}'
    found: dict[TopicPartition, int] = {}
    for topic, by_number in _object(option, text, example).items():
        if not isinstance(by_number, dict):
            raise ConfigError(f"{option} is {text!r}, but must be like {example}")
        for number, mark in by_number.items():
            if not (number.isascii() and number.isdigit() and _is_whole(mark) and lowest <= mark < 1 << 63):
                raise ConfigError(
                    f"{option} says {mark!r} of partition {number!r} of {topic}, but must be like {example}"
                )
            found[TopicPartition(topic, int(number))] = mark
    return found


def _object(option: str, text: str, example: str) -> dict[str, Any]:
    """The JSON object in this text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        words = {STARTING_OFFSETS.name: "earliest, latest (of a stream), or ", ENDING_OFFSETS.name: "latest, or "}.get(
            option, ""
        )
        raise ConfigError(f"{option} is {text!r}, but must be {words}like {example}")
    return found


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_bounds(starting: Bound, ending: Bound) -> None:
    """A batch query has a beginning that is not the end, and an end that is not the beginning."""
    for bound, wrong, word in ((starting, LATEST, "latest"), (ending, EARLIEST, "earliest")):
        marks = {None: bound.marks} if isinstance(bound.marks, int) else bound.marks
        for partition, mark in marks.items():
            if mark == wrong and not bound.by_time:
                where = "" if partition is None else f" of {partition}"
                raise ConfigError(f"{bound.option}{where} is {word}, which leaves nothing to read for a batch query")
    if isinstance(starting.marks, int) or isinstance(ending.marks, int) or starting.by_time != ending.by_time:
        return
    if starting.marks.keys() != ending.marks.keys():
        odd = sorted(starting.marks.keys() ^ ending.marks.keys())[0]
        raise ConfigError(f"{starting.option} and {ending.option} must name the same partitions; {odd} is in one only")
    for partition, first in starting.marks.items():
        last = ending.marks[partition]
        if 0 <= last < first:
            raise ConfigError(f"{partition} begins at {first} ({starting.option}) and ends at {last} ({ending.option})")
