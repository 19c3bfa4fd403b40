"""The helper of the notebooks: what it asks, what it judges, and what its last cell finds."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from pykraft import Cluster, KafkaError, NewTopic
from pykraft.course import Lesson, LessonError, lesson, notebook
from pykraft.course.authoring.execute import execute
from pykraft.course.kernel import Obstacle
from pykraft.course.progress import read_progress
from pykraft.surroundings import HEADLESS, HOME, PROFILE, current_cell


class Thing:
    """Something to be closed."""

    def __init__(self, log: list[str], name: str, error: Exception | None = None) -> None:
        self._log = log
        self._name = name
        self._error = error

    def close(self) -> None:
        self._log.append(self._name)
        if self._error is not None:
            raise self._error


class SmallCluster:
    """What `finish` looks at in a cluster."""

    def __init__(self, alive: list[int]) -> None:
        self.node_ids = [1, 2, 3]
        self.alive = alive

    def close(self) -> None:
        """There is nothing to stop."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson, "_PATIENCE_S", 0.3)


@pytest.fixture(autouse=True)
def a_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run with a reader, whose home is empty."""
    monkeypatch.delenv(HEADLESS, raising=False)
    monkeypatch.setenv(HOME, str(tmp_path / "home"))


@pytest.fixture
def nb() -> Iterator[Lesson]:
    """A lesson that has claimed something already."""
    hook = threading.excepthook
    found = Lesson("00")
    found.claim("Water is wet.", True)
    yield found
    threading.excepthook = hook


def test_a_verdict_is_a_line_that_never_changes_and_numbers_stand_elsewhere_unless_the_claim_does_not_hold(
    nb: Lesson, capsys: pytest.CaptureFixture[str]
) -> None:
    nb.claim("One is less than two.", lambda: 1 < 2, "1 and 2")
    nb.claim("Two is less than one.", False, "2 and 1")
    nb.claim("Water is dry.", False)
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "HOLDS  One is less than two.",
        "DOES NOT HOLD  Two is less than one. (2 and 1)",
        "DOES NOT HOLD  Water is dry.",
    ]


def test_a_claim_is_one_output_of_its_cell_and_not_two(nb: Lesson) -> None:
    returned: object = nb.claim("One is less than two.", True)  # type: ignore[func-returns-value]
    assert returned is None


def test_a_statistical_claim_is_the_best_of_three_and_must_reach_its_margin(
    nb: Lesson, capsys: pytest.CaptureFixture[str]
) -> None:
    ratios = iter([1.2, 1.6])
    nb.claim("Lz4 is faster than gzip.", lambda: next(ratios), "MB/s", kind="statistical")
    nb.claim("A is faster than b.", lambda: 1.49, kind="statistical")
    nb.claim("A is not slower than b.", lambda: 0.9, kind="statistical", margin=0.8)
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "HOLDS  Lz4 is faster than gzip.",
        "DOES NOT HOLD  A is faster than b. (1.49 times; 1.5 times are asked for, in 3 attempts; this was",
        "               number 3)",
        "HOLDS  A is not slower than b.",
    ]
    with pytest.raises(LessonError, match=r"this does not hold: A is faster than b\.$"):
        nb.finish()


OBSTACLE = Obstacle("nothing was read from a device", {"read_bytes": 0})


def test_a_claim_about_hardware_may_fail_or_be_not_measurable_with_the_kernels_reason(
    nb: Lesson, capsys: pytest.CaptureFixture[str]
) -> None:
    nb.claim("Sendfile is faster.", False, "1.4 and 1.6 GB/s", kind="hardware", fails_on="a Mac: it copies")
    nb.claim("A cold read is slower.", lambda: 1 // 0 > 0, unless=OBSTACLE)
    nb.finish()
    out = capsys.readouterr().out
    assert "DOES NOT HOLD  Sendfile is faster.\n" in out, "such a verdict may be compared"
    assert "NOT MEASURABLE HERE  A cold read is slower. (nothing was read from a device (read_bytes 0))" in out
    assert [claim.verdict for claim in nb.claims] == ["HOLDS", "DOES NOT HOLD", "NOT MEASURABLE HERE"]


def test_nobody_can_excuse_a_claim_without_the_kernels_counters(nb: Lesson) -> None:
    with pytest.raises(TypeError, match="unless= takes an Obstacle"):
        nb.claim("A disk is slow.", True, unless="no disk")  # type: ignore[arg-type]
    for kind, fails_on in (("hardware", ""), ("invariant", "a Mac: it copies"), ("statistical", "a Mac: it copies")):
        with pytest.raises(ValueError, match="a claim about hardware, and no other, says where and why it fails"):
            nb.claim("x", lambda: True, kind=kind, fails_on=fails_on)
    with pytest.raises(ValueError, match="an obstacle needs a reason, and the kernel's counters"):
        Obstacle("it is a container", {})
    with pytest.raises(ValueError, match="a claim is invariant, statistical or about hardware"):
        nb.claim("x", True, kind="opinion")
    with pytest.raises(TypeError, match="needs a function that measures a ratio"):
        nb.claim("x", True, kind="statistical")


@pytest.mark.parametrize("kind", ["invariant", "hardware"])
@pytest.mark.parametrize("condition", ["no", [False], 0, None, (x for x in [False]), lambda: [False], lambda: None])
def test_a_claim_that_is_neither_true_nor_false_is_refused(nb: Lesson, condition: Any, kind: str) -> None:
    """Most of these would always hold: who forgets `all` in front of a generator claims nothing."""
    with pytest.raises(
        TypeError, match=r"^a claim takes True or False, and not a (?:str|list|int|NoneType|generator): "
    ):
        nb.claim("All is well.", condition, kind=kind, fails_on="a Mac: it copies" if kind == "hardware" else "")
    assert len(nb.claims) == 1


def test_a_claim_may_be_a_truth_of_numpy(nb: Lesson) -> None:
    nb.claim("One is less than two.", np.float64(1) < np.float64(2))  # type: ignore[arg-type]
    assert nb.claims[-1].verdict == "HOLDS"


def test_a_source_is_the_code_that_runs(nb: Lesson, capsys: pytest.CaptureFixture[str]) -> None:
    from pykraft.client.producing import partitioner
    from pykraft.storage.log_segment import LogSegment

    nb.source(partitioner.partition_of_key)
    nb.source(LogSegment.find, docstring=False)
    nb.source(LogSegment.size)
    shown = capsys.readouterr().out
    assert "# pykraft/client/producing/partitioner.py: partition_of_key\ndef partition_of_key(key: bytes" in shown
    assert "return (murmur2(key) & 0x7FFFFFFF) % partitions\n" in shown
    assert "# pykraft/storage/log_segment.py: LogSegment.find\ndef find(self, offset: int)" in shown
    assert "The batch that holds `offset`" not in shown
    assert "# pykraft/storage/log_segment.py: LogSegment.size\n@property" in shown
    with pytest.raises(ValueError, match=r"LogSegment has \d+ lines: show one of its functions"):
        nb.source(LogSegment)
    with pytest.raises(TypeError, match="a int has no code to show"):
        nb.source(3)


def test_what_was_predicted_and_that_it_was_finished_is_noted_for_the_reader(nb: Lesson) -> None:
    for name, choice in (("one", "a"), ("two", "b"), ("three", "skip")):
        nb.predict(name, choice, a="yes", b="no")
        nb.answer(name, "a")
    nb.finish()
    noted = read_progress()["notebooks"]["00"]
    assert noted["predictions"] == {"one": "right", "two": "wrong"}
    assert noted["finished"].startswith("2")


def test_where_nobody_reads_everything_is_skipped_and_nothing_noted(
    nb: Lesson, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(HEADLESS, "1")
    nb.predict("one", "b", a="yes", b="no")
    nb.answer("one", "a")
    nb.finish()
    assert "You skip this one." in capsys.readouterr().out
    assert read_progress() == {"labs": {}, "notebooks": {}}


def test_chance_is_the_same_in_every_run_and_other_for_every_name(nb: Lesson) -> None:
    assert nb.random("keys").random() == Lesson("00").random("keys").random()
    assert nb.random("keys").random() != nb.random("values").random()
    assert nb.random("keys").random() != Lesson("01").random("keys").random()


def test_the_profile_says_how_large_a_lesson_may_be(nb: Lesson, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROFILE, raising=False)
    assert (nb.profile, nb.pick(small=1, full=2)) == ("full", 2)
    monkeypatch.setenv(HEADLESS, "1")
    assert (nb.profile, nb.pick(small=1, full=2)) == ("small", 1)
    monkeypatch.setenv(PROFILE, "full")
    assert nb.pick(small=1, full=2) == 2
    monkeypatch.setenv(PROFILE, "huge")
    with pytest.raises(ValueError, match="PYKRAFT_PROFILE=huge: it must be small or full"):
        nb.pick(small=1, full=2)


def test_a_claim_that_does_not_hold_fails_the_last_cell(nb: Lesson) -> None:
    nb.claim("The earth is flat.", False)
    with pytest.raises(LessonError, match=r"this does not hold: The earth is flat\."):
        nb.finish()


def test_a_lesson_without_a_claim_fails() -> None:
    with pytest.raises(LessonError, match="nothing was claimed"):
        Lesson("00").finish()


def test_the_last_cell_closes_the_youngest_first_and_tells_what_it_counted(
    nb: Lesson, capsys: pytest.CaptureFixture[str]
) -> None:
    log: list[str] = []
    for name in ("cluster", "client"):
        nb.watch(Thing(log, name))
    nb.finish()
    assert log == ["client", "cluster"]
    assert "1 claim checked, everything is closed, nothing was left behind." in capsys.readouterr().out


def test_who_runs_the_first_cell_again_does_not_leave_the_first_cluster_running() -> None:
    hook, log = threading.excepthook, []  # type: ignore[var-annotated]
    first = notebook("00")
    first.watch(Thing(log, "cluster"))
    first.watch(Thing(log, "client", OSError("it is stuck")))
    second = notebook("00")
    assert log == ["client", "cluster"]
    second.claim("Water is wet.", True)
    second.finish()
    assert threading.excepthook is hook


def run_cell(monkeypatch: pytest.MonkeyPatch, text: str, number: int) -> None:
    """From here on it is as if this cell ran, after so many others."""
    monkeypatch.setattr(lesson, "current_cell", lambda: (text, number))


def test_a_cell_that_runs_again_takes_back_what_it_has_claimed_and_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    run_cell(monkeypatch, "first cell", 1)
    nb = Lesson("00")
    nb.watch(Thing(log, "cluster"))
    run_cell(monkeypatch, "second cell", 2)
    nb.watch(Thing(log, "client"))
    nb.claim("Two and two are four.", False)
    nb.claim("Water is wet.", True)
    run_cell(monkeypatch, "second cell", 3)
    nb.claim("Two and two are four.", True)
    nb.claim("Water is wet.", True)
    assert [claim.verdict for claim in nb.claims] == ["HOLDS", "HOLDS"]
    assert log == ["client"], "and the cluster, of a cell that did not run again, is still there"
    nb.finish()
    assert log == ["client", "cluster"]


def test_a_thing_that_is_watched_again_stays_open_and_is_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one Spark session in a kernel: who asks for one again gets the same."""
    log: list[str] = []
    nb, session = Lesson("00"), Thing(log, "session")
    for number in (1, 2):
        run_cell(monkeypatch, "a cell", number)
        assert nb.watch(session) is session
    assert log == []
    nb.claim("Water is wet.", True)
    nb.finish()
    assert log == ["session"]


