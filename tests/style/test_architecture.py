"""pykraft/ARCHITECTURE.md speaks of the code as it is: its links, its names, its drawings."""

from __future__ import annotations

import pytest

from tests.style.architecture import (
    PAGE,
    Call,
    calls,
    drawing,
    headings,
    layers,
    links,
    unlinked,
    wrong_calls,
    wrong_links,
)

PARTITION = "broker/replication/partition.py"
LOG = "storage/log.py"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_each_link_leads_to_a_file_and_each_name_stands_in_it(page: str) -> None:
    assert len(list(links(page))) > 80
    assert list(wrong_links(page)) == []


def test_a_name_of_a_method_is_a_link(page: str) -> None:
    assert list(unlinked(page)) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[`Partition.append_as_leader`](broker/replication/partitions.py)", "does not exist"),
        ("[`Partition.append_as_ruler`](broker/replication/partition.py)", "there is no Partition.append_as_ruler"),
        ("[`append_as_leader`](broker/replication/partition.py)", "there is no append_as_leader"),
        ("[`Partition`](broker/replication/delayed.py)", "there is no Partition"),
        ("[`storage/log.py`](storage/index.py)", "names another file"),
        ("[the log](storage/log.py)", "a name in backticks"),
        ("[figure 8](../tests/datadriven/figure_9.txt)", "does not exist"),
        ("# Here\n[there](#there)", "there is no heading #there"),
    ],
)
def test_a_wrong_link_is_found(text: str, complaint: str) -> None:
    (problem,) = wrong_links(text)
    assert complaint in problem


@pytest.mark.parametrize(
    "text",
    [
        "[`Partition.append_as_leader`](broker/replication/partition.py)",
        "[`UnifiedLog`](storage/log.py)",
        "[`diverging_end`](broker/replication/fetching.py)",
        "[`TRANSITIONS`](raft/quorum_state.py)",
        "[`storage/log.py`](storage/log.py)",
        "[figure 8](../tests/datadriven/figure_8.txt)",
        "# What a crash may do\n[there](#what-a-crash-may-do)",
        "[Kafka](https://kafka.apache.org)",
        "```\n[`Nothing`](nowhere.py)\n```",
    ],
)
def test_a_right_link_passes(text: str) -> None:
    assert list(wrong_links(text)) == []


def test_an_unlinked_name_is_found() -> None:
    text = "`Partition.gone`, [`Partition.update`](broker/replication/partition.py), `replica.lag.time.max.ms`"
    assert list(unlinked(text)) == ["Partition.gone"]


def test_the_drawing_of_the_layers_is_that_of_their_table(page: str) -> None:
    assert drawing(page, "layers") == layers(), "make it again: python -m tests.style.architecture"


def test_each_function_in_the_drawing_of_calls_names_the_one_below_it(page: str) -> None:
    found = calls(page)
    assert len(found) > 15
    assert list(wrong_calls(found)) == []


def test_a_wrong_call_is_found() -> None:
    append = Call(0, "Partition.append_as_leader", PARTITION, True)
    assert list(wrong_calls([append, Call(1, "UnifiedLog.append_validated", LOG, True)])) == []
    assert list(wrong_calls([append, Call(1, "UnifiedLog.roll", LOG, False)])) == []
    assert list(wrong_calls([append, Call(1, "UnifiedLog.roll", LOG, True)])) == [
        "Partition.append_as_leader does not name UnifiedLog.roll"
    ]
    assert list(wrong_calls([append, Call(1, "UnifiedLog.rolls", LOG, True)])) == [
        "there is no UnifiedLog.rolls in storage/log.py"
    ]
    assert list(wrong_calls([append, Call(2, "UnifiedLog.roll", LOG, True)])) == [
        "UnifiedLog.roll stands too far to the right"
    ]


def test_a_heading_has_the_anchor_that_a_browser_gives_it() -> None:
    text = "# The way of one record\n\n```\n# no heading\n```\n\n## What's late?\n"
    assert list(headings(text)) == ["the-way-of-one-record", "whats-late"]
