"""A name given twice: is it answered once, twice, or refused?

Each array of each API that a broker serves gets the same entry twice, made from the API's declaration; Apache Kafka's
answers say what is right. Lists of topics, groups and resources go through hash maps in some of its handlers and not in
others: what Kafka does for an API is the rule for it. Where two entries name the same thing and say
different things of it, the cases at the end show which of them counts.
"""

from __future__ import annotations

import re

from pykraft.common.errors import ErrorCode
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.cluster import FindCoordinatorRequest
from pykraft.protocol.messages.configs import ResourceType
from pykraft.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from pykraft.protocol.messages.transactions import InitProducerIdRequest
from tests.conformance.dialogue import Dialogue, Speaker
from tests.conformance.servers import Server
from tests.flood.generator import Flood, Target, fill, variants
from tests.flood.order import ordered
from tests.flood.vocabulary import State
from tests.harness.asking import batch, change, create, grow, new_topic, produce, reassign, replace_all, update
from tests.harness.connection import Connection
from tests.harness.waiting import wait_until

TOPIC, GROUP, TRANSACTION = "twice", "twice-group", "twice-transaction"
GROUPS, TRANSACTIONS = 0, 1
SET = 0
OF_COORDINATORS = {
    GROUPS: {"OffsetCommit", "OffsetFetch", "OffsetDelete", "DescribeGroups", "ConsumerGroupDescribe", "LeaveGroup"}
    | {"ConsumerGroupHeartbeat", "DeleteGroups"},
    TRANSACTIONS: {"AddPartitionsToTxn", "DescribeTransactions", "ListTransactions"},
}
_PLACE = re.compile(r"node_id=[0-9] host='[0-9.]+' port=of node [0-9]")
"""Where a coordinator is, differs from run to run; and the settings of a resource are many, and are asked elsewhere."""
LEFT_OUT = {
    "AlterConfigs.resources": "Apache Kafka never answers it; a case of pykraft alone has it",
    "JoinGroup": "its answer has an id that is drawn",
    "SyncGroup": "it needs a member, whose id is drawn",
    "DescribeLogDirs": "its answer has the sizes of the disk",
    "ListConfigResources": "its answer has the topics of other tests",
    "ListGroups": "its answer has the groups of other tests",
    "ListTransactions.state_filters": "its answer has the transactions of other tests",
    "AlterReplicaLogDirs": "it names a directory of this machine",
    "UpdateFeatures": "the two have other levels; a case at the end has it",
    "WriteTxnMarkers": "a coordinator sends it; each marker is answered for itself",
    "TxnOffsetCommit": "it needs the transaction of a producer; its handler is that of OffsetCommit",
}
"""What the table does not ask, and why."""


