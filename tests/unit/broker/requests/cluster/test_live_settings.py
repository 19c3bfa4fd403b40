"""Settings of brokers that change while they run: which of several places holds, what is refused, what takes effect."""

from __future__ import annotations

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.common.settings.broker_config import consequence_here
from tests.harness.asking import BROKER, DELETE, SET, change, describe
from tests.harness.lone_node import LoneNode


def altered(node: LoneNode, broker: str, name: str, value: str | None) -> tuple[ErrorCode, str | None]:
    """Change one setting of a broker, or of all; what is answered."""
    response = node.ask(change((BROKER, broker, [(name, DELETE if value is None else SET, value)])))
    node.run()
    result = response.responses[0]
    return ErrorCode.of(result.error_code), result.error_message


def places(node: LoneNode, broker: str, name: str) -> list[tuple[str | None, int]]:
    """What a description of the broker tells of the setting, the strongest place first."""
    found = node.ask(describe((BROKER, broker), only=[name], include_synonyms=True)).results[0].configs
    return [(place.value, int(place.source)) for config in found for place in config.synonyms]


def test_one_brokers_value_is_stronger_than_that_of_all_than_the_file_than_the_default() -> None:
    node = LoneNode(num_io_threads="9")
    file, default = ("9", 4), ("8", 5)
    assert places(node, "1", "num.io.threads") == [file, default]
    for broker, value, of_broker, of_all in (
        ("", "12", [("12", 3), file, default], [("12", 3)]),
        ("1", "14", [("14", 2), ("12", 3), file, default], [("12", 3)]),
        ("", None, [("14", 2), file, default], []),
        ("1", None, [file, default], []),
    ):
        assert altered(node, broker, "num.io.threads", value) == (ErrorCode.NONE, None)
        assert (places(node, "1", "num.io.threads"), places(node, "", "num.io.threads")) == (of_broker, of_all)


_PER_LISTENER = "These security configs can be dynamically updated only per-listener using the listener prefix: "
_FOR_ALL = "Cannot update these configs at default cluster level, broker id must be specified: "


@pytest.mark.parametrize(
    ("broker", "name", "value", "sentence"),
    [
        ("1", "log.dirs", "/x", "Cannot update these configs dynamically: [log.dirs]"),
        ("", "advertised.listeners", "A://a:1", "Cannot update these configs dynamically: [advertised.listeners]"),
        ("1", "ssl.keystore.location", "/x", f"{_PER_LISTENER}[ssl.keystore.location]"),
        ("", "sasl.kerberos.kinit.cmd", "x", f"{_FOR_ALL}[sasl.kerberos.kinit.cmd]"),
        ("", "cordoned.log.dirs", "/x", f"{_FOR_ALL}[cordoned.log.dirs]"),
        ("", "num.io.threads", "0", "num.io.threads is '0', but must be a whole number of at least 1"),
        ("", "background.threads", "x", "background.threads is 'x', but must be a whole number"),
        ("", "num.io.thread", "4", "dynamically: [num.io.thread]: did you mean num.io.threads?"),
        ("", "max.connections.per.ip", "0", "max.connections.per.ip is 0, so every connection would be closed"),
        ("1", "principal.builder.class", "a.B", "principal.builder.class is 'a.B', but must be left out"),
        ("1", "config.providers", "env", "config.providers is 'env', but must be left out"),
        (
            "1",
            "listeners",
            "A://a:1",
            "listeners cannot be changed while a broker runs: change its file, and restart it",
        ),
    ],
)
def test_what_kafka_refuses_is_refused_and_so_is_what_must_not_be_ignored(
    broker: str, name: str, value: str, sentence: str
) -> None:
    node = LoneNode()
    error, message = altered(node, broker, name, value)
    assert error is ErrorCode.INVALID_REQUEST
    assert sentence in str(message)
    assert all(source > 3 for _, source in places(node, "1", name))


def test_the_cleaner_keeps_to_the_limits_that_hold_now() -> None:
    node = LoneNode(log_cleaner_dedupe_buffer_size="4000000")
    assert node.broker.logs.cleaners[0].limits.buffer_bytes == 3_600_000
    for broker, name, value, limits in (
        ("", "log.cleaner.dedupe.buffer.size", "2000000", (1_800_000, float("1.7976931348623157e308"))),
        ("1", "log.cleaner.dedupe.buffer.size", "3000000", (2_700_000, float("1.7976931348623157e308"))),
        ("1", "log.cleaner.dedupe.buffer.size", None, (1_800_000, float("1.7976931348623157e308"))),
        ("", "log.cleaner.io.max.bytes.per.second", "5e6", (1_800_000, 5e6)),
        ("1", "log.cleaner.io.buffer.load.factor", "0.5", (1_000_000, 5e6)),
        ("", "log.cleaner.dedupe.buffer.size", None, (2_000_000, 5e6)),
    ):
        assert altered(node, broker, name, value)[0] is ErrorCode.NONE
        now = node.broker.logs.cleaners[0].limits
        assert (now.buffer_bytes, now.io_bytes_per_second) == limits


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("background.threads", "12", "one thread does a node's work, so numbers of threads change nothing"),
        ("background.threads", "10", None),
        ("background.threads", None, None),
        ("num.io.threads", "12", "a node reads it from its file when it starts"),
        ("max.connections", "12", None),
        ("log.retention.ms", "12", None),
    ],
)
def test_a_change_from_which_nothing_follows_has_a_reason(name: str, value: str | None, reason: str | None) -> None:
    assert consequence_here(name, value) == reason
