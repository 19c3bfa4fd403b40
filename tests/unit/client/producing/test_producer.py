"""A producer without a thread: what it takes, what it must wait for, what it never can send."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.client.config import DELIVERY_TIMEOUT_MS, ENABLE_IDEMPOTENCE, producer_config
from pykraft.client.producing.accumulator import RecordMetadata
from pykraft.client.producing.partitioner import partition_of_key
from pykraft.client.producing.producer import Obstacle, Outgoing, ProducerCore
from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from pykraft.security.jaas import PLAIN_MODULE
from tests.harness.scripted import Leaders, Script, described, settings
from tests.harness.scripted_log import ScriptedLog

LEADERS: Leaders = {"t": [(1, 0), (2, 0), (3, 0)]}


class Producing:
    """A producer core, driven by hand."""

    def __init__(self, **given: object) -> None:
        self.core = ProducerCore(settings("producer", **given), Random(1))
        self.script = Script(self.core)
        self.log = ScriptedLog()
        self.told: list[RecordMetadata | Exception | None] = []

    def append(self, value: bytes = b"v", key: bytes | None = None, partition: int | None = None) -> Obstacle | None:
        record = Outgoing("t", key, value, (), partition, 5)
        return self.core.try_append(record, lambda place, error: self.told.append(place or error), self.script.now)

    def knows(self, leaders: Leaders = LEADERS) -> Producing:
        self.append()
        self.script.poll()
        self.script.answer(MetadataRequest, described(leaders))
        return self

    def run(self) -> None:
        """Everything that is asked for is granted."""
        for _ in range(20):
            self.script.poll(100)
            if self.script.has_asked(InitProducerIdRequest):
                answer = InitProducerIdResponse(producer_id=1, producer_epoch=0)
                self.script.answer(InitProducerIdRequest, answer)
            for outbound in [o for o in self.script.sent if isinstance(o.request, ProduceRequest)]:
                self.script.answer(outbound, self.log.carry_out(outbound.request))


def test_the_first_record_of_a_topic_waits_for_its_metadata() -> None:
    some = Producing()
    assert some.append() is Obstacle.METADATA
    some.script.poll()
    assert [topic.name for topic in some.script.asked(MetadataRequest).topics or ()] == ["t"]
    some.script.answer(MetadataRequest, described(LEADERS))
    assert some.append() is None


def test_who_was_refused_a_topic_is_asked_about_it_again_at_the_next_record() -> None:
    """There may be a rule by then. It stayed refused until the metadata was five minutes old."""
    some = Producing()
    some.append()
    some.script.poll()
    some.script.answer(MetadataRequest, described({}, errors={"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED}))
    with pytest.raises(KafkaError) as refused:
        some.append()
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert some.append() is Obstacle.METADATA
    some.script.poll(200)
    some.script.answer(MetadataRequest, described(LEADERS))
    assert some.append() is None


def test_what_a_record_waits_for_is_said() -> None:
    some = Producing()
    some.append()
    assert some.core.reason("t", Obstacle.METADATA) == "no broker has answered at 127.0.0.1:9000"
    some.script.poll()
    unknown = {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    some.script.answer(MetadataRequest, described({}, errors=unknown))
    assert some.core.reason("t", Obstacle.METADATA) == (
        "the topic's partitions are not known yet: this server knows no such topic or partition"
    )
    assert some.core.reason("t", Obstacle.MEMORY) == "buffer.memory is used up"


def test_a_topic_that_cannot_be_is_refused() -> None:
    some = Producing().knows(leaders={})
    some.core.metadata.request_update()
    some.script.poll(100)
    refusal = described({}, errors={"t": ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    some.script.answer(MetadataRequest, refusal)
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: t"):
        some.append()


def test_a_record_goes_through() -> None:
    some = Producing().knows()
    assert some.core.is_idle
    some.append(b"a", partition=2)
    assert not some.core.is_idle
    some.run()
    assert some.told == [RecordMetadata("t", 2, 0, 5)]
    assert some.core.is_idle


def test_a_key_decides_on_the_partition() -> None:
    some = Producing().knows()
    for number in range(30):
        some.append(b"%d" % number, key=b"%d" % number)
    some.run()
    for key, values in some.log.values.items():
        assert {partition_of_key(value, 3) for value in values} == {key.partition}


def test_keyless_records_go_to_partitions_that_have_a_leader() -> None:
    some = Producing(batch_size=1).knows({"t": [(1, 0), None, (3, 0)]})
    for number in range(30):
        some.append(b"%d" % number)
    some.run()
    assert {key.partition for key in some.log.values} == {0, 2}


def test_a_partition_that_is_not_there_is_refused() -> None:
    some = Producing().knows()
    with pytest.raises(ValueError, match="t has partitions 0 to 2, not 3"):
        some.append(partition=3)


def test_a_record_larger_than_max_request_size_is_refused() -> None:
    some = Producing(max_request_size=1000).knows()
    with pytest.raises(KafkaError, match=r"max\.request\.size allows 1000") as error:
        some.append(bytes(1000))
    assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_memory_is_waited_for() -> None:
    some = Producing(buffer_memory=500).knows()
    assert some.append(bytes(450), partition=0) is None
    assert some.append(bytes(450), partition=0) is Obstacle.MEMORY
    some.run()
    assert some.append(bytes(450), partition=0) is None


def test_the_sender_is_wanted_when_there_is_something_new_for_it() -> None:
    some = Producing(batch_size=1000).knows()
    assert not some.core.wants_poll
    some.append(partition=0)
    assert some.core.wants_poll, "a batch began"
    some.script.poll()
    some.append(partition=0)
    assert not some.core.wants_poll, "it goes with the first"
    some.append(bytes(1000), partition=0)
    assert some.core.wants_poll, "the batch is full"


def test_who_waits_for_memory_does_not_wait_for_linger_ms() -> None:
    some = Producing(buffer_memory=600, linger_ms=50_000).knows()
    some.run()
    while some.append(bytes(100)) is None:
        continue
    assert some.core.accumulator.has_room(1), "else this tests nothing"
    some.run()
    assert some.append(bytes(100)) is None
    before = len(some.told)
    some.run()
    assert len(some.told) == before, "no flush waits any more, so this one waits for linger.ms"


def test_a_flush_waits_for_what_was_sent_before_it() -> None:
    some = Producing(linger_ms=50_000).knows()
    some.append()
    flush = some.core.begin_flush()
    assert not some.core.is_flushed(flush)
    some.run()
    for _ in range(5):
        some.append(bytes(20_000))
    assert some.core.is_flushed(flush)
    assert not some.core.is_idle


def test_the_end_of_one_flush_is_not_the_end_of_another() -> None:
    some = Producing(linger_ms=50_000).knows()
    some.append()
    one, other = some.core.begin_flush(), some.core.begin_flush()
    some.core.end_flush()
    some.run()
    assert some.core.is_flushed(one)
    assert some.core.is_flushed(other)


def test_what_was_under_way_is_abandoned_too() -> None:
    some = Producing(linger_ms=0).knows()
    some.append()
    for _ in range(3):
        some.script.poll(100)
        if some.script.has_asked(InitProducerIdRequest):
            some.script.answer(InitProducerIdRequest, InitProducerIdResponse(producer_id=1, producer_epoch=0))
    assert some.script.has_asked(ProduceRequest)
    error = RuntimeError("closed")
    some.core.abandon(error)
    assert some.told == [error]
    assert some.core.is_idle


def test_what_is_abandoned_is_told() -> None:
    some = Producing().knows()
    some.append()
    error = RuntimeError("closed")
    some.core.abandon(error)
    assert some.told == [error]
    assert some.core.is_idle


@pytest.mark.parametrize(
    ("given", "idempotent"),
    [
        ({}, True),
        ({"acks": "-1"}, True),
        ({"acks": "1"}, False),
        ({"acks": 0}, False),
        ({"retries": 0}, False),
        ({"enable.idempotence": "false"}, False),
    ],
)
def test_numbers_are_given_unless_the_other_settings_speak_against_it(
    given: dict[str, object], idempotent: bool
) -> None:
    assert producer_config({"bootstrap_servers": "127.0.0.1:1", **given})[ENABLE_IDEMPOTENCE] is idempotent


def test_the_time_for_a_delivery_that_nobody_has_set_is_long_enough_for_a_request() -> None:
    config = producer_config({"bootstrap_servers": "127.0.0.1:1", "request_timeout_ms": 200_000, "linger_ms": 7})
    assert config[DELIVERY_TIMEOUT_MS] == 200_007


ASKS_FOR_A_LOGIN: dict[str, object] = {"security_protocol": "SASL_PLAINTEXT"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"acks": "1", "enable_idempotence": True}, "acks=1: an idempotent producer needs acks=all"),
        ({"retries": 0, "enable_idempotence": True}, "retries=0: an idempotent producer must be able to try again"),
        ({"max_in_flight_requests_per_connection": 6}, "at most 5 under way"),
        ({"delivery_timeout_ms": 100}, "is less than linger.ms plus request.timeout.ms, 30005"),
        ({"acks": "2"}, "acks"),
        ({"compression_type": "brotli"}, "compression.type"),
        ({"no_such": 1}, "no.such is no setting of this client; it has: acks, batch.size"),
        ({"linger": 1}, "linger is no setting of this client. Did you mean linger.ms?"),
        (ASKS_FOR_A_LOGIN, "sasl.mechanism has GSSAPI, which is not built: it must be one of PLAIN, SCRAM-SHA-256"),
        (ASKS_FOR_A_LOGIN | {"sasl_mechanism": "PLAIN"}, "sasl.jaas.config is not set: it must have the client's"),
        (
            ASKS_FOR_A_LOGIN | {"sasl_mechanism": "PLAIN", "sasl_jaas_config": "M required;"},
            "sasl.jaas.config must name org.apache.kafka.common.security.plain.PlainLoginModule",
        ),
        (
            ASKS_FOR_A_LOGIN | {"sasl_mechanism": "PLAIN", "sasl_jaas_config": f"{PLAIN_MODULE} required;"},
            "sasl.jaas.config must have username and password",
        ),
        ({"ssl.ca.location": "ca"}, "ssl.ca.location is no setting of this client"),
        ({"metric.reporter": "x"}, "metric.reporter is no setting of this client. Did you mean metric.reporters?"),
        ({"transaction_two_phase_commit_enable": True}, "is true, but must be false: two-phase commit is not built"),
        (ASKS_FOR_A_LOGIN | {"security_protocol": "SASL_SSL"}, "sasl.mechanism has GSSAPI, which is not built"),
        ({"security.protocol": "tls"}, "security.protocol is 'TLS', but must be one of PLAINTEXT, SSL, SASL_PLAINT"),
        ({"bootstrap_servers": "nowhere"}, "bootstrap.servers: "),
        ({"linger_ms": "soon"}, "linger.ms"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Producing(**given)
