"""The small files beside the logs: their bytes, and what is refused."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.common.types import TopicPartition, Uuid
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk import checkpoint
from pykraft.storage.disk.checkpoint import (
    DamagedFileError,
    MetaProperties,
    OffsetCheckpoint,
    format_checkpoint,
    parse_checkpoint,
    read_clean_shutdown,
    read_meta_properties,
    read_offsets,
    read_partition_metadata,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
    write_partition_metadata,
)

ID = Uuid.parse("R45kede2TAyQft8Y2ympmA")


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    found = MemoryFileSystem()
    found.make_directory("/d")
    return found


def test_a_checkpoint_is_text_with_version_and_count() -> None:
    assert format_checkpoint([]) == b"0\n0\n"
    assert format_checkpoint(["a 1", "b 2"]) == b"0\n2\na 1\nb 2\n"
    assert parse_checkpoint("/c", b"0\n2\na 1\nb 2\n", tuple) == [("a", "1"), ("b", "2")]
    assert parse_checkpoint("/c", b"0\n0\n", tuple) == parse_checkpoint("/c", b"", tuple) == []


@pytest.mark.parametrize(
    "content",
    [
        b"0",
        b"0\n",
        b"1\n0\n",
        b"0\nx\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0 1\nb 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 x\n",
        b"0\n1\na 0 9223372036854775808\n",
        b"0\n1\na 0 1_0\n",
        b"0\n1\na 0 -9223372036854775809\n",
        b"\x80",
    ],
)
def test_a_damaged_checkpoint_is_refused_by_name(filesystem: MemoryFileSystem, content: bytes) -> None:
    filesystem.write("/d/c", content)
    with pytest.raises(DamagedFileError, match="/d/c is damaged"):
        read_offsets(filesystem, "/d/c")


def test_offsets_are_written_in_order_and_read_back(filesystem: MemoryFileSystem) -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 1 << 40, TopicPartition("a", 0): 0}
    assert read_offsets(filesystem, "/d/c") == {}
    write_offsets(filesystem, "/d/c", offsets)
    assert filesystem.read("/d/c") == b"0\n3\na 0 0\nb 9 1099511627776\nb 10 1\n"
    assert read_offsets(filesystem, "/d/c") == offsets


def test_meta_properties_name_cluster_node_and_directory(filesystem: MemoryFileSystem) -> None:
    assert read_meta_properties(filesystem, "/d") is None
    written = MetaProperties("MkU3OEVBNTcwNTJENDM2Qk", 1, ID)
    write_meta_properties(filesystem, "/d", written)
    assert read_meta_properties(filesystem, "/d") == written
    assert filesystem.read("/d/meta.properties") == (
        b"#\nnode.id=1\ndirectory.id=R45kede2TAyQft8Y2ympmA\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\n"
    )


GOOD = "version=1\ncluster.id=x\nnode.id=1\ndirectory.id=R45kede2TAyQft8Y2ympmA\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        GOOD.replace("version=1", "version=0").encode(),
        GOOD.replace("node.id=1", "node.id=x").encode(),
        GOOD.replace("node.id=1", "node.id=1_0").encode(),
        GOOD.replace("node.id=1\n", "").encode(),
        GOOD.replace("cluster.id=x\n", "").encode(),
        GOOD.replace("ympmA", "ymp").encode(),
        b"\xff" + GOOD.encode(),
        b"a=\\u00zz\n" + GOOD.encode(),
    ],
)
def test_damaged_meta_properties_are_refused_by_name(filesystem: MemoryFileSystem, content: bytes) -> None:
    filesystem.write("/d/meta.properties", content)
    with pytest.raises(DamagedFileError, match=r"/d/meta\.properties is damaged"):
        read_meta_properties(filesystem, "/d")


def test_partition_metadata_has_43_bytes(filesystem: MemoryFileSystem) -> None:
    assert read_partition_metadata(filesystem, "/d") is None
    write_partition_metadata(filesystem, "/d", ID)
    assert filesystem.read("/d/partition.metadata") == b"version: 0\ntopic_id: R45kede2TAyQft8Y2ympmA"
    assert read_partition_metadata(filesystem, "/d") == ID


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 1\ntopic_id: R45kede2TAyQft8Y2ympmA",
        b"version: 0",
        b"version: 0\ntopic_id: short",
        b"nonsense",
        b"\xff",
    ],
)
def test_damaged_partition_metadata_is_refused_by_name(filesystem: MemoryFileSystem, content: bytes) -> None:
    filesystem.write("/d/partition.metadata", content)
    with pytest.raises(DamagedFileError, match=r"/d/partition\.metadata is damaged"):
        read_partition_metadata(filesystem, "/d")


def test_a_clean_shutdown_names_the_broker_epoch(filesystem: MemoryFileSystem) -> None:
    assert read_clean_shutdown(filesystem, "/d") is None
    write_clean_shutdown(filesystem, "/d", 15)
    assert filesystem.read("/d/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":15}'
    assert read_clean_shutdown(filesystem, "/d") == 15


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{}", b"[]", b"torn{", b'{"brokerEpoch":null}', b'{"brokerEpoch":"x"}', b'{"brokerEpoch":Infinity}'),
        *(b'{"brokerEpoch":1000000000000000000000}', b"[" * 100_000),
    ],
)
def test_a_clean_shutdown_of_an_older_or_unknown_kind_is_one_without_an_epoch(
    filesystem: MemoryFileSystem, content: bytes
) -> None:
    filesystem.write("/d/.kafka_cleanshutdown", content)
    assert read_clean_shutdown(filesystem, "/d") == -1


def test_a_checkpoint_that_is_written_again_makes_only_the_lines_anew_that_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filesystem, made = MemoryFileSystem(), list[object]()
    filesystem.make_directory("/d")
    line = checkpoint._line

    def counted(key: TopicPartition, offset: int) -> str:
        made.append((key, offset))
        return line(key, offset)

    monkeypatch.setattr(checkpoint, "_line", counted)
    kept = OffsetCheckpoint(filesystem, "/d/offsets")
    offsets = {TopicPartition("t", number): 10 * number for number in (9, 10, 2, 7)}
    kept.write(offsets)
    made.clear()
    changed = TopicPartition("t", 7)
    kept.write({**offsets, changed: 71})
    assert made == [(changed, 71)]


def test_a_checkpoint_that_is_written_again_says_what_a_new_one_would() -> None:
    filesystem, random = MemoryFileSystem(), Random(1)
    filesystem.make_directory("/d")
    kept = OffsetCheckpoint(filesystem, "/d/kept")
    for _ in range(60):
        places = random.sample(range(30), random.randrange(20))
        offsets = {TopicPartition(f"t{place % 3}", place): random.randrange(3) for place in places}
        kept.write(offsets)
        write_offsets(filesystem, "/d/new", offsets)
        assert filesystem.read("/d/kept") == filesystem.read("/d/new")
        if not random.randrange(5):
            kept = OffsetCheckpoint(filesystem, "/d/kept")
            kept.read()
            assert kept.offsets == offsets
