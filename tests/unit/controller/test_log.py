"""Plan, append, replay, answer: what the controller says is what its log says, and nothing that is not decided."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykraft.common.core import FOREVER, finish
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.trace import Silence, Tracer
from pykraft.common.types import OffsetAndEpoch, Uuid
from pykraft.controller.controller import QuorumController
from pykraft.controller.features import UnsupportedFeatureError, check_supported
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage
from pykraft.metadata.loader import MetadataLoader
from pykraft.protocol.messages.admin import DeleteTopicsRequest
from pykraft.protocol.messages.brokers import BrokerHeartbeatRequest
from pykraft.protocol.messages.records import (
    BeginTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    TopicRecord,
    encode_metadata_record,
)
from pykraft.raft.log.listener import CommittedBatch
from pykraft.raft.log.state_machine import CommitReader
from pykraft.raft.quorum_state import RoleName
from tests.harness.controllers import CONFIG, SESSION_MS, ControllerScript, make, new_topic, registration
from tests.harness.quorum import CLUSTER_ID, Quorum


def from_nothing(script: ControllerScript) -> MetadataImage:
    """The image that the log alone gives to a reader that begins now."""
    fresh = MetadataLoader()
    log = script.raft.replica.log
    CommitReader(log, fresh).deliver(log.end_offset)
    return fresh.image


@pytest.mark.costly
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=25))
def test_the_image_is_the_replay_of_the_log_whatever_was_done(steps: list[tuple[int, int]]) -> None:
    script = ControllerScript()
    lives = dict.fromkeys(range(1, 5), 1)
    script.bring_up(1, 2)
    for kind, n in steps:
        known = n in script.image.brokers
        match kind:
            case 0 if not known or script.image.brokers[n].fenced:
                lives[n] += 1
                script.controller.answer(registration(n, lives[n]), script.now)
            case 1 if known:
                script.heartbeat(n)
            case 2 if known:
                script.heartbeat(n, want_shut_down=True)
            case 3:
                script.create(new_topic(f"t{n}", n, 1), new_topic(f"u{n}", 1, min(n, 3), configs={"retention.ms": "7"}))
            case 4 if f"u{n}" in script.image.topic_ids and script.partition(f"u{n}").leader > 0:
                script.alter(f"u{n}", [script.partition(f"u{n}").leader])
            case 5:
                script.run(SESSION_MS // 2)
            case 6 if f"t{n}" in script.image.topic_ids:
                script.delete(DeleteTopicsRequest.Topic(name=f"t{n}"))
        script.run()
        image = script.image
        assert image == from_nothing(script)
        fenced = {b for b in image.brokers if not image.is_active(b)}
        for topic in image.topics.values():
            for partition in topic.partitions.values():
                assert set(partition.isr) <= set(partition.replicas)
                assert not set(partition.isr) & set(partition.eligible_leader_replicas)
                assert partition.isr or partition.eligible_leader_replicas or partition.last_known_leader
                assert partition.leader not in fenced, "a fenced broker leads nothing"
    assert rebuilt(script.image) == script.image


def rebuilt(image: MetadataImage) -> MetadataImage:
    """From the records that a snapshot of it would hold, in the bytes in which they would stand there."""
    delta = MetadataDelta(EMPTY_IMAGE)
    for record, version in image.to_records():
        delta.replay(type(record).decode(record.to_bytes(version), version))
    return delta.apply(image.provenance)


def test_a_log_that_begins_holds_the_bootstrap_records() -> None:
    script = ControllerScript()
    levels = [record for record in script.heard.records if isinstance(record, FeatureLevelRecord)]
    assert [(record.name, record.feature_level) for record in levels] == [
        ("metadata.version", 29),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("transaction.version", 2),
    ]
    assert script.image.features == {record.name: record.feature_level for record in levels}


def test_a_cluster_at_another_level_stops_the_node_in_a_sentence() -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=34))
    with pytest.raises(UnsupportedFeatureError, match=r"metadata.version at level 34; supported is 7 to 33"):
        check_supported(delta.apply(OffsetAndEpoch(0, 1)))


def test_levels_that_the_cluster_has_left_behind_do_not_matter() -> None:
    """A log tells of all levels that its cluster ever ran, and is read from its beginning."""
    script = ControllerScript()
    epoch, end = script.raft.leader_and_epoch.epoch, script.image.provenance.offset
    raised, lowered = (FeatureLevelRecord(name="share.version", feature_level=level) for level in (3, 0))
    finish(script.loader.handle_commit(CommittedBatch(end + 1, end + 1, epoch, 0, [raised])))
    finish(script.loader.handle_commit(CommittedBatch(end + 2, end + 2, epoch, 0, [lowered])))
    script.controller.poll(script.now)
    finish(script.loader.handle_commit(CommittedBatch(end + 3, end + 3, epoch, 0, [raised])))
    with pytest.raises(UnsupportedFeatureError, match=r"share.version at level 3; supported is 0 to 2"):
        script.controller.poll(script.now)


def test_an_idle_log_is_kept_alive() -> None:
    script = ControllerScript(metadata_max_idle_interval_ms=500)
    script.run(5000)
    idle = [record for record in script.heard.records if isinstance(record, NoOpRecord)]
    assert len(idle) in (10, 11)


def test_what_does_not_fit_into_one_batch_is_refused_and_changes_nothing() -> None:
    script = ControllerScript()
    script.bring_up(1)
    before, padded = script.image, dict.fromkeys(("retention.ms", "segment.ms", "flush.ms"), " " * 32_000 + "1")
    much = [new_topic(f"t{n}", configs=padded) for n in range(90)]
    with pytest.raises(KafkaError) as refused:
        script.create(*much)
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert script.image == before == from_nothing(script)
    assert set(script.create(*much[:80]).values()) == {ErrorCode.NONE}
    assert script.image == from_nothing(script)


@pytest.mark.costly
def test_a_plan_in_several_pieces_is_true_up_to_the_piece_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leaderships of a broker's earlier life are moved first; then its registration is too large."""
    monkeypatch.setattr("pykraft.controller.controller.MAX_RECORDS_PER_REQUEST", 2)
    script = ControllerScript()
    script.bring_up(1, 2)
    for n in range(5):
        script.create(new_topic(f"t{n}", assignment={0: [1, 2]}))
    script.run(SESSION_MS + 1)
    endpoint = registration(1).listeners[0]
    many = [endpoint.replace(name=str(n), host="h" * 32_000) for n in range(300)]
    large = registration(1, life=2, listeners=many)
    outcome = script.controller.answer(large, script.now)
    assert outcome.value.error is not None and outcome.value.error.code is ErrorCode.RECORD_LIST_TOO_LARGE
    script.run()
    assert script.image == from_nothing(script)
    script.register(1, life=2)
    assert script.image == from_nothing(script)


