"""A finished lab drives a live cluster, and a wrong one is seen there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from pykraft.course import Lab, LabError
from pykraft.course.labs.check_terms import LIMIT
from pykraft.course.labs.plug import Outcome, Plug, at_least, at_most, counted_calls, owner_and_name, plugged
from pykraft.course.lessons.one_request.stages import Broker
from pykraft.surroundings import HEADLESS, PROFILE
from tests.labs.graders import PROGRAMS, mutant_file

WRONG = {
    "01": "old_batches_count",
    "02": "from_the_beginning",
    "03": "null_is_empty",
    "05": "from_the_start_again",
    "06": "trusts_the_version",
    "07": "never_muted",
    "08": "unsigned_modulo",
    "09": "back_at_the_end",
    "10": "unread_is_lost",
    "11": "fastest_decides",
    "13": "votes_twice",
    "14": "snapshot_without_settings",
    "15": "half_is_enough",
    "12": "offsets_alone",
    "17": "two_are_even",
    "18": "repetition_appended",
    "19": "aborts_for_ever",
    "20": "tombstones_at_once",
    "21": "forgotten_deny",
    "22": "one_count_for_all",
    "24": "planned_anew",
    "25": "all_replicas_count",
}
"""For each lab a mutant whose effect shows in the cluster."""
SLOW = ("02", "03", "07", "08", "09", "10", "11", "12", "13", "14", "15", "17", "18", "20", "22", "24", "25")
"""Their wrong solutions drive the cluster in a long run: each takes several seconds. The checks catch them in any run
(test_graders)."""
LIKE_OTHERS = ("02", "03", "11", "12", "13", "14", "15", "17", "18", "20", "24", "25")
"""Their right solutions too: a shorter one drives a cluster in the same way. The checks accept them in any run. That of
lab 25 watches eleven histories; a test of its own watches four of them."""
TOLD = {
    "01": "4 of 5 logs end where the good part ends. an old batch more: ",
    "02": r"A lookup read [\d.]+ entries of the index and \d\d+\.\d headers of the log",
    "03": r"Your code read 2,\d\d\d of 3,000 that librdkafka had packed",
    "05": r"refused what came (once|[1-9]\d* times)\.\nOver TLS the log's file did not arrive",
    "06": r"in 5 of 6 versions\.\nVersion 99: ",
    "07": r"The response to the waiting request came late: \[9, 8\]",
    "11": r"acknowledged; [1-9]\d* of them before every in-sync replica had it",
    "08": "Apart are [A-Z]{3}-[A-Z]{3}",
    "10": r"judged [67] of 12 histories rightly\.\ncrash, acks=0, half read: ",
    "09": r"0 numbers are missing, 0 are there more than once, [1-9]\d* are late",
    "13": r"[1-9] runs broke a law.*\n.*\nSeed \d+: .*Violation: node \d has voted for \d and for \d in epoch \d",
    "14": r"Broker 3 started from your snapshot up to offset \d+: 2 rows differ, first configs \('broker', ''\)",
    "15": r"One removal too many: removed\.",
    "12": "A LAW IS BROKEN",
    "17": r"after ben joined the members had \[3, 5\]",
    "19": r"[1-9]\d* of \d+ committed records before it are not shown, 0 others are shown",
    "18": r"0 numbers are missing, [1-9]\d* are there more than once",
    "20": r"\n0 of 100 tombstones are there",
    "21": r"May bob fetch from flights\? Your rules say yes, pykraft's denied",
    "22": r"The modest tenant was throttled [1-9]\d* times",
    "25": r"Seed \d+ is sound, and you say: node \d commits up to",
    "24": r"0 records were left out, [1-9][\d,]* were read more than once",
}


@pytest.fixture(autouse=True)
def nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HEADLESS, "1")


def test_each_lab_is_looked_at() -> None:
    assert {folder.name[3:5] for folder in PROGRAMS} == set(WRONG)


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=pytest.mark.long) if number in LIKE_OTHERS else number for number in WRONG]
)
def test_the_solution_drives_the_cluster_and_does_what_it_should(number: str) -> None:
    lab = Lab(number)
    outcome = lab.run_in_cluster(lab.solution)
    assert isinstance(outcome, Outcome)
    assert outcome.agrees, outcome
    assert all(plug.calls > 0 and not plug.errors for plug in outcome.plugs), outcome
    assert list(outcome.calls) == [task.name for task in lab.tasks]
    assert all(calls > 0 for calls in outcome.calls.values()), outcome
    assert outcome.lines[0] in repr(outcome) and outcome.figure.text in repr(outcome), "a terminal shows both"
    assert repr(outcome).endswith("\n\nYour code agreed.")


def test_the_laws_of_the_solution_kill_bugs_of_three_kinds_and_spare_a_sound_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of lab 25, with the bugs that die early: a wrong high watermark, logs that differ, a wrong leader."""
    lab = Lab("25")
    live = lab.load(lab.folder / "live.py")
    early = (
        "a_high_watermark_one_replica_short",
        "an_answer_matched_by_name_and_leader_epoch",
        "a_preferred_leader_elected_outside_the_isr",
    )
    monkeypatch.setattr(live, "BUGS", {bug: live.BUGS[bug] for bug in early})
    monkeypatch.setattr(live, "SOUND", live.SOUND[:1])
    outcome = live.run(lab.load(lab.solution))
    assert outcome.agrees, outcome
    assert all(outcome.facts["killed"].values()) and not outcome.facts["false"], outcome


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=pytest.mark.long) if number in SLOW else number for number in WRONG]
)
def test_a_mistake_is_seen_in_the_cluster(number: str) -> None:
    lab = Lab(number)
    outcome = lab.run_in_cluster(mutant_file(lab.folder, WRONG[number]))
    assert not outcome.agrees, outcome
    assert re.search(TOLD[number], outcome.text), outcome
    assert outcome.verdict.startswith("Your code did not agree. "), outcome


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "right", "wrong", "words"),
    [
        ("01", "elif segment.base_offset == end:", "elif True:", r"4 of 5 logs .* a batch less in the middle: "),
        (
            "06",
            "write_string(client_id, compact=False)",
            "write_string(client_id, compact=True)",
            r"in [0-3] of 6 versions(?s:.*)the broker closed the connection",
        ),
        ("07", "return self.is_pending or self.is_throttled", "return False", r"The response .* late: \[9, 8\]"),
        (
            "18",
            "                return offset\n",
            '                return "refuse"\n',
            "given up 12 numbers, .* OUT_OF_ORDER_.*; 12 of them are",
        ),
        ("20", "kept.append(clean)", "kept.append(clean._replace(records=clean.records[:1]))", r"wrong about \d\d+"),
    ],
)
def test_a_mistake_that_no_mutant_makes_is_seen(
    number: str, right: str, wrong: str, words: str, tmp_path: Path
) -> None:
    lab = Lab(number)
    file = tmp_path / "work.py"
    solution = lab.solution.read_text(encoding="utf-8")
    assert solution.count(right) == 1
    file.write_text(solution.replace(right, wrong), encoding="utf-8")
    outcome = lab.run_in_cluster(file)
    assert not outcome.agrees, outcome
    assert re.search(words, outcome.text), outcome


