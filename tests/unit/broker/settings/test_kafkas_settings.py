"""A node knows each setting of Apache Kafka's brokers and controllers: it serves it, warns, or refuses to start."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from types import SimpleNamespace

import pytest

from pykraft.broker.settings.config import NODE_CONFIG, advice, read_node_config
from pykraft.common.errors import ConfigError
from pykraft.common.settings.broker_config import READ_FROM_THE_FILE
from pykraft.common.settings.config import Key, parse_properties
from pykraft.common.settings.unserved_config import REFUSED, UNSERVED, WITHOUT_EFFECT
from pykraft.metadata.image import EMPTY_IMAGE
from pykraft.metadata.settings import describe_broker, node_layers
from tests.harness.broker_settings import described, properties
from tests.harness.tree import ROOT

RECORDED = ROOT / "tests" / "unit" / "broker" / "settings" / "described_by_kafka_4.4.0.txt"
FILES = ROOT / "tests" / "harness" / "kafka_files"
SKIPPED = (ROOT / "pykraft" / "SKIPPED.md").read_text()


# --- descriptions -----------------------------------------------------------------------------------------------------


def our_lines() -> list[str]:
    settings = describe_broker(NODE_CONFIG, properties(), node_layers(EMPTY_IMAGE, 1, properties()))
    return list(
        described(
            SimpleNamespace(
                name=each.name,
                config_type=each.type,
                value=each.value,
                read_only=each.is_read_only,
                is_sensitive=each.is_sensitive,
                synonyms=[SimpleNamespace(name=p.name, value=p.value, source=p.source) for p in each.places],
            )
            for each in settings
        )
    )


def test_a_broker_describes_each_setting_as_kafka_does_but_for_what_only_a_restart_changes() -> None:
    expected = [
        re.sub(r"( \||$)", r" read-only\1", line, count=1) if line.split()[0] in READ_FROM_THE_FILE else line
        for line in RECORDED.read_text().splitlines()
    ]
    assert our_lines() == expected


# --- what a file says -------------------------------------------------------------------------------------------------


def another(key: Key[object]) -> str:
    """A value of the key that is not its default."""
    if key.kind == "boolean":
        return str(not key.default).lower()
    if key.kind in ("int", "long", "short", "double"):
        for value in (7, 500, 7000, 300_000, 600_000, 0.125, 9, 3):
            try:
                if key.parse(str(value)) != key.default:
                    return str(value)
            except ValueError:
                continue
    if key.name == "sasl.oauthbearer.assertion.algorithm":
        return "ES256"
    return "consumer" if key.name == "group.coordinator.rebalance.protocols" else "other"


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_node_does_not_start_where_ignoring_a_setting_would_be_dangerous(name: str) -> None:
    key = REFUSED[name].key
    with pytest.raises(ConfigError) as refused:
        read_node_config(properties() | {name: another(key)})
    assert str(refused.value).startswith(f"{name} is '{another(key)}', but must be left out")
    assert REFUSED[name].reason in str(refused.value) and "\n" not in str(refused.value)
    default = "" if key.default in (None, ()) else str(key.default)
    assert read_node_config(properties() | {name: default.lower() if key.kind == "boolean" else default})


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.external.plain.sasl.server.callback.handler.class",
        "listener.name.plaintext.principal.builder.class",
        "listener.name.plaintext.ssl.engine.factory.class",
    ],
)
def test_so_for_a_single_listener(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is 'a.B', but must be left out"):
        read_node_config(properties() | {name: "a.B"})


def test_what_changes_nothing_here_is_named_if_its_value_is_not_the_default() -> None:
    others = {name: another(row.key) for name, row in WITHOUT_EFFECT.items()}
    assert read_node_config(properties() | others).without_effect == tuple(sorted(WITHOUT_EFFECT))
    defaults = {name: config for name, config in parse_defaults().items() if name in WITHOUT_EFFECT}
    assert len(defaults) > 140
    quiet = {name: value for name, value in properties().items() if name not in WITHOUT_EFFECT}
    assert read_node_config(quiet | defaults).without_effect == ()


def parse_defaults() -> dict[str, str]:
    """What Kafka told of each setting whose value was its default."""
    found = re.findall(r"^(\S+) \w+ (\S*)(?: read-only)? \| \1=\2 from 5$", RECORDED.read_text(), re.MULTILINE)
    return dict(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("background.threads", "0"),
        ("background.threads", "many"),
        ("group.share.delivery.count.limit", "11"),
        ("group.coordinator.rebalance.protocols", "classic,other"),
        ("sasl.login.refresh.buffer.seconds", "40000"),
        ("controlled.shutdown.enable", "yes"),
        ("remote.log.manager.task.retry.jitter", "0.6"),
    ],
)
def test_a_value_that_kafka_refuses_is_refused_though_it_would_change_nothing(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is '{value}', but must be"):
        read_node_config(properties() | {name: value})


def test_skipped_md_says_what_is_lost_with_each_setting_that_is_not_served() -> None:
    patterns = re.findall(r"`([a-z0-9.*]+)`", SKIPPED)
    assert not [name for name in UNSERVED if not any(fnmatch(name, pattern) for pattern in patterns)]


def test_a_slip_is_told_and_what_is_quite_unknown_does_not_keep_a_node_from_starting() -> None:
    config = read_node_config(properties() | {"num.network.thread": "5", "com.example.reporter": "x"})
    assert config.unknown == ("com.example.reporter", "my.own.setting", "num.network.thread")
    assert [advice(name) for name in config.unknown] == [
        "leave it out",
        "leave it out",
        "did you mean num.network.threads?",
    ]


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_older_name_of_the_nodes_number_is_as_good() -> None:
    older = {name: value for name, value in properties().items() if name != "node.id"} | {"broker.id": "1"}
    assert read_node_config(older).node_id == 1
    described = {
        each.name: each.value for each in describe_broker(NODE_CONFIG, older, node_layers(EMPTY_IMAGE, 1, older))
    }
    assert (described["node.id"], described["broker.id"]) == ("1", "1")
    with pytest.raises(ConfigError, match=r"node\.id is 1 and broker\.id is 2, but both are the number of the node"):
        read_node_config(properties() | {"broker.id": "2"})


@pytest.mark.parametrize(
    ("file", "without_effect", "unknown"),
    [
        ("server.properties", 2, ()),
        ("broker.properties", 2, ()),
        ("controller.properties", 3, ()),
        ("production.properties", 22, ("com.example.metrics.host",)),
    ],
)
def test_kafkas_own_files_and_a_large_one_are_read_as_they_are(
    file: str, without_effect: int, unknown: tuple[str, ...]
) -> None:
    config = read_node_config(parse_properties((FILES / file).read_text()), lambda: "here")
    assert (len(config.without_effect), config.unknown) == (without_effect, unknown), config.without_effect
