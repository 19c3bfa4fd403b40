"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources: what is described, what is changed, what
is refused, and what a change does to a topic in use.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.common.types import Uuid
from pykraft.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from tests.conformance.dialogue import Dialogue
from tests.conformance.servers import NODES, Server
from tests.harness.asking import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    batch,
    change,
    create,
    delete,
    describe,
    fetch,
    new_topic,
    produce,
    replace_all,
    versions,
)
from tests.harness.connection import Connection

NEWEST = 4
SOME = ["retention.ms", "segment.ms", "cleanup.policy", "max.message.bytes", "compression.type", "segment.bytes"]


@pytest.fixture(autouse=True)
def nothing_stays_changed(server: Server) -> Iterator[None]:
    """The settings of all brokers go back to what they were."""
    yield
    names = ["message.max.bytes", "log.retention.ms", "log.cleanup.policy", "log.segment.bytes"]
    names += [*PRODUCER_SETTINGS, *RATES]
    with Connection(server.address(1)) as connection:
        for name in ("", "1"):
            answer = connection.ask(change((BROKER, name, [(key, DELETE, None) for key in names])), 1)
            assert not answer.responses[0].error_code


def told(talk: Dialogue, node: int, topic: str, **settings: str) -> None:
    """Until this node says so of the topic."""
    talk.until(
        node,
        describe((TOPIC, topic), only=[name.replace("_", ".") for name in settings]),
        NEWEST,
        lambda answer: {c.name.replace(".", "_"): c.value for c in answer.results[0].configs} == settings,
    )


def in_effect(talk: Dialogue, node: int, topic: str, **settings: str) -> None:
    """Until this node not only says so but does so: Apache Kafka first shows a change, and then hands it to the logs.
    It takes one change after the other, so the next one, of an unused topic, is shown when this one is done."""
    told(talk, node, topic, **settings)
    number = next(_numbers)
    with Connection(talk.server.address(node)) as connection:
        answer = connection.ask(change((TOPIC, f"{topic}-next", [("segment.ms", SET, number)])), 1)
        assert not answer.responses[0].error_code
    told(talk, node, f"{topic}-next", segment_ms=number)


_numbers = map(str, itertools.count(1))


# --- describing -------------------------------------------------------------------------------------------------------


def test_each_version_describes_topics_and_brokers(talk: Dialogue) -> None:
    talk.topic("configs-versions", configs={"retention.ms": 1000, "cleanup.policy": "compact,delete"})
    for version in versions(DescribeConfigsRequest):
        fields = {"include_synonyms": True} | ({"include_documentation": True} if version > 2 else {})
        talk.to().ask(describe((TOPIC, "configs-versions"), only=SOME, **fields), version)
        talk.to().ask(describe((TOPIC, "configs-versions"), only=SOME[:1]), version, "without synonyms")
        only = ["node.id", "log.retention.hours", "log.retention.ms", "log.cleanup.policy", "log.roll.hours"]
        talk.to().ask(describe((BROKER, "1"), only=only, **fields), version)


def test_all_settings_of_a_topic(talk: Dialogue) -> None:
    talk.topic("configs-all", configs={"preallocate": "true", "min.cleanable.dirty.ratio": "0.25"})
    talk.to().ask(describe((TOPIC, "configs-all"), include_synonyms=True), NEWEST)


def test_names_may_be_left_out_or_unknown(talk: Dialogue) -> None:
    talk.topic("configs-named")
    for says, only in {"one": ["flush.ms"], "unknown": ["no.such"], "one of two": ["flush.ms", "no.such"]}.items():
        talk.to().ask(describe((TOPIC, "configs-named"), only=only), NEWEST, says)
    talk.to().ask(describe((TOPIC, "configs-named"), (TOPIC, "configs-named"), only=["flush.ms"]), NEWEST, "twice")
    talk.to().ask(describe(), NEWEST, "nothing")