def test_two_cells_that_claim_the_same_have_both_said_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nb = Lesson("00")
    for number, (text, holds) in enumerate((("one cell", False), ("another cell", True)), 1):
        run_cell(monkeypatch, text, number)
        nb.claim("Water is wet.", holds)
    with pytest.raises(LessonError, match=r"this does not hold: Water is wet\."):
        nb.finish()


def test_what_a_cell_that_runs_again_cannot_close_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nb = Lesson("00")
    run_cell(monkeypatch, "a cell", 1)
    nb.watch(Thing([], "client", OSError("it is stuck")))
    run_cell(monkeypatch, "a cell", 2)
    nb.claim("Water is wet.", True)
    nb.finish()
    assert "From the last time this cell ran: OSError: it is stuck" in capsys.readouterr().out


def test_the_cell_that_runs_is_known_by_its_text_and_its_number() -> None:
    notebook = nbformat.v4.new_notebook(  # type: ignore[no-untyped-call]
        cells=[
            nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]
            for source in ("from pykraft.surroundings import current_cell", "current_cell()", "current_cell()")
        ]
    )
    execute(notebook, Path())
    told = [cell.outputs[0]["data"]["text/plain"] for cell in notebook.cells[1:]]
    assert told[0] != told[1] and all(each.startswith("('current_cell()', ") for each in told)
    assert current_cell() == ("", 0), "where there are no cells"


