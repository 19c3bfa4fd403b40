"""What tasks leave for the driver of an exactly-once stream: without Spark's JVM and without a broker."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pykraft.common.errors import ConfigError, CorruptRecordError
from pykraft.common.types import TopicPartition
from pykraft.records.builder import RecordBatchBuilder
from pykraft.spark.writing import exactly_once
from pykraft.spark.writing.exactly_once import stage
from pykraft.spark.writing.sink_options import write_options
from pykraft.spark.writing.staging import (
    IN_MESSAGE_BYTES,
    StagedBatch,
    StagedFile,
    batch_folder,
    discard,
    discard_up_to,
    staged,
)

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1", "exactlyOnce": "true"}


def message(file: StagedFile) -> StagedBatch:
    pieces = file.close()
    return StagedBatch("q", "r", 7, "h", str(file.path or ""), file.size, file.checksum, pieces)


# --- pieces in messages and files -------------------------------------------------------------------------------------


def some_batches(count: int, size: int) -> list[tuple[TopicPartition, bytes]]:
    found = []
    for number in range(count):
        builder = RecordBatchBuilder()
        builder.append(0, None, b"%d" % number * size)
        found.append((TopicPartition("größe", number % 3), bytes(builder.build())))
    return found


@pytest.mark.parametrize(("count", "size", "spills"), [(0, 1, False), (9, 10, False), (9, 40_000, True)])
def test_what_was_kept_is_read_again_from_a_message_or_a_file(
    tmp_path: pathlib.Path, count: int, size: int, spills: bool
) -> None:
    file, pieces = StagedFile(tmp_path / "q" / "7"), some_batches(count, size)
    for place, batch in pieces:
        file.keep(place, batch)
    found = message(file)
    assert bool(found.path) is spills and bool(found.pieces) is (count > 0 and not spills)
    assert len(found.pieces) <= IN_MESSAGE_BYTES
    assert list(staged(found)) == pieces
    discard([found])
    assert not list(tmp_path.glob("q/7/*"))


def test_a_message_that_ends_early_is_refused(tmp_path: pathlib.Path) -> None:
    file = StagedFile(tmp_path)
    for place, batch in some_batches(2, 10):
        file.keep(place, batch)
    whole = message(file)
    for end in range(1, len(whole.pieces)):
        cut = StagedBatch("q", "r", 7, "h", "", whole.size, whole.checksum, whole.pieces[:end])
        with pytest.raises(CorruptRecordError, match="ends in the middle of a record batch"):
            list(staged(cut))


def damages(whole: bytes, pieces: list[tuple[TopicPartition, bytes]]) -> Iterator[bytes]:
    """Each byte changed, and all pieces there in another order, or once more in place of another."""
    for at in range(len(whole)):
        yield whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :]
    size = len(whole) // len(pieces)
    first, second = whole[:size], whole[size : 2 * size]
    yield second + first + whole[2 * size :]
    yield first + first + whole[2 * size :]


@pytest.mark.parametrize("spills", [False, True])
def test_no_changed_piece_is_ever_used(tmp_path: pathlib.Path, spills: bool) -> None:
    file, pieces = StagedFile(tmp_path), some_batches(3, 10)
    for place, batch in pieces:
        file.keep(place, batch)
    if spills:
        file._spill()
    sound = message(file)
    path = pathlib.Path(sound.path)
    for damaged in damages(path.read_bytes() if spills else sound.pieces, pieces):
        used = []
        if spills:
            path.write_bytes(damaged)
        with pytest.raises(CorruptRecordError):
            for piece in staged(sound if spills else replace(sound, pieces=damaged)):
                used.append(piece)  # noqa: PERF402 (what came before the error counts)
        assert used == pieces[: len(used)]


def test_the_file_of_another_attempt_of_the_same_size_is_refused(tmp_path: pathlib.Path) -> None:
    mine, others = StagedFile(tmp_path), StagedFile(tmp_path)
    for kept, batch in zip((mine, others), some_batches(2, 10), strict=True):
        kept.keep(TopicPartition("t", 0), batch[1])
        kept._spill()
    first, second = message(mine), message(others)
    assert first.size == second.size
    with pytest.raises(CorruptRecordError, match=f"{second.path} is not what the task has written"):
        list(staged(replace(first, path=second.path)))


def test_a_directory_that_cannot_be_written_is_one_sentence(tmp_path: pathlib.Path) -> None:
    (tmp_path / "taken").write_text("")
    file = StagedFile(tmp_path / "taken" / "q")
    with pytest.raises(ConfigError, match=r"cannot be written \(Not a directory\): stagingDirectory must name a dir"):
        for place, batch in some_batches(9, 40_000):
            file.keep(place, batch)


def test_only_files_of_this_batch_and_earlier_ones_are_removed(tmp_path: pathlib.Path) -> None:
    for batch_id in (3, 7, 12):
        folder = batch_folder(str(tmp_path), "q", batch_id)
        folder.mkdir(parents=True)
        (folder / "file").write_text("")
    (tmp_path / "q" / "written.json").write_text("")
    discard_up_to(str(tmp_path), "q", 7)
    assert sorted(path.name for path in (tmp_path / "q").iterdir()) == ["12", "written.json"]


# --- a task -----------------------------------------------------------------------------------------------------------


class Context:
    """A task's context that knows these local properties."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.getLocalProperty = properties.get


def test_a_spark_that_does_not_tell_the_query_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for properties in ({}, {"sql.streaming.queryId": "q"}, {"streaming.sql.batchId": "1"}):
        context = type("Contexts", (), {"get": staticmethod(lambda found=properties: Context(found))})
        monkeypatch.setattr(exactly_once, "TaskContext", context)
        with pytest.raises(ConfigError) as refused:
            stage(write_options({**SERVERS, "topic": "t"}), None, iter([]))  # type: ignore[arg-type]
        assert str(refused.value) == (
            "exactlyOnce needs to know the query and the batch, and this Spark does not tell a task"
            " (sql.streaming.queryId, streaming.sql.batchId): leave the option out"
        )


@pytest.mark.parametrize(
    ("said", "directory"),
    [
        ({"stagingDirectory": "/shared/x"}, "/shared/x"),
        ({"stagingDirectory": "file:///shared/x%20y", "checkpointLocation": "/c"}, "/shared/x y"),
        ({"checkpointLocation": "/checkpoint"}, "/checkpoint/pykraft-sink"),
        ({"CheckpointLocation": "file:/checkpoint"}, "/checkpoint/pykraft-sink"),
        ({"checkpointLocation": "hdfs://name:8020/checkpoint"}, "/temporary/pykraft-sink"),
        ({"checkpointLocation": "relative"}, "/temporary/pykraft-sink"),
    ],
)
def test_the_staging_directory_is_in_the_checkpoint_if_nothing_else_is_said(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, str], directory: str
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/temporary")
    assert write_options({**SERVERS, **said}).staging_directory == directory


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"kafka.acks": "1"},
            "exactlyOnce needs an idempotent producer: leave out kafka.enable.idempotence, kafka.acks",
        ),
        ({"kafka.enable.idempotence": "false"}, "exactlyOnce needs an idempotent producer"),
        ({"stagingDirectory": "here"}, "stagingDirectory is 'here', but must be an absolute path: /shared/staging"),
        ({"exactlyOnce": "maybe"}, "exactlyOnce"),
    ],
)
def test_options_that_make_no_sense_are_refused(said: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        write_options({**SERVERS, **said})
    assert words in str(refused.value)