def test_resources_that_are_not_described(talk: Dialogue) -> None:
    for kind, name in (
        (TOPIC, "configs-nowhere"),
        (TOPIC, ""),
        (TOPIC, "a/b"),
        (BROKER, "2"),
        (BROKER, "9"),
        (BROKER, "-1"),
        (BROKER, "one"),
        (0, "x"),
        (3, "x"),
        (127, "x"),
    ):
        talk.to().ask(describe((kind, name), only=["node.id"]), NEWEST, f"type {int(kind)}, {name!r}")
    talk.to().ask(describe((TOPIC, "configs-nowhere"), (3, "x")), NEWEST, "one that might be, one that cannot")
    talk.to().ask(describe((TOPIC, "configs-nowhere"), (BROKER, "1"), only=["node.id"]), NEWEST, "one of two")


def test_controllers_describe_themselves_and_topics(talk: Dialogue) -> None:
    talk.topic("configs-controller", configs={"retention.ms": 1000})
    controller = talk.to_controller(1)
    controller.ask(describe((TOPIC, "configs-controller"), only=SOME[:1], include_synonyms=True), NEWEST)
    controller.ask(describe((BROKER, "1"), only=["node.id", "process.roles"]), NEWEST)


NUMBERS = {
    "5000 digits": "9" * 5000,
    "more than 31 bits": str((1 << 31) + 1),
    "a plus": "+1",
    "a zero in front": "01",
    "digits of another alphabet": "\uff11",
    "a blank": " 1",
    "an underscore": "1_0",
    "nothing but a minus": "-",
}


def test_brokers_are_described_by_their_numbers(talk: Dialogue) -> None:
    for says, name in NUMBERS.items():
        answer = talk.to().connection.ask(describe((BROKER, name), only=["node.id"]), NEWEST)
        (result,) = answer.results
        talk.write(f"> {says}", f"  {ErrorCode.of(result.error_code).name} {[c.value for c in result.configs]}")


# --- changing ---------------------------------------------------------------------------------------------------------


def test_each_version_changes(talk: Dialogue) -> None:
    talk.topic("configs-changed")
    for version in versions(IncrementalAlterConfigsRequest):
        talk.to().ask(change((TOPIC, "configs-changed", [("retention.ms", SET, f"{version + 1}000")])), version)
        told(talk, 1, "configs-changed", retention_ms=f"{version + 1}000")
    for version in versions(AlterConfigsRequest):
        talk.to().ask(replace_all((TOPIC, "configs-changed", [("retention.ms", f"{version + 1}0")])), version)
        told(talk, 1, "configs-changed", retention_ms=f"{version + 1}0")


def test_an_incremental_change_leaves_the_rest_and_the_older_one_does_not(talk: Dialogue) -> None:
    talk.topic("configs-left", configs={"retention.ms": 1, "max.message.bytes": 2000})
    question = describe((TOPIC, "configs-left"), only=SOME)
    talk.to(2).ask(
        change((TOPIC, "configs-left", [("segment.bytes", SET, "2000000"), ("retention.ms", DELETE, None)])), 1
    )
    told(talk, 1, "configs-left", segment_bytes="2000000")
    talk.to().ask(question, NEWEST)
    talk.to(2).ask(replace_all((TOPIC, "configs-left", [("segment.ms", "5")])), 2)
    told(talk, 1, "configs-left", segment_ms="5")
    talk.to().ask(question, NEWEST)
    talk.to(2).ask(replace_all((TOPIC, "configs-left", [])), 2)
    told(talk, 1, "configs-left", segment_ms="604800000")


def test_lists_grow_and_shrink(talk: Dialogue) -> None:
    talk.topic("configs-list")
    name, expected = "cleanup.policy", ""
    for operation, value, expected in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact,delete", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "nothing", "compact"),
        (SET, "delete", "delete"),
    ):
        talk.to().ask(change((TOPIC, "configs-list", [(name, operation, value)])), 1, f"{operation.name} {value}")
        told(talk, 1, "configs-list", cleanup_policy=expected)
    for operation, value in ((APPEND, "burn"), (APPEND, ""), (SUBTRACT, "")):
        talk.to().ask(change((TOPIC, "configs-list", [(name, operation, value)])), 1, f"{operation.name} {value!r}")
    throttled = "leader.replication.throttled.replicas"
    talk.to().ask(change((TOPIC, "configs-list", [(throttled, APPEND, "0:1,1:2")])), 1)
    talk.to().ask(change((TOPIC, "configs-list", [("retention.ms", APPEND, "1")])), 1, "to a number")
    talk.to().ask(change((TOPIC, "configs-list", [("no.such", APPEND, "1")])), 1, "to nothing")


