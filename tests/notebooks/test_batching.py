"""The scenarios of notebook 09: what a producer does with time and with troubles. And the notebook must turn red when
the linger is forgotten, or a leader takes a gap."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from pykraft.course.rigs.virtual_producer import VirtualProducer
from pykraft.viz.clients.batch_chart import trouble_in
from tests.notebooks.sections import NOTEBOOK, run

PLAIN: dict[str, Any] = {"enable_idempotence": False}
ONE_IN_FLIGHT = {**PLAIN, "max_in_flight_requests_per_connection": 1}


def test_what_waits_is_the_linger_and_what_travels_is_the_round_trip() -> None:
    producer = VirtualProducer(linger_ms=20, round_trip_ms=10)
    producer.send(33, records_per_s=500)
    first, *_ = producer.batches
    assert first.appended_ms == tuple(range(0, 22, 2))
    assert (first.sent_ms, first.answered_ms) == (20, 30)
    assert (producer.requests, producer.records_per_request) == (3, 11)
    assert producer.latency_ms() == 20
    assert producer.latency_ms(0.99) == 30


def test_a_record_waits_with_its_partition_so_more_partitions_make_smaller_batches() -> None:
    sizes = {}
    for partitions in (1, 10):
        producer = VirtualProducer(partitions=partitions, linger_ms=20)
        producer.send(500, records_per_s=1000)
        assert {batch.partition for batch in producer.batches} == set(range(partitions))
        sizes[partitions] = 500 / len(producer.batches)
    assert sizes[1] > 5 * sizes[10]


def test_a_second_sending_is_counted_from_zero() -> None:
    producer = VirtualProducer(linger_ms=0)
    for _ in range(2):
        producer.send(10, records_per_s=100)
        assert producer.requests == len(producer.batches) == 10
        assert producer.batches[0].sent_ms < 1


@pytest.mark.parametrize(
    ("settings", "refused", "lost"),
    [(PLAIN, "0 late", "0 to 4 twice"), (ONE_IN_FLIGHT, "", "0 twice"), ({}, "", "")],
    ids=["five in flight", "one in flight", "idempotent"],
)
def test_a_trouble_shows_in_the_log_unless_the_producer_is_protected(
    settings: dict[str, Any], refused: str, lost: str
) -> None:
    for trouble, said in ((VirtualProducer.refuse, refused), (VirtualProducer.lose_answer, lost)):
        producer = VirtualProducer(linger_ms=0, batch_size=1, request_timeout_ms=1000, **settings)
        trouble(producer)
        producer.send(8, records_per_s=1000)
        assert str(trouble_in(producer.log)) == (said or "each once, in order")
        assert not producer.failed


def test_a_producer_that_gives_up_after_three_retries_loses_what_a_patient_one_delivers() -> None:
    found = {}
    for retries in (3, 1000):
        producer = VirtualProducer(retries=retries)
        producer.be_away(5)
        producer.send(8, records_per_s=1000)
        found[retries] = len(producer.failed), producer.log
    assert found == {3: (8, []), 1000: (0, list(range(8)))}


PATH = NOTEBOOK.parent / "09_batching.ipynb"

THE_LINGER_IS_FORGOTTEN = """
from pykraft.client.producing.accumulator import RecordAccumulator

RecordAccumulator._ready_at = lambda accumulator, queue: queue[0].created
"""

A_GAP_IS_TAKEN = """
from pykraft.storage.producer_state import ProducerEntry

ProducerEntry._check_sequence = lambda append, batch: None
"""


@pytest.mark.long
def test_a_producer_without_a_linger_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match="does not hold: On a quiet topic"):
        run("3. ", path=PATH, before=THE_LINGER_IS_FORGOTTEN)


def test_a_leader_that_takes_a_gap_turns_the_notebook_red() -> None:
    with pytest.raises(NotebookFailed, match="does not hold: One in flight keeps order"):
        run("5. ", since="4. ", path=PATH, before=A_GAP_IS_TAKEN)