class Controllers:
    """Three controllers on a quorum."""

    def __init__(self) -> None:
        self.quorum = Quorum(controller_quorum_append_linger_ms=0)
        self.controllers: dict[int, QuorumController] = {}
        self.loaders: dict[int, MetadataLoader] = {}
        for n, raft in self.quorum.rafts.items():
            config = CONFIG.resolve().with_values(metadata_max_idle_interval_ms=0)
            self.loaders[n] = MetadataLoader()
            controller = QuorumController(
                node_id=n,
                cluster_id=CLUSTER_ID,
                raft=raft,
                loader=self.loaders[n],
                config=config,
                random=Random(n),
                trace=Tracer(n, Silence()),
            )
            raft.register(self.loaders[n])
            self.controllers[n] = controller
        self.quorum.elect()

    @property
    def active(self) -> int:
        (active,) = [n for n, controller in self.controllers.items() if controller.is_active]
        return active


def test_only_the_active_controller_answers() -> None:
    three = Controllers()
    for n, controller in three.controllers.items():
        outcome = controller.answer(registration(1), three.quorum.now)
        if n == three.active:
            assert not outcome.kept, "it is not decided yet"
            three.quorum.elect()
            assert outcome.value.error is None
        else:
            assert outcome.value.error is not None and outcome.value.error.code is ErrorCode.NOT_CONTROLLER
            assert controller.poll(three.quorum.now) == FOREVER
    assert len({str(controller.image) for controller in three.controllers.values()}) == 1


def test_each_is_answered_when_its_own_change_is_decided_and_plans_see_those_that_are_not() -> None:
    three = Controllers()
    controller = three.controllers[three.active]
    three.quorum.isolate(three.active)
    seen: list[list[int]] = []

    def look(_: object) -> None:
        seen.append(sorted(three.loaders[three.active].image.brokers))
        assert sorted(controller.image.brokers) == [1, 2]

    for broker_id in (1, 2):
        controller.answer(registration(broker_id), three.quorum.now).then(look)
        three.quorum.run(30)  # written, each alone, and no other voter has it
    assert seen == []
    three.quorum.heal()
    three.quorum.run_until(lambda: len(seen) == 2)
    assert seen == [[1], [1, 2]]


