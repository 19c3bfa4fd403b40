"""The other scenes on a page of their own, in Chromium: rings of members, records that wait for a marker, moments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykraft.viz.player.page import save
from tests.harness.browser import Browser, browser, missing_browser
from tests.viz.player.rehearsals import rehearsal_of

PLAYER = "const player = document.getElementById('player')?.player;"
pytestmark = pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser")


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def opened(window: Browser, tmp_path: Path) -> Any:
    def opens(name: str) -> Browser:
        """The page of a scene, paused where it opens."""
        path = save(rehearsal_of(name), tmp_path / f"{name}.html")
        window.open(path.as_uri())
        window.until(f"{PLAYER} return Boolean(player && player.views && player.playing)")
        window.ask(f"{PLAYER} player.stop()")
        return window

    return opens


def ask(page: Browser, words: str) -> Any:
    return page.ask(f"{PLAYER} return {words}")


def go(page: Browser, ms: float, more: str = "") -> None:
    page.ask(f"{PLAYER} player.go({ms}); {more}")


def texts(page: Browser, selector: str) -> list[str]:
    found = page.ask(
        "return [...document.querySelectorAll(arguments[0])].filter(e => getComputedStyle(e).visibility !== 'hidden')"
        ".map(e => e.textContent)",
        selector,
    )
    return [str(text) for text in found]


def left_of(page: Browser, host: str) -> float:
    """How much of the ring of a client's session is left, of 100."""
    drawn = f"player.views[0].stage.parts.get('{host}').rings[0].ring.getAttribute('stroke-dasharray')"
    return float(str(ask(page, drawn)).split()[0])


def test_a_ring_of_a_member_runs_out_is_chosen_by_itself_and_can_be_let_fire(opened: Any) -> None:
    page = opened("classic-group")
    go(page, 4_600)
    gone = next(mark for mark in ask(page, "player.film.marks") if mark[2].startswith("crash"))[2].split()[1]
    assert "✕ gone" in texts(page, ".pk-client.pk-dead text"), "what it was stays to be seen"
    early = left_of(page, gone)
    go(page, 5_600)
    assert 0 < left_of(page, gone) < early < 100
    assert "no reader" in texts(page, ".pk-tally")[0]
    go(page, 5_600, f"player.select(null); while (player.selected?.node !== '{gone}') player.next('timer')")
    assert texts(page, ".pk-timer.pk-chosen") == [""] and "group session of member" in texts(page, ".pk-what")[0]
    assert texts(page, ".pk-acts button") == ["fire now f"]
    assert "ms left" in ask(page, "document.querySelector('.pk-timer.pk-chosen .pk-hit').getAttribute('aria-label')")
    page.press("f")
    assert "needs Python" in page.until("return document.querySelector('.pk-said').textContent")
    for mark, sign in (("▽", ".pk-lanes text"), ("reads ", ".pk-client text")):
        assert any(mark in text for text in texts(page, sign))


def test_a_click_on_a_ring_chooses_the_timer_and_not_its_node(opened: Any) -> None:
    page = opened("split-vote")
    go(page, 5_300)
    x, y = page.ask(
        f"{PLAYER} const box = player.views[0].stage.parts.get(1).rings[0].hit.getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + 3]"
    )
    page.click(x, y)
    assert ask(page, "[player.selected.type, player.selected.name, player.selected.node]") == [
        "timer",
        "election timer",
        1,
    ]
    assert "no node leads" in texts(page, ".pk-tally")[0]
    assert any("candidate" in text for text in texts(page, ".pk-lanes text"))


def test_records_that_wait_for_a_marker_are_open_cells_until_it_comes(opened: Any) -> None:
    page = opened("lost-marker")
    go(page, 6_000)
    assert len(texts(page, ".pk-kind-open")) == 18 and texts(page, ".pk-lanes text").count("△") == 3
    go(page, 7_500)
    assert texts(page, ".pk-kind-marker")[0] == "commit marker, offset 6"
    assert texts(page, ".pk-lanes text").count("△") == 1, "only the dead node's log is as it was"
    assert "last stable offset" in texts(page, ".pk-legend")[0]


def test_a_button_and_a_key_go_from_moment_to_moment_and_say_what_is_there(opened: Any) -> None:
    page = opened("lost-marker")
    moments = ask(page, "player.data.moments")
    assert texts(page, ".pk-moment") == ["➊", "➋", "➌"]
    for ms, text in moments:
        page.press(".")
        assert ask(page, "player.t") == ms and text in texts(page, ".pk-said")[0]
    assert not ask(page, "player.playing")


