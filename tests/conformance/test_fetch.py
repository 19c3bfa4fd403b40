"""Fetch: what a reader gets, and the error when it asks for what is not there."""

from __future__ import annotations

from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.protocol.messages.data import FetchRequest
from pykraft.records.compression import Compression
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import batch, fetch, produce, versions
from tests.harness.connection import Connection

NOBODY = Uuid(bytes(15) + b"\xee")


def filled(talk: Dialogue, name: str, *counts: int, partition: int = 0, codec: Compression = Compression.NONE) -> None:
    """Append batches of so many records; not written down."""
    with Connection(talk.server.address(1)) as connection:
        for count in counts:
            request = produce(name, (partition, batch(count, codec=codec)), acks=-1)
            answer = connection.ask(request, 9).responses[0].partition_responses[0]
            assert not answer.error_code, answer


def test_each_version_reads(talk: Dialogue) -> None:
    topic_id = talk.topic("fetch-versions")
    filled(talk, "fetch-versions", 2, 3)
    for version in versions(FetchRequest):
        talk.to().ask(fetch("fetch-versions", 0, topic_id=topic_id), version)


def test_a_batch_comes_whole(talk: Dialogue) -> None:
    talk.topic("fetch-offsets")
    filled(talk, "fetch-offsets", 2, 3)
    for offset in range(7):
        talk.to().ask(fetch("fetch-offsets", offset), 12, f"from offset {offset}")
    for offset in (-1, -2, 2**62):
        talk.to().ask(fetch("fetch-offsets", offset), 12, f"from offset {offset}")


def test_sizes_are_kept_but_for_the_first_batch(talk: Dialogue) -> None:
    topic_id = talk.topic("fetch-sizes", [(1,), (1,)])
    filled(talk, "fetch-sizes", 2, 2, 2)
    filled(talk, "fetch-sizes", 2, 2, 2, partition=1)
    for version in (4, 12, 18):
        for size in (0, 1, 116, 117, 118, 200, 234, 300, -1):
            two = [{"fetch_offset": 0, "partition_max_bytes": size}] * 2
            both = [{"partition": number, **said} for number, said in enumerate(two)]
            request = fetch("fetch-sizes", *both, topic_id=topic_id)
            talk.to().ask(request, version, f"{size} bytes of each partition")
    for size in (0, 1, 117, 300, 400, -1):
        request = fetch("fetch-sizes", 0, 0, max_bytes=size)
        talk.to().ask(request, 12, f"{size} bytes in all")


def test_nothing_new_is_waited_for(talk: Dialogue) -> None:
    talk.topic("fetch-wait")
    filled(talk, "fetch-wait", 2)
    talk.to().ask(fetch("fetch-wait", 2, max_wait_ms=50, min_bytes=1), 12, "at the end")
    talk.to().ask(fetch("fetch-wait", 0, max_wait_ms=50, min_bytes=100_000), 12, "more than there is")
    talk.to().ask(fetch("fetch-wait", 0, max_wait_ms=10_000, min_bytes=1), 12, "what is there")
    talk.to().ask(fetch("fetch-wait", 9, max_wait_ms=10_000, min_bytes=1), 12, "beyond the end")


def test_topics_and_partitions_must_exist(talk: Dialogue) -> None:
    topic_id = talk.topic("fetch-where")
    filled(talk, "fetch-where", 1)
    for version in (4, 12):
        talk.to().ask(fetch("fetch-nowhere", 0), version, "an unknown topic")
        talk.to().ask(fetch("fetch-where", 0, 0), version, "an unknown partition")
        talk.to().ask(fetch("fetch-where", {"partition": -1, "fetch_offset": 0}), version, "partition -1")
    for version in (13, 18):
        talk.to().ask(fetch("", 0, topic_id=NOBODY), version, "an unknown id")
        talk.to().ask(fetch("", 0, topic_id=ZERO_UUID), version, "the id zero")
        talk.to().ask(fetch("", 0, 0, topic_id=topic_id), version, "an unknown partition")


def test_the_leader_is_named_by_who_is_not(talk: Dialogue) -> None:
    topic_id = talk.topic("fetch-leader", [(1, 2)])
    filled(talk, "fetch-leader", 1)
    for version in (4, 10, 12, 16, 18):
        talk.to(3).ask(fetch("fetch-leader", 0, topic_id=topic_id), version, "from a stranger")
    talk.to(2).ask(fetch("fetch-leader", 0), 10, "from a follower")


