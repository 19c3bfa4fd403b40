"""InitProducerId, and the rules by which a leader knows a batch again: producer id, epoch, sequence number (KIP-98)."""

from __future__ import annotations

from pykraft.protocol.messages.transactions import InitProducerIdRequest
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import batch, list_offsets, produce, versions

LAST = 2**31 - 1
NO_TIMEOUT = 2**31 - 1


def producer_id(talk: Dialogue) -> int:
    """A fresh one; a broker that has none left yet says so, and is asked again."""
    request = InitProducerIdRequest(transaction_timeout_ms=NO_TIMEOUT)
    found: int = talk.until(1, request, 4, lambda answer: not answer.error_code).producer_id
    return found


def test_each_version_gives_a_fresh_id(talk: Dialogue) -> None:
    producer_id(talk)
    for version in versions(InitProducerIdRequest):
        talk.to().ask(InitProducerIdRequest(transaction_timeout_ms=NO_TIMEOUT), version)
        talk.to().ask(InitProducerIdRequest(transaction_timeout_ms=0), version, "timeout 0")


def test_only_transactions_raise_an_epoch(talk: Dialogue) -> None:
    known = producer_id(talk)
    for version in (3, 5):
        for says, given in {"its own": (known, 0), "an id alone": (known, -1), "an epoch alone": (-1, 0)}.items():
            request = InitProducerIdRequest(
                transaction_timeout_ms=NO_TIMEOUT, producer_id=given[0], producer_epoch=given[1]
            )
            talk.to().ask(request, version, says)


def test_a_transactional_id_is_not_empty(talk: Dialogue) -> None:
    for version in (0, 2, 5):
        talk.to().ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), version)


def test_batches_follow_each_other(talk: Dialogue) -> None:
    talk.topic("idempotence-order")
    me = producer_id(talk)
    for says, sequence, count in (
        ("the first", 0, 2),
        ("the second", 2, 3),
        ("a gap", 6, 1),
        ("an overlap", 4, 3),
        ("another count", 2, 2),
        ("the third", 5, 1),
    ):
        talk.to().ask(produce("idempotence-order", batch(count, producer=(me, 0, sequence))), 9, says)


def test_a_batch_that_comes_again_is_known(talk: Dialogue) -> None:
    talk.topic("idempotence-again")
    me = producer_id(talk)
    for sequence in range(7):
        talk.to().ask(produce("idempotence-again", batch(1, producer=(me, 0, sequence))), 9, f"sequence {sequence}")
    for sequence in reversed(range(7)):
        talk.to().ask(
            produce("idempotence-again", batch(1, producer=(me, 0, sequence))), 9, f"sequence {sequence} again"
        )
    talk.to().ask(list_offsets("idempotence-again", -1), 7)


def test_a_batch_that_comes_again_has_the_time_of_its_append(talk: Dialogue) -> None:
    talk.topic("idempotence-time", configs={"message.timestamp.type": "LogAppendTime"})
    me = producer_id(talk)
    for says in ("once", "again"):
        talk.to().ask(produce("idempotence-time", batch(1, producer=(me, 0, 0))), 9, says)


def test_a_producer_that_is_not_known_may_begin_anywhere(talk: Dialogue) -> None:
    talk.topic("idempotence-begin")
    for sequence in (0, 17):
        me = producer_id(talk)
        talk.to().ask(produce("idempotence-begin", batch(1, producer=(me, 0, sequence))), 9, f"sequence {sequence}")
        talk.to().ask(produce("idempotence-begin", batch(1, producer=(me, 0, sequence + 1))), 9, "the next")
    me = producer_id(talk)
    talk.to().ask(produce("idempotence-begin", batch(1, producer=(me, 7, 3))), 9, "epoch 7, sequence 3")


def test_an_epoch_fences_the_ones_before_it(talk: Dialogue) -> None:
    talk.topic("idempotence-epoch")
    me = producer_id(talk)
    for says, epoch, sequence in (
        ("epoch 1", 1, 0),
        ("an older epoch", 0, 0),
        ("an older epoch that goes on", 0, 1),
        ("a newer epoch that does not begin at 0", 2, 1),
        ("a newer epoch", 3, 0),
        ("the one before", 1, 1),
        ("the newer one goes on", 3, 1),
    ):
        talk.to().ask(produce("idempotence-epoch", batch(1, producer=(me, epoch, sequence))), 9, says)


def test_sequences_wrap(talk: Dialogue) -> None:
    talk.topic("idempotence-wrap")
    me = producer_id(talk)
    for says, sequence, count in (
        ("near the end", LAST - 1, 1),
        ("two, the second of which is 0", LAST, 2),
        ("a gap", 2, 1),
        ("the next", 1, 1),
        ("the two again", LAST, 2),
    ):
        talk.to().ask(produce("idempotence-wrap", batch(count, producer=(me, 0, sequence))), 9, says)
    other = producer_id(talk)
    talk.to().ask(produce("idempotence-wrap", batch(1, producer=(other, 0, LAST))), 9, "the last sequence")
    talk.to().ask(produce("idempotence-wrap", batch(1, producer=(other, 0, 0))), 9, "then 0")


def test_partitions_are_numbered_alone(talk: Dialogue) -> None:
    talk.topic("idempotence-partitions", [(1,), (1,)])
    me = producer_id(talk)
    both = batch(1, producer=(me, 0, 0)), batch(1, producer=(me, 0, 0))
    talk.to().ask(produce("idempotence-partitions", *both), 9)
    talk.to().ask(produce("idempotence-partitions", both[0], batch(1, producer=(me, 0, 1))), 9, "again and the next")
