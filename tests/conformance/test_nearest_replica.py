"""Fetching from the nearest replica (KIP-392): where a leader sends consumers, and what a follower gives them.

Broker 8, in rack z, is only a name. The other brokers have no rack.
"""

from __future__ import annotations

from pykraft.protocol.messages.admin import UnregisterBrokerRequest
from pykraft.protocol.messages.cluster import DescribeClusterRequest, MetadataRequest
from pykraft.protocol.messages.data import FetchRequest
from tests.conformance.dialogue import Dialogue
from tests.conformance.named_broker import heartbeat, register
from tests.conformance.test_fetch_sessions import Session
from tests.conformance.test_quorum import controller
from tests.harness.asking import batch, create, delete, describe_partitions, fetch, new_topic, produce
from tests.harness.connection import Connection

NAME = 8
SENT, READ = "nearest-sent", "nearest-read"


def as_follower(offset: int, epoch: int, log_start: int = 0) -> FetchRequest:
    """The fetch of broker 8, which has everything before this offset."""
    said = {"fetch_offset": offset, "last_fetched_epoch": 0, "log_start_offset": log_start}
    request = fetch(SENT, said, replica_id=NAME)
    return request.replace(replica_state=FetchRequest.ReplicaState(replica_id=NAME, replica_epoch=epoch))


def test_a_follower_gives_consumers_what_is_committed(talk: Dialogue) -> None:
    talk.topic(READ, [(1, 2)])
    with Connection(talk.server.address(1)) as connection:
        for count in (2, 3):
            answer = connection.ask(produce(READ, batch(count), acks=-1), 9).responses[0].partition_responses[0]
            assert not answer.error_code
    talk.until(2, fetch(READ, 5), 12, lambda found: found.responses[0].partitions[0].high_watermark == 5)
    for version in (4, 10, 11, 12):
        talk.to(2).ask(fetch(READ, 0), version)
        talk.to(2).ask(fetch(READ, 0, replica_id=-2), version, "of all replicas")
        talk.to(2).ask(fetch(READ, 0, replica_id=3), version, "as a follower")
    for offset in (3, 5, 6):
        talk.to(2).ask(fetch(READ, offset, rack_id="z"), 12, f"from offset {offset}")
    for epoch in (0, 1):
        talk.to(2).ask(fetch(READ, {"fetch_offset": 0, "current_leader_epoch": epoch}), 12, f"in epoch {epoch}")
    talk.to(3).ask(fetch(READ, 0, rack_id="z"), 12, "of no replica")


def test_a_leader_sends_consumers_to_the_replica_in_their_rack(talk: Dialogue) -> None:
    epoch = register(talk, NAME, rack="z")
    try:
        sent(talk, epoch)
    finally:
        talk.to().ask(UnregisterBrokerRequest(broker_id=NAME), 0)
    talk.until(1, describe_partitions(SENT), 0, lambda found: len(found.topics[0].partitions[0].isr_nodes) == 1)
    talk.to().ask(fetch(SENT, 0, rack_id="z"), 12, "when it is gone")
    talk.to().ask(delete(SENT), 6)


def sent(talk: Dialogue, epoch: int) -> None:
    """While broker 8 is registered."""
    talk.to().ask(create(new_topic(SENT, assignments=[(0, [1, NAME])])), 7)
    talk.until(1, describe_partitions(SENT), 0, lambda found: not found.topics[0].error_code)
    talk.wait_for_leader(SENT, 0, 1)
    with Connection(talk.server.address(1)) as connection:
        for request, version in ((MetadataRequest(topics=[]), 12), (DescribeClusterRequest(), 2)):
            told = connection.ask(request, version).brokers
            talk.write(f"racks: {sorted(str(each.rack) for each in told)}")
    for _ in range(3):
        talk.to().ask(produce(SENT, batch(2), acks=1), 9)
    talk.to().ask(fetch(SENT, 0, rack_id="z"), 12, "before the follower has fetched")
    talk.to().ask(as_follower(4, epoch), 12)
    for version in (10, 11, 12):
        talk.to().ask(fetch(SENT, 0, rack_id="z"), version, "in rack z")
    for rack in ("", "y"):
        talk.to().ask(fetch(SENT, 0, rack_id=rack), 12, f"in rack {rack}")
    for offset in (3, 4, 5, 6, 7):
        talk.to().ask(fetch(SENT, offset, rack_id="z"), 12, f"in rack z from offset {offset}")
    talk.to().ask(as_follower(6, epoch, log_start=3), 12)
    for offset in (2, 3, 6):
        talk.to().ask(fetch(SENT, offset, rack_id="z"), 12, f"in rack z from offset {offset}, after that")
    talk.to().ask(fetch(SENT, 6, rack_id="z", max_wait_ms=10_000, min_bytes=1), 12, "at the end, with patience")
    for leader_epoch in (0, 1):
        said = {"fetch_offset": 0, "current_leader_epoch": leader_epoch}
        talk.to().ask(fetch(SENT, said, rack_id="z"), 12, f"in rack z, in epoch {leader_epoch}")
    talk.to().ask(fetch(SENT, 0, rack_id="z", replica_id=-2), 12, "of all replicas")
    controller(talk).ask(heartbeat(NAME, epoch), 1)
    session = Session(talk.to(), SENT)
    for says in ("a session begins", "and goes on", "and on"):
        session.ask({0: 6}, says=says, rack_id="z", max_wait_ms=10_000, min_bytes=1)
