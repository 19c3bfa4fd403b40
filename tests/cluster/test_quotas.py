"""Nodes on real sockets with quotas: they answer at once, say for how long they throttle, and keep to it. The command
configs sets and shows the quotas."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pykraft import Cluster
from pykraft.broker.requests.quotas import Used
from pykraft.broker.settings.config import read_node_config
from pykraft.cli import main
from pykraft.client.administration.quotas import DEFAULT, ClientQuotaEntity, ClientQuotaFilter
from pykraft.common.trace import RingBuffer
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.runtime.clock import MonotonicClock
from pykraft.runtime.threaded import NodeThread
from pykraft.transport.server_channel import RequestContext
from tests.harness import asking
from tests.harness.connection import Closed, Connection
from tests.harness.waiting import wait_until

THROTTLE_MS = 1000
METADATA = MetadataRequest(topics=[])


class ChargedProduces:
    """Quotas that throttle each client that produces."""

    def record(self, context: RequestContext, used: Used, now: int) -> int:
        return THROTTLE_MS if context.api_key == ProduceRequest.api else 0


def leader(connection: Connection) -> int:
    asked = MetadataRequest(topics=[MetadataRequest.Topic(name="t")])
    known: int = connection.ask(asked, 9).topics[0].partitions[0].leader_id
    return known


def test_a_charged_produce_is_answered_at_once_and_its_connection_alone_is_muted_for_the_time_it_tells(
    tmp_path: Path,
) -> None:
    with Cluster(1, directory=tmp_path) as cluster:
        with cluster.admin() as admin:
            admin.create_topic("t", 1, 1)
        cluster.stop(1)
        config = read_node_config(cluster.properties(1))
        node = NodeThread(config, MonotonicClock(), Random(), RingBuffer(), quotas=ChargedProduces())
        node.start()
        try:
            address = cluster.bootstrap_servers
            with Connection(address) as greedy, Connection(address) as modest:
                wait_until(lambda: leader(modest) == 1, "the node leads again")
                began = time.monotonic()
                answer = greedy.ask(asking.produce("t", asking.batch(1)), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
                assert answer.throttle_time_ms == THROTTLE_MS
                number = greedy.send(METADATA, 9)
                assert modest.ask(METADATA, 9).throttle_time_ms == 0
                muted_s = THROTTLE_MS / 1000 - (time.monotonic() - began)
                assert muted_s > 0, "neither of the answers waited for the end of the time"
                greedy.receive(METADATA, 9, number)
                assert time.monotonic() - began >= THROTTLE_MS / 1000 - 0.002, "clocks count whole milliseconds"
        finally:
            node.stop()


# --- quotas of a cluster ----------------------------------------------------------------------------------------------

GREEDY = ClientQuotaEntity(client_id="conformance")
"""The client id of `Connection`."""
RATE = 15_000.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(1, directory=tmp_path_factory.mktemp("quotas")) as cluster:
        with cluster.admin() as admin:
            admin.create_topic("t", 1, 1)
        yield cluster


def test_a_client_that_ignores_the_throttle_time_is_read_no_further_until_it_is_over(cluster: Cluster) -> None:
    with cluster.admin() as admin, Connection(cluster.bootstrap_servers) as greedy:
        wait_until(lambda: leader(greedy) == 1, "the node leads")
        admin.alter_client_quotas({GREEDY: {"producer_byte_rate": RATE}})
        request = asking.produce("t", asking.batch(60))
        throttle_ms = 0
        while not throttle_ms:  # ten seconds' worth come at once
            began = time.monotonic()
            throttle_ms = greedy.ask(request, 9).throttle_time_ms
        # It has used up what was saved, and goes on without a pause: now it gets its rate and no more.
        for number in [greedy.send(request, 9) for _ in range(2)]:
            answer = greedy.receive(request, 9, number)
            used_ms = (time.monotonic() - began) * 1000
            assert used_ms >= throttle_ms - 2, "it was read when the throttle time was over; clocks count milliseconds"
            throttle_ms += answer.throttle_time_ms
        admin.alter_client_quotas({GREEDY: {"producer_byte_rate": None}})
        wait_until(lambda: greedy.ask(request, 9).throttle_time_ms == 0, "there is no quota any more")


def test_an_address_that_connects_too_fast_is_not_served(cluster: Cluster) -> None:
    entity = ClientQuotaEntity(ip="127.0.0.7")
    with cluster.admin() as admin:
        admin.alter_client_quotas({entity: {"connection_creation_rate": 1}})
        wait_until(lambda: not is_served(cluster, "127.0.0.7"), "its ten seconds' worth are used up")
        assert is_served(cluster, "127.0.0.8")
        admin.alter_client_quotas({entity: {"connection_creation_rate": None}})
        wait_until(lambda: is_served(cluster, "127.0.0.7"), "there is no quota any more")


def is_served(cluster: Cluster, address: str) -> bool:
    with Connection(cluster.bootstrap_servers, patience_s=5, source_host=address) as connection:
        try:
            connection.ask(METADATA, 9)
        except (Closed, TimeoutError):
            return False
        return True


def test_the_command_sets_shows_and_takes_away_quotas(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> list[str]:
        assert main(["configs", "--bootstrap-server", cluster.bootstrap_servers, *words]) == 0
        return capsys.readouterr().out.splitlines()

    large = "producer_byte_rate=1048576000,request_percentage=0.5"
    alice, alices = ("--entity-type", "users", "--entity-name", "alice"), ("--user", "alice", "--client-defaults")
    assert said("--alter", "--add-config", large, *alice) == ["Completed updating config for user alice."]
    assert said("--alter", "--add-config", "consumer_byte_rate=7", *alices)
    assert said("--alter", "--add-config", "connection_creation_rate=9", "--ip-defaults") == [
        "Completed updating default config for ips in the cluster."
    ]
    with cluster.admin() as admin:
        wait_until(lambda: len(admin.describe_client_quotas()) == 3, "the broker has them")
        assert admin.describe_client_quotas(ClientQuotaFilter(user="alice")) == {
            ClientQuotaEntity(user="alice"): {"producer_byte_rate": 1048576000.0, "request_percentage": 0.5},
            ClientQuotaEntity(user="alice", client_id=DEFAULT): {"consumer_byte_rate": 7.0},
        }
    assert said("--describe", "--entity-type", "users") == [
        "Quota configs for user-principal 'alice' are producer_byte_rate=1.048576E9, request_percentage=0.5"
    ]
    assert said("--describe", "--entity-type", "clients", "--entity-type", "users") == [
        "Quota configs for user-principal 'alice', the default client-id are consumer_byte_rate=7.0"
    ]
    assert said("--describe", "--entity-type", "ips") == [
        "Quota configs for the default ip are connection_creation_rate=9.0"
    ]
    said("--alter", "--delete-config", "consumer_byte_rate", *alices)
    said("--alter", "--delete-config", "connection_creation_rate", "--ip-defaults")
    said("--alter", "--delete-config", "producer_byte_rate,request_percentage", *alice)
    with cluster.admin() as admin:
        wait_until(lambda: not admin.describe_client_quotas(), "the broker has none")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--user", "a", "--add-config", "x=1"], "x: users have only producer_byte_rate, "),
        (["--ip", "::1", "--add-config", "producer_byte_rate=1"], "ips have only connection_creation_rate"),
        (["--user", "a", "--add-config", "producer_byte_rate=fast"], "producer_byte_rate is 'fast', but must be a num"),
        (["--user", "a", "--delete-config", "producer_byte_rate"], "--delete-config names what is not set: produ"),
        (["--user", "a", "--add-config", "producer_byte_rate=0"], "must be greater than 0"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_quota(
    cluster: Cluster, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["configs", "--bootstrap-server", cluster.bootstrap_servers, "--alter", *words]) == 1
    assert complaint in capsys.readouterr().err
