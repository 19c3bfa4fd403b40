"""Each option as Spark's own source takes it; and one sentence for each that makes no sense."""

from __future__ import annotations

import pickle

import pytest

from pykraft.client.config import BOOTSTRAP_SERVERS, ISOLATION_LEVEL, MAX_PARTITION_FETCH_BYTES
from pykraft.common.errors import ConfigError
from pykraft.common.types import TopicPartition
from pykraft.spark.options import EARLIEST, LATEST, Bound, ReadOptions, read_options, stream_options

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
SERVERS = {"kafka.bootstrap.servers": "h1:9092,h2:9093"}


def read(**said: str) -> ReadOptions:
    return read_options({**SERVERS, **{name.replace("__", "."): value for name, value in said.items()}})


def test_what_is_not_said_is_as_in_spark() -> None:
    found = read(subscribe="a")
    assert (found.starting.marks, found.ending.marks) == (EARLIEST, LATEST)
    assert (found.include_headers, found.fail_on_data_loss, found.min_partitions) == (False, True, 0)
    assert found.consumer[BOOTSTRAP_SERVERS] == ("h1:9092", "h2:9093")
    assert found.consumer[ISOLATION_LEVEL] == "read_uncommitted"
    assert found.patience_ms == 60_000


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"subscribe": " a , b,, "}, (("a", "b"), "", ())),
        ({"assign": '{"a": [1, 0], "b": [0]}'}, ((), "", (A0, A1, B0))),
        ({"subscribePattern": "a.*"}, ((), "a.*", ())),
        ({"SUBSCRIBE": "a", "STARTINGoffsets": "Earliest"}, (("a",), "", ())),
    ],
)
def test_what_is_read_is_said_in_one_of_three_ways(said: dict[str, str], expected: tuple[object, ...]) -> None:
    found = read(**said)
    assert (found.topics, found.pattern, found.assigned) == expected


@pytest.mark.parametrize(
    ("said", "starting", "ending"),
    [
        ({"startingOffsets": "earliest", "endingOffsets": " LATEST "}, EARLIEST, LATEST),
        ({"startingOffsets": '{"a": {"0": 23, "1": -2}}'}, {A0: 23, A1: EARLIEST}, LATEST),
        ({"endingOffsets": '{"a": {"0": 50, "1": -1}}'}, EARLIEST, {A0: 50, A1: LATEST}),
        ({"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":5}}'}, {A0: 5}, {A0: 5}),
        ({"startingOffsets": '{"a":{"0":-2}}', "endingOffsets": '{"a":{"0":-1}}'}, {A0: -2}, {A0: -1}),
    ],
)
def test_offsets_are_a_word_or_numbers_for_each_partition(
    said: dict[str, str], starting: object, ending: object
) -> None:
    found = read(subscribe="a", **said)
    assert (found.starting.marks, found.ending.marks) == (starting, ending)
    assert not found.starting.by_time and not found.ending.by_time


@pytest.mark.parametrize("word", ["latest", "Latest", "LATEST"])
def test_the_strategy_is_a_word_in_any_case(word: str) -> None:
    assert read(subscribe="a", startingOffsetsByTimestampStrategy=word).latest_if_none_as_young


def test_that_nothing_is_encrypted_may_be_said() -> None:
    assert read(subscribe="a", kafka__security__protocol="PLAINTEXT").topics == ("a",)


def test_times_go_before_offsets() -> None:
    found = read(
        subscribe="a",
        startingOffsets='{"a": {"0": 1}}',
        startingOffsetsByTimestamp='{"a": {"0": 1700000000000}}',
        endingOffsetsByTimestamp='{"a": {"0": 7}}',
        endingTimestamp="1800000000000",
        startingOffsetsByTimestampStrategy="latest",
    )
    assert found.starting == Bound("startingOffsetsByTimestamp", {A0: 1_700_000_000_000}, by_time=True)
    assert found.ending == Bound("endingTimestamp", 1_800_000_000_000, by_time=True)
    assert found.latest_if_none_as_young


def test_settings_of_the_consumer_are_taken() -> None:
    found = read(subscribe="a", kafka__isolation__level="read_committed", kafka__max__partition__fetch__bytes="99")
    assert (found.consumer[ISOLATION_LEVEL], found.consumer[MAX_PARTITION_FETCH_BYTES]) == ("read_committed", 99)
    assert read(subscribe="a", kafkaConsumer__pollTimeoutMs="512").patience_ms == 512
    assert read(subscribe="a", kafka__default__api__timeout__ms="1024").patience_ms == 1024


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "groupIdPrefix", "fetchOffset.numRetries", "kafka.group.id"])
def test_what_only_a_stream_or_a_group_has_is_accepted(name: str) -> None:
    assert read_options({**SERVERS, "subscribe": "a", name: "7"}).topics == ("a",)