def test_the_readers_idea_of_the_leader_epoch_is_checked(talk: Dialogue) -> None:
    topic_id = talk.topic("fetch-epoch", [(1, 2)])
    filled(talk, "fetch-epoch", 1)
    for version in (9, 12, 18):
        for epoch in (-1, 0, 1, -2):
            said = {"fetch_offset": 0, "current_leader_epoch": epoch}
            talk.to().ask(fetch("fetch-epoch", said, topic_id=topic_id), version, f"epoch {epoch}")


def test_a_log_that_parts_is_told_where(talk: Dialogue) -> None:
    talk.topic("fetch-diverging")
    filled(talk, "fetch-diverging", 2, 3)
    for offset, epoch in ((0, 0), (5, 0), (6, 0), (0, 1), (5, 1), (0, -1), (0, -2), (-1, 0), (9, 7)):
        said = {"fetch_offset": offset, "last_fetched_epoch": epoch}
        talk.to().ask(fetch("fetch-diverging", said), 12, f"offset {offset} after epoch {epoch}")


def test_readers_of_committed_data_are_told_of_aborts(talk: Dialogue) -> None:
    topic_id = talk.topic("fetch-committed")
    filled(talk, "fetch-committed", 2)
    for version in (4, 12, 18):
        for offset in (0, 2):
            request = fetch("fetch-committed", offset, topic_id=topic_id, isolation_level=1)
            talk.to().ask(request, version, f"offset {offset}")
    talk.to().ask(fetch("fetch-committed", 0, isolation_level=2), 12, "isolation level 2")


def test_only_replicas_fetch_as_replicas(talk: Dialogue) -> None:
    topic_id = talk.topic("fetch-replica")
    filled(talk, "fetch-replica", 1)
    for replica in (2, 99, -2, -3):
        talk.to().ask(fetch("fetch-replica", 0, replica_id=replica), 12, f"replica {replica}")
    for replica in (2, 99, -2, -3):
        state = FetchRequest.ReplicaState(replica_id=replica, replica_epoch=-1)
        talk.to().ask(fetch("fetch-replica", 0, topic_id=topic_id, replica_state=state), 18, f"replica {replica}")


def test_old_readers_cannot_read_zstd(talk: Dialogue) -> None:
    talk.topic("fetch-zstd")
    talk.topic("fetch-zstd-topic", configs={"compression.type": "zstd"})
    for topic in ("fetch-zstd", "fetch-zstd-topic"):
        filled(talk, topic, 1, codec=Compression.ZSTD)
        for version in (9, 10):
            talk.to().ask(fetch(topic, 0), version)


def test_sessions_that_nobody_began(talk: Dialogue) -> None:
    talk.topic("fetch-session")
    filled(talk, "fetch-session", 1)
    for session, epoch in ((0, -1), (0, 5), (77, 1), (77, 0), (77, -1), (77, 5)):
        request = fetch("fetch-session", 0, session_id=session, session_epoch=epoch)
        talk.to().ask(request, 12, f"session {session} epoch {epoch}")


def test_a_session_begins(talk: Dialogue) -> None:
    talk.topic("fetch-session-begin")
    filled(talk, "fetch-session-begin", 1)
    request = fetch("fetch-session-begin", 0, session_id=0, session_epoch=0)
    talk.to().ask(request, 12)


def test_a_request_may_be_empty(talk: Dialogue) -> None:
    for version in (4, 12, 18):
        talk.to().ask(fetch("fetch-nothing"), version)
    talk.to().ask(FetchRequest(max_wait_ms=10_000, min_bytes=1, topics=[]), 12, "though it would wait")
    nothing = FetchRequest.Topic(topic="fetch-nothing", partitions=[])
    talk.to().ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[nothing]), 12, "a topic without partitions")


def test_a_partition_may_be_named_twice(talk: Dialogue) -> None:
    talk.topic("fetch-twice")
    filled(talk, "fetch-twice", 1, 1)
    same = [{"partition": 0, "fetch_offset": offset} for offset in (0, 1)]
    talk.to().ask(fetch("fetch-twice", *same), 12)


def test_forgotten_topics_are_nothing_without_a_session(talk: Dialogue) -> None:
    talk.topic("fetch-forgotten")
    filled(talk, "fetch-forgotten", 1)
    forgotten = FetchRequest.ForgottenTopic(topic="fetch-forgotten", partitions=[0])
    talk.to().ask(fetch("fetch-forgotten", 0, forgotten_topics_data=[forgotten]), 12)


def test_a_cluster_has_one_id(talk: Dialogue) -> None:
    talk.topic("fetch-cluster")
    talk.to().ask(fetch("fetch-cluster", 0, cluster_id="another"), 12)
