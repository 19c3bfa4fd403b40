"""The controller listener: what voters and brokers tell each other, and what is refused.

Nothing here may end in an election: all that is asked comes from a stranger, or from the past.
"""

from __future__ import annotations

from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.common.types import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID, Uuid
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    EnvelopeRequest,
    SecuredEndpoint,
    SupportedFeature,
)
from pykraft.protocol.messages.cluster import DescribeClusterRequest
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    ListenerEndpoint,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from tests.conformance.dialogue import Dialogue, Speaker
from tests.harness.asking import BROKER, SET, change, create, new_topic, versions
from tests.harness.connection import Connection

STRANGER = Uuid(bytes(15) + b"\xee")


def quorum(talk: Dialogue) -> DescribeQuorumResponse.Topic.Partition:
    """What the quorum says of itself."""
    topic_type = DescribeQuorumRequest.Topic
    asked = DescribeQuorumRequest(
        topics=[topic_type(topic_name=METADATA_TOPIC, partitions=[topic_type.Partition(partition_index=0)])]
    )
    with Connection(talk.server.address(1)) as connection:
        found: DescribeQuorumResponse.Topic.Partition = connection.ask(asked, 2).topics[0].partitions[0]
    return found


def leader(talk: Dialogue) -> tuple[int, int]:
    """(the active controller, its epoch)"""
    found = quorum(talk)
    return found.leader_id, found.leader_epoch


def controller(talk: Dialogue) -> Speaker:
    """The active controller."""
    return talk.to_controller(leader(talk)[0], called="the active controller")


def other(talk: Dialogue) -> Speaker:
    """A controller that is not active."""
    return talk.to_controller(1 if leader(talk)[0] != 1 else 2, called="another controller")


def vote(cluster_id: str | None, topic: str = METADATA_TOPIC, **fields: Any) -> VoteRequest:
    partition = VoteRequest.Topic.Partition(
        **{"partition_index": 0, "replica_id": 99, "last_offset": 0, "last_offset_epoch": 0, **fields}
    )
    return VoteRequest(cluster_id=cluster_id, topics=[VoteRequest.Topic(topic_name=topic, partitions=[partition])])


def test_votes_of_the_past_are_refused(talk: Dialogue) -> None:
    """Epochs and leaders differ from run to run: only the error is looked at."""
    for version in versions(VoteRequest):
        for says, request in {
            "epoch 0": vote(None, replica_epoch=0),
            "another cluster": vote("another", replica_epoch=0),
            "another topic": vote(None, topic="another", replica_epoch=0),
            "another partition": vote(None, partition_index=1, replica_epoch=0),
            "no topic": VoteRequest(cluster_id=None, topics=[]),
            "offset -1": vote(None, replica_epoch=0, last_offset=-1),
            "an epoch of the log that is not older": vote(None, replica_epoch=0, last_offset_epoch=0),
        }.items():
            errors(talk, controller(talk), request, version, says)


def errors(talk: Dialogue, speaker: Speaker, request: Any, version: int, says: str) -> None:
    """Ask, and write down nothing but the error codes."""
    lines = len(talk.lines)
    answer = speaker.ask(request, version, says)
    if answer is not None:
        del talk.lines[lines + 1 :]
        talk.write(f"  {answer.error_code}", *(f"  {code}" for code in nested_errors(answer)))


def nested_errors(answer: Any) -> list[str]:
    topics = getattr(answer, "topics", getattr(answer, "responses", ()))
    return [
        f"{getattr(topic, 'error_code', '')}{[partition.error_code for partition in getattr(topic, 'partitions', ())]}"
        for topic in topics
    ]


def test_epochs_that_are_over_do_not_begin(talk: Dialogue) -> None:
    topic_type = BeginQuorumEpochRequest.Topic
    for version in versions(BeginQuorumEpochRequest):
        for says, cluster_id, topic, partition in (
            ("epoch 0", None, METADATA_TOPIC, 0),
            ("another cluster", "another", METADATA_TOPIC, 0),
            ("another topic", None, "another", 0),
            ("another partition", None, METADATA_TOPIC, 7),
        ):
            begun = topic_type.Partition(partition_index=partition, leader_id=1, leader_epoch=0)
            request = BeginQuorumEpochRequest(
                cluster_id=cluster_id, topics=[topic_type(topic_name=topic, partitions=[begun])]
            )
            errors(talk, controller(talk), request, version, says)


