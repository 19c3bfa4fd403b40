"""The chart of what can be read in bytes: what was found is framed and named, and rows without it are counted."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure
from pykraft.viz.wire.readable_chart import Heard, readable
from tests.viz.reading import complaints, texts

LOGIN = Heard("alice → broker: the login", b"\0alice\0open sesame", [("user", 1, 6), ("password", 7, 18)])
FAR = Heard("far", bytes(200) + b"gate B7" + bytes(50), [("record", 200, 207)])
BROKEN = Heard("over the end of a row", bytes(45) + b"gate B7", [("record", 45, 52)])
READ = {"password": True, "user": True, "record": False}
LONG = "a name that is <b>not</b> short & goes on " * 20


@pytest.mark.parametrize(
    "figure",
    [
        readable([LOGIN, FAR, BROKEN], READ, title="Eve reads the password", note="Letters are letters."),
        readable([Heard("noise", bytes(range(256)), [])], {"record": False}, title="Nothing is read"),
        readable([Heard(LONG, b"x" * 200, [(LONG, 0, 200)])], {LONG: True}, title=LONG, note=LONG),
        readable([Heard("side by side", b"abcd" * 12, [("user", 0, 4), ("record", 4, 8)])], READ, title="Names"),
    ],
    ids=["found", "noise", "all of it long", "side by side"],
)
def test_every_chart_of_bytes_that_were_heard_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_rows_without_a_find_are_counted_and_what_was_found_is_said() -> None:
    figure = readable([LOGIN, FAR], READ, title="Eve reads")
    assert {"… 144 more bytes", "… 17 more bytes"} <= set(texts(figure))
    assert "password: read, user: read, record: not read" in figure.text
    assert "the login: user (bytes 1 to 5): alice, password (bytes 7 to 17): open sesame" in figure.text


@pytest.mark.parametrize(
    ("messages", "was_read", "words"),
    [
        ([], READ, "readable draws messages"),
        ([LOGIN], dict.fromkeys("abcdef", True), "at most 5 things"),
        ([FAR], {"user": True}, "'record' was found, and not looked for"),
    ],
)
def test_what_cannot_be_drawn_is_refused(messages: list[Heard], was_read: dict[str, bool], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        readable(messages, was_read, title="Nothing")
