"""Which broker leads after the last one in sync has died, on real sockets and disks: an eligible one, or none until an
administrator orders an unclean election."""

from __future__ import annotations

import pytest

from pykraft import Admin, Cluster, ElectionType, NewTopic, Producer, TopicPartition
from pykraft.cli import main
from pykraft.metadata.versions import ELR_VERSION
from tests.cluster.test_threads import consume
from tests.harness.waiting import wait_until

KEY = TopicPartition("t", 0)
VALUES = [b"value %d" % number for number in range(20)]
NOBODY = -1


def wait_for(admin: Admin, leader: int, isr: set[int]) -> None:
    """Until the metadata say this of the partition."""

    def is_so() -> bool:
        (partition,) = admin.describe_topics(["t"])["t"].partitions
        return (partition.leader, set(partition.isr)) == (leader, isr)

    wait_until(is_so, f"leader {leader}, ISR {isr}")


@pytest.mark.parametrize("keeps_elr", [True, pytest.param(False, marks=pytest.mark.long)])
def test_an_eligible_broker_leads_and_nothing_is_lost(keeps_elr: bool, capsys: pytest.CaptureFixture[str]) -> None:
    properties = {"min.insync.replicas": 2, "auto.leader.rebalance.enable": "false"}
    with Cluster(3, controllers=1, properties=properties, features={ELR_VERSION: int(keeps_elr)}) as cluster:
        with cluster.admin() as admin:
            admin.create_topics([NewTopic("t", replica_assignments={0: [1, 2, 3]})])
            wait_for(admin, 1, {1, 2, 3})
            with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
                for future in [producer.send("t", value) for value in VALUES]:
                    future.result(30)
            cluster.stop(3)
            wait_for(admin, 1, {1, 2})
            cluster.stop(2)
            wait_for(admin, 1, {1})
            cluster.restart(3)  # it was not eligible: broker 2 was in sync longer
            wait_for(admin, 1, {1, 3})
            cluster.stop(3)
            wait_for(admin, 1, {1})
            cluster.kill(1)
            cluster.restart(2, wait=False)
            wait_for(admin, NOBODY, set() if keeps_elr else {1})
            cluster.restart(3, wait=False)
            if keeps_elr:
                wait_for(admin, 3, {3})
            else:
                capsys.readouterr()
                servers = ["--bootstrap-server", cluster.bootstrap_servers]
                assert main(["leader-election", *servers, "--election-type", "unclean", "--all-topic-partitions"]) == 0
                done = "Successfully completed leader election (UNCLEAN) for partitions t-0\n"
                assert capsys.readouterr().out == done
                wait_until(lambda: admin.describe_topics(["t"])["t"].partitions[0].leader in (2, 3), "a leader")
            cluster.restart(1, wait=False)
            wait_until(lambda: len(admin.describe_topics(["t"])["t"].partitions[0].isr) == 3, "all are in sync")
            assert admin.elect_leaders(ElectionType.PREFERRED, [KEY])[KEY] is None
            wait_for(admin, 1, {1, 2, 3})
        assert consume(cluster, len(VALUES)) == VALUES
