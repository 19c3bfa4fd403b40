"""A lever shows what it computes at that moment: each one of a first screen is moved, and compared."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import nbformat
import pytest

from pykraft.course import lever, levers
from pykraft.course.authoring.build import short_name
from pykraft.course.authoring.execute import read
from pykraft.course.authoring.first_screen import first_screen_problems
from pykraft.course.kernel import why_no_cold_reads
from pykraft.course.lessons.access.eve_lever import draw_overheard
from pykraft.course.lessons.acks.acks_lever import draw_acks
from pykraft.course.lessons.append_only_log.changes import draw_changes
from pykraft.course.lessons.batches_and_compression.flip_lever import draw_flip
from pykraft.course.lessons.batching.linger_lever import draw_batches
from pykraft.course.lessons.batching.load_lever import Load, draw_guides, most_under_way
from pykraft.course.lessons.capstone.claim_lever import draw_sentence, draw_verdict
from pykraft.course.lessons.committed.gap_lever import draw_gap
from pykraft.course.lessons.disk.cache_lever import LOOK, MEMORY, draw_caches, outcomes_of
from pykraft.course.lessons.disk.sync_lever import draw_syncs
from pykraft.course.lessons.elections.timer_lever import BY_CHANCE, EXACTLY, draw_election, elected
from pykraft.course.lessons.exactly_once.loss_lever import ANSWER, NOTHING, REQUEST, draw_loss
from pykraft.course.lessons.failover.parting_lever import EPOCHS, HIGH_WATERMARK, draw_parting
from pykraft.course.lessons.groups.storm_lever import draw_pause, storm
from pykraft.course.lessons.groups.virtual_group import VirtualGroup
from pykraft.course.lessons.metadata_log.offset_lever import draw_offset, last_offset
from pykraft.course.lessons.one_request.descriptor_lever import AT_THE_END, OLD, READS, draw_descriptors, served
from pykraft.course.lessons.one_request.flood_lever import draw_flood
from pykraft.course.lessons.one_request.handler_lever import AS_MANY, FEWER, MORE, draw_handlers, ms_for_a_request
from pykraft.course.lessons.protocol_by_hand.request_lever import draw_request
from pykraft.course.lessons.replay_into_spark.replay_lever import BEGIN, OPTIONS, PUSHED, WHERE, draw_replay
from pykraft.course.lessons.retention_and_compaction.cleaner_lever import draw_cleaner
from pykraft.course.lessons.scale.removal_lever import A_RUNNING_ONE, draw_removals
from pykraft.course.lessons.segments_and_indexes.log_lever import LAST_OFFSET, draw_log
from pykraft.course.lessons.structured_streaming.kill_lever import BROKER, DEFAULT, DRIVER, ONCE, draw_kill, killed
from pykraft.course.lessons.transactions.commit_lever import draw_transaction
from pykraft.course.lessons.which_partition.key_lever import draw_key
from pykraft.course.lessons.zero_copy.buffer_lever import Buffers, draw_buffers
from pykraft.course.lessons.zero_copy.transfer_lever import COLD, SENDFILE, TLS, WARM, draw_transfer, measured
from pykraft.course.lessons.zookeeper_and_kraft.takeover_lever import draw_takeover
from pykraft.course.places import NOTEBOOKS
from pykraft.datasets import flights_table
from pykraft.viz import Figure, bars
from tests.notebooks.test_form import code, shown, words

LONG = pytest.mark.long
PATHS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def flood(clients: int, **moved: int) -> dict[str, object]:
    """The lever of notebook 07 with so many clients."""
    return {"clients": clients, "network_threads": 2, "io_threads": 2, "queued_requests": 4, **moved}


def log_at(**moved: int) -> dict[str, object]:
    """The lever of notebook 02 as it stands, but for what was moved."""
    return {"offset": 234_567, "segment_mb": 4, "index_interval_kb": 128, "retention_mb": 12, **moved}


def acks(level: str, **moved: int) -> dict[str, object]:
    """The lever of notebook 10 as it stands, but for what was moved."""
    return {"acks": level, "min_insync_replicas": 1, "slower_follower_ms": 0, "followers_cut_off": 0, **moved}


def gap(level: str = "1", **moved: int) -> dict[str, object]:
    """The lever of notebook 11 as it stands, but for what was moved."""
    still = {"lag_time_max_ms": 1000, "followers_cut_off": 1, "min_insync_replicas": 1, "cut_for_ms": 2000}
    return {"acks": level, **still, **moved}


def parting(rule: str, step: int, **moved: object) -> dict[str, object]:
    """The lever of notebook 12 as it stands, but for what was moved."""
    still = {"leader": "0 0 2 2 5 5", "follower": "0 0 1 1 3 3", "high_watermark": 0}
    return {"rule": rule, "step": step, **still, **moved}


def replay(ask_by: str, **moved: int) -> dict[str, object]:
    """The lever of notebook 23: three days of January, but for what was moved."""
    still = {"from_day": 10, "to_day": 12, "late_percent": 5, "partitions": 6, "min_partitions": 0}
    return {"ask_by": ask_by, **still, **moved}


def waits(linger_ms: int, batch_kb: int, records_per_s: int) -> dict[str, object]:
    return {"linger_ms": linger_ms, "batch_kb": batch_kb, "records_per_s": records_per_s}


def loss(lost: str, **moved: object) -> dict[str, object]:
    """The lever of notebook 18 with this loss."""
    return {"lost": lost, "acks": "all", "retries": 3, "payments": 2, **moved}


def pause(way: str, cleo_pauses_at_s: int, pause_s: int) -> dict[str, object]:
    return {"way": way, "cleo_pauses_at_s": cleo_pauses_at_s, "pause_s": pause_s}


def takeover(round_trip_ms: int, **moved: int) -> dict[str, object]:
    return {"round_trip_ms": round_trip_ms, "partitions": 100, "history": 0, **moved}


def sentence(said: str, records_per_s: int) -> dict[str, object]:
    return {"sentence": said, "records_per_s": records_per_s, "round_trip_ms": 10}


def request(api: str, version: int, client_id: str = "me", name: str = "by-hand") -> dict[str, object]:
    return {"api": api, "version": version, "client_id": client_id, "name": name}


def login(security_protocol: str, sasl_mechanism: str, **typed: str) -> dict[str, object]:
    """The lever of notebook 21 with this login."""
    return {
        "security_protocol": security_protocol,
        "sasl_mechanism": sasl_mechanism,
        "password": "pass word 1",
        "record": "gate C12",
        **typed,
    }


def removal(voters: int, dead: int, remove: str, removals: int) -> dict[str, object]:
    return {"voters": voters, "dead": dead, "remove": remove, "removals": removals}


MOVES: list[tuple[Callable[..., Figure], dict[str, object], str]] = [
    (draw_acks, acks("0"), "before the crash 0 ms for an acknowledgement; the crash takes 7 acknowledged records"),
    (draw_acks, acks("1"), "acknowledged and gone: 25, 26, 27"),
    (draw_acks, acks("all"), "before the crash 36 ms for an acknowledgement; the crash takes 0 acknowledged records"),
    (draw_acks, acks("all", slower_follower_ms=40), "before the crash no acknowledgement; the crash takes 0"),
    (draw_acks, acks("all", followers_cut_off=2), "acknowledged and gone: 0, 1, 2, 3, 4"),
    (draw_acks, acks("all", followers_cut_off=2, min_insync_replicas=2), "acknowledged and gone: none"),
    (draw_gap, gap(), "Up to 30 records wait to be committed, the oldest of them for 1,195 ms"),
    (draw_gap, gap(lag_time_max_ms=300), "the oldest of them for 345 ms"),
    (draw_gap, gap("all"), "Up to 21 records wait"),
    (draw_gap, gap(followers_cut_off=2, min_insync_replicas=2), "Up to 51 records wait"),
    (draw_key, {"key": "JFK-LAX", "partitions": 6}, "murmur2 says 2, murmur3 says 3, CRC-32 says 1"),
    (draw_key, {"key": "JFK-LAX", "partitions": 8}, "murmur2: 0x3f7ff406, mod 8 = 6: partition 6"),
    (draw_key, {"key": "JFK-LAX", "partitions": 7}, "filled: the 194 that were elsewhere with 6 partitions"),
    (draw_key, {"key": "ключ", "partitions": 12}, f"CRC-32: 0x{crc32('ключ'.encode()):08x}"),
    (draw_key, {"key": "x", "partitions": 1}, "224 routes: all in the one partition"),
    (draw_changes, {"flights": 100, "changes": 20}, "Pages for the disk: table 1, tree 2, log 1"),
    (draw_changes, {"flights": 5_000, "changes": 20}, "Flights: 5,000, changes: 20. Pages for the disk: table 17, "),
    (draw_changes, {"flights": 20_000, "changes": 20}, "Pages for the disk: table 20, tree 19, log 2"),
    (draw_changes, {"flights": 5_000, "changes": 500}, ", log 4"),
    (draw_flood, flood(12), "Of 12 requests 8 are inside the broker, 4 wait in their sockets"),
    (
        draw_flood,
        flood(30, network_threads=1, io_threads=4, queued_requests=10),
        "in sockets: 15\nnetwork threads: 1 of 1",
    ),
    (draw_flip, {"byte": 70, "bit": 0}, "Byte 70, bit 0: the checksum does not match"),
    (draw_flip, {"byte": 70, "bit": 0}, "EWR-HAH"),
    (draw_flip, {"byte": 0, "bit": 7}, "does not follow 11"),
    (draw_flip, {"byte": 0, "bit": 0}, "has no room in this segment"),
    (draw_flip, {"byte": 7, "bit": 0}, "no check notices it, and a reader gets offset 13"),
    (draw_flip, {"byte": 8, "bit": 0}, "its length goes beyond the end of the file"),
    (draw_flip, {"byte": 11, "bit": 6}, "its header alone has 61"),
    (draw_flip, {"byte": 15, "bit": 0}, "no check notices it, and a reader gets leader epoch 5"),
    (draw_flip, {"byte": 16, "bit": 1}, "a batch has magic 0, not 2"),
    (draw_batches, waits(20, 16, 500), "You send 6 requests, and a record takes 21.0 ms"),
    (draw_batches, waits(5, 16, 500), "Of your 20 batches 0 left full, 20 after the linger"),
    (draw_batches, waits(50, 1, 3000), "Of your 45 batches 44 left full, 1 after the linger"),
    (draw_batches, waits(0, 16, 4000), "the linger, 12 had to wait for an answer"),
    (draw_loss, loss(ANSWER), "Payment 0 is in the log twice, and send() reports no error"),
    (draw_loss, loss(ANSWER, retries=0), "Payment 0 is in the log once, and send() reports an error"),
    (
        draw_loss,
        loss(REQUEST),
        "0: the request is lost\nProduce payment 0, again: appends it at offset 1",
    ),
    (draw_loss, loss(REQUEST, retries=0, acks="1"), "Payment 0 is not in the log, and send() reports an error"),
    (draw_loss, loss(REQUEST, acks="0"), "the log has payments none"),
    (
        draw_loss,
        loss(ANSWER, acks="0", payments=3),
        "payment 2: appends it at offset 3; no answer is asked for",
    ),
    (draw_loss, loss(NOTHING, payments=1), "Payment 0 is in the log once, and send() reports no error"),
    (
        draw_cleaner,
        {"dirty_ratio_percent": 50, "keys": 500},
        "11 times and copies 587 KB; the log has 137 KB at most",
    ),
    (
        draw_cleaner,
        {"dirty_ratio_percent": 90, "keys": 500},
        "2 times and copies 79 KB; the log has 506 KB at most",
    ),
    (draw_pause, pause("range", 20, 15), "6 of 12 partitions move, and all twelve together have no reader for 63 s"),
    (draw_pause, pause("sticky", 24, 40), "3 of 12 partitions move, and all twelve together have no reader for 295 s"),
    (draw_takeover, takeover(5), "KRaft needs 30 ms; a controller with ZooKeeper 57 ms"),
    (draw_takeover, takeover(5, history=1), "KRaft needs 343 ms"),
    (draw_takeover, takeover(5, partitions=1), "KRaft needs 30 ms; a controller with ZooKeeper 3 ms"),
    (draw_takeover, takeover(5, partitions=300), "KRaft needs 30 ms; a controller with ZooKeeper 167 ms"),
    (draw_transaction, {"history": 1, "row": 20}, "node 2 writes PrepareAbort"),
    (draw_transaction, {"history": 1, "row": 3}, "Row 3 of 10: the coordinator has written Ongoing"),
    (
        draw_verdict,
        {"true_percent": 300, "noise_percent": 0, "pairs": 8, "luck": 0},
        "HOLDS: 3 times; claimed at least 2",
    ),
    (draw_verdict, {"true_percent": 150, "noise_percent": 0, "pairs": 8, "luck": 0}, "DOES NOT HOLD: 1.5 times"),
    (draw_verdict, {"true_percent": 200, "noise_percent": 20, "pairs": 8, "luck": 0}, "UNDECIDED: 2 times"),
    (draw_sentence, sentence("a larger batch.size saves requests", 20_000), "256 KB gives 0.36 times what 16 KB gives"),
    (draw_sentence, sentence("linger.ms=0 has the lowest latency", 100), "0 ms gives 0.67 times what 5 ms gives"),
    (draw_sentence, sentence("linger.ms=0 has the lowest latency", 6000), "0 ms gives 1.29 times what 5 ms gives"),
    (draw_request, request("ApiVersions", 0), "ApiVersions, version 0, not flexible: 16 bytes"),
    (draw_request, request("ApiVersions", 3), "tagged fields: 0  [00] (length; from byte 16)"),
    (draw_request, request("ApiVersions", 3, client_id="ü"), 'clientId: "ü"  [00 02 | c3 bc]'),
    (draw_request, request("ListOffsets", 11, name="flights"), 'name: "flights"  [08 | 66 6c 69 67 68 74 73]'),
    (draw_request, request("Heartbeat", 0, name="g"), 'groupId: "g"  [00 01 | 67]'),
    (draw_log, log_at(), "234,567 is in segment 0, which has 263 batches"),
    (draw_log, log_at(), "the last entry at or below it: offset 225,999 at byte 3,584,925"),
    (draw_log, log_at(index_interval_kb=16), "Its index has 131 entries"),
    (draw_log, log_at(segment_mb=1), "segments: 0 (1,035,645 bytes), 65,000 (1,035,645 bytes)"),
    (draw_log, log_at(segment_mb=2, retention_mb=5), "is deleted: the log begins at 262,000"),
    (draw_log, log_at(segment_mb=2, retention_mb=5, offset=LAST_OFFSET), "Of 5 segments 2 are deleted"),
    (draw_log, log_at(offset=0), "the last entry at or below it: none, so the segment's beginning"),
    (draw_offset, {"offset": 3}, "Offset 3, BeginTransaction: changes nothing"),
    (draw_offset, {"offset": 12}, "Offset 12, RegisterBroker: broker 2 is new"),
    (draw_offset, {"offset": 12}, "broker 2: fenced, epoch 12; 1 record"),
    (draw_offset, {"offset": 13}, "broker 2 has changed\nbroker 2 before: fenced, epoch 12. The image"),
    (draw_offset, {"offset": last_offset()}, "partition t-0: leader 1, epoch 1, ISR 1, 2, 3; 3 records"),
    (draw_parting, parting(EPOCHS, 0), "At 4 offsets the two logs have different records.\n"),
    (draw_parting, parting(EPOCHS, 1), "my epoch 2 ends at 4. Truncate to 4\n"),
    (draw_parting, parting(EPOCHS, 2), "follower: epochs 0 0; truncated: 1 1 3 3\n"),
    (draw_parting, parting(EPOCHS, 6), "Both logs are equal.\n"),
    (draw_parting, parting(EPOCHS, 6, leader="0", follower="0 0 0"), "my epoch 0 ends at 1. Truncate to 1\n"),
    (draw_parting, parting(HIGH_WATERMARK, 1), "If the leader dies now, 2 records that both had are lost.\n"),
    (draw_parting, parting(HIGH_WATERMARK, 6, high_watermark=4), "At 2 offsets the two logs have different records.\n"),
    (draw_replay, replay(OPTIONS), "243 of them of these days; late flights that are missing: 13"),
    (draw_replay, replay(OPTIONS, late_percent=0), "5 tasks fetch 256 records, 256 of them of these days\n"),
    (draw_replay, replay(PUSHED), "5 tasks fetch 1,941 records, 256 of them of these days\n"),
    (draw_replay, replay(WHERE), "5 tasks fetch 2,701 records, 256 of them of these days\n"),
    (draw_replay, replay(OPTIONS, min_partitions=12), "170 to 190 by task 0, 191 to 211 by task 1, 212 to 233 by"),
    (draw_replay, replay(WHERE, partitions=1), "1 task fetches 2,701 records"),
    (draw_removals, removal(3, 1, A_RUNNING_ONE, 1), "101 is removed (REQUEST_TIMED_OUT): 101 runs without a vote, "),
    (draw_overheard, login("SASL_PLAINTEXT", "PLAIN"), "the password (bytes 26 to 36): pass word 1, who logs in"),
    (draw_overheard, login("SASL_PLAINTEXT", "SCRAM-SHA-256"), "the password: not read, who logs in: read, the record"),
    (draw_overheard, login("SASL_SSL", "PLAIN", record="gate D99"), "Eve reads only whom alice calls\n"),
    (draw_overheard, login("SSL", "PLAIN"), "alice's certificate, encrypted, "),
]


@pytest.mark.parametrize(("draw", "values", "words"), MOVES, ids=lambda each: getattr(each, "__name__", str(each)))
def test_a_lever_shows_what_is_true_where_it_is_moved_to(
    draw: Callable[..., Figure], values: dict[str, object], words: str
) -> None:
    assert words in draw(**values).text


@pytest.mark.parametrize("path", PATHS, ids=short_name)
def test_a_notebook_opens_with_its_question_a_sentence_a_picture_and_its_lever(path: Any) -> None:
    assert list(first_screen_problems(read(path))) == []


def test_the_lever_of_notebook_05_measures_the_copy_beside_the_way_that_is_chosen(tmp_path: Path) -> None:
    copied, encrypted = measured(TLS, 2, WARM, tmp_path)
    assert encrypted.sender_cpu > copied.sender_cpu and copied.gigabytes == encrypted.gigabytes == 2 * (1 << 20) / 1e9
    _, lent = measured(SENDFILE, 2, WARM, tmp_path)
    assert lent.copied_share == 0 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("after_step", "sink", "twice"),
    [
        pytest.param(6, DEFAULT, [], marks=LONG),  # nothing of batch 1 is written yet
        pytest.param(7, DEFAULT, [8, 10, 12, 14], marks=LONG),  # one of its two tasks has written
        (9, DEFAULT, [8, 9, 10, 11, 12, 13, 14, 15]),
        pytest.param(10, DEFAULT, [], marks=LONG),  # the commit is in the checkpoint
        pytest.param(7, ONCE, [], marks=LONG),
        pytest.param(9, ONCE, [], marks=LONG),
    ],
)
def test_a_driver_that_is_killed_in_notebook_24_leaves_what_its_sink_promises(
    after_step: int, sink: str, twice: list[int]
) -> None:
    outcome = killed(DRIVER, after_step, sink)
    assert outcome.status == -signal.SIGKILL and len(outcome.ran) == 2
    assert sorted(number for number, count in outcome.times.items() if count > 1) == twice
    assert sorted(outcome.times) == list(range(24))


@pytest.mark.long
def test_a_broker_that_is_killed_in_notebook_24_loses_nothing_and_the_same_driver_goes_on() -> None:
    outcome = killed(BROKER, 9, DEFAULT)
    assert outcome.status == 0 and len(outcome.ran) == 1
    assert set(outcome.times.values()) == {1} and len(outcome.times) == 24


@pytest.mark.long
def test_the_picture_of_notebook_24_says_what_came_of_the_death() -> None:
    text = draw_kill(DRIVER, 7, DEFAULT).text
    assert "killed after 'task 1' of batch 1: 4 records are there twice, none is missing" in text
    assert "the checkpoint at the death: offsets/0, commits/0, offsets/1\n" in text


@pytest.mark.long
def test_the_storm_stops_an_eager_group_for_less_when_cleo_pauses_after_emil_has_joined() -> None:
    early, late = [VirtualGroup("sticky") for _ in range(2)]
    for group, second in ((early, 60), (late, 75)):
        storm(group, second, 15)
        assert list(group.events)[-1] == "dora crashes" and group.pauses == [("cleo", second, second + 15)]
    assert early.stopped_s("emil joins", "dora crashes") > 60 > late.stopped_s("emil joins", "dora crashes")


def test_the_lever_of_notebook_04_measures_a_sync_in_the_folder_that_is_named(tmp_path: Path) -> None:
    text = draw_syncs(5, 100, str(tmp_path)).text
    assert re.search(r"A sync for 5 records: [\d,]+ records/s; without a sync [\d,]+", text)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="is no folder that we may write to"):
        draw_syncs(5, 100, str(tmp_path / "missing"))


def test_a_request_in_a_version_that_its_api_does_not_have_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="ApiVersions has the versions 0 to 5: choose one of them"):
        draw_request("ApiVersions", 6, "me", "by-hand")


@pytest.mark.parametrize(
    ("leader", "words"),
    [("", "type 1 to 12 epochs"), ("0 x", "from 0 to 9"), ("2 1", "epochs never fall within a log")],
)
def test_a_log_that_cannot_be_is_refused_in_a_sentence(leader: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        draw_parting(leader, "0", EPOCHS, 0, 1)


def test_the_timer_that_runs_out_is_the_one_that_is_set_and_elects_the_next_leader() -> None:
    """The lever of notebook 13: without a leader for the fetch timeout, and for the other one with each split vote."""
    found = [(fetch, elected(fetch, 300, EXACTLY, run)) for fetch, run in ((400, 3), (1_200, 3), (500, 8))]
    for fetch, each in found:
        assert max(left for some in each.timers.values() for _, left in some) == pytest.approx(fetch, abs=2)
        wait_ms = each.ms - 300 * (each.epochs - 1)
        assert fetch - 160 < wait_ms < fetch + 4
    assert max(each.epochs for _, each in found) > 1


def test_the_picture_of_notebook_13_has_the_time_without_a_leader_and_its_timers() -> None:
    text = draw_election(500, 300, BY_CHANCE, 1).text
    assert "784 ms without a leader: 2 elections, and node 3 leads\n" in text
    assert "node 3: its timer runs out at 1,258, 1,616 ms" in text


def test_before_the_first_metadata_record_there_is_no_image() -> None:
    with pytest.raises(ValueError, match="offset 2 is before the first metadata record"):
        draw_offset(2)


def test_days_that_run_backwards_are_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="to day is 9: choose a day from 10 on"):
        draw_replay(10, 9, OPTIONS, 0, 6, 0)


@pytest.mark.parametrize(("ask_by", "late"), [(OPTIONS, 0), (PUSHED, 5), (WHERE, 5)])
def test_the_days_that_the_lever_of_notebook_23_plans_are_those_of_the_flights(ask_by: str, late: int) -> None:
    """Counted again from the table, without a log, an index or a plan."""
    rows = flights_table(["month", "time_hour"]).slice(0, 30_000).to_pylist()[::10]
    days = [(row["time_hour"] - BEGIN).days + 1 for row in rows if row["month"] == 1]
    wanted = sum(10 <= day <= 12 for day in days)
    assert f"{wanted} of them of these days" in draw_replay(10, 12, ask_by, late, 6, 0).text


def test_a_folder_that_is_none_and_one_that_is_never_cold_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no folder that we may write to: name another one, or none"):
        draw_transfer(SENDFILE, 1, WARM, str(tmp_path / "missing"))
    if sys.platform == "linux" and why_no_cold_reads(Path("/dev/shm")) is not None:
        with pytest.raises(ValueError, match="nothing is cold here: "):
            draw_transfer(SENDFILE, 1, COLD, "/dev/shm")


# --- advice that is put to the test -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("descriptors", "opened_at_the_end"), [(6, range(1)), (3, range(READS - 6, READS + 1))])
def test_fewer_descriptors_than_segments_serve_all_reads_and_the_newest_need_one_for_each_partition(
    descriptors: int, opened_at_the_end: range
) -> None:
    """The lever of notebook 07: 6 partitions of 24 KB in segments of 8 KB."""
    found = served(6, 24, 8, descriptors)
    assert (found.segments, found.failed, found.verdict) == (18, 0, "DOES NOT HOLD")
    assert found.most_open == descriptors
    assert found.opened[AT_THE_END] in opened_at_the_end
    assert READS / 3 < found.opened[OLD] <= READS


def test_the_lever_of_descriptors_says_what_it_counted() -> None:
    assert re.match(
        r"4 descriptors serve 8 segments: 'at least one for each' DOES NOT HOLD here\n0 reads fail. Of 100 reads",
        draw_descriptors(4, 16, 8, 4).text,
    )
    assert "4 descriptors, and no more segments than that (2): nothing is saved" in draw_descriptors(1, 16, 8, 4).text


def test_handlers_that_wait_for_disks_are_faster_up_to_one_for_each_disk() -> None:
    """The lever of notebook 07, measured again if another process was in the way."""
    for _ in range(5):
        one, four, eight = (ms_for_a_request(handlers, 4, 2, 0) for handlers in (1, 4, 8))
        if one > 2 * four and four < 2 * eight:
            break
    assert one > 2 * four and four < 2 * eight


@pytest.mark.parametrize(
    ("handlers", "disks", "rows"),
    [(2, 4, {AS_MANY, FEWER}), (4, 2, {AS_MANY, MORE}), (2, 2, {AS_MANY}), (2, 1, {MORE})],
)
def test_the_lever_of_handlers_compares_what_differs(handlers: int, disks: int, rows: set[str]) -> None:
    text = draw_handlers(handlers, disks, 1, 0).text
    assert {row for row in (AS_MANY, FEWER, MORE) if f": {row};" in text} == rows


@pytest.mark.parametrize(
    ("moved", "words"), [((4, 4, 0, 0), "takes 0 ms: let it wait"), ((1, 1, 2, 0), "nothing to compare")]
)
def test_handlers_with_nothing_to_show_are_refused_in_a_sentence(moved: tuple[int, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        draw_handlers(*moved)


@pytest.mark.parametrize(("record_bytes", "verdict"), [(10, "HOLDS"), (100, "HOLDS"), (2000, "DOES NOT HOLD")])
def test_objects_take_twice_the_memory_of_small_records_only(record_bytes: int, verdict: str) -> None:
    """The lever of notebook 04. One record is sooner an object, whatever its size."""
    found = outcomes_of(200, record_bytes)
    assert found[MEMORY].verdict == verdict
    assert found[LOOK].factor > 3


def test_the_lever_of_caches_says_how_many_reasons_hold() -> None:
    text = draw_caches(200, 2000).text
    assert re.match(r"Records of 2,000 bytes: as objects 1\.\d times as large; [0-3] of 4 reasons for the page", text)
    assert "\nDOES NOT HOLD: Objects take twice the memory; objects / page cache: " in text


def test_the_smaller_buffer_and_the_link_bound_what_a_connection_carries() -> None:
    """The lever of notebook 05: 100 KB in 50 ms are 2 MB/s, and a link of 8 Mbit/s carries 1 MB/s."""
    for buffers in (Buffers(100_000, 4_000_000), Buffers(4_000_000, 100_000)):
        assert buffers.seconds(2_000_000, 50, 1000) == 1
        assert buffers.seconds(2_000_000, 50, 8) == 2


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ((1000, 100, 10), "HOLDS: Raise linger.ms for throughput; 0 ms / 20 ms: 51 / 5 requests"),
        ((10_000, 1000, 100), "HOLDS: Raise send.buffer.bytes, with large batches; under way / 128 KB: 858 / 131 KB"),
    ],
)
def test_the_load_decides_which_sentences_of_notebook_09_hold(load: tuple[int, int, int], words: str) -> None:
    text = draw_guides(*load).text
    assert words in text and text.startswith(f"At {load[0]:,} records a second ")


def test_with_batches_of_16_kb_less_than_128_kb_of_a_partition_are_under_way() -> None:
    sent = Load(10_000, 1000, 100).sent().batches
    assert 4 * 16_000 < most_under_way(sent) <= 5 * 16_384 < 131_072


def test_a_larger_send_buffer_alone_changes_what_the_sender_holds_and_not_the_time_on_a_link() -> None:
    small, large = (draw_buffers(kb, 64, 50, 1000).text for kb in (200, 2000))
    held = [
        int(found.replace(",", ""))
        for text in (small, large)
        for found in re.findall(r"sender's buffer holds ([\d,]+)", text)
    ]
    assert held[0] < held[1]
    for text in (small, large):
        assert "DOES NOT HOLD: Your buffers, over the link; 100/64 KB / " in text


# --- the lever itself -------------------------------------------------------------------------------------------------


def draw(name: str, count: int, codec: str) -> Figure:
    if not name:
        raise ValueError("type a <name>")
    return bars({f"{name} {codec}": count}, title=f"{count} of {name}")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The live form: its controls by name, the picture, and what is wrong."""
    monkeypatch.setattr(levers, "is_headless", lambda: False)
    monkeypatch.setattr(levers, "is_notebook", lambda: True)
    box: Any = lever(draw, name="one", count=(0, 9, 3), codec=["gzip", "lz4"])
    row, picture, wrong = box.children
    return {handle.description: handle for handle in row.children}, picture, wrong


