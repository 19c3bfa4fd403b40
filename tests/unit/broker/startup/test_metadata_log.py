"""A node and its metadata log: how often it reads a batch, and where it begins when it starts."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from pykraft.common.core import finish
from pykraft.common.settings.topic_config import SEGMENT_BYTES
from pykraft.common.trace import Silence, Tracer
from pykraft.common.types import OffsetAndEpoch, TopicPartition, Uuid
from pykraft.controller.controller import QuorumController
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.records import TopicRecord, encode_metadata_record
from pykraft.raft.client import RaftClient
from pykraft.raft.log.listener import CommittedBatch
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.raft.log.snapshot import encode_snapshot, snapshot_name
from pykraft.raft.log.state_machine import CommitReader
from pykraft.records.batch import RecordBatch
from tests.harness.asking import SET, TOPIC, change
from tests.harness.controllers import CONFIG
from tests.harness.lone_node import LoneNode
from tests.harness.quorum import CLUSTER_ID, Quorum

LOG = "/data/__cluster_metadata-0"
NAME = "a-topic-of-seven-words-that-is-counted"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the batch with the topic NAME is read from a log, and its record decoded and replayed."""
    counts: Counter[str] = Counter()
    read, decode, replay = ReplicatedLog.batches_between, TopicRecord.decode_from, MetadataDelta.replay

    def read_counted(log: ReplicatedLog, offset: int, end_offset: int) -> list[RecordBatch]:
        found = read(log, offset, end_offset)
        counts["read"] += sum(NAME.encode() in bytes(batch.buffer) for batch in found)
        return found

    def decode_counted(*arguments: Any) -> Any:
        found = decode(*arguments)
        counts["decoded"] += found[0].name == NAME
        return found

    def replay_counted(delta: MetadataDelta, record: Any) -> None:
        counts["replayed"] += isinstance(record, TopicRecord) and record.name == NAME
        replay(delta, record)

    monkeypatch.setattr(ReplicatedLog, "batches_between", read_counted)
    monkeypatch.setattr(TopicRecord, "decode_from", decode_counted)
    monkeypatch.setattr(MetadataDelta, "replay", replay_counted)
    return counts


# --- how often --------------------------------------------------------------------------------------------------------


def test_a_combined_node_decodes_and_replays_a_committed_batch_once(counted: Counter[str]) -> None:
    """Raft reads it when it is appended, for its voters, and again when it is committed, for the loader. The active
    controller has replayed the record that it planned, besides; no byte of a log is decoded for that."""
    node = LoneNode()
    node.create(NAME)
    assert counted == {"read": 2, "decoded": 1, "replayed": 1 + 1}


def test_a_combined_node_that_starts_decodes_and_replays_a_committed_batch_once(counted: Counter[str]) -> None:
    """The settings of topics, which the logs are opened with, are read apart: they are those of the log's very end."""
    node = LoneNode()
    node.create(NAME)
    node.node.close()
    counted.clear()
    again = LoneNode(node.filesystem)
    assert NAME in again.node.loader.image.topic_ids
    assert counted == {"read": 1 + 1 + 1, "decoded": 1 + 1, "replayed": 1 + 1}


def test_a_standby_controller_replays_once_what_it_decodes_at_the_append_and_at_the_commit(
    counted: Counter[str],
) -> None:
    """A follower decodes what it fetches to see that it can be read, before it is in its log for good."""
    quorum = Quorum(controller_quorum_append_linger_ms=0)
    for raft in quorum.rafts.values():
        raft.replica.readers.clear()
        controlled(raft)
    quorum.elect()
    leader = quorum.rafts[quorum.leader]
    record = TopicRecord(name=NAME, topic_id=Uuid(bytes(15) + b"\xc8"))
    leader.append(leader.leader_and_epoch.epoch, [encode_metadata_record(record, 0)], quorum.now)
    quorum.elect()
    assert counted == {"read": 3 * 2, "decoded": 1 + 2 * 2, "replayed": 3 * 1}


def controlled(raft: RaftClient) -> QuorumController:
    """A controller on this replica, and the loader that it uses."""
    loader = MetadataLoader()
    controller = QuorumController(
        node_id=raft.replica.local.id,
        cluster_id=CLUSTER_ID,
        raft=raft,
        loader=loader,
        config=CONFIG.resolve().with_values(metadata_max_idle_interval_ms=0),
        random=Random(1),
        trace=Tracer(1, Silence()),
    )
    raft.register(loader)
    return controller


# --- from a snapshot --------------------------------------------------------------------------------------------------


def write_snapshot_of(node: LoneNode) -> OffsetAndEpoch:
    """Of all that is committed, beside the log as it is."""
    image = node.node.loader.image
    place = OffsetAndEpoch(image.provenance.offset + 1, image.provenance.epoch)
    values = [encode_metadata_record(record, version) for record, version in image.to_records()]
    voters = node.node.raft.replica.control_records.voters
    data = encode_snapshot(voters, values, epoch=place.epoch, timestamp=1, last_timestamp=1)
    node.filesystem.write(f"{LOG}/{snapshot_name(place)}", data)
    return place


def test_a_node_starts_from_the_newest_snapshot_and_reads_none_of_the_log_before_it(counted: Counter[str]) -> None:
    node = LoneNode()
    kept = node.create("kept", segment_bytes="1048576")
    node.create(NAME)
    write_snapshot_of(node)
    later = node.create("later")
    node.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name=NAME)], timeout_ms=1000))
    node.ask(change((TOPIC, "kept", [("segment.bytes", SET, "2097152")])))
    node.run()
    before, voters = node.node.loader.image, node.node.raft.replica.control_records.voters
    node.node.close()
    counted.clear()
    again = LoneNode(node.filesystem)
    assert counted == {"read": 0, "decoded": 1 + 1, "replayed": 1 + 1}, "for the settings and the loader"
    assert again.node.raft.replica.control_records.voters == voters
    image = again.node.loader.image
    assert image.topics == before.topics and image.configs == before.configs and image.features == before.features
    assert again.broker.logs.logs[TopicPartition("kept", 0)].config[SEGMENT_BYTES] == 2097152
    assert {kept, later} == set(image.topics)
    assert image == replayed(again)


def replayed(node: LoneNode) -> MetadataImage:
    """The image that the snapshot and the log alone give."""
    loader = MetadataLoader()
    log = node.node.raft.replica.log
    CommitReader(log, loader).deliver(log.high_watermark)
    return loader.image


def test_a_broker_lets_go_of_what_a_snapshot_does_not_mention() -> None:
    """A topic that was deleted, and one that came back under its name, while the node was away."""
    node = LoneNode()
    gone, again, kept = (node.create(name) for name in ("gone", "again", "kept"))
    other = Uuid(bytes(15) + b"\xc8")
    loader, logs = node.node.loader, node.broker.logs.logs
    records = [record for record, _ in loader.image.to_records() if getattr(record, "topic_id", None) != gone]
    for record in records:
        if getattr(record, "topic_id", None) == again:
            record.topic_id = other  # type: ignore[attr-defined]
    end = loader.image.provenance.offset + 10
    loader._listeners.clear()  # its own controller leads, and a leader loads no snapshot
    finish(loader.handle_load_snapshot(OffsetAndEpoch(end, 1), [CommittedBatch(0, len(records) - 1, 1, 0, records)]))
    node.run()
    assert set(logs) == {TopicPartition("again", 0), TopicPartition("kept", 0)}
    assert logs[TopicPartition("again", 0)].topic_id == other
    assert logs[TopicPartition("kept", 0)].topic_id == kept
    assert set(node.broker.replicas.partitions) == set(logs)