def test_epochs_that_are_over_do_not_end(talk: Dialogue) -> None:
    topic_type = EndQuorumEpochRequest.Topic
    for version in versions(EndQuorumEpochRequest):
        for says, cluster_id, topic, partition in (
            ("epoch 0", None, METADATA_TOPIC, 0),
            ("another cluster", "another", METADATA_TOPIC, 0),
            ("another topic", None, "another", 0),
            ("another partition", None, METADATA_TOPIC, 7),
        ):
            ended = topic_type.Partition(partition_index=partition, leader_id=1, leader_epoch=0)
            request = EndQuorumEpochRequest(
                cluster_id=cluster_id, topics=[topic_type(topic_name=topic, partitions=[ended])]
            )
            errors(talk, controller(talk), request, version, says)


def test_voters_that_are_none_tell_the_leader_nothing(talk: Dialogue) -> None:
    """At kraft.version 0. Nothing of this is kept: a voter that were believed would be upgraded as it was told here."""
    spoken = UpdateRaftVoterRequest.KRaftVersionFeature
    here = [ListenerEndpoint(name="CONTROLLER", host="127.0.0.1", port=9)]
    _, epoch = leader(talk)
    voter = {
        "cluster_id": None,
        "current_leader_epoch": epoch,
        "voter_id": 9,
        "voter_directory_id": STRANGER,
        "listeners": here,
        "kraft_version_feature": spoken(min_supported_version=0, max_supported_version=1),
    }
    for says, fields in {
        "no voter": {},
        "another cluster": {"cluster_id": "another"},
        "epoch 0": {"current_leader_epoch": 0},
        "no epoch": {"current_leader_epoch": -1},
        "an epoch to come": {"current_leader_epoch": 1 << 20},
        "no id": {"voter_id": -1},
        "no directory": {"voter_directory_id": ZERO_UUID},
        "no listeners": {"listeners": []},
        "another listener": {"listeners": [ListenerEndpoint(name="OTHER", host="127.0.0.1", port=9)]},
        "levels below 0": {"kraft_version_feature": spoken(min_supported_version=-1, max_supported_version=1)},
        "levels in the wrong order": {
            "kraft_version_feature": spoken(min_supported_version=1, max_supported_version=0)
        },
        "levels above": {"kraft_version_feature": spoken(min_supported_version=1, max_supported_version=1)},
        "levels above, and a wrong listener": {
            "listeners": [],
            "kraft_version_feature": spoken(min_supported_version=1, max_supported_version=1),
        },
    }.items():
        request = UpdateRaftVoterRequest(**{**voter, **fields})
        errors(talk, controller(talk), request, 0, says)
        errors(talk, other(talk), request, 0, says)


def metadata_fetch(version: int, **fields: Any) -> FetchRequest:
    """An observer without an id reads the metadata log."""
    cluster_id = fields.pop("cluster_id", None)
    topic_id = fields.pop("topic_id", METADATA_TOPIC_ID)
    topic = fields.pop("topic", METADATA_TOPIC)
    partition = FetchRequest.Topic.Partition(
        **{"partition": 0, "partition_max_bytes": 0, "fetch_offset": 0, "last_fetched_epoch": 0, **fields}
    )
    return FetchRequest(
        cluster_id=cluster_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        topics=[FetchRequest.Topic(topic=topic, topic_id=topic_id, partitions=[partition])],
    )