def test_what_cannot_be_closed_is_told_and_the_others_are_closed_all_the_same(nb: Lesson) -> None:
    log: list[str] = []
    nb.watch(Thing(log, "first"))
    nb.watch(Thing(log, "second", OSError("it is stuck")))
    with pytest.raises(LessonError, match="OSError: it is stuck"):
        nb.finish()
    assert log == ["second", "first"]
    with pytest.raises(TypeError, match="cannot be watched"):
        nb.watch(3)


def test_a_fresh_topic_is_empty_whether_or_not_there_was_one_of_its_name() -> None:
    with Cluster(nodes=1) as cluster, cluster.admin() as admin:
        ids = []
        for partitions in (1, 2):
            Lesson.fresh_topic(cluster, NewTopic("t", partitions, 1))
            described = admin.describe_topics(["t"])["t"]
            ids.append(described.topic_id)
            assert len(described.partitions) == partitions
        assert len(set(ids)) == 2
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            Lesson.fresh_topic(cluster, NewTopic("no such name!", 1, 1))


def test_a_node_that_does_not_run_fails_the_last_cell_unless_it_was_meant_to(nb: Lesson) -> None:
    nb.watch(SmallCluster([1, 3]))
    with pytest.raises(
        LessonError, match=r"node 2 does not run any more \(if you have killed it: nb\.finish\(killed=\[2\]\)"
    ):
        nb.finish()
    nb.watch(SmallCluster([1, 3]))
    nb.finish(killed=[2])


