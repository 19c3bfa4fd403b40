"""Kafka's own client integration tests, each class of them, against nodes of pykraft.

`kafka_clients/listed.txt` says how many tests each class has, and which of them do not pass, each with its reason. All
others pass. With `--long` the same is asked of Apache Kafka through the same shim: what is listed for Kafka's own sake
fails there, and what is not listed passes.

At the end it prints how many tests were found, passed and listed. One class is `-k ProducerCompressionTest`. The list
can be written again from a run: `python -m tests.judges.test_kafka_client_tests` keeps the reasons that it has, and
leaves a question mark where one is missing.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from pykraft.protocol.api import apis
from tests.harness.kafka_client_tests import (
    KINDS,
    LIMIT_S,
    LISTED,
    Listed,
    Result,
    classes,
    complaints,
    listed,
    run_class,
    unavailable,
    version,
)

EXPECTED = listed(LISTED.read_text())
RUN = [name for name, expected in EXPECTED.items() if not expected.needs]
HEADER = """\
# Kafka's client integration tests {version}: how many tests each class has, and those that do not pass against pykraft.
# A reason is of one of these kinds:
{kinds}
"""

pytestmark = pytest.mark.limit(LIMIT_S + 300)


@pytest.fixture(scope="module", autouse=True)
def needs_java() -> None:
    if reason := unavailable():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def totals(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """What all classes together had, printed at the end."""
    counts: Counter[str] = Counter()
    yield counts
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled():  # what a test prints is shown only if it fails
        sys.stdout.write("\n" + "\n".join(summary(counts)) + "\n")


def count(counts: Counter[str], expected: Listed, results: Mapping[str, Result]) -> None:
    counts["found"] += len(results)
    counts.update(result.outcome for result in results.values())
    counts["listed"] += len(expected.reasons)
    counts.update(reason.partition(":")[0] for reason in expected.reasons.values())


def summary(counts: Counter[str]) -> list[str]:
    outcomes = ", ".join(f"{counts[what]} {what}" for what in ("found", "passed", "failed", "aborted", "listed"))
    return [f"Kafka's client tests: {outcomes}", *(f"    {counts[kind]:3} {KINDS[kind]}" for kind in KINDS)]


def test_the_list_has_each_class_of_the_jar() -> None:
    assert [*EXPECTED] == classes()


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if expected.needs])
def test_a_class_that_is_not_run_needs_an_api_that_pykraft_does_not_have(name: str) -> None:
    names = {api.request.__name__.removesuffix("Request") for api in apis.values()}
    assert "Fetch" in names
    assert EXPECTED[name].needs not in names


@pytest.mark.parametrize("name", RUN)
def test_each_test_passes_or_is_listed_with_its_reason(name: str, totals: Counter[str]) -> None:
    results = run_class(name, against="pykraft")
    count(totals, EXPECTED[name], results)
    wrong = complaints(EXPECTED[name], results)
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.parametrize("name", RUN)
def test_what_is_listed_for_kafkas_sake_fails_against_kafka_and_all_that_is_not_listed_passes(name: str) -> None:
    wrong = complaints(EXPECTED[name], run_class(name, against="kafka"), against="kafka")
    assert not wrong, "\n".join(wrong)


def written(found: Mapping[str, Mapping[str, Result]]) -> str:
    """The list for these results; a class without any keeps its lines."""
    lines = [HEADER.format(version=version(), kinds="\n".join(f"#     {kind:<8}{why}" for kind, why in KINDS.items()))]
    for name in classes():
        known = EXPECTED.get(name, Listed(0, {}))
        reasons = known.reasons
        if name in found:
            failed = [test for test, result in found[name].items() if result.outcome != "passed"]
            reasons = {test: known.reasons.get(test, f"? {found[name][test].reason}") for test in failed}
        head = f"needs {known.needs}" if known.needs else str(len(found.get(name, ())) or known.found)
        lines += [f"{name} {head}", *(f"    {test}  {reason}" for test, reason in sorted(reasons.items()))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    LISTED.write_text(written({name: run_class(name, against="pykraft") for name in RUN}))