def test_what_is_planned_and_not_committed_is_in_no_image_that_brokers_publish_from() -> None:
    three = Controllers()
    active = three.active
    controller, loader = three.controllers[active], three.loaders[active]
    published: list[list[int]] = []
    loader.publish_to(lambda delta, image: published.append(sorted(image.brokers)))
    three.quorum.isolate(active)
    controller.answer(registration(1), three.quorum.now)
    three.quorum.run(30)
    assert sorted(controller.image.brokers) == [1]
    assert loader.image.brokers == {} and published == []
    three.quorum.heal()
    three.quorum.elect()
    assert sorted(loader.image.brokers) == [1] and published == [[1]]


def test_what_was_not_decided_is_not_answered_and_forgotten_with_the_leadership() -> None:
    three = Controllers()
    old = three.active
    controller = three.controllers[old]
    before = controller.image
    three.quorum.isolate(old)
    outcome = controller.answer(registration(1), three.quorum.now)
    trial = controller.answer(make(new_topic("t"), validate_only=True), three.quorum.now)
    assert 1 in controller.image.brokers, "its own next plan must see it"
    assert not outcome.kept and not trial.kept, "an answer that rests on it waits with it"
    three.quorum.run_until(lambda: three.quorum.role(old) is not RoleName.LEADER)
    late = controller.answer(registration(2), three.quorum.now)
    assert late.value.error is not None and late.value.error.code is ErrorCode.NOT_CONTROLLER
    three.quorum.heal()
    three.quorum.elect()
    for promise in (outcome, trial):
        assert promise.value.error is not None and promise.value.error.code is ErrorCode.NOT_CONTROLLER
    assert controller.image.brokers == before.brokers == {}
    assert len({str(each.image) for each in three.controllers.values()}) == 1


def test_a_new_controller_aborts_the_metadata_transaction_that_the_one_before_left_open() -> None:
    three = Controllers()
    old = three.active
    raft = three.quorum.rafts[old]
    begun = [BeginTransactionRecord(name="storm"), TopicRecord(name="half", topic_id=Uuid(bytes(15) + b"\x07"))]
    raft.append(raft.leader_and_epoch.epoch, [encode_metadata_record(record, 0) for record in begun], three.quorum.now)
    three.quorum.run_until(lambda: all(loader.is_in_transaction for loader in three.loaders.values()))
    three.quorum.isolate(old)
    three.quorum.run_until(lambda: any(each.is_active for n, each in three.controllers.items() if n != old))
    three.quorum.heal()
    three.quorum.elect()
    assert three.active != old
    outcome = three.controllers[three.active].answer(registration(1), three.quorum.now)
    three.quorum.elect()
    assert outcome.kept and outcome.value.error is None
    for loader in three.loaders.values():
        assert not loader.is_in_transaction
        assert list(loader.image.brokers) == [1] and loader.image.topic_ids == {}


def test_a_new_controller_gives_every_broker_a_whole_session_from_its_own_election_on() -> None:
    """However long ago it was asked something last, and whenever the broker was heard from."""
    three = Controllers()
    first = three.controllers[three.active]
    first.answer(registration(1), three.quorum.now)
    three.quorum.elect()
    known = first.image.brokers[1]
    first.answer(
        BrokerHeartbeatRequest(
            broker_id=1,
            broker_epoch=known.epoch,
            current_metadata_offset=known.epoch,
            want_fence=False,
            want_shut_down=False,
        ),
        three.quorum.now,
    )
    three.quorum.elect()
    three.quorum.run(60_000)
    dead = three.active
    three.quorum.kill(dead)
    del three.controllers[dead]
    three.quorum.elect()
    now = three.quorum.now
    controller = three.controllers[three.active]
    assert controller.poll(now) == now + SESSION_MS
    assert not controller.image.brokers[1].fenced
    refused = controller.answer(registration(1, life=2), now)
    assert refused.value.error is not None
    assert refused.value.error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_fenced_broker_has_no_session_with_a_new_controller() -> None:
    """It was stopped in order: the process that comes next is let in at once."""
    three = Controllers()
    three.controllers[three.active].answer(registration(1), three.quorum.now)
    three.quorum.elect()
    dead = three.active
    three.quorum.kill(dead)
    del three.controllers[dead]
    three.quorum.elect()
    outcome = three.controllers[three.active].answer(registration(1, life=2), three.quorum.now)
    three.quorum.elect()
    assert outcome.value.error is None
