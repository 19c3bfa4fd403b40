"""The player on a page of its own, in Chromium: it plays, and a reader's clicks and keys change what happens.

The page is the one that README links; nothing is simulated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from pykraft import __version__
from tests.harness.browser import Browser, browser, missing_browser
from tests.harness.tree import ROOT

PAGE = ROOT / "notebooks/pictures/player.html"
SOURCES = ROOT / "pykraft/viz/player"
MOST_BYTES, MOST_SCRIPT_BYTES = 300_000, 60_000
PLAYER = "const player = document.getElementById('player')?.player;"
CUT_MS = 4_500

in_chromium = pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser")


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture
def page(window: Browser) -> Browser:
    return opened(window)


def opened(window: Browser, link: str = "", **media: str) -> Browser:
    features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
    window.command("Emulation.setEmulatedMedia", features=features)
    window.open("about:blank")
    window.open(f"{PAGE.as_uri()}{'#' + link if link else ''}")
    window.until(f"{PLAYER} return Boolean(player && player.views)")
    return window


def ask(page: Browser, words: str) -> Any:
    return page.ask(f"{PLAYER} return {words}")


def do(page: Browser, words: str) -> None:
    page.ask(f"{PLAYER} {words}")


def tally(page: Browser) -> str:
    return str(ask(page, "document.querySelector('.pk-tally').textContent"))


def centre(page: Browser, selector: str, text: str = "") -> tuple[float, float]:
    x, y = page.ask(
        "const found = [...document.querySelectorAll(arguments[0])].find(e => e.textContent.includes(arguments[1]));"
        "const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]",
        selector,
        text,
    )
    return x, y


def test_the_page_is_small_needs_no_network_and_has_the_script_of_the_notebook() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    assert len((SOURCES / "player.js").read_bytes()) < MOST_SCRIPT_BYTES
    for name in ("player.js", "player.css"):
        assert (SOURCES / name).read_text(encoding="utf-8") in text, f"write the page again: {name} has changed"
    code = re.sub(r">[A-Za-z0-9+/=]+</script>", "", text).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|url\((?!#)|@import|\bsrc=|\bhref=|fetch\(|XMLHttp", code)
    assert "default-src 'none'" in text, "the browser itself refuses any request"
    assert PAGE.relative_to(ROOT).as_posix() in (ROOT / "README.md").read_text(encoding="utf-8")


@in_chromium
def test_it_opens_playing_one_second_before_the_failure_within_600_pixels(page: Browser) -> None:
    assert ask(page, "player.playing")
    assert CUT_MS - 1_000 <= ask(page, "player.t") < CUT_MS
    before = ask(page, "player.t")
    page.until(f"{PLAYER} return player.t > {before} && document.querySelectorAll('.pk-dot').length > 6")
    assert ask(page, "player.root.getBoundingClientRect().bottom") <= 600
    assert ask(page, "document.documentElement.scrollWidth <= innerWidth")
    sizes = "[...document.querySelectorAll('#player text, #player button, #player p, #player span')]"
    assert ask(page, f"Math.min(...{sizes}.map(e => parseFloat(getComputedStyle(e).fontSize)))") >= 9


@in_chromium
def test_with_reduced_motion_it_opens_paused(window: Browser) -> None:
    page = opened(window, prefers_reduced_motion="reduce")
    assert not ask(page, "player.playing")
    assert ask(page, "player.t") == CUT_MS - 1_000


@in_chromium
def test_space_pauses_and_arrow_keys_step_from_event_to_event(page: Browser) -> None:
    page.press(" ")
    page.until(f"{PLAYER} return !player.playing")
    before = ask(page, "player.t")
    page.press("Right")
    after = ask(page, "player.t")
    page.press("Left")
    assert ask(page, "player.t") <= before < after
    assert "message" in ask(page, "document.querySelector('.pk-hidden').textContent"), "the step is said in words"


@in_chromium
def test_after_the_truncation_a_scar_shows_where_the_acknowledged_records_were(page: Browser) -> None:
    do(page, "player.stop(); player.go(4_400)")
    heights = ask(page, "[...document.querySelectorAll('#player > *')].map(e => e.offsetHeight)")
    assert "no acknowledged record is lost" in tally(page)
    do(page, "player.go(9_400)")
    found = re.search(r"acknowledged (\d+) · surviving (\d+) · (\d+) acknowledged records are gone", tally(page))
    assert found and int(found[1]) - int(found[2]) == int(found[3]) > 50
    assert ask(page, "document.querySelectorAll('.pk-scar').length") >= 1
    assert f"{found[3]} acknowledged records were here" in ask(page, "document.querySelector('.pk-lanes').textContent")
    assert ask(page, "[...document.querySelectorAll('#player > *')].map(e => e.offsetHeight)") == heights, (
        "nothing jumps"
    )


@in_chromium
def test_a_dropped_message_changes_what_happens_and_both_branches_are_on_one_axis(page: Browser) -> None:
    act = ask(page, "player.data.outcomes.find(o => o.act.startsWith('drop')).act")
    number = int(act.split()[1])
    do(
        page,
        f"player.stop(); player.go(4_460); player.select({{type: 'message', "
        f"message: player.film.messages.find(m => m.id === {number})}})",
    )
    page.click(*centre(page, ".pk-acts button", "drop"))
    page.until(f"{PLAYER} return player.before !== null")
    assert ask(page, f"player.film.messages.find(m => m.id === {number}).fate") == "lost"
    scars = [ask(page, f"JSON.stringify({film}.scars)") for film in ("player.film", "player.before")]
    assert scars[0] != scars[1]
    assert ask(page, "document.querySelectorAll('.pk-stage').length") == 2
    assert "first difference" in ask(page, "document.querySelector('.pk-axis').textContent")
    assert ask(page, "player.root.getBoundingClientRect().bottom") <= 600
    page.press("z")
    page.until(f"{PLAYER} return player.before === null")


@in_chromium
def test_what_needs_python_says_so(page: Browser) -> None:
    do(page, "player.stop(); player.go(5_000)")
    page.press("n")
    page.press("k")
    assert "needs Python" in page.until("return document.querySelector('.pk-said').textContent")
    assert ask(page, "player.before") is None


@in_chromium
def test_a_link_replays_its_history_and_one_of_another_version_is_refused_in_a_sentence(window: Browser) -> None:
    page = opened(window)
    link = ask(page, "player.data.outcomes.find(o => o.act.startsWith('kill')).link")
    assert link.startswith(f"pykraft/{__version__}/first-loss/")
    page = opened(window, link)
    assert ask(page, "player.data.link") == link and ask(page, "player.before !== null")
    page = opened(window, link.replace(__version__, "0.0.1"))
    said = ask(page, "document.querySelector('.pk-said').textContent")
    assert "pykraft 0.0.1" in said and f"of {__version__}" in said and ask(page, "player.before") is None


@in_chromium
def test_the_keyboard_alone_chooses_a_node_kills_it_and_takes_that_back(page: Browser) -> None:
    do(page, "player.stop(); player.go(4_100)")
    leader = ask(page, "player.film.leader(4_100).node")
    for _ in range(4):
        if ask(page, "player.selected && player.selected.node") == leader:
            break
        page.press("n")
    page.press("Enter")
    assert ask(page, "document.activeElement.textContent").startswith("kill")
    page.press("Enter")
    page.until(f"{PLAYER} return player.before !== null")
    assert ask(page, "document.querySelector('.pk-branch h4').textContent") == f"you kill node {leader}"
    do(page, "player.stop()")
    page.press("z")
    page.until(f"{PLAYER} return player.before === null")
    page.press("m")
    page.press("Escape")
    assert ask(page, "player.selected") is None


@in_chromium
def test_in_the_dark_text_stays_readable(window: Browser) -> None:
    page = opened(window, prefers_color_scheme="dark")
    assert _contrast(page) >= 4.5
    assert _contrast(opened(window, prefers_color_scheme="light")) >= 4.5


def _contrast(page: Browser) -> float:
    """The least contrast of the player's colours for text with its ground."""
    return float(
        page.ask(
            """const style = getComputedStyle(document.getElementById('player'));
            const light = name => { const c = style.getPropertyValue(name).trim();
              return [1, 3, 5].map(i => parseInt(c.slice(i, i + 2), 16) / 255)
                .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
                .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0); };
            const ground = light('--ground');
            return Math.min(...['--ink', '--faint', '--alarm'].map(light)
              .map(l => (Math.max(l, ground) + 0.05) / (Math.min(l, ground) + 0.05)))"""
        )
    )


