"""A large answer of the leader is looked through in slices of time: records of the log, or the last piece of a
snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykraft.common.core import Outbound
from pykraft.protocol.messages.data import FetchResponse
from pykraft.protocol.messages.quorum import FetchSnapshotResponse
from pykraft.raft import reading
from pykraft.raft.client import RaftClient
from pykraft.raft.log import history, snapshot
from tests.harness.quorum import Quorum
from tests.harness.storage import CountedSlice
from tests.unit.raft.test_hostile import Altered, with_epoch_of_batch, with_records

SLICE, MANY = 5, 60


class Overwriting(Altered):
    """A connection reads every answer into the same buffer."""

    def _answer(self, sender: int, origin: RaftClient | None, outbound: Outbound, result: Any) -> None:
        buffer = bytearray()
        topics = getattr(result, "responses", None) or getattr(result, "topics", None)
        name = {FetchResponse: "records", FetchSnapshotResponse: "unaligned_records"}.get(type(result))
        if name is not None and topics:
            buffer = bytearray(bytes(getattr(topics[0].partitions[0], name) or b""))
            setattr(topics[0].partitions[0], name, memoryview(buffer))
        super()._answer(sender, origin, outbound, result)
        buffer[:] = bytes(len(buffer))


@pytest.fixture(autouse=True)
def every_answer_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_READ_AT_ONCE_BYTES", -1)


def behind(**settings: Any) -> tuple[Overwriting, int]:
    """A quorum whose leader has a batch of many records that one follower has not; and the follower."""
    quorum = Overwriting(**settings)
    leader = quorum.elect()
    follower = next(n for n in quorum.voters if n != leader)
    quorum.kill(follower)
    quorum.append(*range(MANY))
    quorum.run(1000)
    return quorum, follower


def start_in_slices(quorum: Quorum, node: int, length: int = SLICE) -> RaftClient:
    quorum.start(node)
    raft = quorum.rafts[node]
    raft._time_slice = raft._reader._time_slice = CountedSlice(length)
    return raft


def hear(quorum: Quorum, node: int, count: int) -> None:
    """Wait until its listener has heard all."""
    heard = quorum.heard[node]
    quorum.run_until(lambda: len(heard.levels) >= count)
    assert heard.levels == list(range(count))


def counted_turns(
    monkeypatch: pytest.MonkeyPatch, raft: RaftClient, owner: Any, name: str, is_counted: Callable[[], bool]
) -> list[int]:
    """How often a function is called in each turn of this replica, from now on."""
    turns, (function, poll) = [0], (getattr(owner, name), raft.poll)

    def counting(*arguments: Any) -> Any:
        turns[-1] += is_counted()
        return function(*arguments)

    def counted_poll(now: int) -> Any:
        turns.append(0)
        return poll(now)

    monkeypatch.setattr(owner, name, counting)
    monkeypatch.setattr(raft, "poll", counted_poll)
    return turns


@pytest.mark.costly
def test_records_are_checked_a_slice_at_a_time_and_nothing_more_is_asked_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quorum, follower = behind()
    raft = start_in_slices(quorum, follower)
    end = raft.replica.log.end_offset
    turns = counted_turns(
        monkeypatch, raft, history, "decode_metadata_record", lambda: raft.replica.log.end_offset == end
    )
    quorum.asked.clear()
    quorum.run_until(lambda: raft.replica.log.end_offset > end)
    asked = [sender for sender, _, request in quorum.asked if sender == follower]
    assert sum(turns) >= MANY and max(turns) <= SLICE + 1
    assert len(asked) <= 2, "to find the leader, and then what it has"
    hear(quorum, follower, MANY)


def test_a_snapshot_is_checked_a_slice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "BATCH_RECORDS", 3)
    quorum, follower = behind()
    for node in quorum.rafts:
        quorum.snapshot(node)
        assert quorum.clean(node)
    raft = start_in_slices(quorum, follower)
    log = raft.replica.log
    turns = counted_turns(monkeypatch, raft, history, "decode_metadata_record", lambda: not log.start_offset)
    hear(quorum, follower, MANY)
    assert sum(turns) == MANY and max(turns) <= 3 * (SLICE + 1)
    assert log.start_offset > MANY


@pytest.mark.costly
@pytest.mark.parametrize(
    "change", [with_records(None, b"\x01\x63\x00"), with_records(b"\0\0", b"", control=True), with_epoch_of_batch(100)]
)
def test_an_answer_that_no_leader_gives_is_refused_in_slices_too(change: Callable[[Any], bool]) -> None:
    quorum, follower = behind()
    raft = start_in_slices(quorum, follower)
    quorum.alter(follower, change)
    quorum.elect()
    quorum.append(MANY)
    hear(quorum, follower, MANY + 1)
    assert quorum.is_altered and raft.replica.log.end == quorum.end(quorum.leader)


@pytest.mark.costly
@pytest.mark.parametrize("cut", [1, 4, 10])
def test_a_role_that_changes_meanwhile_takes_the_answer_along(cut: int) -> None:
    quorum, follower = behind()
    raft = start_in_slices(quorum, follower)
    quorum.run_until(lambda: raft._reader.is_busy)
    for _ in range(cut):
        quorum.now += 1
        raft.poll(quorum.now)
    assert raft._reader.is_busy
    raft.replica.become_unattached(quorum.epoch(follower) + 1, None, quorum.now)
    assert not raft._reader.is_busy
    quorum.elect()
    quorum.append(MANY)
    hear(quorum, follower, MANY + 1)
    assert len({quorum.contents(node) for node in quorum.voters}) == 1


def test_what_takes_longer_than_the_fetch_timeout_is_no_reason_for_an_election() -> None:
    timeout_ms = 40
    quorum, follower = behind()
    raft = start_in_slices(quorum, follower, length=1)
    raft._quorum._fetch_timeout_ms = timeout_ms
    epoch = quorum.epoch(quorum.leader)
    quorum.run_until(lambda: raft._reader.is_busy)
    began = quorum.now
    quorum.run_until(lambda: not raft._reader.is_busy)
    assert quorum.now - began > timeout_ms
    assert quorum.epoch(quorum.leader) == epoch and raft.replica.log.end == quorum.end(quorum.leader)