def test_a_live_run_ends_with_a_verdict_that_names_each_number_that_is_not_right() -> None:
    compared = {"lost": (1_200, 0), "late": (0, 0), "idle": (0.2, at_most(0.03)), "in a batch": (5.0, at_least(5))}
    outcome = Outcome(compared, ("a line",), ())
    assert not outcome.agrees
    assert repr(outcome).splitlines()[-1] == (
        "Your code did not agree. lost: 1,200, and should be 0; idle: 0.2, and should be at most 0.03."
    )
    assert Outcome({"lost": (0, 0)}, (), ()).verdict == "Your code agreed."
    raised = Plug("the hash", len, len, errors=1)
    assert Outcome({"lost": (0, 0)}, (), (raised,)).verdict == "Your code did not agree. the hash: your code raised."


BREAKS = [
    pytest.param(*case, id=f"{case[0]}-{number}", marks=pytest.mark.long)
    for number, case in enumerate(
        [
            (
                "11",
                "max(known, min(ends[broker] for broker in {*isr, *joining}))",
                "max(ends.values())",
                r"[1-9]\d* of them before",
            ),
            ("12", "found[0] < last_epoch or ", "", "A LAW IS BROKEN: Violation: State Machine Safety"),
            ("12", " or found[1] < fetch_offset", "", "A LAW IS BROKEN: Violation: Log Matching"),
            (
                "13",
                "return timeout_ms + random.randrange(timeout_ms)",
                "return timeout_ms",
                "needed at most 11 elections(?s:.*)longest failover: 11, and should be at most 6",
            ),
            ("17", "found[owner].append((topic, number))", "pass", r"cooperative-sticky: 1\d partitions moved"),
            ("18", "return offset\n", 'return "append"\n', r"[1-9]\d* are there more than once"),
            (
                "19",
                "self.aborting.discard(producer_id)",
                "pass",
                r"[1-9]\d* of \d+ committed records before it are not",
            ),
            (
                "20",
                "is_spent = record.value is None and not tombstones_stay",
                "is_spent = record.value is None",
                "\n0 of 100",
            ),
            (
                "24",
                " if is_same else first",
                " if is_same or partition in start.offsets else first",
                "[1-9][\\d,]* records were left",
            ),
        ]
    )
]


