"""One law of the idempotent producer, on random histories: each record is written once, and in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from pykraft.client.producing.accumulator import ProducerBatch, RecordAccumulator, RecordMetadata
from pykraft.client.producing.numbering import Numbering
from pykraft.common.errors import ErrorCode
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.transactions import InitProducerIdRequest
from tests.harness.scripted import learn
from tests.unit.client.producing.test_sender import PASSING, PAUSE_MS, T0, T1, Sending


def run(seed: int, restarts: bool = False) -> None:
    """Requests and answers are lost, brokers refuse, leaders change; but nothing is given up, unless brokers are
    restarted as well, and forget what they knew."""
    random = Random(seed)
    some = Sending(batch_size=random.choice([1, 100, 300]), linger_ms=random.choice([0, 5]))
    appended: dict[TopicPartition, list[bytes]] = {T0: [], T1: []}
    for step in range(150):
        for _ in range(random.randrange(3)):
            key = random.choice([T0, T1])
            value = b"%d-%d" % (step, len(appended[key]) + 1000 * key.partition)
            some.append(value, key=key)
            appended[key].append(value)
        some.script.poll(random.choice([0, 1, 5, 50, PAUSE_MS]))
        if some.script.has_asked(InitProducerIdRequest) and random.random() < 0.8:
            some.give_id()
        # Answers come in the order of the requests of a broker.
        for node in (1, 2, 3):
            mine = [outbound for outbound in some.under_way if outbound.destination.id == node]
            for outbound in mine[: random.randrange(4)]:
                fate = random.random()
                if fate < 0.6:
                    some.take(outbound)
                elif fate < 0.75:
                    some.refuse(outbound, random.choice(PASSING))
                else:
                    # The connection is over: all that was under way on it is lost, or only the answers are.
                    for lost in [o for o in some.under_way if o.destination.id == node]:
                        (some.lose_answer if fate < 0.9 else some.script.fail)(lost)
                    break
        if random.random() < 0.05:
            learn(some.metadata, {"t": [(random.choice([1, 2, 3]), step), (random.choice([1, 2, 3]), step)]})
        if restarts and random.random() < 0.2:
            some.log.restart()
    some.finish()
    if restarts:
        check_with_restarts(some, appended)
        return
    assert {key: values for key, values in appended.items() if values} == some.log.values
    assert all(isinstance(result, RecordMetadata) for result in some.told.values())
    for key, values in appended.items():
        assert [some.told[value].offset for value in values] == list(range(len(values))), key  # type: ignore[union-attr]
    assert some.accumulator.used_bytes == 0


def check_with_restarts(some: Sending, appended: dict[TopicPartition, list[bytes]]) -> None:
    """What is not acknowledged may be in the log or not, but never twice."""
    for key, values in appended.items():
        log = some.log.values.get(key, [])
        acknowledged = [value for value in values if isinstance(some.told[value], RecordMetadata)]
        assert log == [value for value in values if value in log], "each once, and in order"
        assert set(acknowledged) <= set(log)
    assert set(some.errors) <= {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    assert some.accumulator.used_bytes == 0


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(60))
def test_whatever_brokers_forget_no_record_is_written_twice(seed: int) -> None:
    run(seed, restarts=True)


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_lost_each_record_is_written_once_and_in_order(seed: int) -> None:
    run(seed)


def nobody_waits(numbering: Numbering, batch: ProducerBatch, in_flight: Sequence[ProducerBatch]) -> bool:
    return True


def at_the_end(accumulator: RecordAccumulator, batch: ProducerBatch) -> None:
    accumulator._queues[batch.topic_partition].append(batch)


def without_a_number(numbering: Numbering, batch: ProducerBatch) -> None:
    batch.finish(-1, -1, -1)


def numbers_again(
    accumulator: RecordAccumulator, batch: ProducerBatch, put_back: Any = RecordAccumulator.put_back
) -> None:
    batch.forget_sequence()
    put_back(accumulator, batch)


def trusts_a_refusal(numbering: Numbering, batch: ProducerBatch, has_earlier: bool) -> bool:
    return has_earlier or batch.topic_partition in numbering._doubtful


def test_the_law_of_restarts_dies_of_a_planted_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Numbering, "may_retry", trusts_a_refusal)
    with pytest.raises(AssertionError, match="each once, and in order"):
        for seed in range(60):
            run(seed, restarts=True)


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (Numbering, "may_send", nobody_waits),
        (RecordAccumulator, "put_back", at_the_end),
        (RecordAccumulator, "put_back", numbers_again),
        (Numbering, "number", without_a_number),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_law_dies_of_a_planted_bug(
    owner: type, name: str, bug: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, bug)
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(60):
            run(seed)
