"""Configuration: typed keys, layers, synonyms, and Java's properties files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.errors import ConfigError
from pykraft.common.settings.config import (
    HOURS_TO_MS,
    MINUTES_TO_MS,
    ConfigDef,
    Key,
    Synonym,
    boolean,
    decimal,
    format_properties,
    integer,
    names,
    parse_properties,
    string,
)
from pykraft.common.settings.topic_config import LOG_CONFIG

RETENTION = integer(
    "log.retention.ms",
    7 * 24 * HOURS_TO_MS,
    "how long",
    at_least=-1,
    synonyms=[Synonym("log.retention.minutes", MINUTES_TO_MS), Synonym("log.retention.hours", HOURS_TO_MS)],
    kind="long",
)
ROLES = names("process.roles", [], "what the node is", one_of=["broker", "controller"])
ID = integer("node.id", -1, "who the node is", at_least=0, required=True)
TYPE = string("message.timestamp.type", "CreateTime", "whose clock", one_of=["CreateTime", "LogAppendTime"])
RATIO = decimal("min.ratio", 0.5, "how dirty", at_least=0, at_most=1)
UNCLEAN = boolean("unclean", False, "whether")
AN_INT32 = "a whole number of at least -2147483648 and at most 2147483647"
AN_INT16 = "a whole number of at least -32768 and at most 32767"
DEFINITION = ConfigDef([RETENTION, ROLES, TYPE, RATIO, UNCLEAN])


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        (RETENTION, " 12 ", 12),
        (RETENTION, "-1", -1),
        (RETENTION, str((1 << 63) - 1), (1 << 63) - 1),
        (integer("n", 1, ""), str(-(1 << 31)), -(1 << 31)),
        (ROLES, "broker, controller", ("broker", "controller")),
        (ROLES, "", ()),
        (names("log.dirs", [], ""), ",a,, b", ("a", "b")),
        (TYPE, "LogAppendTime", "LogAppendTime"),
        (RATIO, "1", 1.0),
        (RATIO, "1e-1", 0.1),
        (UNCLEAN, "TRUE", True),
        (UNCLEAN, "false", False),
    ],
)
def test_a_value_is_read(key: Key[Any], text: str, value: Any) -> None:
    assert key.read(text) == value


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        (RETENTION, "week", "log.retention.ms is 'week', but must be a whole number of at least -1"),
        (RETENTION, "-2", "log.retention.ms is '-2', but must be a whole number of at least -1"),
        (RETENTION, "1.5", "log.retention.ms is '1.5', but must be a whole number of at least -1"),
        (integer("n", 1, "", kind="long"), "", "n is '', but must be a whole number"),
        (integer("n", 1, "", 1, 3), "4", "n is '4', but must be a whole number of at least 1 and at most 3"),
        (integer("n", 1, "", kind="long"), str(1 << 63), f"n is '{1 << 63}', but must be a whole number"),
        (integer("n", 1, ""), str(1 << 31), f"n is '{1 << 31}', but must be {AN_INT32}"),
        (integer("n", 1, "", kind="short"), "32768", f"n is '32768', but must be {AN_INT16}"),
        (ROLES, "brokr", "process.roles is 'brokr', but must be a comma-separated list of broker, controller"),
        (ROLES, ",broker", "process.roles is ',broker', but must be a comma-separated list of broker, controller"),
        (names("r", [], "", one_of="ab"), "a,c", "r is 'a,c', but must be a comma-separated list of a, b"),
        (names("log.dirs", [], "", required=True), " , ", "log.dirs is ',', but must be a comma-separated list"),
        (TYPE, "createtime", "message.timestamp.type is 'createtime', but must be one of CreateTime, LogAppendTime"),
        (string("id", "", "", required=True), "", "id is '', but must be text"),
        (RATIO, "1.1", "min.ratio is '1.1', but must be a number from 0 to 1"),
        (RATIO, "nan", "min.ratio is 'nan', but must be a number from 0 to 1"),
        (RATIO, "0.2_5", "min.ratio is '0.2_5', but must be a number from 0 to 1"),
        (RETENTION, "1_000", "log.retention.ms is '1_000', but must be a whole number of at least -1"),
        (RETENTION, "9" * 5000, f"log.retention.ms is '{'9' * 5000}', but must be a whole number of at least -1"),
        (UNCLEAN, "yes", "unclean is 'yes', but must be true or false"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_in_one_sentence(key: Key[Any], text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        key.read(text)
    assert str(refused.value) == sentence


# --- layers -----------------------------------------------------------------------------------------------------------


def test_without_any_layer_the_defaults_hold() -> None:
    config = DEFINITION.resolve()
    assert (config[RETENTION], config[ROLES], config[UNCLEAN]) == (604_800_000, (), False)


def test_a_default_may_be_changed_and_layers_win_as_before() -> None:
    definition = ConfigDef([RATIO, UNCLEAN])
    definition.change_default("min.ratio", 0.7)
    assert definition.resolve()[RATIO] == definition.keys["min.ratio"].default == 0.7
    assert definition.resolve({"min.ratio": "0.8"})[RATIO] == 0.8


def test_the_strongest_layer_that_says_something_wins() -> None:
    config = DEFINITION.resolve(
        {"unclean": "true"}, {"unclean": "false", "log.retention.ms": "5"}, {"log.retention.ms": "6"}
    )
    assert (config[UNCLEAN], config[RETENTION]) == (True, 5)


@pytest.mark.parametrize(
    ("layers", "value"),
    [
        ([{"log.retention.hours": "2"}], 2 * HOURS_TO_MS),
        ([{"log.retention.hours": "2", "log.retention.minutes": "3"}], 3 * MINUTES_TO_MS),
        ([{"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}], 4),
        ([{"log.retention.hours": "2"}, {"log.retention.ms": "4"}], 2 * HOURS_TO_MS),
        ([{"log.retention.hours": "-1"}], -1),
        ([{"log.retention.hours": "0"}], 0),
    ],
)
def test_a_synonym_is_weaker_than_the_name_but_only_in_its_own_layer(layers: list[dict[str, str]], value: int) -> None:
    assert DEFINITION.resolve(*layers)[RETENTION] == value


def test_a_wrong_value_under_a_synonym_is_refused_under_the_name_that_was_used() -> None:
    with pytest.raises(ConfigError, match=r"log\.retention\.hours is 'x', but must be a whole number"):
        DEFINITION.resolve({"log.retention.hours": "x"})


def test_a_value_may_be_empty_or_false_and_still_win() -> None:
    config = DEFINITION.resolve(
        {"process.roles": "", "unclean": "false"}, {"process.roles": "broker", "unclean": "true"}
    )
    assert (config[ROLES], config[UNCLEAN]) == ((), False)


def test_what_is_required_must_be_set() -> None:
    with pytest.raises(ConfigError, match=r"node\.id is not set, but must be: who the node is"):
        ConfigDef([ID]).resolve({})
    assert ConfigDef([ID]).resolve({"node.id": "3"})[ID] == 3


def test_unknown_names_are_listed_and_are_no_error() -> None:
    layer = {"zookeeper.connect": "x", "log.retention.hours": "1", "a.b": ""}
    assert DEFINITION.unknown(layer) == ["a.b", "zookeeper.connect"]
    assert DEFINITION.resolve(layer)[RETENTION] == HOURS_TO_MS


def test_a_changed_config_is_another_config() -> None:
    before = DEFINITION.resolve()
    after = before.with_values(log_retention_ms=9)
    assert (before[RETENTION], after[RETENTION]) == (604_800_000, 9)
    assert after.as_dict()["min.ratio"] == 0.5


def test_a_name_is_defined_once() -> None:
    with pytest.raises(AssertionError, match="defined twice"):
        ConfigDef([RATIO, RATIO])


# --- properties files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("# a comment\n  ! another\n\n", {}),
        ("node.id=1\n", {"node.id": "1"}),
        ("node.id = 1", {"node.id": "1"}),
        ("node.id: 1", {"node.id": "1"}),
        ("node.id 1", {"node.id": "1"}),
        ("node.id\t=\t1", {"node.id": "1"}),
        ("   indented=x", {"indented": "x"}),
        ("trailing= kept \n", {"trailing": "kept "}),
        ("empty=", {"empty": ""}),
        ("alone", {"alone": ""}),
        ("a=b=c:d e", {"a": "b=c:d e"}),
        ("a==b", {"a": "=b"}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
        ("a=1\na=2", {"a": "2"}),
        ("listeners=A://h:1,\\\n    B://h:2", {"listeners": "A://h:1,B://h:2"}),
        ("a=1\\\n\\\n2", {"a": "12"}),
        ("path=C:\\\\logs\\\\", {"path": "C:\\logs\\"}),
        ("path=a\\\\\nb=1", {"path": "a\\", "b": "1"}),
        ("last=x\\", {"last": "x"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("a=\\t\\n\\r\\f\\z", {"a": "\t\n\r\fz"}),
        ("a=\\u00e9\\u0041", {"a": "éA"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("#=comment\n\\#=key", {"#": "key"}),
        ("a=x # no comment", {"a": "x # no comment"}),
        ("a=x\u2028y\x85z\x0b", {"a": "x\u2028y\x85z\x0b"}),
        ("\f a=1\rb=2", {"a": "1", "b": "2"}),
    ],
)
def test_a_properties_file_is_read_as_java_reads_it(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_a_broken_unicode_escape_is_refused_in_one_sentence() -> None:
    for digits in ("00zz", "00", ""):
        with pytest.raises(ConfigError, match=rf"\\u{digits} is no character: four hexadecimal digits are wanted"):
            parse_properties(f"a=\\u{digits}")


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)


@pytest.mark.costly
@given(st.dictionaries(WORDS.filter(bool), WORDS, max_size=6))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


@pytest.mark.parametrize("key", [key for key in LOG_CONFIG.keys.values() if key.synonyms], ids=lambda key: key.name)
def test_what_a_broker_calls_a_setting_in_minutes_or_hours_is_told_in_milliseconds(key: Key[Any]) -> None:
    in_ms = {"minutes": 60_000, "hours": 3_600_000}
    for synonym in key.synonyms:
        assert synonym.scale == in_ms.get(synonym.name.rpartition(".")[2], 1), synonym.name