@pytest.mark.parametrize(("number", "right", "wrong", "words"), BREAKS)
def test_what_a_lab_asks_to_break_on_purpose_shows_what_it_promises(
    number: str, right: str, wrong: str, words: str, tmp_path: Path
) -> None:
    lab, file = Lab(number), tmp_path / "work.py"
    solution = lab.solution.read_text(encoding="utf-8")
    assert solution.count(right) == 1
    file.write_text(solution.replace(right, wrong), encoding="utf-8")
    outcome = lab.run_in_cluster(file)
    assert not outcome.agrees, outcome
    assert re.search(words, repr(outcome)), outcome


def test_each_lab_breaks_its_code_on_purpose_with_a_mistake_that_is_seen() -> None:
    """What a notebook asks for is a mistake of the tests above: these words name it."""
    broken = {
        "01": "take the test of the offset out of task 1.2",
        "02": "begin the scan of task 2.3 at byte 0",
        "03": "read a null as an empty value",
        "05": "remove the line that moves the position",
        "06": "write the client id as a compact string",
        "07": "let `is_muted` return False",
        "08": "leave out the mask of the sign bit",
        "09": "append the batch and do not sort",
        "10": "leave out the question how far the reader has come",
    }
    for number, words in broken.items():
        cells = json.loads((Lab(number).folder / "lab.ipynb").read_text(encoding="utf-8"))["cells"]
        assert any(words in " ".join("".join(cell["source"]).split()) for cell in cells), number


FULL = sorted(WRONG)
BINDER_BYTES = 2 << 30


def test_the_solution_of_lab_19_agrees_in_the_full_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROFILE, "full")
    lab = Lab("19")
    outcome = lab.run_in_cluster(lab.solution)
    assert outcome.agrees, outcome


@pytest.mark.limit(600)
@pytest.mark.long
@pytest.mark.parametrize("number", FULL)
def test_the_solution_drives_the_cluster_in_the_full_profile_three_times_once_beside_a_busy_core(
    number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILE, "full")
    lab = Lab(number)
    for is_busy in (False, False, True):
        with busy_core() if is_busy else nullcontext():
            outcome = lab.run_in_cluster(lab.solution)
        assert outcome.agrees, outcome


