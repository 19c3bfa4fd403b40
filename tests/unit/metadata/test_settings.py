"""Layers of settings: which place holds, and how it is described."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.broker.settings.config import NODE_CONFIG
from pykraft.common.settings.topic_config import LOG_CONFIG, RETENTION_MS, SEGMENT_MS, broker_names
from pykraft.metadata.image import BROKER_RESOURCE, EMPTY_IMAGE, ConfigResource, MetadataImage
from pykraft.metadata.settings import (
    NodeLayers,
    Setting,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_topic,
    node_layers,
    settings_of_new_topic,
    topic_config,
)
from pykraft.protocol.messages.configs import ConfigSource, ConfigType

HOUR_MS = 3_600_000
NOTHING = NodeLayers({}, {}, {})


def image(dynamic: dict[str, str] | None = None, cluster: dict[str, str] | None = None) -> MetadataImage:
    said = {ConfigResource(BROKER_RESOURCE, "1"): dynamic or {}, ConfigResource(BROKER_RESOURCE, ""): cluster or {}}
    return MetadataImage(configs={resource: settings for resource, settings in said.items() if settings})


def named(settings: list[Setting], name: str) -> Setting:
    return next(setting for setting in settings if setting.name == name)


def places(setting: Setting) -> list[tuple[str, str | None, int]]:
    return [(place.name, place.value, int(place.source)) for place in setting.places]


LAYER = st.one_of(st.none(), st.integers(0, 1 << 40))
SCALED = st.one_of(st.none(), st.integers(0, (1 << 31) - 1))
"""Minutes and hours have the width of an int."""


@given(LAYER, LAYER, LAYER, LAYER, SCALED, SCALED)
def test_the_strongest_place_that_says_something_holds(
    own: int | None, dynamic: int | None, cluster: int | None, ms: int | None, minutes: int | None, hours: int | None
) -> None:
    name = "log.retention.ms"
    static = {name: ms, "log.retention.minutes": minutes, "log.retention.hours": hours}
    layers = node_layers(
        image({name: str(dynamic)} if dynamic is not None else {}, {name: str(cluster)} if cluster is not None else {}),
        1,
        {key: str(value) for key, value in static.items() if value is not None},
    )
    topic = {} if own is None else {"retention.ms": str(own)}
    in_ms = [own, dynamic, cluster, ms, minutes and minutes * 60_000, hours and hours * HOUR_MS, 168 * HOUR_MS]
    expected = next(value for value in in_ms if value is not None)
    assert topic_config(topic, layers)[RETENTION_MS] == expected
    told = named(describe_topic(topic, layers), "retention.ms")
    assert told.value == str(expected)
    # Kafka looks for the strongest name only, and tells from there on what stands behind it.
    assert [place.value for place in told.places][:1] == [
        str(value) for value in (own, dynamic, cluster, ms) if value is not None
    ][:1]


def test_a_description_lists_the_places_from_the_strongest_on() -> None:
    layers = node_layers(image({"log.retention.ms": "2"}, {"log.retention.ms": "3"}), 1, {"log.retention.hours": "4"})
    assert places(named(describe_topic({"retention.ms": "1"}, layers), "retention.ms")) == [
        ("retention.ms", "1", 1),
        ("log.retention.ms", "2", 2),
        ("log.retention.ms", "3", 3),
        ("log.retention.hours", "4", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_what_only_a_weaker_name_says_holds_but_is_told_as_the_default() -> None:
    layers = node_layers(EMPTY_IMAGE, 1, {"log.roll.hours": "1"})
    assert topic_config({}, layers)[SEGMENT_MS] == HOUR_MS
    told = named(describe_topic({}, layers), "segment.ms")
    assert (told.value, told.source, told.places) == (str(HOUR_MS), ConfigSource.DEFAULT, ())
    assert ("segment.ms", str(HOUR_MS), ConfigSource.STATIC_BROKER) in settings_of_new_topic({}, layers)


@pytest.mark.parametrize(
    "said",
    [
        {"log.retention.ms": "soon"},
        {"log.retention.hours": "1"},
        {"retention.ms": "1"},
        {"no.such": "1"},
        {"log.dirs": "/x"},
    ],
)
def test_dynamic_settings_that_make_no_sense_are_left_out(said: dict[str, str]) -> None:
    layers = node_layers(image(said, said), 1, {})
    assert layers == NOTHING
    assert describe_all_brokers(layers) == []


def test_a_topics_setting_that_makes_no_sense_is_left_out_and_the_others_hold() -> None:
    config = topic_config({"retention.ms": "soon", "segment.ms": "5", "no.such": "1"}, NOTHING)
    assert (config[RETENTION_MS], config[SEGMENT_MS]) == (168 * HOUR_MS, 5)


def test_names_of_topics_mean_nothing_in_a_nodes_file() -> None:
    assert topic_config({}, node_layers(EMPTY_IMAGE, 1, {"retention.ms": "1"}))[RETENTION_MS] == 168 * HOUR_MS


def test_each_setting_of_a_topic_has_the_same_default_under_the_names_of_brokers() -> None:
    for setting in describe_topic({}, NOTHING):
        strongest = broker_names(LOG_CONFIG.keys[setting.name])[:1]
        told = [named(describe_broker(NODE_CONFIG, {}, NOTHING), synonym.name).value for synonym in strongest]
        assert told in ([], [None], [setting.value])


def test_what_nobody_knows_in_a_file_may_be_a_secret() -> None:
    setting = named(describe_broker(NODE_CONFIG, {"my.password": "x"}, NOTHING), "my.password")
    assert (setting.value, setting.is_sensitive, setting.type) == (None, True, ConfigType.UNKNOWN)
    assert places(setting) == [("my.password", None, 4)]


@pytest.mark.parametrize(
    ("own", "described"),
    [
        ({}, [("interval.ms", "300000", 5), ("match", "", 5), ("metrics", "", 5)]),
        (
            {"interval.ms": "500", "metrics": "a,b"},
            [("interval.ms", "500", 7), ("match", "", 5), ("metrics", "a,b", 7)],
        ),
        ({"interval.ms": "soon", "x": "1"}, [("interval.ms", "300000", 5), ("match", "", 5), ("metrics", "", 5)]),
    ],
)
def test_a_subscription_to_clients_metrics_has_its_own_settings_and_the_defaults(
    own: dict[str, str], described: list[tuple[str, str, int]]
) -> None:
    assert [(each.name, each.value, each.source) for each in describe_client_metrics(own)] == described


def test_settings_for_tests_are_not_told_unless_they_are_set() -> None:
    assert not [s for s in describe_broker(NODE_CONFIG, {"internal.x": "1"}, NOTHING) if s.name.startswith("internal")]
    assert not [s for s in describe_topic({}, NOTHING) if s.name.startswith("internal")]
    assert named(describe_topic({"internal.segment.bytes": "9"}, NOTHING), "internal.segment.bytes").value == "9"


@pytest.mark.parametrize(
    "name",
    [
        "group.consumer.regex.refresh.interval.ms",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "unclean.leader.election.interval.ms",
        "pykraft.metrics.listener",
    ],
)
def test_an_internal_setting_of_brokers_is_told_where_the_file_says_it(name: str) -> None:
    assert name in NODE_CONFIG.keys
    assert not [s for s in describe_broker(NODE_CONFIG, {}, NOTHING) if s.name == name]
    assert named(describe_broker(NODE_CONFIG, {name: "12345"}, NOTHING), name).value == "12345"
