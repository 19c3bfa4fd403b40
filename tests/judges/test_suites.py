"""suites.txt against what only judges fetch: the jars of Kafka's client tests, and the modules in the program in Go."""

from __future__ import annotations

from tests.harness import suites
from tests.harness.suites import pinned
from tests.interop.test_suites import found


def test_all_jars_are_those_of_the_table() -> None:
    assert found(suites.kafka_jars) | found(suites.client_tests_jars) == pinned("maven")


def test_the_modules_in_the_program_are_those_of_the_table() -> None:
    modules = found(suites.built_modules)
    assert modules
    assert modules <= pinned("go")