def test_changes_that_are_refused(talk: Dialogue) -> None:
    talk.topic("configs-refused")
    for says, changes in {
        "an unknown one": [("no.such", SET, "1")],
        "without a name": [("", SET, "1")],
        "null": [("retention.ms", SET, None)],
        "null to a list": [("cleanup.policy", APPEND, None)],
        "delete what is not set": [("retention.ms", DELETE, None)],
        "delete an unknown one": [("no.such", DELETE, None)],
        "delete with a value": [("retention.ms", DELETE, "1")],
        "no number": [("retention.ms", SET, "soon")],
        "empty": [("retention.ms", SET, "")],
        "too small": [("min.insync.replicas", SET, "0")],
        "the same one twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
        "twice in different ways": [("cleanup.policy", SET, "compact"), ("cleanup.policy", APPEND, "delete")],
        "a good and a bad one": [("retention.ms", SET, "1"), ("segment.bytes", SET, "1")],
        "a contradiction": [("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8")],
        "tiered storage": [("remote.storage.enable", SET, "true")],
        "a name of brokers": [("log.retention.ms", SET, "1")],
        "too long": [("leader.replication.throttled.replicas", SET, "0:1," * 8191 + "0:1,0")],
        "nothing": [],
    }.items():
        talk.to().ask(change((TOPIC, "configs-refused", changes)), 1, says)
        older = [(name, value) for name, operation, value in changes if operation == SET]
        if len(older) == len(changes):
            talk.to().ask(replace_all((TOPIC, "configs-refused", older)), 2, says)
    talk.to().ask(describe((TOPIC, "configs-refused"), only=SOME), NEWEST)


def test_resources_that_are_not_changed(talk: Dialogue) -> None:
    talk.topic("configs-one")
    good = ("retention.ms", SET, "1")
    for says, resources in {
        "no topic of this name": [(TOPIC, "configs-nowhere")],
        "no name": [(TOPIC, "")],
        "no name that a topic has": [(TOPIC, "a/b")],
        "a type that is not there": [(3, "configs-one")],
        "twice": [(TOPIC, "configs-one"), (TOPIC, "configs-one")],
        "one of two": [(TOPIC, "configs-nowhere"), (TOPIC, "configs-one")],
        "none": [],
    }.items():
        talk.to().ask(change(*[(kind, name, [good]) for kind, name in resources]), 1, says)
        if says != "twice":  # Kafka does not answer that at all
            talk.to().ask(replace_all(*[(kind, name, [good[::2]]) for kind, name in resources]), 2, says)
    for name in ("2", "9", "-1", "one"):
        talk.to().ask(change((BROKER, name, [("message.max.bytes", SET, "1000")])), 1, f"broker {name!r}")


def test_brokers_are_changed_by_their_numbers(talk: Dialogue) -> None:
    for says, name in NUMBERS.items():
        request = change((BROKER, name, [("message.max.bytes", SET, "1000")]), validate_only=True)
        (result,) = talk.to().connection.ask(request, 1).responses
        talk.write(f"> {says}", f"  {ErrorCode.of(result.error_code).name}")


def test_numbers_are_written_in_digits(talk: Dialogue) -> None:
    talk.topic("configs-digits")
    for name, values in {
        "retention.ms": ("1_000", "+5", " 5 ", "\uff15", "1e3", "0x10", "5.0", "9" * 5000),
        "min.cleanable.dirty.ratio": ("0.2_5", ".5", " 0.5 ", "+0.5", "5e-1", "NaN", "Infinity"),
    }.items():
        for value in values:
            request = change((TOPIC, "configs-digits", [(name, SET, value)]), validate_only=True)
            talk.to().ask(request, 1, f"{name}={value!r:.20}")


def test_validation_changes_nothing(talk: Dialogue) -> None:
    talk.topic("configs-validated")
    for value in ("1", "soon"):
        settings = (TOPIC, "configs-validated", [("retention.ms", SET, value)])
        talk.to().ask(change(settings, validate_only=True), 1, value)
        talk.to().ask(
            replace_all((TOPIC, "configs-validated", [("retention.ms", value)]), validate_only=True), 2, value
        )
    talk.to().ask(describe((TOPIC, "configs-validated"), only=["retention.ms"]), NEWEST)