def coordinator(talk: Dialogue, kind: int, key: str) -> Speaker:
    """The broker that coordinates this group or transactional id; it has loaded what it needs."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    found = talk.until(1, request, 4, lambda answer: not answer.coordinators[0].error_code).coordinators[0]
    if kind == GROUPS:
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=key, topics=None)])
        talk.until(found.node_id, fetch, 8, lambda answer: not answer.groups[0].error_code)
    return talk.to(found.node_id, f"the coordinator of {key}")


def state_of(talk: Dialogue, topic: str) -> State:
    """A topic, a group that has committed an offset, and a transactional id."""
    topic_id = talk.topic(topic)
    state = State(batch=batch(1), time_ms=1)
    state.names |= {
        "topic": [topic],
        "topic_id": [topic_id],
        "partition": [0],
        "broker": [1],
        "broker name": ["1"],
        "config": ["retention.ms"],
        "group": [GROUP],
        "classic group": [GROUP],
        "consumer group": [GROUP],
        "transactional id": [TRANSACTION],
        "group state": ["Empty"],
        "group type": ["classic"],
        "transaction state": ["Empty"],
        "resource type": [2],
    }
    return state


def asked_twice(listener: ListenerKind) -> list[Target]:
    here = [target for target in ordered() if target.listener is listener]
    return [each for each in here if not {each.api.name, f"{each.api.name}.{'.'.join(each.path)}"} & LEFT_OUT.keys()]


def test_an_entry_given_twice(talk: Dialogue) -> None:
    state = state_of(talk, TOPIC)
    speakers = {kind: coordinator(talk, kind, key) for kind, key in enumerate((GROUP, TRANSACTION))}
    init = InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=60_000)
    coordinates = speakers[TRANSACTIONS]
    wait_until(lambda: not coordinates.connection.ask(init, 4).error_code, "the coordinator of transactions is there")
    producer = coordinates.connection.ask(init, 4)
    state.names["producer id"] = [producer.producer_id]
    state.producer_epoch = producer.producer_epoch
    for target in asked_twice(ListenerKind.BROKER):
        kind = next((kind for kind, names in OF_COORDINATORS.items() if target.api.name in names), None)
        speaker = talk.to(1) if kind is None else speakers[kind]
        for variant in variants(target):
            flood = Flood(target, "repeated", 2, variant)
            said = "".join(f", {name}={value}" for name, value in variant)
            speaker.ask(fill(flood, state), target.version, f"{'.'.join(target.path)}{said}")
    talk.lines = [_PLACE.sub("a node", line) for line in talk.lines if ".configs[" not in line]


# --- which of two counts ----------------------------------------------------------------------------------------------


def test_of_two_batches_for_a_partition_the_last_counts(talk: Dialogue) -> None:
    topic_id = talk.topic("twice-produced")
    talk.to().ask(produce("twice-produced", (0, batch(1)), (0, batch(2)), topic_id=topic_id), 13, "one record, two")


def test_of_two_offsets_for_a_partition_the_last_counts(talk: Dialogue) -> None:
    talk.topic("twice-committed")
    speaker = coordinator(talk, GROUPS, "twice-committed-group")
    topic_type = OffsetCommitRequest.Topic
    topics = [
        topic_type(
            name="twice-committed",
            partitions=[topic_type.Partition(partition_index=0, committed_offset=offset) for offset in offsets],
        )
        for offsets in ((1, 2), (4, 3))
    ]
    speaker.ask(OffsetCommitRequest(group_id="twice-committed-group", topics=topics), 9, "offsets 1, 2, 4, 3")
    group = OffsetFetchRequest.Group(group_id="twice-committed-group", topics=None)
    speaker.ask(OffsetFetchRequest(groups=[group]), 9)


def test_two_sizes_of_a_topic(talk: Dialogue) -> None:
    speaker = talk.to()
    two = [new_topic("twice-created", count, 1) for count in (1, 2)]
    speaker.ask(create(*two, new_topic("twice-created-not", 1, 1)), 7, "1 and 2 partitions, and another topic")
    speaker.ask(grow(("twice-created-not", 2), ("twice-created-not", 3)), 3, "2 and 3 partitions")


def test_two_values_of_a_setting(talk: Dialogue) -> None:
    talk.topic("twice-set")
    changes = [("retention.ms", SET, "1000"), ("retention.ms", SET, "2000")]
    resource = (ResourceType.TOPIC, "twice-set", changes)
    talk.to().ask(change(resource), 1, "1000 and 2000")
    topic = new_topic("twice-set-anew", 1, 1, configs=[("retention.ms", "1000"), ("retention.ms", "2000")])
    talk.to().ask(create(topic), 7, "1000 and 2000")


def test_two_places_of_a_partition(talk: Dialogue) -> None:
    talk.topic("twice-moved")
    talk.to().ask(reassign(("twice-moved", 0, [2]), ("twice-moved", 0, [1])), 1, "to 2 and to 1")


def test_two_levels_of_a_feature(talk: Dialogue) -> None:
    talk.to().ask(update(("group.version", 1), ("group.version", 0, 2), validate_only=True), 2, "1 and 0")


def test_resources_whose_settings_are_replaced_twice_are_refused(server: Server) -> None:
    """Apache Kafka fails at it, and leaves its client without an answer."""
    if server.name == "pykraft":
        with Connection(server.address(1)) as connection:
            twice = (ResourceType.BROKER, "1", [("log.retention.ms", "1000")])
            answer = connection.ask(replace_all(twice, twice), 2)
        assert {result.error_code for result in answer.responses} == {ErrorCode.INVALID_REQUEST}
