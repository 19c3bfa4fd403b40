"""A broker is unregistered while it lives: the others go on without it, and it is back after a restart."""

from __future__ import annotations

import pytest

from pykraft import Cluster, KafkaError, NewTopic, Producer
from pykraft.cli import main


def test_a_broker_that_lives_is_unregistered_and_comes_back_when_it_is_restarted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Cluster(3) as cluster, cluster.admin() as admin:
        cluster.create_topic("t", 3, 3, {"min.insync.replicas": 2})
        call = ["cluster", "unregister", "--bootstrap-server", cluster.bootstrap_servers, "--id", "3"]
        assert main(call) == 0
        assert capsys.readouterr().out == "Broker 3 is no longer registered.\n"
        assert main(call) == 1
        assert "BROKER_ID_NOT_REGISTERED: broker 3: no broker 3 is registered" in capsys.readouterr().err
        cluster.wait_until(
            lambda view: all(view.isr("t", number) == {1, 2} for number in range(3)), what="the others lead"
        )
        assert {broker.id for broker in admin.describe_cluster(include_fenced_brokers=True).brokers} == {1, 2}
        with pytest.raises(KafkaError, match="broker 3 is not registered"):
            admin.create_topics([NewTopic("new", replica_assignments={0: [3]})])
        with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
            for number in range(3):
                producer.send("t", b"x", partition=number).result(20)
        assert cluster.alive == [1, 2, 3], "it is forgotten, and lives"
        cluster.kill(3)  # to stop in order it would ask the controller for leave
        cluster.restart(3)
        cluster.wait_until(
            lambda view: all(view.isr("t", number) == {1, 2, 3} for number in range(3)), what="it is in sync again"
        )
