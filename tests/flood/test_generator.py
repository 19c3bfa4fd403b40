"""The floods are made from the declarations: of every array, as large as the decoder and the frame let through."""

from collections.abc import Iterator

import pytest

from pykraft.common.errors import ProtocolError
from pykraft.common.types import Uuid
from pykraft.protocol.api import Api, ListenerKind, apis
from pykraft.protocol.listeners import BROKER
from pykraft.protocol.schema import Array, Request, Response, Struct, field, int16, int32, octets, string
from pykraft.protocol.source import ELEMENTS_PER_STEP
from pykraft.protocol.wire import Fixed
from tests.flood import generator
from tests.flood.generator import FRAME_BYTES, MOST, Flood, Target, elements, entries_of, fill, targets, variants
from tests.flood.order import LAST, floods, ordered
from tests.flood.vocabulary import KINDS, LONG, Kind, State
from tests.harness.connection import Connection

ELEMENTS = 200
"""Fewer than a node lets through, so that thousands of requests are made in a second."""
AROUND = 50
TOPICS = 40


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "MAX_REQUEST_ELEMENTS", ELEMENTS)


@pytest.fixture(scope="module")
def state() -> State:
    made = State(batch=b"\0" * 80)
    made.names |= {
        "topic": [f"topic-{number}" for number in range(TOPICS)],
        "topic_id": [Uuid(number.to_bytes(16, "big")) for number in range(TOPICS)],
        "partition": range(TOPICS),
        "group": ["group"],
    }
    return made


def every_flood(kinds: tuple[Kind, ...] = KINDS) -> Iterator[Flood]:
    return (flood for flood in floods(ListenerKind, [MOST], kinds) if flood.kind != LONG)


def decoded(flood: Flood, request: Request) -> Request:
    """The request, as a node reads it."""
    data = request.to_bytes(flood.target.version)
    return type(request).decode(data, flood.target.version, 0, ELEMENTS)


def test_every_array_of_structures_or_names_is_decoded_in_steps_of_a_few_elements(state: State) -> None:
    """However the elements lie in arrays of arrays."""
    for flood in every_flood(("strangers",)):
        request = fill(flood, state)
        wire = generator.declared(flood.target).wire
        if isinstance(wire.element, Fixed):
            continue  # one call of `struct`
        decoding = type(request).decode_in_steps(request.to_bytes(flood.target.version), flood.target.version, 0, 1000)
        steps = 1
        try:
            while True:
                next(decoding)
                steps += 1
        except StopIteration as end:
            assert end.value == request
        assert steps > len(entries_of(request, flood.target)) // ELEMENTS_PER_STEP, flood


def test_every_array_of_every_api_that_is_served_is_filled() -> None:
    filled = {(flood.target.listener, flood.target.api.name, flood.target.path) for flood in every_flood()}
    for listener in ListenerKind:
        for api in apis.values():
            if listener in api.listeners:
                for version in range(api.request.versions[0], api.advertised[1] + 1):
                    for path in generator._arrays(api.request, version):
                        assert (listener, api.name, path) in filled


def test_a_node_reads_every_flood_and_would_not_read_many_entries_more(state: State) -> None:
    for flood in every_flood(("repeated", "strangers")):
        request = fill(flood, state)
        assert elements(decoded(flood, request)) == elements(request) <= ELEMENTS, flood
        assert elements(request) > ELEMENTS - AROUND, flood


def test_names_that_exist_are_as_many_as_there_are(state: State) -> None:
    flood = Flood(target("Metadata", "topics"), "distinct", MOST, (("topic_id or name", "name"),))
    assert [topic.name for topic in entries_of(fill(flood, state), flood.target)] == state.names["topic"]


def test_strangers_of_one_request_are_others_than_those_of_the_request_before(state: State) -> None:
    flood = Flood(target("DescribeGroups", "groups"), "strangers", 10)
    before = set(entries_of(fill(flood, state), flood.target))
    state.salt += 1
    after = set(entries_of(fill(flood, state), flood.target))
    assert len(before) == len(after) == 10
    assert not before & after


def test_one_existing_name_is_repeated(state: State) -> None:
    flood = Flood(target("DescribeGroups", "groups"), "repeated", 10)
    assert entries_of(fill(flood, state), flood.target) == ["group"] * 10


def test_long_names_fill_the_frame(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "MAX_REQUEST_ELEMENTS", MOST)
    flood = Flood(target("FindCoordinator", "coordinator_keys"), LONG, MOST, (("key_type", 0),))
    frame = Connection.frame(fill(flood, state), flood.target.version)
    assert FRAME_BYTES - 100_000 < len(frame) <= FRAME_BYTES + 4096


def target(api: str, *path: str) -> Target:
    return next(each for each in ordered() if each.api.name == api and each.path == path)


# --- an API of tomorrow -----------------------------------------------------------------------------------------------


class TomorrowRequest(Request, api=999, versions=(0, 1), flexible=1, listeners=BROKER):
    """An API that nothing here names, with fields that the vocabulary does not know."""

    class Planet(Struct):
        class Moon(Struct):
            mass: int32
            tide: octets

        title: string
        orbit: int16
        group_id: string
        moons: Array[Moon]
        rings: Array[string] = field(since=1)

    planets: Array[Planet]


class TomorrowResponse(Response, to=TomorrowRequest):
    """Its answer."""

    error_code: int16 = field(default=0)


TOMORROW = Api(999, "Tomorrow", TomorrowRequest, (0, 1), BROKER)


def test_an_api_that_is_added_is_tried_without_being_named(state: State) -> None:
    found = list(targets(ListenerKind.BROKER, [TOMORROW]))
    assert [".".join(each.path) for each in found] == ["planets", "planets.moons", "planets.rings"]
    for each in found:
        for variant in variants(each):
            for kind in KINDS:
                flood = Flood(each, kind, 20, variant)
                request = fill(flood, state)
                read = entries_of(decoded(flood, request), each)
                assert read == entries_of(request, each)
                assert len(read) == (1 if kind == "distinct" and each.path == ("planets",) else 20)
                words = {str(entry) for entry in read}
                assert len(words) == (1 if kind == "repeated" else len(read)), flood


def test_the_decoder_would_refuse_more(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "MAX_REQUEST_ELEMENTS", ELEMENTS + AROUND)
    flood = Flood(target("DescribeGroups", "groups"), "repeated", MOST)
    with pytest.raises(ProtocolError):
        decoded(flood, fill(flood, state))


# --- order ------------------------------------------------------------------------------------------------------------


def test_no_api_is_exempt_and_few_come_last_each_for_what_it_takes() -> None:
    names = {each.api.name for each in ordered()}
    assert LAST.keys() <= names
    assert len(LAST) <= 21
    assert all(LAST.values())
    places = [list(LAST).index(each.api.name) if each.api.name in LAST else -1 for each in ordered()]
    assert places == sorted(places)