def test_a_thread_that_died_of_an_exception_fails_the_last_cell(nb: Lesson) -> None:
    heard: list[object] = []
    nb._hook = heard.append  # pytest's own would fail this test
    thread = threading.Thread(target=lambda: 1 // 0, name="worker")
    thread.start()
    thread.join()
    with pytest.raises(LessonError, match="thread worker died: ZeroDivisionError"):
        nb.finish()
    assert len(heard) == 1


def test_a_thread_that_still_runs_fails_the_last_cell(nb: Lesson) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="forgotten")
    thread.start()
    try:
        with pytest.raises(LessonError, match=r"thread forgotten \(\d+\) still runs"):
            nb.finish()
    finally:
        over.set()
        thread.join()


def test_a_socket_that_is_still_open_fails_the_last_cell(nb: Lesson) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, pytest.raises(LessonError, match=f"a socket on port {server.getsockname()[1]} is still open"):
        nb.finish()


def test_a_file_that_is_still_open_fails_the_last_cell(nb: Lesson, tmp_path: Path) -> None:
    with (tmp_path / "00000000000000000000.log").open("w"), pytest.raises(LessonError, match="log is still open"):
        nb.finish()


def test_a_child_process_that_still_runs_fails_the_last_cell(nb: Lesson) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with pytest.raises(LessonError, match=f"child process {child.pid} still runs"):
            nb.finish()
    finally:
        child.communicate()


def test_a_client_of_librdkafka_that_still_runs_fails_the_last_cell(nb: Lesson) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    with pytest.raises(LessonError, match="a client of confluent_kafka still runs"):
        nb.finish()
    del producer


def test_a_client_that_only_an_error_holds_on_to_is_not_left_behind(nb: Lesson) -> None:
    from confluent_kafka import Producer

    def cell() -> None:
        producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
        try:
            raise ValueError(producer)
        except ValueError as error:
            error.__context__ = ValueError(error)  # as that of a future does, it holds on to itself

    gc.disable()
    try:
        cell()
        nb.finish()
    finally:
        gc.enable()


@pytest.mark.parametrize("choice", ["a", "A ", "skip"])
def test_a_prediction_is_compared_with_what_was_so(nb: Lesson, choice: str, capsys: pytest.CaptureFixture[str]) -> None:
    nb.predict("silence", choice, a="a second", b="a minute")
    nb.answer("silence", "b")
    told = {"skip": "You skipped it."}.get(choice, "You said a) a second.")
    assert capsys.readouterr().out.splitlines()[-1] == f"It is b) a minute. {told}"


def test_a_right_prediction_is_praised(nb: Lesson, capsys: pytest.CaptureFixture[str]) -> None:
    nb.predict("silence", "b", a="a second", b="a minute")
    nb.answer("silence", "b")
    assert capsys.readouterr().out.endswith("It is b) a minute. You said so.\n")


def test_mistakes_of_the_reader_are_one_clear_sentence(nb: Lesson) -> None:
    choices: list[Any] = ["c", "b)", "", 1, None]
    for choice in choices:
        with pytest.raises(ValueError, match="choose one of a, b, or skip"):
            nb.predict("how long", choice, a="a second", b="a minute")
    with pytest.raises(ValueError, match="give the options"):
        nb.predict("a question that no file has")
    with pytest.raises(ValueError, match="nothing was predicted under that name: run the cell that asks") as told:
        nb.answer("other", "a")
    assert told.value._render_traceback_() == [f"WrongPrediction: {told.value}"]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="there is no notebook '99': there are 00 to 26"):
        notebook("99")


def test_what_a_lesson_takes_is_measured_with_its_children(nb: Lesson) -> None:
    before = nb.measure()
    child = subprocess.Popen([sys.executable, "-c", "print(); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    after = nb.measure()
    child.communicate()
    assert before.kernel_megabytes > 10
    assert after.children_megabytes > before.children_megabytes
    assert after.megabytes == after.kernel_megabytes + after.children_megabytes
    assert after.seconds >= before.seconds


def test_the_machine_has_the_cores_that_a_container_grants(nb: Lesson, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nb.machine.cores >= 1
    monkeypatch.setenv("CPU_LIMIT", "0.5")
    assert "0.5 cores" in repr(nb.machine)
    assert nb.machine.memory_gigabytes > 0.1