@in_chromium
def test_on_390_pixels_all_is_there_and_nothing_is_beside_the_page(window: Browser) -> None:
    window.command("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=2, mobile=True)
    try:
        page = opened(window)
        do(page, "player.stop(); player.go(7_000); player.next('node')")
        assert ask(page, "document.documentElement.scrollWidth") <= 390
        over = "[...document.querySelectorAll('#player button')].filter(b => b.getBoundingClientRect().right > 391)"
        assert ask(page, f"{over}.map(b => b.textContent)") == []
        assert ask(page, "document.querySelectorAll('.pk-cell').length") >= 3
    finally:
        window.command("Emulation.clearDeviceMetricsOverride")


@in_chromium
def test_on_the_width_of_a_notebook_beside_its_list_of_files_the_title_is_whole(window: Browser) -> None:
    window.command("Emulation.setDeviceMetricsOverride", width=833, height=800, deviceScaleFactor=1, mobile=False)
    try:
        page = opened(window)
        title = "document.querySelector('.pk-head h3')"
        assert ask(page, f"{title}.scrollWidth <= {title}.clientWidth && {title}.textContent.length > 30")
        assert ask(page, "document.querySelector('.pk-tally').offsetTop") > ask(page, f"{title}.offsetTop")
    finally:
        window.command("Emulation.clearDeviceMetricsOverride")
