"""CreatePartitions: every way in which it is refused, and what a topic looks like when it is not."""

from __future__ import annotations

from pykraft.protocol.messages.admin import CreatePartitionsRequest
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import create, delete, grow, new_topic, versions


def test_each_version_adds_partitions(talk: Dialogue) -> None:
    talk.topic("grow-versions", [[1, 2]])
    for version in versions(CreatePartitionsRequest):
        talk.to().ask(grow(("grow-versions", 2 + version, [[3, 1]])), version)
        talk.to().ask(grow(("grow-versions", 1)), version, "fewer")


def test_counts_that_are_not_allowed(talk: Dialogue) -> None:
    talk.topic("grow-counts", [[1], [2], [3]])
    for total in (3, 2, 0, -1):
        talk.to().ask(grow(("grow-counts", total)), 3, str(total))
    talk.to().ask(grow(("grow-counts", 2, [[1]])), 3, "fewer, with a broker")


def test_brokers_that_are_not_allowed(talk: Dialogue) -> None:
    talk.topic("grow-brokers", [[1, 2]])
    for says, brokers in {
        "none assigned": [],
        "one too many": [[1, 2], [2, 3]],
        "no replica": [[]],
        "one broker twice": [[1, 1]],
        "too few replicas": [[1]],
        "too many replicas": [[1, 2, 3]],
        "a broker that is not there": [[1, 9]],
    }.items():
        talk.to().ask(grow(("grow-brokers", 2, brokers)), 3, says)


def test_topics_that_are_not_there_and_topics_named_twice(talk: Dialogue) -> None:
    talk.topic("grow-here")
    talk.to().ask(grow(("grow-nowhere", 2)), 3)
    talk.to().ask(grow(("", 2)), 3, "no name")
    talk.to().ask(grow(("grow-here", 2), ("grow-here", 3)), 3, "twice")
    talk.to().ask(grow(("grow-here", 4)), 3, "it had one still")
    talk.to().ask(grow(), 3, "nothing")


def test_validation_adds_nothing(talk: Dialogue) -> None:
    talk.topic("grow-validated")
    for _ in range(2):
        talk.to().ask(grow(("grow-validated", 2), validate_only=True), 3)


def test_a_topic_that_was_created_by_numbers_grows(talk: Dialogue) -> None:
    talk.to().ask(create(new_topic("grow-numbers", 2, 3)), 7)
    talk.to().ask(grow(("grow-numbers", 4)), 3)
    talk.to().ask(grow(("grow-numbers", 4)), 3, "again")
    talk.to().ask(delete("grow-numbers"), 6)
