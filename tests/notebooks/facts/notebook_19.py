"""What notebook 19 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact("A commit is one more record in each partition, and no consumer ever sees it.", after='nb.answer("commit")')
def a_marker_in_each_partition(batches_of: Any, read: Any, cluster: Any) -> None:
    assert batches_of(cluster, "accounts", 0)[-1] == "2: COMMIT marker"
    assert read(cluster, "accounts") == ["Ann -10", "Cem opens an account"]


@fact(
    "An abort takes the offset back with the records: the copy is repeated, and counts once.",
    after='loud = read(cluster, "loud"',
)
def the_copy_counts_once(loud: Any) -> None:
    assert len(loud[0]) == 8 and loud[1] == ["ONE", "TWO", "THREE", "FOUR"], loud


@fact(
    "The coordinator dies in a transaction: no call fails, and the next one finds it.",
    after='loud = read(cluster, "loud"',
)
def the_coordinator_dies_in_between(nb: Any, cluster: Any, read: Any, Producer: Any) -> None:  # noqa: N803
    nb.fresh_topic(cluster, "in-between")
    teller = Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="another teller")
    with teller, cluster.admin() as admin:

        def coordinator() -> int:
            return int(admin.describe_transactions(["another teller"])["another teller"].coordinator_id)

        teller.init_transactions()
        dead = coordinator()
        cluster.kill(dead)
        try:
            teller.begin_transaction()
            teller.send("in-between", b"x").result(60)
            after = coordinator()
            teller.commit_transaction()
        finally:
            cluster.restart(dead)
    assert after != dead, "begin_transaction() asked no broker, and the record came through the next coordinator"
    cluster.wait_until(lambda view: read(cluster, "in-between") == ["x"], what="the transaction is committed")


@fact("A hanging transaction is aborted, and its readers go on.", after='loud = read(cluster, "loud"')
def a_hanging_transaction_is_aborted(Cluster: Any, Producer: Any, read: Any, states_of: Any) -> None:  # noqa: N803
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
    with Cluster(nodes=1, properties=often) as cluster:
        cluster.create_topic("accounts")
        at = {"bootstrap_servers": cluster.bootstrap_servers}
        with Producer(**at, transactional_id="slow", transaction_timeout_ms=500) as slow, Producer(**at) as clerk:
            slow.init_transactions()
            slow.begin_transaction()
            slow.send("accounts", b"Ann -10").result(30)
            clerk.send("accounts", b"Cem opens an account").result(30)
            seen = ["Cem opens an account"]
            cluster.wait_until(lambda view: read(cluster, "accounts") == seen, what="the reader goes on")
            assert "PrepareAbort" in states_of(cluster, "slow")
