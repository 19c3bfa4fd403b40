"""`explore`: a frame with its bytes, and the fields of each version."""

import xml.etree.ElementTree as ElementTree

import pytest

from pykraft.protocol.api import apis
from pykraft.protocol.field_tree import KINDS as MEANINGS
from pykraft.protocol.messages.data import FetchRequest, ProduceRequest
from pykraft.sim.world.frames import Frame
from pykraft.viz import explore
from pykraft.viz.drawing.svg import overlaps
from pykraft.viz.wire.hex_dump import KINDS
from tests.protocol.test_golden_frames import FRAMES


def frame(kind: str, is_response: bool) -> Frame:
    golden = next(f for f in FRAMES if apis[f.key].name == kind and f.request is not is_response)
    return Frame(0, "a", "b", apis[golden.key].request, golden.version, is_response, 0, 0, memoryview(golden.octets))


SEEN = sorted({(apis[golden.key].name, not golden.request) for golden in FRAMES})


@pytest.mark.parametrize(("kind", "is_response"), SEEN, ids=str)
def test_each_recorded_frame_is_drawn_without_overlaps(kind: str, is_response: bool) -> None:
    figure = explore(frame(kind, is_response))
    ElementTree.fromstring(figure.svg)
    assert not overlaps(figure.boxes)
    assert "correlationId" in figure.text


def test_a_field_stands_beside_its_bytes() -> None:
    lines = [line.strip() for line in explore(frame("ApiVersions", False)).text.splitlines()]
    assert 'clientSoftwareVersion: "4.2.1"  [06 | 34 2e 32 2e 31] (length, text; from byte 42)' in lines


def test_of_a_long_array_the_first_elements_show_and_the_others_are_counted() -> None:
    text = explore(frame("ApiVersions", True)).text
    assert "apiKeys: 41 elements" in text
    assert "… 39 more: bytes " in text


def test_every_meaning_has_a_colour() -> None:
    assert set(MEANINGS) <= set(KINDS)
    assert len({KINDS[kind] for kind in MEANINGS}) == len(MEANINGS)


@pytest.mark.parametrize("name", [row.name for row in apis.values()])
def test_every_declaration_is_drawn_in_all_its_versions(name: str) -> None:
    for message in (name, f"{name}Response"):
        figure = explore(message)
        ElementTree.fromstring(figure.svg)
        assert not overlaps(figure.boxes)
        low, high = apis[{row.name: key for key, row in apis.items()}[name]].request.versions
        for version in (low, high):
            assert not overlaps(explore(message, version).boxes)


def test_a_declaration_says_which_versions_have_a_field() -> None:
    lines = [line.strip() for line in explore("Fetch").text.splitlines()]
    assert "sessionId, int32: versions 7 to 18" in lines
    assert "replicaState, ReplicaState: versions 15 to 18, tag 1" in lines
    assert "topicId, uuid: versions 13 to 18" in lines
    assert explore(FetchRequest).text == explore("FetchRequest").text


def test_one_version_says_how_each_field_is_written() -> None:
    classic, flexible = explore(ProduceRequest, 8).text, explore(ProduceRequest, 9).text
    assert "transactionalId, string: int16 length, content; may be null" in classic
    assert "transactionalId, string: varint length + 1, content; may be null" in flexible


@pytest.mark.parametrize(
    ("what", "version", "sentence"),
    [
        ("Produze", None, "there is no API 'Produze'; did you mean 'Produce'?"),
        (ProduceRequest, 2, "version=2: ProduceRequest has versions 3 to 13"),
        (b"bytes", None, "explore takes a frame, the name of an API or a class of messages, not b'bytes'"),
    ],
)
def test_a_mistake_gets_one_sentence(what: object, version: int | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("?", r"\?")):
        explore(what, version)  # type: ignore[arg-type]
