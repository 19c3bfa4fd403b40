"""The drawing of the way of a file's bytes: who copies is drawn as a copy, and the text has the same numbers."""

from __future__ import annotations

import pytest

from pykraft.viz import BytePath, Figure, byte_paths
from pykraft.viz.drawing import palette
from pykraft.viz.wire.byte_path import Move
from tests.viz.reading import complaints, elements, texts

LONG = "a name that is <b>not</b> short & goes on " * 50
READ, WRITE = Move("preadv", 97, 101_000_000), Move("write", 98, 101_000_000)
LENT = Move("sendfile", 97, 101_000_000)
COPIED = BytePath("copied", READ, WRITE, None, 101_000_000, "encrypts", "356 ms", "reader: 12 ms")
SENT = BytePath("sent", None, None, LENT)
MAPPED = BytePath("mapped", None, WRITE, None)
BROKER = BytePath("broker", Move("pread", 20, 250_000), Move("sendmsg", 30, 2_500), LENT)


@pytest.mark.parametrize(
    "figure",
    [
        byte_paths([COPIED, SENT, MAPPED], title="Three ways", note="A note."),
        byte_paths([BROKER], title="A broker"),
        byte_paths([BytePath(LONG, Move(LONG, 9**12, 9**15), Move(LONG, 9**12, 9**15), None, 9**15, LONG, "c", LONG)],
                   title=LONG, note=LONG),
    ],
    ids=["three", "a broker", "all of it long"],
)  # fmt: skip
def test_every_drawing_of_a_byte_path_is_a_sound_figure(figure: Figure) -> None:
    assert list(complaints(figure)) == []


def colours(path: BytePath) -> list[str | None]:
    """Of the heads of the arrows."""
    return [head.get("fill") for head in elements(byte_paths([path], title="t"), "polygon")]


def test_a_copy_is_red_a_reference_green_and_what_has_no_bytes_is_not_drawn() -> None:
    copy, reference, device = palette.VERMILLION, palette.GREEN, "currentColor"
    assert colours(COPIED) == [copy, copy, device, device]
    assert colours(SENT) == [reference, device]
    assert colours(MAPPED) == [copy, device]
    assert colours(BROKER) == [copy, copy, reference, device]


def test_a_programs_memory_is_filled_if_the_bytes_came_there_and_not_for_hardly_any() -> None:
    said = {path.name: texts(byte_paths([path], title="t")) for path in (COPIED, SENT, MAPPED, BROKER)}
    assert "program's memory: encrypts" in said["copied"] and "program's memory" in said["mapped"]
    assert "program: no byte comes here" in said["sent"]
    assert "program: 0.25 MB come here" in said["broker"]


def test_the_text_tells_who_copied_how_often() -> None:
    text = byte_paths([COPIED, SENT, MAPPED], title="t").text
    assert "copied: 101 MB fetched from the disk; preadv copies 101 MB, 97 calls, into the program's memory" in text
    assert "the program encrypts; write copies 101 MB, 98 calls, into the socket" in text
    assert "sent: sendfile hands the socket references to 101 MB, 97 calls" in text
    assert "mapped: the page cache is mapped into the program's memory; write copies 101 MB, 98 calls" in text


def test_nothing_is_not_drawn() -> None:
    with pytest.raises(ValueError, match="each must have sent something"):
        byte_paths([BytePath("idle", READ, None, None)], title="t")
    with pytest.raises(ValueError, match="needs at least one program"):
        byte_paths([], title="t")
