"""What befalls single messages comes as the dice say, or only as it is named; then the others stay as they were."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from pykraft.common.types import Endpoint
from pykraft.sim.trouble.omissions import NOTHING, Omissions
from pykraft.sim.world.mishaps import AGAIN, LATE, RESET, SILENT, Mishap
from pykraft.sim.world.network import End, Network, Receiver, Weather
from pykraft.sim.world.scheduler import Scheduler
from pykraft.story.marks import mark_of

ASKED = Endpoint("node-1", 9092)
LATE_US = 50_000
STORM = Weather(straggler=0.2, ghost=0.1, breaks=0.1, straggler_us=LATE_US)


class Server:
    """A host that notes what arrives, and when."""

    name, is_up, stalled_until_us = "node-1", True, 0

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.heard: list[tuple[bytes, int]] = []

    def accept(self, endpoint: Endpoint, end: End) -> Receiver:
        return self

    def connected(self) -> None:
        """It may speak."""

    def received(self, data: bytes) -> None:
        self.heard.append((data, self._scheduler.now_us))

    def closed(self) -> None:
        """It hears no more."""


class Client(Server):
    name = "client"


def history(named: Iterable[Mishap] | None) -> tuple[list[tuple[bytes, int]], list[Mishap]]:
    """Sixty requests in a row, each on a connection of its own: what arrives and when, and what befell messages."""
    scheduler = Scheduler()
    network = Network(scheduler, Random(3))
    network.weather = STORM
    if named is not None:
        network.mishaps.bring_only(named)
    server, client = Server(scheduler), Client(scheduler)
    network.add_address(ASKED, server)
    for number in range(60):
        end = network.connect(client, ASKED, client)
        scheduler.skip(2 * LATE_US)
        while scheduler.run_next():
            """The connection is made."""
        end.send([b"request number %d" % number])
    while scheduler.run_next():
        """All that is on its way arrives."""
    return server.heard, network.mishaps.came


def test_a_history_with_all_its_mishaps_named_is_the_same_history() -> None:
    heard, came = history(None)
    assert {mishap.kind for mishap in came} == {LATE, AGAIN, RESET, SILENT}
    assert history(came) == (heard, came)


@pytest.mark.parametrize("kind", [LATE, AGAIN])
def test_a_mishap_that_is_left_out_does_not_move_the_others(kind: str) -> None:
    _, came = history(None)
    gone = next(mishap for mishap in came if mishap.kind == kind)
    assert history(mishap for mishap in came if mishap != gone)[1] == [mishap for mishap in came if mishap != gone]


@pytest.mark.parametrize("kind", [RESET, SILENT])
def test_a_connection_that_breaks_takes_one_message_only(kind: str) -> None:
    """Each request has two messages of its link: that which connects, and itself."""
    heard, came = history([Mishap(kind, "client", "node-1", 6, 0)])
    assert len(came) == 1
    assert {data for data, _ in heard} == {b"request number %d" % number for number in range(60) if number != 2}


def test_without_any_mishap_each_message_arrives_once_and_in_time() -> None:
    heard, came = history([])
    assert [data for data, _ in heard] == [b"request number %d" % number for number in range(60)] and not came


def test_a_named_mishap_comes_in_bad_weather_only() -> None:
    network = Network(Scheduler(), Random(3))
    network.mishaps.bring_only([Mishap(LATE, "client", "node-1", 1, 10 * LATE_US)])
    server = Server(Scheduler())
    network.add_address(ASKED, server)
    network.connect(server, ASKED, server)
    assert network.mishaps.came == []


@pytest.mark.parametrize(
    ("word", "mishap"),
    [
        ("late-node-1-to-producer-0-37-50233", Mishap(LATE, "node-1", "producer-0", 37, 50_233)),
        ("again-teller-0~1-to-node-2-5-70", Mishap(AGAIN, "teller-0.1", "node-2", 5, 70)),
        ("silent-node-3-to-node-101-9-0", Mishap(SILENT, "node-3", "node-101", 9, 0)),
    ],
)
def test_a_word_of_a_history_names_what_befalls_one_message(word: str, mishap: Mishap) -> None:
    assert Mishap.read(word) == mishap and mishap.word == word
    omitted = NOTHING.with_word(word, ())
    assert omitted == Omissions(messages=frozenset({mishap})) and list(omitted.words()) == ["no-weather", word]


def test_the_weather_is_left_out_for_all_messages() -> None:
    omitted = NOTHING.with_word("no-weather", ())
    assert omitted.messages == frozenset() and list(omitted.words()) == ["no-weather"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (LATE, "message delay: one message from node 1 to node 2 is late by 50.233 ms"),
        (AGAIN, "message duplication: one message from node 1 to node 2 comes once more after 50.233 ms"),
        (RESET, "message omission: one message from node 1 to node 2 is lost with its connection"),
        (
            SILENT,
            "message omission: one message from node 1 to node 2 is lost, and its connection is silent from here on",
        ),
    ],
)
def test_what_befalls_a_message_is_told_in_plain_words(kind: str, words: str) -> None:
    assert mark_of(9, Mishap(kind, "node-1", "node-2", 37, 50_233), None).text == words
