"""The laws of levels in the simulator, broken on purpose."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.features import levels_with
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.versions import ELR_VERSION
from pykraft.protocol.messages.records import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    encode_metadata_record,
)
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.sim.laws.invariants import Violation
from pykraft.sim.laws.level_laws import check_record_versions
from pykraft.sim.trouble.knobs import SNAPSHOT_SEEDS, draw
from pykraft.sim.workloads.admin_workload import Administrator

LEVEL_22 = FeatureLevelRecord(name="metadata.version", feature_level=22)
LEVEL_23 = FeatureLevelRecord(name="metadata.version", feature_level=23)


def batch(offset: int, *records: tuple[MetadataRecord, int]) -> RecordBatch:
    builder = RecordBatchBuilder(offset, leader_epoch=1)
    for record, version in records:
        builder.append(1, None, encode_metadata_record(record, version))
    return RecordBatch(memoryview(bytes(builder.build())))


def test_a_record_that_is_newer_than_the_level_before_it_is_found() -> None:
    partition = PartitionRecord(topic_id=bytes(16))  # type: ignore[arg-type]
    begin = batch(0, (LEVEL_22, 0), (partition, 1))
    check_record_versions([begin, batch(2, (LEVEL_23, 0), (partition, 2))])
    with pytest.raises(Violation, match=r"record 0 of the batch at offset 2 is a PartitionRecord of version 2"):
        check_record_versions([begin, batch(2, (partition, 2), (LEVEL_23, 0))])


def administrator() -> Administrator:
    return Administrator("node-1:9092", 3, 100, 0.0, 0.5, 29, lambda: None, Random(1))


def at(level: int) -> MetadataImage:
    return MetadataImage(features={"metadata.version": level})


def test_a_level_that_was_acknowledged_and_is_not_there_is_found() -> None:
    someone = administrator()
    someone.check(at(29))
    someone._on_level(25, None)
    someone.check(at(25))
    with pytest.raises(Violation, match=r"metadata.version is 29; acknowledged was 25"):
        someone.check(at(29))


def test_a_request_that_was_given_up_may_arrive_later_and_one_that_was_refused_may_not() -> None:
    someone = administrator()
    someone._on_level(26, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    someone._on_level(27, KafkaError(ErrorCode.INVALID_UPDATE_VERSION))
    someone._on_level(None, None)
    someone.check(at(26))
    someone.check(at(29))
    with pytest.raises(Violation):
        someone.check(at(27))


def test_some_clusters_keep_no_eligible_leader_replicas_and_none_has_a_level_that_lacks_another() -> None:
    default = [draw(seed).features for seed in range(100)]
    assert all(features in ({}, {ELR_VERSION: 0}) for features in default)
    assert 15 <= sum(ELR_VERSION in features for features in default) <= 35
    with_snapshots = [draw(seed).features for seed in SNAPSHOT_SEEDS]
    assert {features[ELR_VERSION] for features in with_snapshots} == {0, 1}
    for features in with_snapshots:
        levels_with(features)
