"""DescribeTopicPartitions: pages, cursors, and what is refused."""

from __future__ import annotations

from tests.conformance.dialogue import Dialogue
from tests.conformance.transcript import lines_of
from tests.harness.asking import describe_partitions
from tests.harness.connection import Connection


def test_topics_by_name(talk: Dialogue) -> None:
    talk.topic("parts-b", [(1, 2), (2, 3), (3, 1)])
    talk.topic("parts-a")
    for node in (1, 3):
        talk.to(node).ask(describe_partitions("parts-b", "parts-a"), 0)
    talk.to().ask(describe_partitions("parts-a", "parts-a"), 0, "twice")


def test_pages_and_cursors(talk: Dialogue) -> None:
    for name, size in {"pages-a": 2, "pages-b": 5, "pages-c": 1}.items():
        talk.topic(name, [(1,)] * size)
    names = ("pages-c", "pages-a", "pages-b", "pages-0")
    for limit in (0, -1, 1, 2, 3, 8):
        talk.to().ask(describe_partitions(*names, limit=limit), 0, f"limit {limit}")
    for cursor in (
        ("pages-0", 0),
        ("pages-a", 1),
        ("pages-a", 2),
        ("pages-a", 9),
        ("pages-b", 0),
        ("pages-b", 3),
        ("pages-c", 1),
    ):
        talk.to().ask(describe_partitions(*names, limit=3, cursor=cursor), 0, f"from {cursor}")


def test_cursors_that_are_not_allowed(talk: Dialogue) -> None:
    talk.topic("cursors-a")
    for cursor in (("cursors-b", 0), ("", 0), ("cursors-a", -1)):
        talk.to().ask(describe_partitions("cursors-a", cursor=cursor), 0, f"from {cursor}")
    talk.to().ask(describe_partitions(cursor=("cursors-a", -1)), 0, "all topics")


def test_topics_that_are_not_there(talk: Dialogue) -> None:
    talk.topic("missing-here")
    for says, name in {
        "a name": "missing-nowhere",
        "nothing": "",
        "a slash": "a/b",
        "250 letters": "a" * 250,
        "the metadata topic": "__cluster_metadata",
    }.items():
        talk.to().ask(describe_partitions(name, "missing-here"), 0, says)
    talk.to().ask(describe_partitions("missing-nowhere", limit=1, cursor=("missing-nowhere", 4)), 0, "at the cursor")


def test_all_topics(talk: Dialogue) -> None:
    """Other cases have made other topics: only ours is looked at."""
    talk.topic("zzz-all-a", [(1,), (2,)])
    talk.topic("zzz-all-b")
    for cursor in (None, ("zzz-all-a", 1), ("zzz-all-aa", 7), ("zzzz", 0)):
        with Connection(talk.server.address(1)) as connection:
            answer = connection.ask(describe_partitions(cursor=cursor), 0)
        answer.topics = [topic for topic in answer.topics if topic.name.startswith("zzz-all")]
        talk.say(f"from {cursor}")
        talk.write(*(f"  {line}" for line in lines_of(answer, 0, talk.names)))
