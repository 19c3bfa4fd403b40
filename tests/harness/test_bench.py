"""The benchmark's bookkeeping, and its two programs that are no Python client: a verdict that is wrong would look like
a measurement."""

from __future__ import annotations

import pathlib

import pytest
from confluent_kafka import Consumer, TopicPartition

from pykraft import Admin, Cluster
from tests.bench import group_memory, groups, idle_follower, librdkafka, raw, sink, small_requests
from tests.bench.load_generator import compiler, load_generator
from tests.bench.rows import Row, beside, table, worst
from tests.bench.scripted_members import ConsumerMember, Lines, ScriptedGroup
from tests.bench.sides import Side, fresh_topic, leaders

MOST_BYTES_PER_OFFSET = 500
"""440 in CPython 3.11. 2,000 would make 200 MB of a thousand groups with a hundred offsets each."""


def test_the_ratio_is_that_of_the_medians() -> None:
    row = beside("n", "MB/s", [1, 30, 20], "peer", [10, 5, 1], ratio_at_least=4)
    assert (row.ours, row.theirs, row.ratio, row.is_met) == (20, 5, 4, True)


@pytest.mark.parametrize(
    ("row", "is_met"),
    [
        (beside("n", "MB/s", [19], "peer", [10], ratio_at_least=2), False),
        (beside("n", "MB/s", [20], "peer", [], ratio_at_least=2), None),
        (beside("n", "s", [1.4, 9, 1.4], "", [], at_most=1.5), True),
        (beside("n", "s", [1.5], "", [], at_most=1.5), False),
        (worst("n", "s", [0.5, 1.1, 0.5], "peer", [2.2], at_most=1), False),
        (worst("n", "s", [0.5, 0.9], "peer", [], at_most=1), True),
        (worst("n", "s", [0.5, 0.9], "peer", []), None),
        (beside("n", "s", [], "peer", [1], at_most=1), None),
    ],
)
def test_a_target_is_met_or_missed_or_cannot_be_judged(row: Row, is_met: bool | None) -> None:
    assert row.is_met is is_met


def test_a_peer_that_is_missing_is_said() -> None:
    (_, line) = table([beside("n", "MB/s", [20], "peer", [], note="no Java", ratio_at_least=2)]).splitlines()
    assert line.split("  ")[0] == "n" and "not at hand" in line and "not judged" in line and "no Java" in line


def test_a_row_says_whether_its_target_is_met() -> None:
    lines = table([beside("n", "s", [2], "", [], at_most=1), beside("m", "s", [0.5], "", [], at_most=1)]).splitlines()
    assert "NOT MET" in lines[1] and "met" in lines[2] and "NOT" not in lines[2]


def test_without_a_c_compiler_the_rows_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.load_generator.compiler", lambda: None)
    rows = small_requests.measure()
    assert rows and all(row.ours is None and row.note == "no C compiler" for row in rows)


def test_the_load_from_c_is_written_as_the_broker_says(tmp_path: pathlib.Path) -> None:
    if compiler() is None:
        pytest.skip("no C compiler")
    with load_generator() as generator, Cluster(nodes=1, directory=tmp_path) as cluster:
        assert generator is not None
        side = Side("pykraft", cluster.bootstrap_servers)
        assert generator.versions(0.1, 3, [cluster.bootstrap_servers] * 2).requests > 1
        with fresh_topic(side, partitions=2) as topic:
            targets = leaders(side, topic)
            answered = generator.produce(0.1, 2, topic, targets, acks=-1, records=3, record_bytes=100)
            with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                ends = admin.list_offsets({(topic, number): -1 for number in range(2)})
            records = sum(end.offset for end in ends.values())
            # One in each partition is from `leaders`; what was under way at the end may have been written, uncounted.
            assert 0 <= records - 2 - 3 * answered.requests <= 3 * 2 * 2
            with pytest.raises(RuntimeError, match="were errors"):
                generator.produce(0.1, 1, "nobody-made-this", targets, acks=-1, records=1, record_bytes=1)


def test_a_client_reads_any_offset_from_the_sink() -> None:
    with raw.other_side(str(4 * sink.RECORD_BYTES), "tests.bench.sink") as port:
        consumer = Consumer({"bootstrap.servers": f"{raw.HOST}:{port}", "group.id": "any", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition("any", 0, 4711)])
            offsets = [message.offset() for message in consumer.consume(5000, 30)]
            assert offsets == list(range(4711, 4711 + 5000))
        finally:
            consumer.close()


def test_the_rows_of_groups_measure_what_they_say(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka, "RECORDS", 300)
    with Cluster(nodes=1, directory=tmp_path, properties=groups.SETTINGS) as cluster:
        side = Side("pykraft", cluster.bootstrap_servers)
        with groups.lasting_topics([side], 10) as topics:
            topic = topics[side.name]
            for kind in groups.KINDS:
                figures = groups.rebalance(side, topic, kind, members=3, partitions=10)
                assert len(figures) == 4 and 0 < max(figures.values()) < groups.TIMEOUT_S
            for count in groups.GROUP_COUNTS:
                per_second, _ = groups.commits(side, topic, count, seconds=0.2).values()
                assert per_second > 0
            librdkafka.produce(side.librdkafka(), topic, librdkafka.BATCH_SIZES[0])
            for name, read in groups.READERS.items():
                first, last = read(side.bootstrap_servers, topic, f"reader with {name}")
                assert first <= last
            group_memory.commit_all(side, topic, ["m1", "m2"], 10)
            with Admin(bootstrap_servers=side.bootstrap_servers) as admin:
                committed = admin.list_consumer_group_offsets("m2")
            assert sorted(offset.offset for offset in committed.values()) == list(range(1_000_000, 1_000_010))


def test_a_scripted_group_has_settled_only_when_each_partition_has_one_owner() -> None:
    with Lines() as lines:
        group = ScriptedGroup(ConsumerMember, lines, "", "g", "t", 4)
        group.members = [ConsumerMember(None, "g", "t", 4) for _ in range(2)]
        one, other = group.members
        for epoch, shares, is_settled in (
            ((1, 1), ((0, 1), (2, 3)), True),
            ((1, 2), ((0, 1), (2, 3)), False),
            ((1, 1), ((0, 1), (1, 2)), False),
            ((1, 1), ((0, 1), (2,)), False),
            ((1, 1), ((0,), (1, 2, 3)), False),
        ):
            (one.epoch, other.epoch), (one.partitions, other.partitions) = epoch, shares
            one.is_settled = other.is_settled = True
            assert group.has_settled() is is_settled
        one.epoch, one.partitions, other.partitions, one.is_settled = 1, (0, 1), (2, 3), False
        assert not group.has_settled()


def test_a_committed_offset_takes_few_bytes() -> None:
    assert group_memory.bytes_per_offset(100, 100) < MOST_BYTES_PER_OFFSET


def test_a_fetch_in_a_session_names_no_idle_partition() -> None:
    assert max(idle_follower.frames(in_session=True)) < 100 < 30_000 < min(idle_follower.frames(in_session=False))
