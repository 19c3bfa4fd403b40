"""Images and deltas: the same records give the same image, however they are cut into batches; images never change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.core import Steps, finish
from pykraft.common.errors import ProtocolError
from pykraft.common.types import OffsetAndEpoch, Uuid
from pykraft.metadata import delta
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, TOPIC_RESOURCE, ConfigResource, MetadataImage
from pykraft.metadata.loader import LoadFault, MetadataLoader
from pykraft.protocol.messages.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    Endpoint,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from pykraft.raft.log.listener import CommittedBatch

T = Uuid(bytes(15) + b"\xc8")
U = Uuid(bytes(15) + b"\xc9")


def broker(number: int, epoch: int = 10) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=number,
        incarnation_id=T,
        broker_epoch=epoch,
        end_points=[Endpoint(name="PLAINTEXT", host="h", port=9000 + number, security_protocol=0)],
        features=[],
        rack=None,
        fenced=True,
        log_dirs=[U],
    )


def partition(topic: Uuid = T, number: int = 0) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic,
        replicas=[1, 2],
        isr=[1, 2],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[T, U],
    )


def change(topic: Uuid = T, number: int = 0, **fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=number, topic_id=topic, **fields)


def setting(value: str | None, topic: str = "t") -> ConfigRecord:
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name="retention.ms", value=value)


BASE: list[MetadataRecord] = [
    FeatureLevelRecord(name="metadata.version", feature_level=29),
    broker(1),
    broker(2, 11),
    TopicRecord(name="t", topic_id=T),
    partition(),
    partition(number=1),
    setting("7"),
]


def image_of(*records: MetadataRecord, base: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    delta = MetadataDelta(base)
    for record in records:
        delta.replay(record)
    return delta.apply(OffsetAndEpoch(len(records) - 1, 1))


def test_what_the_records_say_is_what_the_image_has() -> None:
    image = image_of(*BASE, ProducerIdsRecord(broker_id=1, broker_epoch=10, next_producer_id=2000))
    assert image.features == {"metadata.version": 29}
    assert {n: (b.epoch, b.fenced, b.is_active) for n, b in image.brokers.items()} == {
        1: (10, True, False),
        2: (11, True, False),
    }
    assert image.topic_ids == {"t": T} and sorted(image.topics[T].partitions) == [0, 1]
    assert image.config_of(TOPIC_RESOURCE, "t") == {"retention.ms": "7"}
    assert image.next_producer_id == 2000
    assert image.topic_named("u") is None and image.partition(T, 9) is None and image.partition(U, 0) is None


@pytest.mark.parametrize(
    ("record", "fenced", "leaving"),
    [
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=-1), False, False),
        (UnfenceBrokerRecord(id=1, epoch=10), False, False),
        (FenceBrokerRecord(id=1, epoch=10), True, False),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, in_controlled_shutdown=1), True, True),
        (broker(1, 40), True, False),
    ],
)
def test_a_broker_changes(record: MetadataRecord, fenced: bool, leaving: bool) -> None:
    found = image_of(*BASE, record).brokers[1]
    assert (found.fenced, found.in_controlled_shutdown) == (fenced, leaving)


def test_which_directories_are_cordoned_is_kept_and_written_from_the_level_that_knows_it_on() -> None:
    first = broker(1).replace(cordoned_log_dirs=[T, U])
    fewer = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, cordoned_log_dirs=[U])
    other = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=-1)
    none = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, cordoned_log_dirs=[])
    for records, kept in (([first], (T, U)), ([first, fewer, other], (U,)), ([first, none], ())):
        for level, written in ((29, ()), (30, kept)):
            image = image_of(FeatureLevelRecord(name="metadata.version", feature_level=level), *records)
            assert image.brokers[1].cordoned_directories == kept
            again = image_of(*(record for record, _ in image.to_records()))
            assert again.brokers[1].cordoned_directories == written


def test_a_controller_that_unregisters_is_none_any_more() -> None:
    registered = RegisterControllerRecord(controller_id=7, incarnation_id=T, end_points=[], features=[])
    gone = UnregisterControllerRecord(controller_id=7)
    assert list(image_of(registered).controllers) == [7]
    assert image_of(registered, gone).controllers == image_of(gone).controllers == {}


@pytest.mark.parametrize(
    "record",
    [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9, fenced=-1),
        UnfenceBrokerRecord(id=1, epoch=9),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=9),
    ],
)
def test_a_change_of_another_process_is_refused(record: MetadataRecord) -> None:
    with pytest.raises(ProtocolError, match="which has epoch 10"):
        image_of(*BASE, record)


@pytest.mark.parametrize(
    ("fields", "leader", "leader_epoch", "isr"),
    [
        ({"isr": [1]}, 1, 0, (1,)),
        ({"leader": 2}, 2, 1, (1, 2)),
        ({"leader": -1, "isr": [2]}, -1, 1, (2,)),
        ({"leader": 1}, 1, 1, (1, 2)),  # is elected again: the old leadership is fenced
    ],
)
def test_a_partition_changes_and_its_epochs_rise(
    fields: dict[str, Any], leader: int, leader_epoch: int, isr: tuple[int, ...]
) -> None:
    found = image_of(*BASE, change(**fields)).topics[T].partitions[0]
    assert (found.leader, found.leader_epoch, found.isr, found.partition_epoch) == (leader, leader_epoch, isr, 1)


def test_a_topic_that_is_removed_takes_all_of_it_along_and_the_delta_remembers_what_it_was() -> None:
    image = image_of(*BASE)
    delta = MetadataDelta(image)
    for record in (change(isr=[1]), RemoveTopicRecord(topic_id=T), TopicRecord(name="t", topic_id=U), partition(U)):
        delta.replay(record)
    after = delta.apply(OffsetAndEpoch(9, 1))
    assert after.topic_ids == {"t": U} and list(after.topics) == [U] and after.configs == {}
    assert delta.touched_topics == {U} and delta.removed_topics == {T: image.topics[T]}


def test_a_setting_that_is_null_is_taken_away() -> None:
    assert image_of(*BASE, setting(None)).configs == {}
    assert image_of(*BASE, setting("8")).configs[ConfigResource(TOPIC_RESOURCE, "t")] == {"retention.ms": "8"}


def test_a_feature_at_level_0_is_none() -> None:
    raised, lowered = (FeatureLevelRecord(name="share.version", feature_level=level) for level in (1, 0))
    assert image_of(raised).features == {"share.version": 1}
    assert image_of(raised, lowered).features == image_of(lowered).features == {}


def test_a_delta_of_everything_touches_everything() -> None:
    delta = MetadataDelta.of_everything(image_of(*BASE))
    assert (delta.touched_brokers, delta.touched_topics) == ({1, 2}, {T})
    assert delta.touched_configs == {ConfigResource(TOPIC_RESOURCE, "t")}


# --- laws -------------------------------------------------------------------------------------------------------------

CHANGES = st.sampled_from(
    [
        change(isr=[1]),
        change(number=1, leader=2),
        setting("9"),
        setting(None),
        FenceBrokerRecord(id=2, epoch=11),
        UnfenceBrokerRecord(id=1, epoch=10),
        ProducerIdsRecord(broker_id=1, broker_epoch=10, next_producer_id=3000),
        NoOpRecord(),
    ]
)


@given(st.lists(CHANGES, max_size=15), st.sets(st.integers(1, 20)))
def test_batches_do_not_matter_and_images_do_not_change(changes: list[MetadataRecord], cuts: set[int]) -> None:
    records = [*BASE, *changes]
    loader = MetadataLoader()
    kept: list[tuple[MetadataImage, str]] = []
    loader.publish_to(lambda delta, image: kept.append((image, repr(image))))
    start = 0
    for end in [*sorted(cut for cut in cuts if cut < len(records)), len(records)]:
        finish(loader.handle_commit(CommittedBatch(start, end - 1, 1, 0, records[start:end])))
        start = end
    assert loader.image == image_of(*records)
    assert all(repr(image) == before for image, before in kept)


@given(st.lists(CHANGES, max_size=15))
def test_an_image_is_built_again_from_its_own_records(changes: list[MetadataRecord]) -> None:
    image = image_of(*BASE, *changes)
    again = MetadataDelta(EMPTY_IMAGE)
    for record, version in image.to_records():
        again.replay(type(record).decode(record.to_bytes(version), version))
    assert again.apply(image.provenance) == image


def quota(*entity: tuple[str, str | None], remove: bool = False) -> ClientQuotaRecord:
    parts = [ClientQuotaRecord.Entity(entity_type=kind, entity_name=name) for kind, name in entity]
    return ClientQuotaRecord(entity=parts, key="producer_byte_rate", value=1.5, remove=remove)


def test_quotas_of_named_and_of_default_clients_are_in_the_snapshot() -> None:
    quotas = [quota(("user", "alice")), quota(("user", None)), quota(("user", None), ("client-id", "c"))]
    image = image_of(*BASE, *quotas)
    assert len(image.client_quotas) == 3
    again = image_of(*(record for record, _ in image.to_records()))
    assert again.client_quotas == image.client_quotas


def test_the_parts_of_an_entity_have_no_order() -> None:
    given, removed = quota(("user", "u"), ("client-id", None)), quota(("client-id", None), ("user", "u"), remove=True)
    assert image_of(*BASE, given, removed).client_quotas == {}


def loaded(*batches: list[MetadataRecord], on_load_fault: LoadFault | None = None) -> tuple[MetadataLoader, list[int]]:
    """A loader that has read these batches, and after each how many topics it knew."""
    loader = MetadataLoader()
    loader.on_load_fault = on_load_fault
    topics = []
    offset = 0
    for batch in batches:
        finish(loader.handle_commit(CommittedBatch(offset, offset + len(batch) - 1, 1, 0, batch)))
        offset += len(batch)
        topics.append(len(loader.image.topics))
    return loader, topics


def test_a_transaction_becomes_true_at_its_end() -> None:
    begin, end, abort = BeginTransactionRecord(name="x"), EndTransactionRecord(), AbortTransactionRecord(reason="y")
    one, two = TopicRecord(name="t", topic_id=T), TopicRecord(name="u", topic_id=U)
    assert loaded([begin], [one], [two, end])[1] == [0, 0, 2]
    assert loaded([begin, one], [abort], [two])[1] == [0, 0, 1]
    assert loaded([one, begin, two])[1] == [1]
    assert loaded([begin, one, end, two])[0].image.provenance == OffsetAndEpoch(3, 1)


def test_what_comes_before_a_transaction_is_true_at_once_and_the_images_offset_stays_before_it() -> None:
    begin, end, one = BeginTransactionRecord(name="x"), EndTransactionRecord(), TopicRecord(name="t", topic_id=T)
    two = TopicRecord(name="u", topic_id=U)
    for batches in ([[one, begin, two]], [[one], [begin, two]], [[one], [begin], [two]]):
        image = loaded(*batches)[0].image
        assert (image.topic_ids, image.provenance) == ({"t": T}, OffsetAndEpoch(0, 1))
    assert loaded([one, begin, two], [end])[0].image.provenance == OffsetAndEpoch(3, 1)


@pytest.mark.parametrize(
    "batches", ["begin one; begin two end", "begin begin two end", "one end two", "one; abort; two"]
)
def test_a_transaction_within_another_and_the_end_of_none_are_faults_that_change_nothing(batches: str) -> None:
    """Kafka's loader says so, too: a controller ends one, or aborts that of the controller before it, before it begins
    another."""
    named: dict[str, MetadataRecord] = {
        "begin": BeginTransactionRecord(name="x"),
        "end": EndTransactionRecord(),
        "abort": AbortTransactionRecord(reason="y"),
        "one": TopicRecord(name="t", topic_id=T),
        "two": TopicRecord(name="u", topic_id=U),
    }
    read = [[named[name] for name in batch.split()] for batch in batches.split(";")]
    with pytest.raises(ProtocolError, match="transaction"):
        loaded(*read)
    faults: list[tuple[int, str]] = []
    loader, _ = loaded(*read, on_load_fault=lambda error, offset, record: faults.append((offset, record)))
    assert len(faults) == 1 and loader.has_failed, faults
    assert loader.image.topic_ids == {
        name: each for name, each in (("t", T), ("u", U)) if name == "u" or "one" in batches
    }
    assert loader.image.provenance.offset == sum(map(len, read)) - 1 and not loader.is_in_transaction


def test_an_image_is_made_once_for_all_batches_until_there_is_a_publisher(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of an image are copied for each change of it: a node that starts reads a hundred thousand."""
    made: list[int] = []
    apply = MetadataDelta.apply

    def counted(delta: MetadataDelta, provenance: OffsetAndEpoch) -> MetadataImage:
        made.append(provenance.offset)
        return apply(delta, provenance)

    monkeypatch.setattr(MetadataDelta, "apply", counted)
    loader = MetadataLoader()
    for offset, record in enumerate(BASE):
        finish(loader.handle_commit(CommittedBatch(offset, offset, 1, 0, [record])))
    assert made == []
    published: list[tuple[set[ConfigResource], MetadataImage]] = []
    loader.publish_to(lambda delta, image: published.append((delta.touched_configs, image)))
    assert made == [len(BASE) - 1] and loader.image is loader.image
    finish(loader.handle_commit(CommittedBatch(len(BASE), len(BASE), 1, 0, [NoOpRecord()])))
    assert made == [len(BASE) - 1, len(BASE)]
    assert published == [(set(), loader.image)], "a publisher gets what changes from when it was added"