# --- brokers ----------------------------------------------------------------------------------------------------------


def test_settings_of_brokers_that_are_refused(talk: Dialogue) -> None:
    for name in ("", "1"):
        for says, changes in {
            "read only": [("log.dirs", SET, "x")],
            "the weaker name": [("log.retention.hours", SET, "1")],
            "no number": [("log.retention.ms", SET, "soon")],
            "no policy": [("log.cleanup.policy", SET, "burn")],
            "null": [("log.retention.ms", SET, None)],
            "a number is no list": [("log.retention.ms", APPEND, "1")],
            "a list is": [("log.cleanup.policy", APPEND, "compact")],
            "delete what is not set": [("log.segment.bytes", DELETE, None)],
        }.items():
            talk.to().ask(change((BROKER, name, changes)), 1, f"{name or 'all'}, {says}")


def test_what_a_topic_does_not_say_brokers_say(talk: Dialogue) -> None:
    """The strongest first: the topic, its broker, all brokers, the default."""
    talk.topic("configs-inherits", replicas=[(1, 2)])
    question = describe((TOPIC, "configs-inherits"), only=["retention.ms", "max.message.bytes"], include_synonyms=True)
    talk.to(2).ask(change((BROKER, "", [("log.retention.ms", SET, "2000"), ("message.max.bytes", SET, "20000")])), 1)
    told(talk, 1, "configs-inherits", retention_ms="2000", max_message_bytes="20000")
    talk.to().ask(question, NEWEST)
    talk.to().ask(change((BROKER, "1", [("log.retention.ms", SET, "3000")])), 1)
    told(talk, 1, "configs-inherits", retention_ms="3000")
    talk.to().ask(question, NEWEST)
    talk.to(2).ask(question, NEWEST)
    talk.to().ask(change((TOPIC, "configs-inherits", [("retention.ms", SET, "4000")])), 1)
    told(talk, 1, "configs-inherits", retention_ms="4000")
    talk.to().ask(question, NEWEST)
    for name in ("", "1"):
        only = ["log.retention.ms", "message.max.bytes", "log.retention.hours"]
        talk.to().ask(describe((BROKER, name), only=only, include_synonyms=True), NEWEST)
    made = create(new_topic("configs-made", assignments=[(0, [1])]), validate_only=True)
    answer = talk.to().ask(made, 7)
    sources = {config.name: (config.value, config.config_source) for config in answer.topics[0].configs}
    talk.write(f"  max.message.bytes: {sources['max.message.bytes']}")


PRODUCER_SETTINGS = ["transaction.partition.verification.enable", "producer.id.expiration.ms"]


def test_how_logs_treat_producers_is_changed_while_brokers_run(talk: Dialogue) -> None:
    verification, expiration = PRODUCER_SETTINGS
    question = describe((BROKER, "1"), only=PRODUCER_SETTINGS, include_synonyms=True)
    talk.to().ask(question, NEWEST)
    for name, says, changes in [
        ("", "neither true nor false", [(verification, SET, "maybe")]),
        ("1", "no time at all", [(expiration, SET, "0")]),
        ("1", "no number", [(expiration, SET, "soon")]),
        ("", "no list", [(verification, APPEND, "true")]),
        ("", "both of all", [(verification, SET, "FALSE"), (expiration, SET, "5000")]),
        ("1", "one of one", [(verification, SET, "true")]),
    ]:
        talk.to().ask(change((BROKER, name, changes)), 1, f"{name or 'all'}, {says}")
    talk.until(
        1,
        describe((BROKER, "1"), only=PRODUCER_SETTINGS),
        NEWEST,
        lambda answer: sorted(config.value for config in answer.results[0].configs) == ["5000", "true"],
    )
    talk.to().ask(question, NEWEST)
    talk.to().ask(describe((BROKER, ""), only=PRODUCER_SETTINGS, include_synonyms=True), NEWEST)


RATES = [f"{side}.replication.throttled.rate" for side in ("leader", "follower")]
REPLICAS = [f"{side}.replication.throttled.replicas" for side in ("leader", "follower")]


