"""The drawing of muted connections: when requests were sent, and when the broker read them."""

from __future__ import annotations

import pytest

from pykraft.viz import Figure, mutes_over_time
from pykraft.viz.clients.mute_chart import Connection
from tests.viz.reading import complaints

LONG = "a name that is <b>not</b> short & goes on " * 50
WAITS = Connection([0, 510], [0, 510], [(5, 505), (515, 1200)])
PRESSES = Connection([0, 0], [0, 506], [(5, 505), (515, 1200)])


@pytest.mark.parametrize(
    "figure",
    [
        mutes_over_time({"waits": WAITS, "presses": PRESSES}, title="Muted", note="A note."),
        mutes_over_time({LONG: PRESSES}, title=LONG, note=LONG),
        mutes_over_time({"free": Connection([0], [0], [(1, 1)])}, title="Never muted"),
    ],
    ids=["two", "long", "free"],
)
def test_every_drawing_of_muted_connections_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def test_the_text_tells_when_requests_were_sent_and_read_and_when_the_connection_was_muted() -> None:
    text = mutes_over_time({"presses": PRESSES, "free": Connection([3], [4], [(5, 5)])}, title="t").text
    assert "presses: requests sent at 0, 0 ms, read at 0, 506 ms" in text
    assert "presses: muted 5 to 505, 515 to 1,200 ms" in text
    assert "free: never muted" in text


def test_a_request_waits_from_its_sending_until_it_is_read() -> None:
    assert (WAITS.waited_ms, PRESSES.waited_ms) == ([0, 0], [0, 506])


def test_nothing_is_not_drawn() -> None:
    with pytest.raises(ValueError, match="mutes_over_time needs at least one value"):
        mutes_over_time({"a": Connection([], [], [])}, title="t")
