"""The incidents: each has a cure that ends it, and wrong cures that are seen to make it worse.

What each way costs is committed (``measured.json``), for the debrief shows it. The long test plays all ways again and
compares, so the numbers that a reader sees are those of the code.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykraft.client.consuming.fetcher import FetchedRecord
from pykraft.common.types import TopicPartition
from pykraft.common.version import VERSION
from pykraft.course.authoring import build
from pykraft.course.authoring.execute import read
from pykraft.course.incidents.catalogue import INCIDENTS, make
from pykraft.course.incidents.console import Console
from pykraft.course.incidents.debrief import measure, read_measured, ways
from pykraft.course.incidents.desks import CREDIT, DEBIT, Book, Lane
from pykraft.course.incidents.drawing import Card
from pykraft.course.incidents.incident import LOST, OPEN, SOLVED, Incident, Shift, read_link, replayed
from pykraft.course.incidents.mailers import Mails
from pykraft.course.incidents.terminal import Terminal
from pykraft.course.incidents.world import World
from pykraft.course.places import INCIDENTS as FOLDER
from pykraft.runtime.client_thread import hosted_by, time_of_day_ms
from pykraft.viz.drawing.svg import overlaps
from tests.notebooks.test_form import links

PATHS = sorted(FOLDER.glob("*.ipynb"))
NUMBERS = sorted(INCIDENTS)


_BY_HAND = (
    *("restart-broker", "start-consumer", "stop-consumer", "log", "metrics", "settings", "set-mailers", "start-mailer"),
    *("stop-mailer", "set-ledger", "format-controller"),
)


def test_the_cure_ends_the_first_incident_and_its_link_is_the_same_history() -> None:
    shift = Shift.begin(make(1), 7)
    assert shift.incident.state == OPEN and shift.incident.missing() is not None
    drawn = Console(shift).figure()
    assert overlaps(drawn.boxes) == []
    assert all(f"{each.label}: {each.value}" in drawn.text for each in shift.incident.counters())
    shift.play(shift.incident.CURE[:3])
    link, said, history = shift.link, list(shift.said), list(shift.incident.history)
    again = replayed(read_link(link), make(1))
    assert (again.said, again.incident.history, again.link) == (said, history, link)
    shift.play(shift.incident.CURE[3:])
    shift.run_on()
    assert shift.incident.state == SOLVED


@pytest.mark.long
@pytest.mark.parametrize("number", NUMBERS)
def test_the_debriefs_numbers_are_those_of_the_code(number: int) -> None:
    assert measure(make(number)) == read_measured(number)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_cure_solves_it_doing_nothing_does_not_and_two_wrong_cures_lose_records(number: int) -> None:
    found = read_measured(number)
    assert list(found) == [name for name, _, _ in ways(make(number))]
    cure, nothing, *wrong = found.values()
    assert cure["state"] == SOLVED and nothing["state"] == OPEN
    assert [each["state"] for each in wrong] == [LOST, LOST]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_wrong_cure_is_seen_to_make_it_worse_by_a_counter_that_stays_0_without_it(number: int) -> None:
    found = read_measured(number)
    harmless = [found["the cure"]["counters"], found["doing nothing"]["counters"]]
    for wrong in make(number).WRONG:
        worse = [label for label, value in found[wrong.name]["counters"].items() if value > 100]
        assert [label for label in worse if all(counters[label] == 0 for counters in harmless)], wrong.name


@pytest.mark.parametrize(
    "link", ["", "pykraft/0.0.0/incident/1/7/xx", "pykraft/{}/incident/1/7/xx", "pykraft/{}/bugs/1/7/x"]
)
def test_a_link_that_is_none_is_refused_with_the_reason(link: str) -> None:
    with pytest.raises(ValueError, match="link"):
        read_link(link.format(VERSION))


@pytest.fixture(scope="module")
def terminal() -> Terminal:
    world = World(1, brokers=1)
    world.run_to(4_000)
    return Terminal(world, {}, {"its.properties": lambda folder: "node.id=1"})


@pytest.mark.parametrize(
    "line, said",
    [
        ("bin/kafka-topics.sh --create --topic t --partitions 1 --replication-factor 1", "Created topic t."),
        ("kafka-topics --list --bootstrap-server broker.example:9092", "t"),
        ("kafka-topics --describe --topic missing", "missing"),
        ("kafka-topics --list --topci t", "Did you mean --topic?"),
        ("kafka-configs --alter --topic t --add-config-file /etc/hostname", "there are no files here"),
        ("kafka-configs --alter --topic t --add-config-f=/etc/hostname", "there are no files here"),
        ("kafka-topics --list --command-c /etc/hostname", "there are no files here"),
        ("kafka-topics 'an open quote", "cannot be read"),
        ("kafka-dump-log --files /etc/hostname", "a tool of Kafka's that this terminal does not have"),
        ("kafka-topic --list", "Did you mean kafka-topics?"),
        ("rm -rf /", "no such command"),
        ("help", "kafka-consumer-groups"),
        ("kafka-transactions list", "TransactionalId"),
        ("kafka-metadata-quorum --command-config /etc/hostname add-controller", "but these: its.properties"),
        ("kafka-metadata-quorum add-controller --command-config=its.properties", "process.roles"),
        ("kafka-cluster cluster-id", "Cluster ID: "),
        ("kafka-cluster", "the following arguments are required"),
        ("kafka-metadata-quorum describe --re", "--re may be short for --reassignment-json-file"),
        ("kafka-reassign-partitions --verify --reassignment-json-file", "needs the JSON itself, in single quotes"),
        ("kafka-topics --list | head -1", "this terminal has only grep"),
        ("kafka-topics --list | grep", "this terminal has only grep"),
        ("kafka-topics --describe --topic missing | grep Leader", "missing"),
        ("kafka-topics 'an open | quote", "cannot be read"),
        ("kafka-delete-records --offset-json-file '{\"partitions\": []}'", "delete"),
    ],
)
def test_the_terminal_answers_as_kafkas_tools_do_and_opens_no_file(terminal: Terminal, line: str, said: str) -> None:
    assert said in terminal.run(line)


def test_grep_leaves_the_lines_that_have_its_text_and_sees_all_of_a_long_answer(terminal: Terminal) -> None:
    everything = "kafka-configs --describe --entity-type brokers --entity-name 1 --all"
    assert terminal.run(everything).endswith("lines more")
    found = terminal.run(f"{everything} | grep -i UNCLEAN.LEADER|grep -v nothing")
    assert found.startswith("  unclean.leader.election.enable=false") and "\n" not in found


def test_a_command_takes_the_time_of_day_from_the_world_in_which_it_runs() -> None:
    world = World(1, brokers=1)
    with hosted_by(world.hosts):
        assert time_of_day_ms() == world.time_ms
    assert time_of_day_ms() > world.time_ms


class _Probed(Incident):
    """An incident in which nothing is wrong; `probe` is called once a second, from within the world."""

    NUMBER, TITLE, PAGER, TOPICS, CURE, WRONG, STORY, SHOWN_BY = 0, "", "", (), (), (), (), ()
    probe: Callable[[], None] = staticmethod(lambda: None)

    def build(self) -> World:
        return World(self.seed, brokers=1)

    def prepare(self) -> None:
        """It begins at once."""

    def second(self) -> None:
        self.probe()

    def counters(self) -> tuple[()]:
        return ()

    def cards(self) -> list[Card]:
        return [Card("nothing", "", [])]

    def missing(self) -> str:
        return "the end"

    def is_lost(self) -> bool:
        return False


def test_a_line_and_the_clock_have_the_world_one_after_the_other_though_they_come_on_two_threads() -> None:
    console = Console(Shift.begin(_Probed, 1), is_begun=True)
    console.widget = SimpleNamespace(data=None)
    held: list[bool] = []

    def probe() -> None:
        def take() -> None:
            is_free = console.lock.acquire(blocking=False)
            held.append(not is_free)

        other = threading.Thread(target=take)
        other.start()
        other.join()

    _Probed.probe = staticmethod(probe)
    console._on_message(None, {"do": "enter", "line": "wait 2"}, None)
    assert held and all(held)
    of_line = len(held)
    console.go_on(1_000)
    assert len(held) > of_line and all(held)
    assert [kind for kind, *_ in console.widget.data["lines"]] == ["typed", "answer"]


@dataclass
class _Moment:
    """The clock of a world, and no other part of it."""

    now_ms: int = 0

    @property
    def time_ms(self) -> int:
        return self.now_ms


def _record(partition: int, offset: int, value: bytes = b"") -> FetchedRecord:
    record = SimpleNamespace(offset=offset, value=value)
    return cast(FetchedRecord, SimpleNamespace(topic_partition=TopicPartition("t", partition), record=record))


def test_the_book_counts_payments_that_are_whole_late_twice_or_half() -> None:
    moment = cast(Any, _Moment())
    lane = Lane(moment, first=0, every_ms=1_000)
    book = Book(moment, [lane], late_ms=20_000, half_ms=15_000)
    moment.now_ms = 3_000
    for side, payment in ((DEBIT, 0), (CREDIT, 0), (CREDIT, 2), (DEBIT, 0)):
        book.note(_record(side, 0, b"%d" % payment))
    assert (book.settled, book.waiting, book.late, book.twice, book.half) == (1, 2, 0, 1, 0)
    moment.now_ms = 23_000
    assert (book.settled, book.waiting, book.late, book.half) == (1, 22, 2, 1)
    book.note(_record(DEBIT, 1, b"2"))
    assert (book.settled, book.late, book.half) == (2, 2, 0), "late as before: one waits, and one was settled too late"


def test_mails_count_records_that_were_sent_again_and_those_that_will_never_be_sent() -> None:
    committed = {0: 3}
    reading = cast(Any, SimpleNamespace(committed=lambda: committed, topic="t"))
    mails = Mails(cast(Any, _Moment()), reading, partitions=1)
    for offset in (0, 1, 1):
        mails.send(_record(0, offset))
    assert (mails.sent, mails.again, mails.old_again) == (2, 1, 0)
    assert (mails.never(held={(0, 2)}), mails.never(held=set())) == (0, 1)
    mails.settle()
    for offset in (1, 2, 3, 3):
        mails.send(_record(0, offset))
    assert (mails.again, mails.old_again, mails.never(held=set())) == (3, 1, 0)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_notebook_of_an_incident_has_its_form_and_its_links_lead_somewhere(path: Path) -> None:
    assert list(build.what_is_missing(path)) == []
    notebook = read(path)
    assert links(notebook)
    assert [link for link in links(notebook) if not (path.parent / link).exists()] == []
    assert "<details>" in notebook.cells[3].outputs[0].data["text/markdown"], "a reader on GitHub would read the cure"


def test_every_incident_has_a_notebook_and_every_line_of_its_cure_is_one_of_the_terminals() -> None:
    assert [int(path.name[1]) for path in PATHS] == NUMBERS
    for number in NUMBERS:
        for script in (make(number).CURE, *(wrong.script for wrong in make(number).WRONG)):
            assert all(re.match(rf"kafka-[a-z-]+ |({'|'.join(_BY_HAND)})\b", line) for _, line in script)