def test_the_throttles_of_replication_are_set_while_brokers_run(talk: Dialogue) -> None:
    talk.topic("configs-throttled", replicas=[(1, 2)])
    leader, follower = RATES
    for says, rate in {"negative": "-1", "no number": "fast", "half": "1.5", "too large": "9" * 20}.items():
        talk.to().ask(change((BROKER, "1", [(leader, SET, rate)])), 1, says)
        talk.to().ask(change((BROKER, "", [(follower, SET, rate)])), 1, says)
    for text in ("x", "0", "0:1,*", ":", "0:-1", "*,*", "0:1,1:2", "", "*"):
        talk.to().ask(change((TOPIC, "configs-throttled", [(name, SET, text) for name in REPLICAS])), 1, repr(text))
    talk.to().ask(describe((BROKER, "1"), only=RATES, include_synonyms=True), NEWEST, "before")
    talk.to().ask(change((BROKER, "", [(leader, SET, "5000"), (follower, SET, "0")])), 1)
    talk.to().ask(change((BROKER, "1", [(leader, SET, "6000")])), 1)
    asked = describe((BROKER, "1"), only=RATES)
    talk.until(1, asked, NEWEST, lambda answer: {c.value for c in answer.results[0].configs} == {"6000", "0"})
    told(talk, 1, "configs-throttled", **{name.replace(".", "_"): "*" for name in REPLICAS})
    talk.to().ask(describe((BROKER, "1"), only=RATES, include_synonyms=True), NEWEST)
    talk.to().ask(describe((BROKER, ""), only=RATES, include_synonyms=True), NEWEST)
    talk.to().ask(describe((TOPIC, "configs-throttled"), only=REPLICAS, include_synonyms=True), NEWEST)


# --- groups -----------------------------------------------------------------------------------------------------------

GROUP_SETTINGS = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")


def test_a_subscription_of_clients_metrics_that_nobody_made_has_the_defaults(talk: Dialogue) -> None:
    talk.to().ask(describe((CLIENT_METRICS, "configs-subscription"), include_synonyms=True), NEWEST)
    talk.to().ask(describe((CLIENT_METRICS, "configs-subscription"), only=["interval.ms"]), NEWEST, "one setting")
    talk.to().ask(describe((CLIENT_METRICS, "")), NEWEST, "no name")


def group_told(talk: Dialogue, group: str, *values: str) -> None:
    """Until broker 1 says so of the group."""
    request = describe((GROUP, group), only=GROUP_SETTINGS)
    talk.until(1, request, NEWEST, lambda answer: {c.value for c in answer.results[0].configs} == set(values))


def test_groups_have_settings(talk: Dialogue) -> None:
    question = describe((GROUP, "configs-group"), only=GROUP_SETTINGS, include_synonyms=True)
    talk.to().ask(question, NEWEST, "before")
    talk.to(2).ask(change((GROUP, "configs-group", [("consumer.session.timeout.ms", SET, "50000")])), 1)
    group_told(talk, "configs-group", "50000", "5000")
    talk.to().ask(question, NEWEST)
    talk.to().ask(describe((GROUP, "configs-group"), only=GROUP_SETTINGS), NEWEST, "without synonyms")
    talk.to().ask(replace_all((GROUP, "configs-group", [("consumer.heartbeat.interval.ms", "6000")])), 2)
    group_told(talk, "configs-group", "45000", "6000")
    talk.to().ask(question, NEWEST)
    listed = talk.to().connection.ask(ListConfigResourcesRequest(resource_types=[GROUP]), 1).config_resources
    talk.write(f"  listed: {('configs-group', GROUP) in [(r.resource_name, r.resource_type) for r in listed]}")
    talk.to().ask(change((GROUP, "configs-group", [("consumer.heartbeat.interval.ms", DELETE, None)])), 1)
    group_told(talk, "configs-group", "45000", "5000")
    talk.to().ask(question, NEWEST, "after")


