"""suites.txt against what the harness resolves: the versions and digests of all that judges pykraft."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from tests.harness import suites
from tests.harness.apache_kafka import Unavailable
from tests.harness.suites import Pin, pinned

LIBRARIES = ("aiokafka", "confluent-kafka", "kafka-python")


def found(look: Callable[[], Collection[Pin]]) -> set[Pin]:
    """What was fetched; it is skipped where that cannot be had."""
    try:
        return set(look())
    except Unavailable as reason:
        pytest.skip(str(reason))


def test_each_archive_is_named_once_in_order() -> None:
    pins = pinned()
    assert suites.TABLE.read_text() == suites.table_of(pins)
    assert len({pin[:3] for pin in pins}) == len(pins)
    assert {pin.name for pin in pinned("python")} == {*LIBRARIES}


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_libraries_in_python_are_those_of_the_table(name: str) -> None:
    (pin,) = (pin for pin in pinned("python") if pin.name == name)
    version, digests = suites.locked(name)
    assert suites.installed(name) == version == pin.version
    assert pin.digest in digests


def test_the_modules_that_go_would_fetch_are_those_of_the_table() -> None:
    assert suites.chosen_modules() == pinned("go")


def test_kafkajs_is_the_one_of_the_table() -> None:
    assert found(lambda: {suites.npm_package()}) == pinned("npm")


def test_the_jars_of_apache_kafka_are_those_of_the_table() -> None:
    assert found(suites.kafka_jars) <= pinned("maven")