def test_a_stream_begins_at_the_end_if_nothing_else_is_said() -> None:
    assert stream_options({**SERVERS, "subscribe": "a"}).starting.marks == LATEST
    assert stream_options({**SERVERS, "subscribe": "a", "startingOffsets": "earliest"}).starting.marks == EARLIEST
    mixed = {"subscribe": "a", "startingOffsets": '{"a": {"0": -1, "1": -2}}', "maxOffsetsPerTrigger": "7"}
    found = stream_options({**SERVERS, **mixed})
    assert (found.starting.marks, found.max_offsets_per_trigger) == ({A0: LATEST, A1: EARLIEST}, 7)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("endingOffsets", "a stream has no end"),
        ("ENDINGtimestamp", "a stream has no end"),
        ("endingOffsetsByTimestamp", "a stream has no end"),
        ("minOffsetsPerTrigger", "no limit with a delay"),
        ("maxTriggerDelay", "no limit with a delay"),
    ],
)
def test_what_a_stream_cannot_have_is_refused(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        stream_options({**SERVERS, "subscribe": "a", name: "7"})


def test_the_isolation_level_has_a_short_name() -> None:
    assert read(subscribe="a", isolationLevel="read_committed").consumer[ISOLATION_LEVEL] == "read_committed"
    both = {"isolationLevel": "read_committed", "kafka__isolation__level": "read_committed"}
    assert read(subscribe="a", **both).consumer[ISOLATION_LEVEL] == "read_committed"


def test_options_travel() -> None:
    found = read(subscribe="a", startingOffsets='{"a": {"0": 23}}', minPartitions="7", includeHeaders="TRUE")
    again = pickle.loads(pickle.dumps(found))
    assert again.consumer.as_dict() == found.consumer.as_dict()
    assert (again.starting, again.min_partitions, again.include_headers) == (found.starting, 7, True)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({}, "one of subscribe, assign and subscribePattern says what to read, and here is none of them"),
        ({"subscribe": "a", "assign": "{}"}, "and here is subscribe and assign"),
        ({"subscribe": " , "}, "subscribe is empty, but must say what to read"),
        ({"assign": ""}, "assign is empty, but must say what to read"),
        ({"assign": "{}"}, "assign is '{}', but must say what to read"),
        ({"assign": "a"}, 'assign is \'a\', but must be like {"topicA": [0, 1], "topicB": [2]}'),
        ({"assign": '{"a": 0}'}, "assign is '{\"a\": 0}', but must be like"),
        ({"assign": '{"a": [-1]}'}, "but must be like"),
        ({"assign": '{"a": [true]}'}, "but must be like"),
        ({"subscribePattern": "("}, "subscribePattern is '(', which is no regular expression: missing )"),
        (
            {"subscribe": "a", "startingOffsets": "first"},
            "startingOffsets is 'first', but must be earliest, latest (of a",
        ),
        ({"subscribe": "a", "startingOffsets": "latest"}, "startingOffsets is latest, which leaves nothing to read"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-1}}'}, "startingOffsets of a-0 is latest, which leaves"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "endingOffsets is earliest, which leaves nothing to read"),
        ({"subscribe": "a", "endingOffsets": '{"a":{"0":-2}}'}, "endingOffsets of a-0 is earliest"),
        ({"subscribe": "a", "startingOffsets": '{"a": 3}'}, "startingOffsets is '{\"a\": 3}', but must be like"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"x":3}}'}, "startingOffsets says 3 of partition 'x' of a"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":"3"}}'}, "startingOffsets says '3' of partition '0' of a"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-3}}'}, "startingOffsets says -3 of partition '0' of a"),
        (
            {"subscribe": "a", "startingOffsets": '{"a":{"0":9223372036854775808}}'},
            "startingOffsets says 9223372036854775808 of partition '0' of a",
        ),
        (
            {"subscribe": "a", "endingOffsetsByTimestamp": '{"a":{"0":9223372036854775808}}'},
            "endingOffsetsByTimestamp says 9223372036854775808 of partition '0' of a",
        ),
        ({"subscribe": "a", "startingOffsets": "[" * 100_000}, "but must be earliest, latest (of a stream), or like"),
        (
            {"subscribe": "a", "startingOffsets": "[1]"},
            "startingOffsets is '[1]', but must be earliest, latest (of a",
        ),
        ({"subscribe": "a", "endingOffsets": "{"}, "endingOffsets is '{', but must be latest, or like"),
        (
            {"subscribe": "a", "startingOffsets": '{"a":{"0":3}}', "endingOffsets": '{"a":{"0":2}}'},
            "a-0 begins at 3 (startingOffsets) and ends at 2 (endingOffsets)",
        ),
        (
            {"subscribe": "a", "startingOffsets": '{"a":{"0":3}}', "endingOffsets": '{"a":{"1":9}}'},
            "startingOffsets and endingOffsets must name the same partitions; a-0 is in one only",
        ),
        ({"subscribe": "a", "startingTimestamp": "now"}, "startingTimestamp is 'now', but must be a whole number"),
        ({"subscribe": "a", "startingOffsetsByTimestamp": '{"a":{"0":-2}}'}, "startingOffsetsByTimestamp says -2"),
        ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "x"}, "must be one of error, latest"),
        ({"subscribe": "a", "includeHeaders": "yes"}, "includeHeaders is 'yes', but must be true or false"),
        ({"subscribe": "a", "failOnDataLoss": "0"}, "failOnDataLoss is '0', but must be true or false"),
        ({"subscribe": "a", "minPartitions": "0"}, "minPartitions is '0', but must be a whole number of at least 1"),
        (
            {"subscribe": "a", "minPartitions": "2147483648"},
            "minPartitions is '2147483648', but must be a whole number",
        ),
        ({"subscribe": "a", "maxRecordsPerPartition": "-5"}, "maxRecordsPerPartition is '-5', but must be"),
        ({"subscribe": "a", "startingOffset": "earliest"}, "startingOffset is no option of this source; it has kafka."),
        ({"subscribe": "a", "kafka__isolation__level": "x"}, "kafka.isolation.level is 'x', but must be one of"),
        ({"subscribe": "a", "isolationLevel": "x"}, "isolationLevel is 'x', but must be one of read_uncommitted, read"),
        (
            {"subscribe": "a", "isolationLevel": "read_committed", "kafka__isolation__level": "read_uncommitted"},
            "isolationLevel is read_committed and kafka.isolation.level is not: set one of them",
        ),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0', but must be a whole number"),
        ({"subscribe": "a", "kafka__bootstrap__servers": "h"}, "kafka.bootstrap.servers: 'h' is no host:port"),
        (
            {"subscribe": "a", "kafka__max__partition__fetch__bytes": "2147483648"},
            "kafka.max.partition.fetch.bytes is '2147483648', but must be a whole number of at least 0 and at most",
        ),
        ({"subscribe": "a", "kafka__fetch__max__bytes": "2147483648"}, "kafka.fetch.max.bytes is '2147483648', but"),
        ({"subscribe": "a", "kafka__fetch__min__bytes": "2147483648"}, "kafka.fetch.min.bytes is '2147483648', but"),
        ({"subscribe": "a", "kafka__fetch__max__wait__ms": "2147483648"}, "kafka.fetch.max.wait.ms is '21474836"),
        ({"subscribe": "a", "kafka__request__timeout__ms": "2147483648"}, "kafka.request.timeout.ms is '2147483648'"),
        ({"subscribe": "a", "kafka__bootstrap__servers": " "}, "kafka.bootstrap.servers is '', but must be"),
        (
            {"subscribe": "a", "kafka__security__protocol": "TLS"},
            "kafka.security.protocol is 'TLS', but must be one of PLAINTEXT, SSL",
        ),
        (
            {"subscribe": "a", "kafka__security__protocol": "SSL", "kafka__ssl__truststore__location": "t.jks"},
            "kafka.ssl.truststore.type is JKS, but must be PEM",
        ),
        (
            {"subscribe": "a", "kafka__auto__offset__reset": "none"},
            "kafka.auto.offset.reset cannot be set: startingOff",
        ),
        ({"subscribe": "a", "kafka__enable__auto__commit": "true"}, "kafka.enable.auto.commit cannot be set: a query"),
        ({"subscribe": "a", "kafka__key__deserializer": "x"}, "kafka.key.deserializer cannot be set: keys are bytes"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(said: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(**said)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_servers_nothing_can_be_read() -> None:
    with pytest.raises(ConfigError, match=r"^kafka\.bootstrap\.servers is not set"):
        read_options({"subscribe": "a"})