def test_settings_of_groups_that_are_refused(talk: Dialogue) -> None:
    session, heartbeat = GROUP_SETTINGS
    for says, changes in {
        "too short": [(session, SET, "44999")],
        "too long": [(session, SET, "60001")],
        "too often": [(heartbeat, SET, "4999")],
        "too seldom": [(heartbeat, SET, "15001")],
        "zero": [(session, SET, "0")],
        "no number": [(session, SET, "soon")],
        "too large": [(session, SET, "9" * 20)],
        "empty": [(session, SET, "")],
        "null": [(session, SET, None)],
        "unknown": [("no.such", SET, "1")],
        "a name of brokers": [("group.consumer.session.timeout.ms", SET, "50000")],
        "a good and a bad one": [(session, SET, "50000"), (heartbeat, SET, "1")],
        "append": [(session, APPEND, "50000")],
        "delete what is not set": [(session, DELETE, None)],
        "delete an unknown one": [("no.such", DELETE, None)],
        "nothing": [],
    }.items():
        talk.to().ask(change((GROUP, "configs-group-refused", changes), validate_only=True), 1, says)
        older = [(name, value) for name, operation, value in changes if operation == SET]
        if len(older) == len(changes):
            talk.to().ask(replace_all((GROUP, "configs-group-refused", older), validate_only=True), 2, says)
    talk.to().ask(change((GROUP, "", [(session, SET, "50000")])), 1, "no name")
    talk.to().ask(replace_all((GROUP, "", [(session, "50000")])), 2, "no name")
    talk.to().ask(describe((GROUP, ""), only=GROUP_SETTINGS), NEWEST, "no name")


# --- in use -----------------------------------------------------------------------------------------------------------


def test_a_change_takes_effect_on_a_topic_in_use(talk: Dialogue) -> None:
    talk.topic("configs-used", replicas=[(1, 2, 3)])
    talk.topic("configs-used-next")
    talk.to().ask(produce("configs-used", batch()), 9)
    for says, name, value in (
        ("too large now", "max.message.bytes", "100"),
        ("allowed again", "max.message.bytes", "1000"),
        ("with keys only", "cleanup.policy", "compact"),
        ("without keys", "cleanup.policy", "delete"),
        ("compressed", "compression.type", "gzip"),
        ("too old", "message.timestamp.before.max.ms", "1000"),
        ("by the broker's time", "message.timestamp.type", "LogAppendTime"),
    ):
        talk.to().ask(change((TOPIC, "configs-used", [(name, SET, value)])), 1, f"{name}={value}")
        in_effect(talk, 1, "configs-used", **{name.replace(".", "_"): value})
        talk.to().ask(produce("configs-used", batch(key=None), acks=-1), 9, says)
    talk.until(1, fetch("configs-used", 0), 12, lambda answer: answer.responses[0].partitions[0].high_watermark == 10)
    talk.to().ask(fetch("configs-used", 0), 12)


def test_more_replicas_may_be_demanded_of_a_topic_in_use(talk: Dialogue) -> None:
    talk.topic("configs-demand", replicas=[(1, 2)])
    talk.topic("configs-demand-next")
    for demanded in ("2", "3", "1"):
        talk.to().ask(change((TOPIC, "configs-demand", [("min.insync.replicas", SET, demanded)])), 1, demanded)
        in_effect(talk, 1, "configs-demand", min_insync_replicas=demanded)
        talk.to().ask(produce("configs-demand", batch(1), acks=-1), 9)


def test_a_deleted_topic_takes_its_settings_with_it(talk: Dialogue) -> None:
    first: Uuid = talk.topic("configs-again", configs={"retention.ms": 1})
    talk.to().ask(delete(first), 6)
    talk.topic("configs-again")
    talk.to().ask(describe((TOPIC, "configs-again"), only=["retention.ms"]), NEWEST)


# --- listing ----------------------------------------------------------------------------------------------------------


def test_resources_are_listed(talk: Dialogue) -> None:
    talk.to().ask(ListConfigResourcesRequest(), 0)
    for says, types in {"clients' metrics": [16], "brokers": [4], "no such type": [4, 3]}.items():
        talk.to().ask(ListConfigResourcesRequest(resource_types=types), 1, says)
    topics = ListConfigResourcesRequest(resource_types=[TOPIC])
    talk.topic("configs-listed")
    for node in NODES:
        answer = talk.until(node, topics, 1, lambda answer: not answer.error_code)
        names = [resource.resource_name for resource in answer.config_resources]
        talk.write(f"  broker {node} knows configs-listed: {'configs-listed' in names or node != 1}")
