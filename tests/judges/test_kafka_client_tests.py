"""Kafka's own client integration tests, against nodes of pykraft: what passes against Kafka passes here.

`kafka_clients/passed.txt` names each test of eleven classes: all of them pass against Kafka itself, as its own runtime
starts it. With `--long` that is looked at again; write the table from it with
`python -m tests.judges.test_kafka_client_tests`. A test that takes a broker as an object of its own JVM cannot be run
against another process: the table gives it this reason, and it must be aborted with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from tests.harness.kafka_client_tests import FOLDER, LIMIT_S, Result, run_class, unavailable, version

TABLE = FOLDER / "passed.txt"
CLASSES = (
    "clients.TransactionsExpirationTest",
    "clients.TransactionsWithMaxInFlightOneTest",
    "clients.admin.AdminFenceProducersTest",
    "clients.consumer.ConsumerTopicCreationTest",
    "clients.consumer.PlaintextConsumerAssignTest",
    "clients.consumer.PlaintextConsumerCallbackTest",
    "clients.consumer.PlaintextConsumerCommitTest",
    "clients.consumer.PlaintextConsumerFetchTest",
    "clients.consumer.PlaintextConsumerPollTest",
    "clients.consumer.PlaintextConsumerSubscriptionTest",
    "clients.producer.ProducerCompressionTest",
)
HEADER = """\
# The tests of Kafka's client integration tests {version} that pass against Kafka itself, by class. Against pykraft each
# passes too, except where a reason follows: there the test must be aborted with just this reason.
"""

pytestmark = pytest.mark.limit(LIMIT_S + 300)


@pytest.fixture(scope="module", autouse=True)
def needs_java() -> None:
    if reason := unavailable():
        pytest.skip(reason)


def expected() -> dict[str, dict[str, str]]:
    """The reasons for which tests are aborted here, mostly empty, by class and name."""
    table: dict[str, dict[str, str]] = {}
    for line in TABLE.read_text().splitlines():
        if line.startswith("    "):
            name, _, reason = line.strip().partition(" ")
            table[next(reversed(table))][name] = reason.strip()
        elif line and not line.startswith("#"):
            table[line] = {}
    return table


def table_of(reasons: Mapping[str, Mapping[str, str]]) -> str:
    lines = []
    for name, tests in reasons.items():
        lines.append(f"\n{name}")
        lines += [f"    {test} {reason}".rstrip() for test, reason in sorted(tests.items())]
    return HEADER.format(version=version()) + "\n".join(lines) + "\n"


def shown(results: Mapping[str, Result], names: Iterable[str]) -> str:
    return "\n".join(f"{name}: {' '.join(results.get(name, Result('not run')))}" for name in names)


def test_the_table_names_each_of_the_eleven_classes() -> None:
    assert [*expected()] == [*CLASSES]
    assert all(expected().values())


@pytest.mark.parametrize("name", CLASSES)
def test_what_passes_against_kafka_passes_against_pykraft(name: str) -> None:
    reasons = expected()[name]
    results = run_class(name, against="pykraft")
    wanted = {test: Result("aborted", reason) if reason else Result("passed") for test, reason in reasons.items()}
    assert results == wanted, shown(results, (test for test in wanted if results.get(test) != wanted[test]))


@pytest.mark.long
@pytest.mark.parametrize("name", CLASSES)
def test_the_table_is_what_passes_against_kafka_itself(name: str) -> None:
    results = run_class(name, against="kafka")
    assert results == dict.fromkeys(expected()[name], Result("passed")), shown(results, results)


if __name__ == "__main__":
    known = expected() if TABLE.exists() else {}
    found = {name: run_class(name, against="kafka") for name in CLASSES}
    passed = {
        name: {test: known.get(name, {}).get(test, "") for test, result in tests.items() if result.outcome == "passed"}
        for name, tests in found.items()
    }
    TABLE.write_text(table_of(passed))