def test_on_a_static_page_there_is_the_first_picture() -> None:
    figure = lever(draw, name="one", count=(0, 9, 3), codec=["gzip", "lz4"])
    assert str(figure) == str(draw("one", 3, "gzip"))


def test_a_slow_lever_draws_when_its_slider_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levers, "is_headless", lambda: False)
    monkeypatch.setattr(levers, "is_notebook", lambda: True)
    for at_once in (True, False):
        box: Any = lever(draw, at_once=at_once, name="one", count=(0, 9, 3), codec=["gzip"])
        assert box.children[0].children[1].continuous_update is at_once


def test_each_control_draws_the_picture_again(page: Any) -> None:
    handles, picture, _ = page
    for control, value in (("name", "two"), ("count", 7), ("codec", "lz4")):
        handles[control].value = value
    assert picture.value == draw("two", 7, "lz4").svg


def test_what_cannot_be_drawn_is_said_and_leaves_the_picture(page: Any) -> None:
    handles, picture, wrong = page
    before = picture.value
    handles["name"].value = ""
    assert (picture.value, wrong.value) == (before, "type a &lt;name&gt;")
    handles["name"].value = "three"
    assert picture.value == draw("three", 3, "gzip").svg and wrong.value == ""


@pytest.mark.parametrize(
    ("control", "words"), [((0, 9, 10), "between the others"), ([], "a list of texts"), (5, "5: a")]
)
def test_a_control_that_cannot_be_is_refused_in_one_sentence(control: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        lever(draw, name="one", codec=["gzip"], count=control)


# --- the first screen can fail ----------------------------------------------------------------------------------------

ABOUT = """## About this notebook

Next: [01, x](y)

**About a minute to run, ten to read.**

**Linux:** no cell needs it.

Afterwards you will be able to

- see"""
PICTURE = shown(**{"image_svg+xml": "<svg/>", "text_plain": "a picture"})
HEAD, LEVER, END = words("# A question?\n\nOne sentence."), code("lever(draw)", outputs=[PICTURE]), words(ABOUT)


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ([HEAD, LEVER, END], ""),
        ([words("# A question?"), LEVER, END], "not a title and one paragraph"),
        ([words("# A question?\n\n" + "word " * 41), LEVER, END], "not a title and one paragraph"),
        ([HEAD, code("draw()", outputs=[PICTURE]), END], "has a lever"),
        ([HEAD, code("nb"), LEVER, END], ""),
        ([HEAD, code("lever(draw)"), END], "no picture"),
        ([HEAD, LEVER, words("## Summary")], "is not the last heading"),
        ([HEAD, LEVER, words(ABOUT + "\n\n## Summary")], "is not the last heading"),
        ([HEAD, LEVER, words("**Linux:** no cell needs it."), END], "Linux"),
    ],
    ids=str,
)
def test_a_first_screen_that_is_not_as_it_should_be_is_named(cells: list[Any], problem: str) -> None:
    found = list(first_screen_problems(nbformat.v4.new_notebook(cells=cells)))  # type: ignore[no-untyped-call]
    assert bool(found) == bool(problem) and problem in "; ".join(found)
