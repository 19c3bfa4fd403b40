"""Kafka's own dump tool and ours print the same of the same files: what a node of pykraft wrote, logs of every kind
of record of the coordinators and the controller, and damaged files.

A JVM takes seconds to start, so each run of the tool is given many files.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import struct
import subprocess
from collections.abc import Iterable, Sequence

import pytest

from pykraft import Cluster, NewTopic, Producer
from pykraft.cli import main
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    RecordTypes,
    encode_coordinator_record,
)
from pykraft.protocol.messages.group_values import (
    ConsumerGroupCurrentMemberAssignmentValue,
    GroupTargetAssignmentMetadataValue,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMetadataValue,
)
from pykraft.protocol.messages.records import (
    METADATA_RECORDS,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterControllerRecord,
    encode_metadata_record,
)
from pykraft.protocol.schema import Message
from pykraft.records.batch import ATTRIBUTES_OFFSET, CRC_OFFSET, CURRENT_MAGIC, HEADER_BYTES, MAGIC_OFFSET
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.compression import Compression
from pykraft.records.crc32c import crc32c
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.storage.upkeep.retention import delete_old_segments
from tests.golden.dumps import DATA
from tests.harness import apache_kafka
from tests.harness.apache_kafka import java_command
from tests.harness.asking import KEPT, PATIENT
from tests.harness.storage import NOW_MS, PARTITION, end_transaction, fill, open_log, produced, tiny
from tests.protocol.values import example, versions

TOOLS = {apache_kafka.VERSION: "kafka.tools.DumpLogSegments", "4.4.0": "org.apache.kafka.tools.DumpLogSegments"}
LIMIT_S = 120
SEGMENT = "00000000000000000000"
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "metadata.max.retention.bytes": "1",
    "internal.metadata.log.segment.bytes": "2000",
}
KeysAndValues = Iterable[tuple[bytes | None, bytes | None]]

NEWER: dict[type[Message], int] = {
    RegisterBrokerRecord: 4,
    BrokerRegistrationChangeRecord: 3,
    UnregisterControllerRecord: 0,
}
"""Records that Kafka 4.2 does not know, from these versions on."""

MAY_DIFFER = {
    "Mismatches in :": "the tool names the file with its whole path",
    "Found out of order timestamp in :": "as above",
    "Found timestamp mismatch in :": "as above",
    "Non-consecutive offsets in ": "as above",
}
"""What complaints begin with that are compared up to the folders of the path."""


@pytest.fixture(autouse=True, scope="module")
def needs_java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


def kafkas(home: pathlib.Path, *arguments: str, version: str = apache_kafka.VERSION) -> tuple[list[str], list[str]]:
    """What Kafka's tool prints, on standard output and on standard error."""
    done = subprocess.run(
        java_command(version, TOOLS[version], *arguments),
        check=False,
        cwd=home,
        capture_output=True,
        text=True,
        env={**os.environ, "JAVA_TOOL_OPTIONS": ""} | {"LC_ALL": "C.UTF-8"},
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    return done.stdout.splitlines(), [line for line in done.stderr.splitlines() if "JAVA_TOOL_OPTIONS" not in line]


def ours(home: pathlib.Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[str], list[str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert main(["dump-log", *arguments]) == 0
    out, complaints = capsys.readouterr()
    return out.splitlines(), complaints.splitlines()


def assert_same(
    home: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    files: Sequence[str],
    *options: str,
    are_whole: bool = True,
    version: str = apache_kafka.VERSION,
) -> None:
    """Both tools print the same lines, and complain of the same; of files that are whole they do not complain."""
    arguments = ("--files", ",".join(files), *options)
    our_lines, our_complaints = ours(home, capsys, *arguments)
    kafkas_lines, kafkas_complaints = kafkas(home, *arguments, version=version)
    assert our_lines == kafkas_lines
    assert our_complaints == [without_folders(home, line) for line in kafkas_complaints]
    if are_whole:
        assert kafkas_complaints == []
        assert not [line for line in kafkas_lines if "isvalid: false" in line]


def without_folders(home: pathlib.Path, line: str) -> str:
    known = [beginning for beginning in MAY_DIFFER if line.startswith(beginning)]
    return line.replace(f"{home}/", "") if known else line


# --- what a pykraft node wrote ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The log directory of a node that was stopped in order: every codec, headers, nulls, segments, both timestamps.
    Its metadata log begins with a snapshot."""
    folder = tmp_path_factory.mktemp("written")
    settings = {"index.interval.bytes": "128", "segment.index.bytes": "64", **KEPT}
    with Cluster(1, directory=folder, properties=PATIENT | SNAPSHOTS) as cluster, cluster.admin() as admin:
        stamped = {"message.timestamp.type": "LogAppendTime"}
        admin.create_topics([NewTopic("made", 1, 1, {}, settings), NewTopic("stamped", 1, 1, {}, stamped)])
        for number in range(8):
            admin.create_topic(f"more-{number}", 1, 1)
        for codec in Compression:
            with Producer(bootstrap_servers=cluster.bootstrap_servers, compression_type=codec.name.lower()) as producer:
                for number in range(40):
                    headers = [("kind", b"test"), ("empty", None)] if number % 2 else []
                    key = None if number % 5 == 0 else b"key %d" % number
                    value = None if number % 7 == 0 else f"Größe {number} von {codec.name}".encode()
                    producer.send("made", value, key, headers, timestamp_ms=1_700_000_000_000 + number)
                    producer.send("stamped", value, key, headers)
                    if number % 10 == 9:
                        producer.flush()
    return folder / "node-1"


def files_of(home: pathlib.Path, pattern: str) -> list[str]:
    suffixes = {".log", ".index", ".timeindex", ".snapshot", ".txnindex", ".checkpoint"}
    found = sorted(path.relative_to(home).as_posix() for path in home.rglob(pattern) if path.suffix in suffixes)
    assert found
    return found


def test_the_topics_of_a_node_of_ours(written: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = files_of(written, "made-0/*") + files_of(written, "stamped-0/*")
    assert len([file for file in files if file.endswith(".log")]) > 2
    assert_same(written, capsys, files, "--print-data-log")


# --- what time does to a log ------------------------------------------------------------------------------------------


def lived_through(folder: pathlib.Path) -> UnifiedLog:
    """A log with transactions, that began again at a later offset, lost its oldest segments and its newest batches, was
    written on in another epoch, was abandoned and recovered, and was closed."""
    fields = {"directory": f"{folder}/{PARTITION}", "config": tiny(700, retention_bytes=2500)}
    log = open_log(OsFileSystem(), **fields)
    for number in range(40):
        producer = 7 + number % 2
        log.append_as_leader(
            produced(producer, number // 2 * 2, 2, transactional=number % 8 > 3, timestamp=NOW_MS + 10 * number), 0
        )
        if number % 8 == 7:
            for each in (7, 8):
                end_transaction(log, each, committed=each == number % 16, timestamp=NOW_MS + 10 * number + 5)
    log.update_high_watermark(log.log_end_offset)
    log.increase_log_start(12)
    assert delete_old_segments(log, NOW_MS + 1000)
    log.truncate_to(log.log_end_offset - 3)
    fill(log, 5, leader_epoch=3)
    log.abandon()
    again = open_log(OsFileSystem(), **fields)
    fill(again, 5, leader_epoch=4)
    again.flush()
    again.close()
    return again


def test_a_log_that_has_lived_through_much(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = lived_through(tmp_path)
    assert log.log_start_offset > 12 and len(log.epochs.entries) == 3
    files = files_of(tmp_path, f"{PARTITION}/*")
    assert {pathlib.PurePath(file).suffix for file in files} >= {".log", ".index", ".timeindex", ".snapshot"}
    assert any(file.endswith(".txnindex") and (tmp_path / file).stat().st_size for file in files)
    assert_same(tmp_path, capsys, files, "--print-data-log")
    assert ours(tmp_path, capsys, "--files", ",".join(files), "--deep-iteration")[1] == [], "neither complains"
    indexes = [file for file in files if file.endswith((".index", ".timeindex"))]
    assert_same(tmp_path, capsys, indexes, "--index-sanity-check")
    lines, _ = ours(tmp_path, capsys, "--files", ",".join(indexes), "--index-sanity-check")
    assert all(line.startswith("Dumping ") or line.endswith((" is empty.", "passed sanity check.")) for line in lines)


# --- every kind of record ---------------------------------------------------------------------------------------------


def write_log(folder: pathlib.Path, records: KeysAndValues) -> str:
    """A log with these records, each a batch."""
    folder.mkdir()
    path = folder / f"{SEGMENT}.log"
    with path.open("wb") as file:
        for offset, (key, value) in enumerate(records):
            builder = RecordBatchBuilder(offset, leader_epoch=0)
            builder.append(1_700_000_000_000 + offset, key, value)
            file.write(builder.build())
    return f"{folder.name}/{path.name}"


def full_and_empty(message: type[Message], version: int) -> list[Message]:
    return [example(message, version), message()]


def coordinator_records(types: RecordTypes) -> KeysAndValues:
    for number, messages in types.items():
        key = example(messages.key, 0)
        for version in versions(messages.value):
            for value in full_and_empty(messages.value, version):
                yield encode_coordinator_record(CoordinatorRecord(number, key, version, value))
        yield encode_coordinator_record(CoordinatorRecord(number, key, None, None))
    yield b"\x00\x63", b"\x00\x00"  # an unknown kind


def classic_groups() -> KeysAndValues:
    """Members with what consumers put there, in every version, and with other bytes."""
    for version in versions(ConsumerProtocolSubscription):
        prefix = version.to_bytes(2, "big")
        for subscription, assignment in (
            (example(ConsumerProtocolSubscription, version), example(ConsumerProtocolAssignment, version)),
            (ConsumerProtocolSubscription(), ConsumerProtocolAssignment()),
        ):
            yield classic_group(prefix + subscription.to_bytes(version), prefix + assignment.to_bytes(version))
    yield classic_group(b"", b"\x00\x00\x00")
    yield classic_group(b"no such message at all", b"\xff")


def classic_group(subscription: bytes, assignment: bytes) -> tuple[bytes, bytes | None]:
    member = GroupMetadataValue.Member(
        member_id="m",
        client_id="c",
        client_host="h",
        session_timeout=1,
        subscription=subscription,
        assignment=assignment,
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader="m", members=[member])
    return encode_coordinator_record(CoordinatorRecord(2, GroupMetadataKey(group="g"), 3, value))


_GREW_AFTER_4_2 = (
    GroupTargetAssignmentMetadataValue,
    ConsumerGroupCurrentMemberAssignmentValue,
    StreamsGroupMetadataValue,
    StreamsGroupCurrentMemberAssignmentValue,
)
"""Targets have a time since then, and members the epochs of their partitions."""


@pytest.mark.parametrize("version", ["4.2.1", pytest.param("4.4.0", marks=pytest.mark.long)])
def test_every_kind_of_record_of_groups(
    version: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka 4.2 does not print the fields that have come since."""
    is_newest = version != "4.2.1"
    known = {key: each for key, each in GROUP_RECORDS.items() if is_newest or each.value not in _GREW_AFTER_4_2}
    files = [
        write_log(tmp_path / "every-0", coordinator_records(known)),
        write_log(tmp_path / "classic-0", classic_groups()),
    ]
    assert_same(tmp_path, capsys, files, "--offsets-decoder", version=version)


def test_every_kind_of_record_of_transactions(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_log(tmp_path / "every-0", coordinator_records(TRANSACTION_RECORDS))
    assert_same(tmp_path, capsys, [file], "--transaction-log-decoder")


def test_the_metadata_of_a_node_of_ours_and_every_kind_of_its_records(
    written: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = files_of(written, "__cluster_metadata-0/*")
    names = [pathlib.PurePath(file).name for file in files]
    assert min(name for name in names if name.endswith(".log")) > f"{SEGMENT}.log", "its first records are gone"
    assert max(name for name in names if name.endswith(".checkpoint")) > f"{SEGMENT}.checkpoint"
    files.append(write_log(written / "every-0", metadata_records(are_newer=False)))
    assert_same(written, capsys, files, "--cluster-metadata-decoder")


@pytest.mark.long
def test_the_records_of_metadata_that_came_after_kafka_4_2(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_log(tmp_path / "every-0", metadata_records(are_newer=True))
    assert_same(tmp_path, capsys, [file], "--cluster-metadata-decoder", version="4.4.0")


def metadata_records(are_newer: bool) -> list[tuple[None, bytes]]:
    """Those that Kafka 4.2 knows, or those that came after it."""
    return [
        (None, encode_metadata_record(value, version))
        for _, kind in sorted(METADATA_RECORDS.items())
        for version in versions(kind)
        if (version >= NEWER.get(kind, 1 << 15)) is are_newer
        for value in full_and_empty(kind, version)
    ]


# --- damaged files ----------------------------------------------------------------------------------------------------

UNHEARD_OF: tuple[dict[str, int], ...] = (
    *({"base_sequence": sequence} for sequence in (-2, -(1 << 31), (1 << 31) - 1)),
    {"count": 0},
    {"magic": 3},
    {"magic": 127},
)
"""What the headers of batches never say, and both tools print."""


def batch(base_offset: int) -> bytes:
    builder = RecordBatchBuilder(base_offset, leader_epoch=0, producer_id=7, producer_epoch=0, base_sequence=5)
    for number in range(2):
        builder.append(NOW_MS + number, b"key", b"%d" % number)
    return bytes(builder.build())


def with_header(data: bytes, fields: dict[str, int]) -> bytes:
    """The batch with other fields in its header, and the checksum of that."""
    names = ("base_sequence", "count")
    values = [fields.get(name, old) for name, old in zip(names, struct.unpack_from(">ii", data, 53), strict=True)]
    changed = bytearray(data[:53] + struct.pack(">ii", *values) + data[HEADER_BYTES:])
    changed[MAGIC_OFFSET] = fields.get("magic", CURRENT_MAGIC)
    struct.pack_into(">I", changed, CRC_OFFSET, crc32c(changed[ATTRIBUTES_OFFSET:]))
    return bytes(changed)


def test_damaged_files(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for name in ("flipped", "torn", "gap", "index", "timeindex"):
        shutil.copytree(DATA / "golden-txn-0", tmp_path / f"{name}-0")
    log = (DATA / "golden-txn-0" / f"{SEGMENT}.log").read_bytes()
    flipped = bytearray(log)
    flipped[20] ^= 1  # the checksum itself, so that the records can be read
    for name, data in (("flipped", flipped), ("torn", log[:-5]), ("gap", log[:121] + log[199:])):
        (tmp_path / f"{name}-0" / f"{SEGMENT}.log").write_bytes(data)
        files.append(f"{name}-0/{SEGMENT}.log")
    index = bytearray((DATA / "golden-txn-0" / f"{SEGMENT}.index").read_bytes())
    index[3] ^= 4
    times = bytearray((DATA / "golden-txn-0" / f"{SEGMENT}.timeindex").read_bytes())
    times[7] ^= 1
    times[23] = 8
    for name, data in (("index", index), ("timeindex", times[:36] + times[24:36])):
        (tmp_path / f"{name}-0" / f"{SEGMENT}.{name}").write_bytes(data)
        files.append(f"{name}-0/{SEGMENT}.{name}")
    for number, change in enumerate(UNHEARD_OF):
        folder = tmp_path / f"unheard-{number}"
        folder.mkdir()
        (folder / f"{SEGMENT}.log").write_bytes(with_header(batch(5), change) + with_header(batch(7), {}))
        files.append(f"{folder.name}/{SEGMENT}.log")
    aborted = DATA / "golden-txn-0" / f"{SEGMENT}.txnindex"
    (tmp_path / "flipped-0" / aborted.name).write_bytes(aborted.read_bytes()[:-1])
    files.append(f"flipped-0/{aborted.name}")
    assert_same(tmp_path, capsys, files, "--print-data-log", are_whole=False)