def test_observers_read_the_metadata_log(talk: Dialogue) -> None:
    _, epoch = leader(talk)
    for version in (12, 13, 15, 17, 18):
        for says, fields in {
            "the epoch": {"current_leader_epoch": epoch},
            "no epoch": {},
            "an old epoch": {"current_leader_epoch": 0},
            "an epoch to come": {"current_leader_epoch": epoch + 50},
            "another cluster": {"current_leader_epoch": epoch, "cluster_id": "another"},
            "an offset that is not there": {"current_leader_epoch": epoch, "fetch_offset": 1 << 40},
            "an epoch of the log that is not there": {"current_leader_epoch": epoch, "last_fetched_epoch": epoch + 50},
            "a negative offset": {"current_leader_epoch": epoch, "fetch_offset": -1},
            "another partition": {"current_leader_epoch": epoch, "partition": 1},
            "another topic": {"current_leader_epoch": epoch, "topic": "another", "topic_id": STRANGER},
        }.items():
            errors(talk, controller(talk), metadata_fetch(version, **fields), version, says)
    errors(talk, other(talk), metadata_fetch(17, current_leader_epoch=epoch), 17, "the epoch")


def test_readers_that_are_no_replicas_are_not_told_of(talk: Dialogue) -> None:
    _, epoch = leader(talk)
    for replica_id in (-1, -2):
        state = FetchRequest.ReplicaState(replica_id=replica_id)
        request = metadata_fetch(17, current_leader_epoch=epoch).replace(replica_state=state)
        errors(talk, controller(talk), request, 17, f"replica {replica_id}")
        talk.write(f"  observers {[state.replica_id for state in quorum(talk).observers]}")


def test_the_quorum_describes_itself(talk: Dialogue) -> None:
    topic_type = DescribeQuorumRequest.Topic
    for version in versions(DescribeQuorumRequest):
        for says, topic, partition in (
            ("itself", METADATA_TOPIC, 0),
            ("another topic", "another", 0),
            ("another partition", METADATA_TOPIC, 3),
        ):
            asked = topic_type.Partition(partition_index=partition)
            request = DescribeQuorumRequest(topics=[topic_type(topic_name=topic, partitions=[asked])])
            for speaker in (talk.to(), controller(talk), other(talk)):
                errors(talk, speaker, request, version, says)
        errors(talk, controller(talk), DescribeQuorumRequest(topics=[]), version, "nothing")


def test_brokers_register_with_their_own_cluster(talk: Dialogue) -> None:
    for version in versions(BrokerRegistrationRequest):
        for says, cluster_id in {"another cluster": "another", "no cluster": ""}.items():
            request = BrokerRegistrationRequest(
                broker_id=99,
                cluster_id=cluster_id,
                incarnation_id=STRANGER,
                listeners=[],
                features=[],
                rack=None,
                log_dirs=[STRANGER],
            )
            errors(talk, controller(talk), request, version, says)


def test_brokers_register_with_directories_of_their_own(talk: Dialogue) -> None:
    """A node's directory has one id, as a voter's and as a broker's."""
    cluster_id = talk.to().connection.ask(DescribeClusterRequest(), 0).cluster_id
    (others,) = [Uuid(voter.replica_directory_id) for voter in quorum(talk).current_voters if voter.replica_id == 2]
    endpoint = SecuredEndpoint(name="PLAINTEXT", host="localhost", port=9, security_protocol=0)
    level = SupportedFeature(name="metadata.version", min_supported_version=1, max_supported_version=29)
    for says, fields in {
        "no directory": {"log_dirs": []},
        "one directory twice": {"log_dirs": [STRANGER, STRANGER]},
        "no id at all": {"log_dirs": [ZERO_UUID]},
        "the last id that is reserved": {"log_dirs": [STRANGER, Uuid(bytes(15) + b"\x63")]},
        "another broker's directory": {"log_dirs": [STRANGER, others]},
        "no level of the metadata": {"features": []},
        "a level of the metadata that is too low": {"features": [level.replace(max_supported_version=1)]},
        "the number of a broker that lives": {"broker_id": 1, "log_dirs": []},
    }.items():
        request = BrokerRegistrationRequest(
            broker_id=99,
            cluster_id=cluster_id,
            incarnation_id=STRANGER,
            listeners=[endpoint],
            features=[level],
            rack=None,
            log_dirs=[STRANGER],
        ).replace(**fields)
        errors(talk, controller(talk), request, 4, says)