def test_what_is_replayed_of_a_batch_is_in_no_image_before_the_batch_ends() -> None:
    records: list[MetadataRecord] = [TopicRecord(name="t", topic_id=T), TopicRecord(name="u", topic_id=U)]
    loader, published = MetadataLoader(), list[MetadataImage]()
    finish(loader.handle_commit(CommittedBatch(0, 2, 1, 0, BASE[:3])))  # no image was made of it yet
    steps = loader.handle_commit(CommittedBatch(3, 4, 1, 0, records))
    for place, _ in enumerate(steps):
        assert not loader.image.topics
        if place == 0:
            loader.publish_to(lambda delta, image: published.append(image))
    assert published == [loader.image] and loader.image.topic_ids == {"t": T, "u": U}


def test_a_change_is_published_up_to_where_every_publisher_has_taken_it_up() -> None:
    loader, _ = loaded(BASE[:3])

    def slow(delta: MetadataDelta, image: MetadataImage) -> Steps[None]:
        yield
        yield

    loader.publish_to(slow)
    steps = loader.handle_commit(CommittedBatch(3, 3, 1, 0, [TopicRecord(name="t", topic_id=T)]))
    seen = [(loader.image.provenance.offset, loader.published_offset) for _ in steps]
    assert seen == [(2, 2), (3, 2), (3, 2)] and loader.published_offset == 3


