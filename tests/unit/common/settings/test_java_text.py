"""What Java reads in a text: the answers were asked of Apache Kafka 4.2.1 and 4.4.0 (LogConfig.validate)."""

from __future__ import annotations

import pytest

from pykraft.common.errors import ConfigError
from pykraft.common.settings.java_text import java_length, parse_double
from pykraft.common.settings.topic_config import CLEANUP_POLICY, LOG_CONFIG

RATIO = LOG_CONFIG.keys["min.cleanable.dirty.ratio"]


@pytest.mark.parametrize(
    "text", ["0.5", "0.5d", "0.5f", "0.5D", "0x1p-1", "0X1P-1d", "0x.8p0", "5e-1", " 0.5 ", ".5", "+.5"]
)
def test_a_number_is_read_as_java_reads_it(text: str) -> None:
    assert RATIO.read(text) == 0.5


@pytest.mark.parametrize(
    "text", ["1_0", "", ".", "e5", "0x", "0x1", "0xp1", "1e", "NaNd", "nan", "inf", "1,5", "\u0660"]
)
def test_what_is_no_number_for_java_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        parse_double(text)


@pytest.mark.parametrize("text", ["5.", "Infinity", "-0.1"])
def test_a_number_beyond_its_range_is_refused(text: str) -> None:
    parse_double(text)
    with pytest.raises(ConfigError, match="must be a number from 0 to 1"):
        RATIO.read(text)


@pytest.mark.parametrize(
    ("text", "policies"),
    [
        ("compact,compact", ("compact",)),
        ("compact, delete", ("compact", "delete")),
        ("delete,compact,delete", ("delete", "compact")),
        ("", ()),
    ],
)
def test_a_policy_counts_once_however_often_it_is_given(text: str, policies: tuple[str, ...]) -> None:
    assert CLEANUP_POLICY.read(text) == policies


@pytest.mark.parametrize("text", ["compact,", "x", " none "])
def test_a_policy_that_kafka_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="must be a comma-separated list of "):
        CLEANUP_POLICY.read(text)


@pytest.mark.parametrize(
    ("text", "units"), [("", 0), ("abc", 3), ("é", 1), ("\U0001f600", 2), ("a\U0001f600\ud800", 4)]
)
def test_a_character_beyond_16_bits_counts_twice(text: str, units: int) -> None:
    assert java_length(text) == units
