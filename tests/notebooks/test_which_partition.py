"""Notebook 08 must turn red when keys go elsewhere than Kafka's clients send them."""

from __future__ import annotations

import pytest

from pykraft.consumer import ConsumerRecord
from pykraft.course.authoring.execute import NotebookFailed
from pykraft.course.lessons.which_partition.key_spread import overload
from pykraft.course.lessons.which_partition.keyed_topics import KeyedTopic
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "08_which_partition.ipynb"

THE_ABSOLUTE_VALUE = """
from pykraft.client.producing import partitioner

def partition_of_key(key, partitions):
    value = partitioner.murmur2(key)
    return abs(value - (value >> 31 << 32)) % partitions

partitioner.partition_of_key = partition_of_key
"""

ANOTHER_SEED = """
from pykraft.client.producing import partitioner

partitioner._SEED = 0
"""

NEVER_MORE_THAN = """
from pykraft.client.producing import partitioner, producer

choose = partitioner.partition_of_key
partitioner.partition_of_key = producer.partition_of_key = lambda key, partitions: choose(key, min(partitions, {}))
"""


@pytest.mark.parametrize(
    "plant",
    [THE_ABSOLUTE_VALUE, pytest.param(ANOTHER_SEED, marks=pytest.mark.long)],
    ids=["the absolute value instead of the masked sign", "another seed"],
)
def test_a_partitioner_that_differs_from_kafkas_turns_the_notebook_red(plant: str) -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*disagree on most keys"):
        run("3. ", path=PATH, before=plant)


@pytest.mark.long
@pytest.mark.parametrize(
    ("most", "heading", "claim"),
    [
        (12, "5. ", "More partitions help only until the hottest key fills one"),
        (6, "6. ", "later records are handled first"),
    ],
)
def test_a_partitioner_that_leaves_partitions_empty_turns_the_notebook_red(most: int, heading: str, claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: .*{claim}"):
        run(heading, path=PATH, before=NEVER_MORE_THAN.format(most))


# --- what the notebook's numbers mean ---------------------------------------------------------------------------------


def record(key: bytes, number: int) -> ConsumerRecord:
    return ConsumerRecord("t", 0, 0, 0, 0, key, b"%d" % number, (), 0)


def test_workers_handle_one_record_a_turn_so_a_backlog_makes_records_late() -> None:
    topic = KeyedTopic([[record(b"x", 9), record(b"k", 1), record(b"k", 2)], [record(b"k", 3), record(b"k", 4)]])
    assert topic.handled(b"k") == [3, 1, 4, 2]
    assert topic.handled(b"k", b"x") == [9, 3, 1, 4, 2]
    assert topic.counts == [3, 2]
    assert (topic.places, topic.divided) == ({b"x": [0], b"k": [0, 1]}, [b"k"])
    assert topic.strips(b"k") == {"partition 0": [None, 1, 2], "partition 1": [3, 4]}


def test_an_overload_is_the_fullest_partition_in_means() -> None:
    assert overload([2, 2, 2]) == 1 and overload([6, 0, 0]) == 3
