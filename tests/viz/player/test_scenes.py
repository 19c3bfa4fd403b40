"""What each scene shows is data: members and their timers, open transactions, elections, logs that part, a disk."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykraft import cli
from pykraft.sim.workloads.workload import key_of
from pykraft.story.checkpoints import Checkpoints, advance
from pykraft.story.links import Link
from pykraft.story.scenes import SCENES, scene
from pykraft.viz.player.acts import Rehearsal
from pykraft.viz.player.still import still
from pykraft.viz.player.words import in_words
from tests.viz.player.rehearsals import rehearsal_of, take_back

Film = dict[str, Any]
PLAYED = (
    "one-record",
    "split-vote",
    "old-image",
    "lost-answer",
    "lost-marker",
    "group",
    "leader-returns",
    "power-loss",
    "voters",
    "retention",
    "compaction",
    "quota",
)


@pytest.fixture
def group() -> Iterator[Rehearsal]:
    rehearsal = rehearsal_of("group")
    yield rehearsal
    take_back(rehearsal)


def at(rows: list[Any], key: object, ms: float) -> Any:
    """The row of a lane or host that holds at a time."""
    return [row for row in rows if row[0] == key and row[1] <= ms][-1]


def running(film: Film, kind: str, ms: float) -> dict[object, Any]:
    timers = (row for row in film["timers"] if row[1] == kind and row[2] <= ms)
    return {row[0]: row for row in timers if row[4] is None or row[4] > ms}


def figure(film: Film, ms: float) -> list[str]:
    return next(row[1:] for row in reversed(film["figures"]) if row[0] <= ms)


@pytest.mark.parametrize("name", ["split-vote", "old-image"])
def test_a_still_of_the_quorum_has_the_metadata_logs_in_its_lanes(name: str) -> None:
    shown = still(rehearsal_of(name)).svg
    assert shown.count("__cluster_metadata-0") >= 6 and "t-0</text>" not in shown


@pytest.mark.parametrize("name", PLAYED)
def test_a_scene_opens_one_second_before_what_befalls_it_and_is_plain_data(name: str) -> None:
    rehearsal = rehearsal_of(name)
    data = rehearsal.data()
    film = data["film"]
    assert json.loads(json.dumps(data)) == data
    assert data["open"] == rehearsal.scene.failure_ms - 1_000 > film["from"]
    first = [mark[0] for mark in film["marks"] if mark[1] in ("fault", "crash", "client") and mark[0] > data["open"]]
    first = first or [data["moments"][0][0]]
    assert 900 <= first[0] - data["open"] <= 1_700, first
    assert len(rehearsal.moments()) == len(rehearsal.scene.moments), "each moment is there"
    assert rehearsal.story.failure is None
    hosts = {host[0] for host in film["hosts"]}
    lanes = {lane[0] for lane in film["lanes"]}
    assert {row[0] for row in film["states"]} | {row[0] for row in film["timers"]} <= hosts
    assert {row[0] for name in ("logs", "cells", "scars", "segments", "gone") for row in film[name]} <= lanes
    shown = {kind for ring in film["rings"] for kind in ring[2]}
    assert {row[1] for row in film["timers"]} <= shown


def test_every_name_is_a_scene_whose_title_fits_and_a_seed_is_one_too() -> None:
    for name in SCENES:
        found = scene(name)
        assert found.name == name and len(found.title) < 90 and found.failure_ms < found.end_ms
    assert scene("seed-4711").knobs.faults and not scene("seed-4711-calm").knobs.faults
    assert Link.parse(str(Link("seed-4711"))).scene == "seed-4711"
    for name in ("seed-", "seed-x", "nowhere"):
        with pytest.raises(ValueError, match="there is no scene"):
            scene(name)


# --- groups -----------------------------------------------------------------------------------------------------------


def test_a_members_session_runs_out_as_a_ring_and_then_its_partition_gets_another_reader(group: Rehearsal) -> None:
    film = group.film()
    crash = next(mark for mark in film["marks"] if mark[2].startswith("crash: consumer-member-"))
    gone = crash[2].split()[1]
    assert at(film["states"], gone, 4_400)[2:4][0] is True
    assert at(film["states"], gone, 4_600)[2:4] == [False, "gone"]
    ring = running(film, "member", 5_000)[gone]
    assert ring[3] - ring[2] == pytest.approx(1_500, abs=1)
    rebalance = next(mark for mark in film["marks"] if mark[1] == "rebalance" and mark[0] > crash[0])
    assert rebalance[0] >= ring[3] and gone not in running(film, "member", rebalance[0] + 1)
    assert figure(film, 5_000)[1] == "1 partition has no reader"
    assert figure(film, rebalance[0] + 500)[1] == ""


def test_a_member_comes_and_one_that_does_not_poll_is_paused_and_leaves(group: Rehearsal) -> None:
    film = group.film()
    comes = next(mark for mark in film["marks"] if mark[2].endswith("starts"))
    new = comes[2].split()[0]
    assert all(row[1] >= comes[0] for row in film["states"] if row[0] == new)
    paused = next(mark for mark in film["marks"] if mark[2].startswith("pause"))[2].split()[1]
    assert at(film["states"], paused, 7_500)[5] == ["paused"]
    assert any(row[1] == "rebalance" for row in film["timers"]), "a member that must revoke has its time for it"


def test_the_lanes_of_a_group_are_partitions_with_the_offset_it_has_committed(group: Rehearsal) -> None:
    film = group.film()
    assert [lane[0] for lane in film["lanes"]] == ["t-0", "t-1", "t-2"]
    for lane, _ in film["lanes"]:
        *_, marks = at(film["logs"], lane, 10_000)
        assert [mark[0] for mark in marks] == ["group"]
    assert ["group", "committed by the group"] in film["legend"]
    states = [row for row in film["states"] if isinstance(row[0], int) and "consumers: Stable" in " ".join(row[5])]
    assert states, "the coordinator says what it coordinates"


def test_a_session_of_a_member_can_be_let_run_out(group: Rehearsal) -> None:
    before = group.film()
    member = next(host for host in running(before, "member", 4_000))
    assert "has no rebalance timer" in group.act(f"fire {member} rebalance", 4_000)
    assert group.act(f"fire {member} member", 4_000) == ""
    marks = [mark for mark in group.film()["marks"] if mark[1] == "rebalance" and 4_000 < mark[0] < 4_400]
    assert marks, "the coordinator removes it at once"
    assert f"let the member timer of {member} run out" in group.data()["branch"]
    assert f".fire.{member}.member" in str(group.link)
    assert Link.parse(str(group.link)).deeds == group.link.deeds


def test_a_member_that_is_cut_off_is_removed_when_its_session_ends(group: Rehearsal) -> None:
    member = next(iter(running(group.film(), "member", 4_000)))
    assert group.act(f"cut {member}", 4_000) == ""
    film = group.film()
    assert {row[0] for row in film["cuts"]} | {row[1] for row in film["cuts"]} == {1, 2, 3, member}
    assert member not in running(film, "member", 6_400)
    assert "no link to cut" in group.act(f"cut {member}", 4_100)


# --- transactions -----------------------------------------------------------------------------------------------------


def test_records_wait_for_the_marker_and_the_last_stable_offset_is_on_the_lane() -> None:
    film = rehearsal_of("lost-marker").film()
    logs = at(film["logs"], 2, 6_000)
    assert logs[10] == [["stable", 0]] and logs[3] == 6
    assert figure(film, 6_000) == ["last stable offset 0 · high watermark 6", "6 records wait for a marker"]
    opened = [row for row in film["cells"] if row[0] == 2 and row[3] == "open" and row[4] <= 6_000]
    assert [row[1] for row in opened] == list(range(6)) and all(row[5] is not None for row in opened)
    (marker,) = [row for row in film["cells"] if row[0] == 2 and row[3] == "commit marker" and row[1] == 6]
    assert marker[4] == max(row[5] for row in opened), "the marker closes them"
    assert at(film["logs"], 2, 7_500)[10] == []


def test_what_the_coordinator_writes_is_a_mark_and_its_successor_goes_on_with_it() -> None:
    film = rehearsal_of("lost-marker").film()
    writes = [mark[2] for mark in film["marks"] if mark[1] == "transaction"]
    assert writes[:2] == ["node 3 writes PrepareCommit for teller-0", "node 1 writes CompleteCommit for teller-0"]
    assert not any("copy-0" in mark[2] or " t-0" in mark[2] for mark in film["marks"] if mark[1] == "isr")


# --- the quorum, replication, a disk ----------------------------------------------------------------------------------


def test_a_split_vote_has_an_election_ring_for_each_candidate_and_metadata_logs_as_lanes() -> None:
    film = rehearsal_of("split-vote").film()
    assert set(running(film, "election", 5_300)) == {1, 3}
    assert figure(film, 5_300) == ["epoch 2 · votes: 1 for 1, 3 for 3", "no node leads"]
    assert figure(film, 6_200)[0].startswith("epoch 3 · node 3 leads")
    epochs = at(film["logs"], 3, 6_500)[5]
    assert [epoch for epoch, _ in epochs][-2:] == [1, 3], "no record is of the epoch without a leader"


def test_logs_that_part_have_epochs_a_truncation_and_a_scar() -> None:
    film = rehearsal_of("leader-returns").film()
    ((lane, first, end, ms, acknowledged, _),) = film["scars"]
    before, after = at(film["logs"], lane, ms - 1), at(film["logs"], lane, film["to"])
    assert before[3] == end and before[9] == first, "what is about to be truncated is torn from there on"
    assert [epoch for epoch, _ in before[5]] == [0] and [epoch for epoch, _ in after[5]] == [0, 1]
    assert 0 < acknowledged <= end - first


def test_what_was_not_on_the_disk_is_gone_when_the_power_fails_and_comes_back_from_the_leader() -> None:
    film = rehearsal_of("power-loss").film()
    ((lane, first, end, ms, acknowledged, why),) = film["scars"]
    assert acknowledged == 0 and "power" in why and ms > 6_500
    ((kind, on_disk),) = at(film["logs"], lane, 4_499)[10]
    assert kind == "disk" and on_disk <= first < end
    assert at(film["logs"], lane, film["to"])[3] >= end
    _, acknowledged, surviving = film["losses"][-1]
    assert acknowledged == surviving > 0


# --- voters that come and go ------------------------------------------------------------------------------------------


def card(film: Film, node: int, ms: float) -> tuple[str, list[str]]:
    """What a node is, and its badges."""
    _, _, _, said, _, badges, _ = at(film["states"], node, ms)
    return said, badges


def test_an_observer_becomes_a_voter_and_the_active_controller_none_as_each_card_says() -> None:
    film = rehearsal_of("voters").film()
    assert card(film, 104, 4_400) == ("○ fetches", ["observer"])
    assert card(film, 104, 5_500) == ("● follows", ["voter"])
    assert card(film, 101, 5_500) == ("◆ leads", ["voter"])
    assert card(film, 101, 6_640) == ("◆ leads", ["observer"]), "it leads until its removal is committed"
    assert card(film, 101, 8_900) == ("○ fetches", ["observer"])
    assert card(film, 104, 8_900) == ("◆ leads", ["voter"])
    assert card(film, 1, 8_900) == ("○ fetches", ["observer"]), "a broker has no vote"


def test_a_voter_set_holds_from_when_it_is_appended_and_the_others_learn_of_it_later() -> None:
    film = rehearsal_of("voters").film()
    marks = [(mark[0], mark[2]) for mark in film["marks"] if mark[1] == "voters"]
    assert [text for _, text in marks] == [
        "node 101 appends a new voter set: 104 joins",
        "node 101 appends a new voter set: 101 leaves",
    ]
    assert figure(film, marks[0][0]) == [
        "voters 101, 102, 103, 104 · node 101 leads, epoch 1",
        "102, 103, 104 do not know it yet",
    ]
    assert figure(film, 5_500) == ["voters 101, 102, 103, 104 · node 101 leads, epoch 1", ""]
    assert figure(film, film["to"]) == ["voters 102, 103, 104 · node 104 leads, epoch 2", ""]
    details = at(film["states"], 103, 5_500)[6]
    assert "goes by the voters 101, 102, 103, 104" in details
    assert [ms for ms, _ in rehearsal_of("voters").data()["moments"]][:2] == [ms for ms, _ in marks]


# --- segments ---------------------------------------------------------------------------------------------------------


def test_the_segments_of_a_view_are_the_files_of_the_nodes_log() -> None:
    of = scene("retention")
    cluster = Checkpoints(of.seed, of.knobs, of.plan).begin()
    advance(cluster, {}, 900)
    for node_id, machine in cluster.nodes.items():
        replica = cluster.describe(node_id).partition("t", 0)
        assert replica is not None and len(replica.segments) > 1
        files = {name: machine.filesystem.size(f"/data/t-0/{name}") for name in machine.filesystem.list("/data/t-0")}
        shown = {f"{each.base_offset:020}.log": each.size_bytes for each in replica.segments}
        assert shown == {name: size for name, size in files.items() if name.endswith(".log")}


def test_each_replica_deletes_the_same_segment_at_a_moment_of_its_own_and_never_the_active_one() -> None:
    film = rehearsal_of("retention").film()
    first = {row[0]: row[3] for row in film["gone"] if row[1] == 0}
    assert first.keys() == {1, 2, 3} and len(set(first.values())) == 3
    assert first[1] == max(first.values()), "the leader is the last one here"
    for lane, base, end, ms, what in film["gone"]:
        before, after = (at(film["segments"], lane, each)[2] for each in (ms - 0.01, ms))
        assert what == "deleted" and [base, "closed"] in [[each[0], each[2]] for each in before]
        assert base not in [each[0] for each in after] and after[-1][2] == "active"
        assert ["start", end] <= at(film["logs"], lane, ms)[10][0]


def test_the_cleaner_leaves_the_last_record_of_each_key_at_its_old_offset() -> None:
    """The law of compaction, on what the lanes show: up to the first dirty offset one record of each key is left."""
    film = rehearsal_of("compaction").film()
    passes = [(mark[3], mark[0]) for mark in film["marks"] if mark[1] == "segment"]
    checked = 0
    for lane, ms, segments in film["segments"]:
        is_within = any(lane == node and end - 50 < ms < end for node, end in passes)
        if ms < 5_600 or is_within:
            continue
        dirty = next(base for base, _, state in segments if state != "clean")
        gone = {row[1] for row in film["cells"] if row[0] == lane and row[3] == "compacted" and row[4] <= ms}
        last = {key_of(offset, 4): offset for offset in range(dirty)}
        assert dirty > 0 and set(range(dirty)) - gone == set(last.values()), (lane, ms)
        checked += 1
    assert checked > 20


# --- a quota ----------------------------------------------------------------------------------------------------------


def test_a_producer_over_its_quota_is_muted_and_nothing_of_it_is_read_until_the_time_is_over() -> None:
    film = rehearsal_of("quota").film()
    assert len(film["mutes"]) == 3 and {tuple(row[:2]) for row in film["mutes"]} == {("producer-0", 3)}
    produced = [row for row in film["messages"] if row[4] == "Produce" and not row[5]]
    for client, node, since, until in film["mutes"]:
        assert 200 < until - since < 2_000
        assert not [row for row in produced if row[1] == client and since < row[7] < until], "it knows, and waits"
        assert [row for row in produced if row[1] == "producer-1" and since < row[7] < until], "the other one goes on"
        assert figure(film, since) == [f"{client} is muted until {until:,.0f} ms", ""]
        assert figure(film, until) == ["no connection is muted", ""]
        (mark,) = [mark for mark in film["marks"] if mark[1] == "quota" and mark[0] == since]
        assert mark[2].startswith(f"node {node} answers {client} and mutes its connection for ")


# --- acts in words, and what is shown without a page ------------------------------------------------------------------


def test_a_delayed_request_arrives_that_much_later() -> None:
    rehearsal = rehearsal_of("lost-answer")
    try:
        first = next(
            row for row in rehearsal.film()["messages"] if row[4] == "Produce" and not row[5] and row[7] > 4_500
        )
        asked = first[7] + 10
        assert rehearsal.act(f"delay {first[0]} 200", asked) == ""
        late = next(row for row in rehearsal.film()["messages"] if row[0] == first[0])
        assert late[10] == "arrives" and late[9] == pytest.approx(first[9] + 200, abs=1)
        assert [due for _, due in late[8]] == pytest.approx([first[9], first[9] + 200], abs=1), "its way says so"
        assert "delay Produce request from producer-0 to node 3 by 200 ms" in rehearsal.data()["branch"]
        assert str(rehearsal.link).endswith(f".delay.{first[0]}.200")
    finally:
        take_back(rehearsal)


def test_an_act_may_name_a_message_by_its_words_and_a_node_by_what_it_does() -> None:
    rehearsal = rehearsal_of("lost-answer")
    try:
        assert "has the words 'Produce nonsense'" in rehearsal.act("drop Produce nonsense", 4_950)
        assert rehearsal.act("drop Produce request", 4_910) == ""
        assert "drop Produce request from producer-0" in rehearsal.data()["branch"]
        leader = rehearsal.story.view_at(rehearsal.story.step_at(4_950)).leader("t", 0)
        assert rehearsal.act("kill leader", 4_950) == ""
        assert f"kill node {leader}" in str(list(rehearsal.story.interventions.values())[-1])
        assert "There is no controller" in rehearsal.act("kill controller", 4_970)
    finally:
        take_back(rehearsal)


def test_a_still_has_a_picture_for_each_moment_and_all_of_it_in_words() -> None:
    rehearsal = rehearsal_of("lost-marker")
    figure = still(rehearsal)
    assert figure.svg.count("<svg") == 1 + len(rehearsal.moments()) == 4
    words = in_words(rehearsal.data())
    assert figure.text == words and "Moment 1, 5,570 ms: message omission: WriteTxnMarkers request" in words
    assert "high watermark" in words.splitlines()[-2] and figure.title == rehearsal.scene.title


@pytest.mark.long
def test_a_seeds_history_is_a_page_and_what_was_done_in_it_is_beside_the_original(tmp_path: Path) -> None:
    page = tmp_path / "seed.html"
    assert cli.main(["simulate", "16", "--calm", "--story", str(page), "--act", "2000 kill leader"]) == 0
    text = page.read_text(encoding="utf-8")
    packed = re.search(r'<script id="data"[^>]*>([A-Za-z0-9+/=]+)</script>', text)
    assert packed is not None
    main = json.loads(gzip.decompress(base64.b64decode(packed[1])))["main"]
    assert main["film"]["messages"] and main["before"]["messages"] and "kill node" in main["branch"]
    assert re.search(r"/seed-16-calm/16/\d+\.kill\.\d$", main["link"])
