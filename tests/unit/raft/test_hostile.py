"""What a stranger, or a leader that is damaged or mad, may ask and answer: it costs a quorum nothing that it needs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from pykraft.common.core import Outbound
from pykraft.common.types import METADATA_TOPIC, ZERO_UUID, Uuid
from pykraft.protocol.messages.data import FetchResponse, LeaderIdAndEpoch
from pykraft.protocol.messages.quorum import VoteRequest
from pykraft.raft.client import RaftClient
from pykraft.raft.service import HIGHEST_EPOCH
from pykraft.records.batch import batches
from pykraft.records.builder import RecordBatchBuilder
from tests.harness.quorum import Quorum, serve

LAST_EPOCH = (1 << 31) - 1
Answer = FetchResponse.Topic.Partition


class Altered(Quorum):
    """One fetch answer to one replica is not what the leader said."""

    _alters: tuple[int, Callable[[Answer], bool]] | None = None

    def alter(self, receiver: int, change: Callable[[Answer], bool]) -> None:
        """From now on, until it says that it did, `change` gets each answer to this replica."""
        self._alters = (receiver, change)

    @property
    def is_altered(self) -> bool:
        return self._alters is None

    def _answer(self, sender: int, origin: RaftClient | None, outbound: Outbound, result: Any) -> None:
        receiver, change = self._alters or (None, None)
        is_answer = sender == receiver and isinstance(result, FetchResponse) and bool(result.responses)
        if change is not None and is_answer and change(result.responses[0].partitions[0]):
            self._alters = None
        super()._answer(sender, origin, outbound, result)


def quorum_with_records() -> tuple[Altered, int]:
    """One that has decided three records; and a follower."""
    quorum = Altered()
    leader = quorum.elect()
    for number in (1, 2, 3):
        quorum.append(number)
        quorum.run(1000)
    return quorum, next(n for n in quorum.voters if n != leader)


def with_epoch(answer: Answer) -> bool:
    answer.current_leader = LeaderIdAndEpoch(leader_id=-1, leader_epoch=LAST_EPOCH)
    return True


def with_diverging(epoch: int, end_offset: int) -> Callable[[Answer], bool]:
    def change(answer: Answer) -> bool:
        answer.diverging_epoch = Answer.EpochEndOffset(epoch=epoch, end_offset=end_offset)
        answer.records = b""
        return True

    return change


def with_epoch_of_batch(epoch: int) -> Callable[[Answer], bool]:
    """No checksum covers it."""

    def change(answer: Answer) -> bool:
        if not answer.records:
            return False
        data = bytearray(bytes(answer.records))
        struct.pack_into(">i", data, 12, epoch)
        answer.records = memoryview(data)
        return True

    return change


def with_records(key: bytes | None, value: bytes | None, control: bool = False) -> Callable[[Answer], bool]:
    """The checksum is right; but this is no record of a metadata log."""

    def change(answer: Answer) -> bool:
        if not answer.records:
            return False
        said = next(batches(memoryview(bytes(answer.records))))
        builder = RecordBatchBuilder(said.base_offset, leader_epoch=said.partition_leader_epoch, control=control)
        builder.append(said.max_timestamp, key, value)
        answer.records = memoryview(builder.build())
        return True

    return change


@pytest.mark.costly
@pytest.mark.parametrize(
    "change",
    [
        with_epoch,
        *(with_records(None, value) for value in (None, b"", b"\x01", b"\x01\x63\x00", b"\x01\x02\x00\x05")),
        *(
            with_records(key, b"", control=True)
            for key in (None, b"", b"\x00", b"\x00\x00\x00\x02", b"\x00\x00\x00\x63")
        ),
        with_records(b"\x00\x00\x00\x06", b"\x00\x00\xff", control=True),
        *(with_diverging(*end) for end in ((0, 0), (1, 0), (1, -1), (1, -(1 << 63)), (1, 1 << 62), (100, 2))),
        *(with_epoch_of_batch(epoch) for epoch in (-1, 0, 100, LAST_EPOCH)),
    ],
)
def test_one_answer_that_no_leader_gives_does_no_lasting_harm(change: Callable[[Answer], bool]) -> None:
    quorum, follower = quorum_with_records()
    quorum.alter(follower, change)
    quorum.append(4)
    quorum.run(5000)
    assert all(heard.levels[:4] == [1, 2, 3, 4] for heard in quorum.heard.values())
    quorum.append(5)
    quorum.run(2000)
    assert quorum.is_altered
    assert all(heard.levels == [1, 2, 3, 4, 5] for heard in quorum.heard.values())
    quorum.kill(quorum.leader)
    quorum.run_until(lambda: len(quorum.leaders) == 1, limit_ms=120_000)


@pytest.mark.costly
@pytest.mark.parametrize("epoch", [HIGHEST_EPOCH - 1, HIGHEST_EPOCH])
def test_a_stranger_who_asks_for_the_highest_epoch_leaves_some_for_elections(epoch: int) -> None:
    quorum = Quorum()
    quorum.elect()
    asked = VoteRequest.Topic.Partition(
        replica_epoch=epoch,
        replica_id=77,
        replica_directory_id=Uuid(b"s" * 16),
        voter_directory_id=ZERO_UUID,
        last_offset_epoch=0,
        last_offset=0,
        pre_vote=True,
    )
    request = VoteRequest(topics=[VoteRequest.Topic(topic_name=METADATA_TOPIC, partitions=[asked])])
    serve(quorum.rafts[1], request, quorum.now)
    quorum.run_until(lambda: len(quorum.leaders) == 1 and quorum.epoch(quorum.leader) > epoch, limit_ms=120_000)
    for node_id in quorum.voters:
        quorum.kill(node_id)
    for node_id in quorum.voters:
        quorum.start(node_id)
    quorum.elect()