@pytest.mark.limit(300)
@pytest.mark.long
@pytest.mark.parametrize("number", ["02", "09", "13"])
def test_a_lab_needs_no_more_memory_than_binder_gives(number: str) -> None:
    program = (
        f"import resource\nresource.setrlimit(resource.RLIMIT_AS, ({BINDER_BYTES}, {BINDER_BYTES}))\n"
        f"from pykraft.course import Lab\nlab = Lab({number!r})\nprint(lab.run_in_cluster(lab.solution).verdict)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=240)
    assert done.stdout.endswith("Your code agreed.\n"), done.stderr[-500:]


@contextmanager
def busy_core() -> Iterator[None]:
    """A process that computes without end."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_new_connections_are_known_though_others_close_meanwhile() -> None:
    """The connection of a client that is done may close at any time; for 20 s lab 07 waited for it to come back."""
    broker = Broker()
    try:
        old = broker.call(20)
        for wire in old:
            wire.receive()
            wire.close()
        began = time.monotonic()
        new = broker.call(2)
        assert time.monotonic() - began < 10
        assert all(wire.receive() for wire in new)
    finally:
        broker.close()


def test_before_anything_is_written_there_is_nothing_to_show() -> None:
    lab = Lab("08")
    lab.start()
    assert "Not yet: first write something for tasks 8.1, 8.2 and 8.3." in repr(lab.run_in_cluster())


@pytest.mark.parametrize(
    ("number", "right", "wrong", "words"),
    [
        (
            "08",
            "mask, m = ",
            "while True:\n        pass\n    mask, m = ",
            r"Not yet: .*Task 8\.1: it did not end within",
        ),
        ("08", '"""Lab 08', 'while True:\n    pass\n"""Lab 08', r"Not yet: .*Task 8\.1: it did not end within"),
        ("08", "class StickyPartitioner", "class Sticky", r"does not define StickyPartitioner: see starter\.py"),
        (
            "08",
            "return (murmur2(key) & 0x7FFFFFFF) % partitions",
            "return 99",
            "first ValueError: there is no partition 99",
        ),
        ("05", "        return before - self.remaining", "        pass", r"see lab\.check\(\): TypeError: "),
    ],
)
def test_code_on_which_no_cluster_can_run_is_one_sentence(
    number: str, right: str, wrong: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIMIT, "0.5")
    lab, file = Lab(number), tmp_path / "work.py"
    solution = lab.solution.read_text(encoding="utf-8")
    assert solution.count(right) == 1
    file.write_text(solution.replace(right, wrong), encoding="utf-8")
    try:
        told = repr(lab.run_in_cluster(file))
    except LabError as error:
        told = str(error)
    assert re.search(words, told), told


def test_what_is_plugged_in_is_taken_out_again_and_what_it_raises_stops_nobody() -> None:
    place = "pykraft.client.producing.producer.partition_of_key"
    owner, name = owner_and_name(place)
    before = getattr(owner, name)
    with plugged({place: lambda key, partitions: 1 // 0}) as plugs:
        assert getattr(owner, name)(b"JFK-LAX", 6) == before(b"JFK-LAX", 6)
    assert getattr(owner, name) is before
    plug = plugs[place]
    assert (plug.calls, plug.errors) == (1, 1)
    assert plug.first_error.startswith("ZeroDivisionError")
    with plugged({place: lambda *_: sys.exit("enough")}) as plugs:
        assert getattr(owner, name)(b"JFK-LAX", 6) == before(b"JFK-LAX", 6)
    assert plugs[place].first_error == "SystemExit: enough"
    with pytest.raises(AttributeError):
        owner_and_name("pykraft.client.producing.producer.no_such_function")
    method = "pykraft.storage.index.OffsetIndex.lookup"
    with plugged({method: lambda index, offset: (index, offset)}):
        index, name = owner_and_name(method)
        assert getattr(index, name)("self", 3) == ("self", 3)


def test_calls_are_counted_by_task_also_those_of_one_function_by_another() -> None:
    class Sticky:
        pass

    class Window:
        def look(self) -> int:
            return self._count()

        def _count(self) -> int:
            return 7

    work = SimpleNamespace(one=lambda: work.two() + work.two(), two=lambda: 1, Sticky=Sticky, Window=Window)
    before = dict(vars(work))
    with counted_calls(work, {"1.1": ["one"], "1.2": ["two", "Sticky"], "1.3": [], "1.4": ["Window"]}) as calls:
        assert work.one() == 2 and isinstance(work.Sticky(), Sticky)
        window = work.Window()
        assert [window.look(), window.look()] == [7, 7]
    assert calls == {"1.1": 1, "1.2": 3, "1.3": 0, "1.4": 2}
    work.one()
    assert vars(work) == before and calls["1.1"] == 1