# --- snapshots --------------------------------------------------------------------------------------------------------


def test_the_image_of_many_topics_is_made_in_steps_and_has_all_of_them_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "_TOPICS_AT_ONCE", 1)
    loader, _ = loaded(BASE[:3])
    loader.publish_to(lambda delta, image: None)
    ids = [Uuid(number.to_bytes(16, "big")) for number in range(100, 110)]
    records: list[MetadataRecord] = [TopicRecord(name=f"n{number}", topic_id=each) for number, each in enumerate(ids)]
    records += [PartitionRecord(partition_id=0, topic_id=each, replicas=[1], isr=[1], leader=1) for each in ids]
    steps = loader.handle_commit(CommittedBatch(3, 2 + len(records), 1, 0, records))
    seen = [(len(loader.image.topics), len(loader._delta._open_topics)) for _ in steps]
    assert seen[len(records) :] == [(0, 10)] * 10
    assert all(list(loader.image.topics[each].partitions) == [0] for each in ids)


def load(loader: MetadataLoader, snapshot: OffsetAndEpoch, *records: MetadataRecord) -> None:
    """In two batches; their offsets are those of the file."""
    half = len(records) // 2
    batches = [(0, records[:half]), (half, records[half:])]
    finish(loader.handle_load_snapshot(snapshot, [CommittedBatch(at, at + len(r) - 1, 3, 0, r) for at, r in batches]))


