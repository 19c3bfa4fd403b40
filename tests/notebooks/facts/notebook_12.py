"""What notebook 12 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("Equal offsets are not equal logs: a record of another epoch is truncated.", after='nb.answer("tail")')
def another_epoch_is_truncated(back: Any) -> None:
    at_the_end = back.view_at(back.last_step).replicas("t", 0)
    epochs = {tuple(replica.epochs) for replica in at_the_end.values()}
    assert len(epochs) == 1, epochs


@fact(
    "A follower that was killed is not eligible; its dead leader is, and leads when it returns.",
    after='nb.answer("elr")',
)
def a_killed_follower_is_not_eligible(Cluster: Any, send: Any, wait_for_isr: Any, records_left: Any) -> None:  # noqa: N803
    from pykraft.course.lessons.failover.failover import leader_and_follower

    with Cluster(nodes=3, controllers=1) as cluster, cluster.admin() as admin:
        cluster.create_topic("orders", replication_factor=2, configs={"min.insync.replicas": "2"})
        send(cluster, "orders", 10)
        leader, follower = leader_and_follower(cluster, "orders")
        cluster.kill(follower)
        wait_for_isr(cluster, "orders", leader)
        cluster.kill(leader)
        cluster.restart(follower)
        cluster.wait_until(
            lambda view: not view.isr("orders", 0) and view.nodes[follower].broker_state == "running",
            what="the leader is fenced, and the follower runs",
        )
        (found,) = admin.describe_topics(["orders"])["orders"].partitions
        assert (found.leader, found.eligible_leader_replicas) == (-1, (leader,)), found
        cluster.restart(leader)
        cluster.wait_until(lambda view: view.leader("orders", 0) == leader, what="the old leader leads again")
        assert records_left(cluster, "orders") == 10
