"""What notebook 18 says besides its claims; see tests/harness/notebook_facts.py."""

from __future__ import annotations

from typing import Any

from tests.harness.notebook_facts import fact


@fact(
    "A restarted producer has a new id, so its second payment counts as new.",
    after='with LossyLink(cluster, "restarted")',
)
def a_new_producer_id(log_of: Any, cluster: Any) -> None:
    log = log_of(cluster, "restarted")
    assert len({batch.producer_id for batch in log}) == 2, log
    assert [batch.base_sequence for batch in log] == [0, 0], log


@fact("Commit first and a crash loses records; process first and a crash repeats them.", after='nb.answer("ways")')
def lost_and_repeated(receipts: Any) -> None:
    lost, repeated = receipts["commit_first"].count(0), receipts["process_first"].count(2)
    assert (lost, repeated) == (4, 6), receipts


@fact("A lost request is written once, with idempotence and without.", after='with LossyLink(cluster, "restarted")')
def a_lost_request_is_written_once(nb: Any, cluster: Any, log_of: Any) -> None:
    from pykraft import Producer

    for is_idempotent, sequence in ((False, -1), (True, 0)):
        nb.fresh_topic(cluster, "lost-request")
        with (
            cluster.fault("Produce", topic="lost-request", drop="request", count=1) as fault,
            Producer(bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=is_idempotent) as producer,
        ):
            assert producer.send("lost-request", b"pay 10 EUR").result(30).offset == 0
        log = log_of(cluster, "lost-request")
        assert len(fault.caught) == 1 and [batch.base_sequence for batch in log] == [sequence], log


@fact("With results and offset in one database transaction each order has one result.", after='nb.answer("ways")')
def offsets_in_the_database(cluster: Any) -> None:
    import sqlite3

    from pykraft import Consumer, TopicPartition

    database, orders = sqlite3.connect(":memory:"), TopicPartition("orders", 0)
    database.execute("create table results(place integer)")
    database.execute("create table progress(next integer)")
    database.execute("insert into progress values (0)")
    database.commit()
    for crash_at in (6, None):
        with Consumer(bootstrap_servers=cluster.bootstrap_servers, enable_auto_commit=False) as consumer:
            consumer.assign([orders])
            consumer.seek(orders, database.execute("select next from progress").fetchone()[0])
            for some in consumer.poll(10_000, max_records=10).values():
                for record in some:
                    database.execute("insert into results values (?)", (record.offset,))
                    if record.offset == crash_at:
                        database.rollback()  # as the database does when its client is gone
                        break
                    database.execute("update progress set next = ?", (record.offset + 1,))
                    database.commit()
    places = [place for (place,) in database.execute("select place from results")]
    database.close()
    assert places == list(range(10)), places