def test_a_snapshot_is_published_as_the_change_from_the_image_that_is_there() -> None:
    kept, recreated, gone, new = (Uuid(bytes(15) + bytes([n])) for n in range(101, 105))
    loader, _ = loaded(
        [
            *BASE[:3],
            *(TopicRecord(name=name, topic_id=i) for name, i in (("kept", kept), ("again", T), ("gone", gone))),
            *(partition(i, number) for i in (kept, T, gone) for number in (0, 1)),
            *(setting("7", name) for name in ("kept", "again", "gone")),
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="kept", name="segment.ms", value="8"),
            ProducerIdsRecord(broker_id=1, broker_epoch=10, next_producer_id=2000),
            FeatureLevelRecord(name="share.version", feature_level=1),
        ]
    )
    before = loader.image
    published: list[tuple[MetadataDelta, MetadataImage]] = []
    loader.publish_to(lambda delta, image: published.append((delta, image)))
    load(
        loader,
        OffsetAndEpoch(50, 3),
        BASE[0],
        broker(2, 11),
        broker(3, 40),
        *(TopicRecord(name=name, topic_id=i) for name, i in (("kept", kept), ("again", recreated), ("new", new))),
        *(partition(i, number) for i in (kept, recreated, new) for number in (0, 1)),
        change(kept, 1, leader=2),
        setting("7", "kept"),
        setting("9", "again"),
    )
    ((delta, image),) = published
    assert image is loader.image and image.provenance == OffsetAndEpoch(49, 3)
    assert image.topic_ids == {"kept": kept, "again": recreated, "new": new}
    assert sorted(image.brokers) == [2, 3] and image.features == {"metadata.version": 29}
    assert image.next_producer_id == 0
    assert delta.removed_topics == {T: before.topics[T], gone: before.topics[gone]}
    assert delta.touched_topics == {kept, recreated, new}
    assert delta.touched_partitions(image.topics[kept]) == [1], "the other is as it was"
    assert delta.touched_partitions(image.topics[new]) == [0, 1]
    assert delta.touched_brokers == {1, 3}
    resources = {ConfigResource(TOPIC_RESOURCE, name) for name in ("kept", "again", "gone")}
    assert delta.touched_configs == resources
    assert image.config_of(TOPIC_RESOURCE, "kept") == {"retention.ms": "7"}
    assert image.config_of(TOPIC_RESOURCE, "gone") == {}


