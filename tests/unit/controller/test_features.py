"""The levels of features change: each refusal, what a request changes as a whole, and which records a level allows."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.features import SUPPORTED_FEATURES, levels_of_release
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE
from pykraft.metadata.versions import (
    FEATURES,
    METADATA_VERSIONS,
    as_of_level,
    default_level,
    is_lossless,
    version_named,
)
from pykraft.protocol.messages.brokers import SupportedFeature
from pykraft.protocol.messages.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE
from pykraft.protocol.messages.records import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    decode_metadata_record,
)
from tests.harness.asking import update
from tests.harness.controllers import SESSION_MS, ControllerScript, new_topic

METADATA, GROUP, TRANSACTION, KRAFT = "metadata.version", "group.version", "transaction.version", "kraft.version"
ELR = "eligible.leader.replicas.version"
OK, REFUSED = ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION
LEVELS = [version.level for version in METADATA_VERSIONS]


def features(**highest: int) -> list[SupportedFeature]:
    """What a broker supports: everything, but of these features no more than that."""
    return [
        SupportedFeature(
            name=name, min_supported_version=low, max_supported_version=highest.get(name.replace(".", "_"), high)
        )
        for name, (low, high) in SUPPORTED_FEATURES.items()
    ]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "level", "kind", "error"),
    [
        (GROUP, 1, UPGRADE, OK),
        (GROUP, 0, UPGRADE, REFUSED),
        (GROUP, 0, SAFE_DOWNGRADE, OK),
        (GROUP, 0, UNSAFE_DOWNGRADE, OK),
        (GROUP, 1, SAFE_DOWNGRADE, OK),
        (GROUP, 2, UPGRADE, REFUSED),
        (GROUP, -1, SAFE_DOWNGRADE, REFUSED),
        (GROUP, 0, 0, REFUSED),
        (GROUP, 0, 4, REFUSED),
        (TRANSACTION, 1, SAFE_DOWNGRADE, OK),
        (TRANSACTION, 0, SAFE_DOWNGRADE, OK),
        ("share.version", 0, SAFE_DOWNGRADE, OK),
        ("share.version", 1, UPGRADE, REFUSED),
        ("of.tomorrow", 1, UPGRADE, REFUSED),
        ("of.tomorrow", 0, UPGRADE, REFUSED),
        ("", 0, UPGRADE, REFUSED),
        (METADATA, 29, UPGRADE, OK),
        (METADATA, 28, UPGRADE, REFUSED),
        (METADATA, 28, SAFE_DOWNGRADE, OK),
        (METADATA, 23, SAFE_DOWNGRADE, OK),
        (METADATA, 22, SAFE_DOWNGRADE, REFUSED),
        (METADATA, 22, UNSAFE_DOWNGRADE, REFUSED),
        (METADATA, 33, UPGRADE, OK),
        (METADATA, 34, UPGRADE, REFUSED),
        (METADATA, 0, SAFE_DOWNGRADE, REFUSED),
        (KRAFT, 1, UPGRADE, OK),
        (KRAFT, 0, SAFE_DOWNGRADE, REFUSED),
    ],
)
def test_what_becomes_of_a_change(name: str, level: int, kind: int, error: ErrorCode) -> None:
    script = ControllerScript()
    before = dict(script.image.features)
    assert script.update((name, level, kind), validate_only=True) is error
    assert script.image.features == before
    assert script.update((name, level, kind)) is error
    after = before | ({name: level} if error is OK and name != KRAFT else {})
    assert script.image.features == {name: level for name, level in after.items() if level}
    assert script.loader.image.features == script.image.features, "it is committed"


def test_one_feature_that_is_refused_refuses_them_all() -> None:
    script = ControllerScript()
    before = dict(script.image.features)
    assert script.update((GROUP, 0, SAFE_DOWNGRADE), (TRANSACTION, 9), (METADATA, 28, SAFE_DOWNGRADE)) is REFUSED
    assert script.image.features == before
    assert script.update((GROUP, 0, SAFE_DOWNGRADE), (METADATA, 28, SAFE_DOWNGRADE)) is OK
    assert dict(script.image.features) == {METADATA: 28, TRANSACTION: 2, ELR: 1}


def test_the_kraft_version_goes_up_only_with_everything_else_that_is_asked_for() -> None:
    script = ControllerScript(kraft_version=0)
    assert script.update((KRAFT, 1), (GROUP, 9)) is REFUSED
    assert script.update((KRAFT, 1), validate_only=True) is OK
    assert script.raft.kraft_version == 0
    assert script.update((KRAFT, 1), (GROUP, 0, SAFE_DOWNGRADE)) is OK
    assert script.raft.kraft_version == 1 and GROUP not in script.image.features
    for kind, error in ((UPGRADE, REFUSED), (SAFE_DOWNGRADE, REFUSED), (UNSAFE_DOWNGRADE, REFUSED)):
        assert script.update((KRAFT, 0, kind)) is error
    assert script.update((KRAFT, 1)) is OK


def test_the_answer_names_each_feature_only_where_nothing_was_refused() -> None:
    script = ControllerScript()

    def names(*changes: Any) -> list[str]:
        response = script.answered(script.controller.answer(update(*changes), script.now))
        assert bool(response.error_code) == bool(response.error_message)
        return [result.feature for result in response.results]

    assert names((GROUP, 1), (TRANSACTION, 2)) == [GROUP, TRANSACTION]
    assert names((GROUP, 1), (TRANSACTION, 3)) == []


def test_a_level_that_a_broker_lacks_is_refused_by_the_brokers_number() -> None:
    script = ControllerScript(levels={METADATA: 25})
    script.register(1)
    script.register(2, features=features(metadata_version=27, group_version=0))
    for name, level in ((METADATA, 28), (GROUP, 1)):
        response = script.answered(script.controller.answer(update((name, level)), script.now))
        assert response.error_code == REFUSED and "broker 2" in response.error_message
    assert script.update((METADATA, 27), (TRANSACTION, 2)) is OK


@pytest.mark.parametrize(("name", "level"), [("share.version", 1), ("share.version", 2), ("streams.version", 1)])
def test_a_broker_need_not_name_what_no_node_of_ours_serves(name: str, level: int) -> None:
    """A cluster of Apache Kafka's has share and streams groups by default."""
    script = ControllerScript(levels={**levels_of_release(29), name: level})
    script.bring_up(1)
    assert script.image.features[name] == level
    assert script.update((name, 0, SAFE_DOWNGRADE)) is OK
    assert script.update((name, level)) is REFUSED, "it was given up"