def test_at_half_height_a_scar_keeps_off_the_words_of_other_lanes(opened: Any) -> None:
    """Both branches are shown, so a lane has half its height: no two texts of the lanes may overlap."""
    page = opened("leader-returns")
    page.ask(
        f"{PLAYER} player.host.data = () => ({{...player.data, before: player.data.film, fork: 4_000}}); player.load()"
    )
    go(page, 8_400)
    assert texts(page, ".pk-scar-sum") == ["5 gone", "5 gone"]
    overlaps = """
      const boxes = [...document.querySelectorAll('.pk-lanes')].map(lane => [...lane.querySelectorAll('text')]
        .filter(e => e.textContent && e.classList.contains('pk-end') === false).map(e => [e.textContent, e.getBBox()]));
      const found = [];
      for (const lane of boxes) for (const [i, [one, a]] of lane.entries()) for (const [other, b] of lane.slice(i + 1))
        if (a.x < b.x + b.width && b.x < a.x + a.width && a.y + 2 < b.y + b.height && b.y + 2 < a.y + a.height)
          found.push([one, other]);
      return found"""
    assert page.ask(overlaps) == []


def test_segments_are_frames_on_the_lane_and_deleted_ones_an_outline(opened: Any) -> None:
    page = opened("retention")
    go(page, 5_200)
    frames = page.ask("return [...document.querySelectorAll('.pk-segment')].map(e => e.getAttribute('class'))")
    assert sum("active" in name for name in frames) == 3
    assert sum("deleted" in name for name in frames) == 3
    titles = texts(page, ".pk-segment title")
    assert "closed segment from offset 4: 446 bytes" in titles and "offsets 0 to 3: deleted" in titles
    assert texts(page, ".pk-lanes text").count("▸") == 3
    assert "segment, its bytes below" in texts(page, ".pk-legend")[0]
    said = ask(page, "document.querySelector('.pk-lanes').getAttribute('aria-label')")
    assert "start 4, closed segment from 4, closed segment from 7" in said and "active segment from 8" in said
    go(page, 4_950)
    assert "pk-segment-deleted" not in str(ask(page, "document.querySelector('.pk-lanes').innerHTML"))


def test_a_compacted_segment_has_a_tick_and_dots_where_records_were(opened: Any) -> None:
    page = opened("compaction")
    go(page, 5_600)
    assert texts(page, ".pk-lanes text").count("✓") >= 9
    gone = texts(page, ".pk-kind-compacted title")
    assert "compacted, offset 0" in gone and "compacted, offset 3" not in gone, "offset 3 has the last record of key 2"
    assert "node 1 compacts" in texts(page, ".pk-said")[0]


def test_a_card_says_whether_its_node_is_a_voter_also_in_words(opened: Any) -> None:
    page = opened("voters")
    card = "player.views[0].stage.parts.get({}).group"
    for ms, node, role, vote in ((4_400, 104, "fetches", "observer"), (6_640, 101, "leads", "observer")):
        go(page, ms)
        assert ask(page, f"{card.format(node)}.textContent").endswith(vote)
        assert f"node {node} · {role} · {vote}" in ask(page, f"{card.format(node)}.getAttribute('aria-label')")
    assert "102, 103, 104 do not know it yet" in texts(page, ".pk-tally b")[0]
    go(page, 8_900)
    assert "node 104 · leads · voter" in ask(page, f"{card.format(104)}.getAttribute('aria-label')")
    page.press("n")
    page.press("q")
    assert "goes by the voters 102, 103, 104" in texts(page, ".pk-detail")[0]


def test_a_muted_connection_is_a_thick_line_and_the_client_says_for_how_long(opened: Any) -> None:
    page = opened("quota")
    client = "player.views[0].stage.parts.get('producer-0').group"
    muted = "document.querySelectorAll('.pk-link.pk-muted').length"
    go(page, 5_000)
    assert ask(page, muted) == 1
    assert ask(page, f"{client}.textContent").endswith("‖ muted, 1,142 ms")
    assert ask(page, f"{client}.getAttribute('aria-label')") == "producer-0, muted by node 3 for 1,142 ms"
    go(page, 6_200)
    assert ask(page, muted) == 0 and ask(page, f"{client}.getAttribute('aria-label')") == "producer-0"
    assert "‖ muted: the broker does not read" in texts(page, ".pk-legend")[0]
