"""Which leader epoch began where: every branch, against a model that keeps the epoch of each offset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.types import OffsetAndEpoch
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk.checkpoint import DamagedFileError, format_checkpoint
from pykraft.storage.leader_epoch_cache import EpochEntry, LeaderEpochCache

PATH = "/d/leader-epoch-checkpoint"


def cache(*entries: tuple[int, int], filesystem: MemoryFileSystem | None = None) -> LeaderEpochCache:
    filesystem = filesystem or MemoryFileSystem()
    filesystem.make_directory("/d")
    found = LeaderEpochCache(filesystem, "/d")
    for epoch, start_offset in entries:
        found.assign(epoch, start_offset)
    return found


@pytest.mark.parametrize(
    ("before", "assigned", "after"),
    [
        ([], (0, 0), [(0, 0)]),
        ([(0, 0)], (0, 0), [(0, 0)]),
        ([(0, 0)], (0, 9), [(0, 0)]),
        ([(0, 0)], (1, 9), [(0, 0), (1, 9)]),
        ([(0, 0), (1, 9)], (3, 12), [(0, 0), (1, 9), (3, 12)]),
        ([(0, 0), (1, 9)], (2, 9), [(0, 0), (2, 9)]),  # epoch 1 had no record
        ([(0, 0), (1, 9)], (2, 5), [(0, 0), (2, 5)]),
        ([(0, 0), (1, 9), (2, 12)], (3, 9), [(0, 0), (3, 9)]),
        ([(0, 0), (1, 9), (2, 12)], (1, 20), [(0, 0), (1, 20)]),
        ([(5, 7)], (5, 3), [(5, 3)]),
        ([(5, 7)], (4, 3), [(4, 3)]),
    ],
)
def test_an_epoch_replaces_those_that_it_contradicts(
    before: list[tuple[int, int]], assigned: tuple[int, int], after: list[tuple[int, int]]
) -> None:
    epochs = cache(*before)
    epochs.assign(*assigned)
    assert epochs.entries == after
    assert epochs.latest_epoch == after[-1][0]


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (-1, None),
        (0, (10, 0)),  # older than all that is known: it ends where the first one begins
        (2, (20, 2)),
        (3, (20, 2)),  # not known: the largest known below it
        (4, (30, 4)),
        (7, (99, 7)),
        (8, None),
    ],
)
def test_where_the_log_of_an_epoch_ends(epoch: int, end: tuple[int, int] | None) -> None:
    epochs = cache((2, 10), (4, 20), (7, 30))
    assert epochs.end_offset_for(epoch, log_end_offset=99) == (OffsetAndEpoch(*end) if end else None)


def test_an_empty_cache_knows_nothing() -> None:
    epochs = cache()
    assert epochs.latest_epoch is None and epochs.epoch_for(5) is None
    assert epochs.end_offset_for(0, 5) is None and epochs.end_offset_for(-1, 5) is None
    epochs.truncate_from_end(0)
    epochs.truncate_from_start(5)
    epochs.clear()
    assert epochs.entries == []


def test_the_file_is_these_bytes_and_is_written_only_for_news() -> None:
    filesystem = MemoryFileSystem()
    epochs = cache((0, 0), (3, 47), filesystem=filesystem)
    assert not filesystem.exists(PATH), "as long as the batches tell, nothing needs to be written"
    epochs.write(48)
    assert filesystem.read(PATH) == b"0\n2\n0 0\n3 47\n"
    before = filesystem.operations
    epochs.assign(3, 50)
    epochs.truncate_from_end(99)
    epochs.truncate_from_start(0)
    epochs.relearn(40, [EpochEntry(3, 47)])
    assert filesystem.operations == before
    assert LeaderEpochCache(filesystem, "/d").entries == [(0, 0), (3, 47)]
    epochs.clear()
    assert filesystem.read(PATH) == b"0\n0\n"


@pytest.mark.parametrize("content", [b"0\n1\n0\n", b"0\n2\n0 0\n", b"1\n0\n", b"0\n1\nx 0\n", b"\xff"])
def test_a_damaged_file_is_refused_by_name(content: bytes) -> None:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/d")
    filesystem.write(PATH, content)
    with pytest.raises(DamagedFileError, match=f"{PATH} is damaged"):
        LeaderEpochCache(filesystem, "/d")


@pytest.mark.parametrize(
    ("start", "found", "after"),
    [
        (10, [], [(0, 0)]),
        (10, [(2, 12)], [(0, 0), (2, 12)]),
        (10, [(0, 10), (4, 11)], [(0, 0), (4, 11)]),
        (30, [(3, 30)], [(0, 0), (1, 10), (3, 20)]),
        (0, [(-1, 0), (0, 5)], [(0, 5)]),
        (20, [(2, 20), (1, 22), (5, 24)], [(0, 0), (1, 10), (2, 20), (5, 24)]),
    ],
)
def test_what_was_read_anew_replaces_what_the_file_said(
    start: int, found: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    filesystem = MemoryFileSystem()
    epochs = cache((0, 0), (1, 10), (3, 20), filesystem=filesystem)
    epochs.relearn(start, [EpochEntry(*each) for each in found])
    assert epochs.entries == after == LeaderEpochCache(filesystem, "/d").entries


# --- the model: the epoch of each offset ------------------------------------------------------------------------------


class Model:
    """A list with the epoch of each offset from `start` on."""

    def __init__(self) -> None:
        self.start = 0
        self.epochs: list[int] = []

    @property
    def end(self) -> int:
        return self.start + len(self.epochs)

    def entries(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for number, epoch in enumerate(self.epochs):
            if not found or found[-1][0] != epoch:
                found.append((epoch, self.start + number))
        return found

    def end_offset_for(self, epoch: int) -> tuple[int, int] | None:
        if not self.epochs or epoch < 0 or epoch > self.epochs[-1]:
            return None
        below = [number for number, each in enumerate(self.epochs) if each <= epoch]
        if not below:
            return self.start, epoch
        return self.start + below[-1] + 1, self.epochs[below[-1]]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 4)),
        st.tuples(st.just("cut end"), st.integers(0, 8), st.just(0)),
        st.tuples(st.just("cut start"), st.integers(0, 8), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@given(STEPS)
def test_the_cache_answers_as_a_list_of_all_epochs_would(steps: list[tuple[str, int, int]]) -> None:
    filesystem, model = MemoryFileSystem(), Model()
    epochs = cache(filesystem=filesystem)
    latest = 0
    for step, amount, count in steps:
        if step == "append":
            latest += amount
            epochs.assign(latest, model.end)
            model.epochs += [latest] * count
        elif step == "cut end":
            model.epochs = model.epochs[: max(0, len(model.epochs) - amount)]
            epochs.truncate_from_end(model.end)
        elif step == "cut start":
            amount = min(amount, len(model.epochs) - 1)
            if amount > 0:
                model.start, model.epochs = model.start + amount, model.epochs[amount:]
                epochs.truncate_from_start(model.start)
        else:
            epochs.write(model.end)
            epochs = LeaderEpochCache(filesystem, "/d")
        assert epochs.entries == model.entries()
        for epoch in range(-1, latest + 2):
            assert epochs.end_offset_for(epoch, model.end) == model.end_offset_for(epoch)
        for number, epoch in enumerate(model.epochs):
            assert epochs.epoch_for(model.start + number) == epoch
        if model.epochs:
            assert epochs.epoch_for(model.start - 1) is None


@pytest.mark.parametrize(
    ("lines", "entries"),
    [
        (["0 20", "1 10", "2 0"], [(2, 0)]),
        (["1 0", "1 5"], [(1, 0)]),
        (["2 0", "1 5", "3 9"], [(1, 5), (3, 9)]),
    ],
)
def test_a_file_in_disorder_is_read_as_if_its_epochs_had_come_so(
    lines: list[str], entries: list[tuple[int, int]]
) -> None:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/d")
    filesystem.write(PATH, format_checkpoint(lines))
    epochs = LeaderEpochCache(filesystem, "/d")
    assert epochs.entries == entries
    epochs.write(99)
    assert filesystem.read(PATH) == format_checkpoint([f"{epoch} {start}" for epoch, start in entries])


@pytest.mark.parametrize("line", ["-1 0", "0 -1", "2147483648 0", "0 9223372036854775808"])
def test_what_no_epoch_can_be_is_damage(line: str) -> None:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/d")
    filesystem.write(PATH, format_checkpoint([line]))
    with pytest.raises(DamagedFileError, match="leader-epoch-checkpoint is damaged"):
        LeaderEpochCache(filesystem, "/d")
