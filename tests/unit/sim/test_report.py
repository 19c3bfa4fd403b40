"""The line of a simulated history names what happened in it, and nothing else."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from pykraft.sim.laws.watcher import Progress
from pykraft.sim.report import WORDS, Report

COUNTS = [field.name for field in fields(Progress) if field.name != "events"]
EMPTY = Report(7, Progress(events=1_200), 1_200, 6_340, "05ce")


def line(**counts: int) -> str:
    return str(replace(EMPTY, progress=replace(EMPTY.progress, **counts)))


@pytest.mark.parametrize(
    ("counts", "happened"),
    [
        ({}, "nothing happened"),
        ({"elections": 1}, "1 election"),
        ({"elections": 2, "acknowledged": 1_928}, "2 elections, 1,928 records acknowledged"),
        ({"consumed": 1, "isr_changes": 4, "crashes": 2}, "4 ISR changes, 1 record consumed, 2 crashes"),
        ({"consumed": 9, "consumed_from_followers": 3}, "9 records consumed, 3 of them from followers"),
        ({"committed": 1, "moves_prepare_abort": 1}, "1 transaction committed, 1 coordinator lost during an abort"),
    ],
)
def test_a_line_names_what_happened_one_or_more(counts: dict[str, int], happened: str) -> None:
    assert line(**counts) == f"seed 7: 1,200 steps, 6.3 s: {happened}; digest 05ce"


def test_each_count_has_its_words_and_is_named_once_it_is_not_zero() -> None:
    assert list(WORDS) == COUNTS
    everything = line(**{name: number for number, name in enumerate(COUNTS, 2)})
    assert [int(found) for found in re.findall(r"(?:: |, )(\d+) (?=[a-zA-Z])(?!steps)", everything)] == list(
        range(2, len(COUNTS) + 2)
    )
    assert len({words for pair in WORDS.values() for words in pair}) == 2 * len(COUNTS)
    assert re.search(r"\b0 \w", line(elections=1)) is None
