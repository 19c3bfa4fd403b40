"""The scenario of notebook 00 on a cluster: where it finds the record, and what it tells of its way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from pykraft import Cluster, NewTopic
from pykraft.course.lessons.sixty_seconds.one_record import (
    _ORDER,
    Place,
    RecordWay,
    _Event,
    _in_order,
    different_bytes,
    different_fields,
    header_fields,
)
from pykraft.viz.clients.record_chart import COMMITTED, CUT_OFF, DOWN, TORN, UNCOMMITTED

VALUE = b"flight 51"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        with cluster.admin() as admin:
            admin.create_topics([NewTopic("t", 1, 3)])
        cluster.wait_until_known("t", 1)
        yield cluster


@pytest.mark.limit(120)
def test_the_way_of_a_record_whose_leader_is_cut_off_and_killed(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    producer.produce("t", b"the first")  # only a producer that has an id can send to a leader that is cut off
    assert producer.flush(60) == 0
    way = RecordWay(cluster, "t", 0, VALUE)
    leader = way.leader
    way.cut_off(leader)
    way.send(producer, b"key", 1_000)
    assert producer.flush(0.1) == 1
    assert way.wait_for_copy() == {leader: [Place(1, 0)]}
    assert way.wait_for_new_leader().leader("t", 0) in way.others
    other = Producer({"bootstrap.servers": way.servers, "log_level": 0})
    other.produce("t", b"another")
    assert other.flush(30) == 0
    way.kill(leader)
    assert producer.flush(60) == 0
    assert way.heard == ["acknowledged at offset 2"]
    way.bring_back(leader)
    assert way.copies() == {node: [Place(2, 1)] for node in cluster.broker_ids}
    assert way.places == [Place(1, 0), Place(2, 1)]
    _check_steps(way)
    old, new = way.batches.values()
    assert different_fields(old, new) == ["base offset", "leader epoch"]
    assert different_bytes(old, new) == [7, 15]
    meanings = {field.name: field.meaning for field in header_fields(new)}
    assert (meanings["base offset"], meanings["magic"], meanings["count"]) == ("2", "2", "1")


def _check_steps(way: RecordWay) -> None:
    steps, first = way.steps(), f"node {way.leader}"
    said = " | ".join(f"{step.lane} {step.said}" for step in steps)
    told = ["cut it off", "leads the partition", "appends what another", "you kill it",
            "appends it at offset 2", "moves the high watermark past it", "hears acknowledged", "mend its links",
            "truncates its log", "copies it at offset 2", f"takes {first} back"]  # fmt: skip
    places = [said.rindex(each) if each.startswith("copies") else said.index(each) for each in told]
    assert places == sorted(places), said
    states = [step.copies[first].state for step in steps if first in step.copies]
    # Where others use the cores, the next leader may be there before the record is appended.
    assert list(dict.fromkeys(states))[-2:] == [TORN, COMMITTED] and set(states) <= {UNCOMMITTED, TORN, COMMITTED}
    assert said.index("cut it off") < said.index(f"{first} appends it at offset 1") < said.index("you kill it")
    assert {step.states.get(first) for step in steps} >= {CUT_OFF, DOWN}
    assert all(copy.state == COMMITTED for copy in steps[-1].copies.values()) and len(steps[-1].copies) == 3


def test_a_node_that_cuts_its_log_and_copies_in_one_millisecond_has_the_record_then() -> None:
    copy = _Event(5, _ORDER.index("copy"), "node 1", "copies it", change="copy", value=Place(2, 1))
    cut = _Event(5, _ORDER.index("truncate"), "node 1", "truncates its log", change="gone")
    assert _in_order([copy, cut]) == [cut, copy]


def test_a_batch_that_differs_beyond_its_header_says_so(cluster: Cluster) -> None:
    with cluster.admin() as admin:
        admin.create_topics([NewTopic("u", 1, 3)])
    cluster.wait_until_known("u", 1)
    found = []
    for value in (b"a record", b"a r3cord"):
        way = RecordWay(cluster, "u", 0, value)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        way.send(producer, b"key", 1_000)
        producer.flush(30)
        assert way.wait_for_copy()
        found += way.batches.values()
    assert different_fields(*found) == ["base offset", "checksum", "records"]