@given(st.lists(CHANGES, max_size=8), st.lists(CHANGES, max_size=8), st.booleans())
def test_whatever_is_there_a_snapshot_leaves_what_it_holds(
    before: list[MetadataRecord], after: list[MetadataRecord], is_in_transaction: bool
) -> None:
    held = image_of(*BASE[:3], *BASE[3:], *after)
    loader, _ = loaded([*BASE, *before], [BeginTransactionRecord(name="x"), setting("1")] if is_in_transaction else [])
    load(loader, OffsetAndEpoch(99, 3), *(record for record, _ in held.to_records()))
    assert loader.image == MetadataDelta.between(EMPTY_IMAGE, held).apply(OffsetAndEpoch(98, 3))
    finish(loader.handle_commit(CommittedBatch(99, 99, 3, 0, [setting("5")])))
    assert loader.image.config_of(TOPIC_RESOURCE, "t") == {"retention.ms": "5"}, "a transaction of before is over"


@given(st.lists(CHANGES, max_size=8), st.lists(CHANGES, max_size=8))
def test_between_an_image_and_itself_nothing_is_touched(some: list[MetadataRecord], more: list[MetadataRecord]) -> None:
    before, after = image_of(*BASE, *some), image_of(*BASE, *some, *more)
    nothing = MetadataDelta.between(before, before)
    assert not nothing.touched_topics | nothing.touched_configs | nothing.touched_brokers | set(nothing.removed_topics)
    assert MetadataDelta.between(before, after).apply(after.provenance) == after


def test_a_snapshot_is_compared_in_steps_and_no_image_has_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "_TOPICS_AT_ONCE", 1)
    topics = [Uuid(bytes([9] * 15) + bytes([number])) for number in range(20)]
    records = [TopicRecord(name=f"t{number}", topic_id=topic) for number, topic in enumerate(topics)]
    loader, _ = loaded(BASE)
    before = loader.image
    steps = loader.handle_load_snapshot(OffsetAndEpoch(50, 3), [CommittedBatch(0, 19, 3, 0, records)])
    seen = [loader.image for _ in steps]
    assert len(seen) >= 20 + 20, "a pause after each record, and after each topic that is compared"
    assert seen == [before] * len(seen)
    assert set(loader.image.topics) == set(topics) and loader.image.provenance == OffsetAndEpoch(49, 3)


def test_a_snapshot_replaces_everything() -> None:
    loader, _ = loaded(BASE)
    load(loader, OffsetAndEpoch(50, 3), TopicRecord(name="u", topic_id=U))
    assert loader.image.topic_ids == {"u": U} and loader.image.brokers == {}
    assert loader.image.provenance == OffsetAndEpoch(49, 3)
