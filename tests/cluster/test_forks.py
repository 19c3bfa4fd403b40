"""A process with nodes and clients forks. The child keeps nothing of them open, and can break nothing of its parent's.

So multiprocessing works on Linux before Python 3.14, and whatever else calls `os.fork`.
"""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pykraft import Admin, Cluster, Consumer, Producer, TopicPartition
from pykraft.runtime.client_thread import ClientClosedError

LONG_S = 20.0
API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000007 ffff")


@contextmanager
def forked(body: Callable[[], str]) -> Iterator[Callable[[], str]]:
    """A child, which runs this, says what came of it, and lives on until the end of the block."""
    said_here, said_there = os.pipe()
    over_there, over_here = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads, which is what this is about
        child = os.fork()
    if not child:
        os.close(over_here)
        try:
            said = body()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(said_there, said.encode() or b" ")
        os.read(over_there, 1)
        os._exit(0)
    os.close(said_there)
    try:
        yield lambda: os.read(said_here, 4096).decode()
    finally:
        for descriptor in (over_here, over_there, said_here):
            os.close(descriptor)
        os.waitpid(child, 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        yield cluster


def test_a_client_hears_that_a_node_died_although_a_child_lives_and_the_node_gets_its_port_again(
    cluster: Cluster,
) -> None:
    host, port = cluster.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=LONG_S) as client:
        client.sendall(API_VERSIONS)
        assert client.recv(4096), "the node has accepted the connection"
        with forked(lambda: "here") as said:
            assert said() == "here"
            cluster.kill(1)
            with pytest.raises(ConnectionResetError):
                client.recv(1)
            cluster.restart(1)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        assert producer.send("forks", b"again").get(LONG_S).topic == "forks"


def test_a_client_of_the_parent_says_in_one_sentence_why_it_is_of_no_use_in_the_child(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer(bootstrap_servers=servers) as consumer,
        Admin(bootstrap_servers=servers) as admin,
    ):
        producer.send("forks", b"before").get(LONG_S)
        consumer.assign([TopicPartition("forks", 0)])
        consumer.poll(10)

        def try_all() -> str:
            uses: list[Callable[[], object]] = [
                lambda: producer.send("forks", b"x"),
                producer.flush,
                lambda: consumer.poll(100),
                lambda: consumer.seek(TopicPartition("forks", 0), 0),
                admin.list_topics,
            ]
            sentences = set()
            for use in uses:
                with pytest.raises(ClientClosedError) as refused:
                    use()
                sentences.add(str(refused.value))
            for client in (producer, consumer, admin):
                client.close()
            return " | ".join(sentences)

        with forked(try_all) as said:
            sentence = said()
        assert sentence == (
            "this client works only in the process that made it, and this is a forked child of that: make another "
            "client here"
        )
        assert producer.send("forks", b"after").get(LONG_S).offset > 0, "the parent's go on"
        assert "forks" in admin.list_topics()


def test_a_child_may_have_clients_of_its_own(cluster: Cluster) -> None:
    def produce() -> str:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            return producer.send("forks", b"from the child").get(LONG_S).topic

    with forked(produce) as said:
        assert said() == "forks"


def test_a_child_that_closes_the_copy_of_a_cluster_takes_nothing_from_its_parent(cluster: Cluster) -> None:
    def close() -> str:
        cluster.close()
        return "closed"

    with forked(close) as said:
        assert said() == "closed"
    assert cluster.directory.exists() and cluster.alive == [1]
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("forks", b"still here").get(LONG_S)