@pytest.mark.parametrize("lacking", ["group_version", "transaction_version", "metadata_version"])
def test_a_broker_that_lacks_a_level_of_the_cluster_may_not_register(lacking: str) -> None:
    script = ControllerScript()
    script.register(1)
    with pytest.raises(KafkaError) as raised:
        script.register(2, features=features(**{lacking: 0 if lacking != "metadata_version" else 28}))
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
    silent = [feature for feature in features() if feature.name != lacking.replace("_", ".")]
    with pytest.raises(KafkaError):
        script.register(2, features=silent)


# --- levels of the metadata -------------------------------------------------------------------------------------------


def test_the_lossless_downgrades_are_those_of_kafka() -> None:
    """Kafka's MetadataVersion.checkIfMetadataChanged for each level: how far down it lets the level go."""
    lowest = {7: 7, 8: 8, 9: 8, 10: 8, 11: 11, 12: 11, 13: 13, 14: 14, 15: 15, 16: 15}
    lowest |= dict.fromkeys(range(17, 23), 17) | dict.fromkeys(range(23, 30), 23) | {30: 30, 31: 30, 32: 32, 33: 33}
    for current in LEVELS:
        assert min(level for level in LEVELS if is_lossless(current, level)) == lowest[current]
        assert all(is_lossless(current, level) == (level >= lowest[current]) for level in LEVELS)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("3.3", 7),
        ("3.3-IV3", 7),
        ("3.7", 19),
        ("3.7-IV2", 17),
        ("3.9.1", 21),
        ("4.0", 25),
        ("4.2", 29),
        ("4.2.1", 29),
        ("4.3", 30),
        ("4.4.0", 33),
    ],
)
def test_a_release_is_its_last_level(text: str, level: int) -> None:
    found = version_named(text)
    assert found is not None and found.level == level
    assert version_named("4.5") is version_named("3.2") is version_named("") is None