def test_the_active_controller_changes_brokers_by_their_numbers(talk: Dialogue) -> None:
    for says, name in {
        "5000 digits": "9" * 5000,
        "more than 31 bits": str((1 << 31) + 1),
        "less than nothing": "-1",
        "a plus": "+1",
        "digits of another alphabet": "\uff11",
        "a blank": " 1",
        "an underscore": "1_0",
        "nobody's": "77",
    }.items():
        settings = [("message.max.bytes", SET, "1000")]
        request = change((BROKER, name, settings), validate_only=True)
        (result,) = controller(talk).connection.ask(request, 1).responses
        talk.write(f"> {says}", f"  {ErrorCode.of(result.error_code).name}")


def test_heartbeats_are_of_registered_brokers(talk: Dialogue) -> None:
    for version in versions(BrokerHeartbeatRequest):
        for says, broker_id in {"a stranger": 99, "an older self": 1}.items():
            request = BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=0,
                current_metadata_offset=0,
                want_fence=False,
                want_shut_down=False,
            )
            errors(talk, controller(talk), request, version, says)
            errors(talk, other(talk), request, version, says)


def test_isrs_are_changed_by_registered_brokers(talk: Dialogue) -> None:
    for version in versions(AlterPartitionRequest):
        for says, broker_id in {"a stranger": 99, "an older self": 1}.items():
            topic = AlterPartitionRequest.Topic(topic_id=STRANGER, partitions=[])
            request = AlterPartitionRequest(broker_id=broker_id, broker_epoch=0, topics=[topic])
            errors(talk, controller(talk), request, version, says)
            errors(talk, other(talk), request, version, says)
        nothing = AlterPartitionRequest(broker_id=1, broker_epoch=0, topics=[])
        errors(talk, controller(talk), nothing, version, "nothing")


def test_producer_ids_are_for_registered_brokers(talk: Dialogue) -> None:
    for says, broker_id in {"a stranger": 99, "an older self": 1}.items():
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=0)
        errors(talk, controller(talk), request, 0, says)
        errors(talk, other(talk), request, 0, says)


def test_only_the_active_controller_makes_topics(talk: Dialogue) -> None:
    made = create(new_topic("quorum-made", 1, 1), validate_only=True)
    for version in versions(CreateTopicsRequest):
        errors_of_topics(talk, other(talk), made, version)
    errors_of_topics(talk, controller(talk), made, 7)
    gone = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.Topic(name="quorum-gone")], topic_names=["quorum-gone"], timeout_ms=1000
    )
    for version in versions(DeleteTopicsRequest):
        errors_of_topics(talk, other(talk), gone, version)
        errors_of_topics(talk, controller(talk), gone, version)


def errors_of_topics(talk: Dialogue, speaker: Speaker, request: Any, version: int) -> None:
    lines = len(talk.lines)
    answer = speaker.ask(request, version)
    if answer is not None:
        del talk.lines[lines + 1 :]
        topics = getattr(answer, "topics", getattr(answer, "responses", ()))
        talk.write(*(f"  {topic.name} {topic.error_code}" for topic in topics))


def test_envelopes_hold_requests(talk: Dialogue) -> None:
    principal = b"\0\0\x05User\x0aANONYMOUS\0\0"
    inside = Connection.frame(create(new_topic("quorum-envelope", 1, 1), validate_only=True), 7)[4:]
    metadata = Connection.frame(DescribeQuorumRequest(topics=[]), 1)[4:]
    for says, data, who, address in (
        ("a request", inside, principal, b"\x7f\0\0\1"),
        ("another request", metadata, principal, b"\x7f\0\0\1"),
        ("nothing", b"", principal, b"\x7f\0\0\1"),
        ("rubbish", b"rubbish", principal, b"\x7f\0\0\1"),
        ("a request cut off", inside[:-3], principal, b"\x7f\0\0\1"),
        ("no principal", inside, None, b"\x7f\0\0\1"),
        ("rubbish for a principal", inside, b"rubbish", b"\x7f\0\0\1"),
        ("no address", inside, principal, b""),
        ("an address of 16 bytes", inside, principal, bytes(15) + b"\1"),
        ("an address of 5 bytes", inside, principal, bytes(5)),
    ):
        request = EnvelopeRequest(request_data=data, request_principal=who, client_host_address=address)
        errors(talk, controller(talk), request, 0, says)
        errors(talk, other(talk), request, 0, says)
