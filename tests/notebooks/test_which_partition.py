"""Notebook 08 must turn red when keys go elsewhere than Kafka's clients send them."""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "08_which_partition.ipynb"

THE_ABSOLUTE_VALUE = """
from pykraft.client import partitioner

def partition_of_key(key, partitions):
    value = partitioner.murmur2(key)
    return abs(value - (value >> 31 << 32)) % partitions

partitioner.partition_of_key = partition_of_key
"""

ANOTHER_SEED = """
from pykraft.client import partitioner

partitioner._SEED = 0
"""

NEVER_MORE_THAN_TWELVE_PARTITIONS = """
from pykraft.client import partitioner

choose = partitioner.partition_of_key
partitioner.partition_of_key = lambda key, partitions: choose(key, min(partitions, 12))
"""


@pytest.mark.parametrize(
    ("plant", "claim"),
    [
        (THE_ABSOLUTE_VALUE, "librdkafka's murmur2_random chooses our partition for every route"),
        pytest.param(
            ANOTHER_SEED, "Our murmur2 gives the numbers that Kafka's Java client gives", marks=pytest.mark.long
        ),
    ],
    ids=["the absolute value instead of the masked sign", "another seed"],
)
def test_a_partitioner_that_differs_from_kafkas_turns_the_notebook_red(plant: str, claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: .*{claim}"):
        run("2. ", path=PATH, before=plant)


@pytest.mark.long
def test_a_partitioner_that_leaves_partitions_empty_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*With s = 1 more partitions help down to"):
        run("4. ", path=PATH, before=NEVER_MORE_THAN_TWELVE_PARTITIONS)