def test_the_levels_of_new_clusters_are_kafkas() -> None:
    """As kafka-features.sh version-mapping of Kafka 4.4.0 prints them, for each release's last level."""
    assert {
        release: [default_level(name, version_named(release).level) for name in FEATURES]  # type: ignore[union-attr]
        for release in ("3.3", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4")
    } == {
        "3.3": [0, 0, 0, 0, 0, 0],
        "3.8": [0, 0, 0, 0, 0, 0],
        "3.9": [1, 0, 0, 0, 0, 0],
        "4.0": [1, 2, 1, 0, 0, 0],
        "4.1": [1, 2, 1, 1, 0, 0],
        "4.2": [1, 2, 1, 1, 1, 1],
        "4.3": [1, 2, 1, 1, 1, 1],
        "4.4": [1, 2, 1, 1, 2, 1],
    }


NEWEST: dict[type[MetadataRecord], dict[int, int]] = {
    RegisterBrokerRecord: {7: 1, 8: 2, 17: 3, 30: 4},
    BrokerRegistrationChangeRecord: {7: 1, 17: 2, 30: 3},
    PartitionRecord: {7: 0, 17: 1, 23: 2},
    PartitionChangeRecord: {7: 0, 17: 1, 23: 2},
}
"""From which level on which version is allowed: Kafka's MetadataVersion.registerBrokerRecordVersion and its like."""


def allowed(kind: type[MetadataRecord], level: int) -> int:
    if kind in (BeginTransactionRecord, EndTransactionRecord):
        return 0 if level >= 13 else -1
    return max(version for since, version in NEWEST.get(kind, {0: kind.versions[1]}).items() if since <= level)


def written(script: ControllerScript) -> list[tuple[MetadataRecord, int]]:
    """Everything in the metadata log, and in which version."""
    log = script.raft.replica.log
    found = []
    offset = 0
    while batches := log.batches_between(offset, log.end_offset):
        for batch in batches:
            offset = batch.next_offset
            if not batch.is_control:
                found += [decode_metadata_record(record.value or b"") for record in batch.records()]
    return found


@pytest.mark.costly
@pytest.mark.parametrize("level", LEVELS)
def test_no_record_is_newer_than_the_clusters_level_and_the_image_is_that_of_the_log(level: int) -> None:
    script = ControllerScript(levels=levels_of_release(level))
    script.bring_up(1, 2)
    assert script.create(new_topic("t", 2, 2)) == {"t": OK}
    script.live(1, 2 * SESSION_MS)
    script.heartbeat(1, want_shut_down=True)
    delta = MetadataDelta(EMPTY_IMAGE)
    for record, version in written(script):
        assert version <= allowed(type(record), level), record
        delta.replay(record)
    replayed = delta.apply(script.image.provenance)
    assert replayed == script.image == script.loader.image
    assert bool(script.image.brokers[1].directories) == (level >= 17)
    for record, version in script.image.to_records():
        assert version <= allowed(type(record), level), f"in a snapshot: {record}"


@pytest.mark.parametrize(("level", "rise"), [(11, 1), (12, 0), (29, 0)])
def test_below_level_12_the_leader_epoch_rises_when_the_isr_shrinks(level: int, rise: int) -> None:
    script = ControllerScript(levels={METADATA: level})
    script.bring_up(1, 2)
    script.create(new_topic("t", assignment={0: [1, 2]}))
    script.alter("t", [1])
    shrunk = script.partition("t")
    assert (shrunk.leader, shrunk.isr, shrunk.leader_epoch) == (1, (1,), rise)
    script.alter("t", [1, 2])
    assert script.partition("t").leader_epoch == rise, "and not when it grows"


def test_after_an_upgrade_records_have_what_the_new_level_allows() -> None:
    script = ControllerScript(levels={METADATA: 16})
    script.bring_up(1)
    script.create(new_topic("old"))
    assert script.update((METADATA, 29)) is OK
    script.create(new_topic("new"))
    (record,) = [record for record, version in written(script) if isinstance(record, PartitionRecord) and version == 2]
    assert record.topic_id == script.image.topic_ids["new"]
    first, *_ = script.image.to_records()
    assert first[0].name == METADATA, "a snapshot begins with the level of what follows"  # type: ignore[attr-defined]


def test_a_record_loses_the_fields_that_a_level_does_not_know_and_stays_as_it_was_handed_in() -> None:
    record = PartitionRecord(topic_id=bytes(16), directories=[bytes(16)], eligible_leader_replicas=[1])  # type: ignore
    assert as_of_level(record, 2, 29) == (record, 2)
    lower, version = as_of_level(record, 2, 22)
    assert version == 1 and isinstance(lower, PartitionRecord)
    assert (lower.eligible_leader_replicas, lower.directories) == (None, [bytes(16)])
    lowest, version = as_of_level(record, 2, 16)
    assert version == 0 and isinstance(lowest, PartitionRecord) and not lowest.directories
    assert record.eligible_leader_replicas == [1]
