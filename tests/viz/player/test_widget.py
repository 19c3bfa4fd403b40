"""What a notebook's front end asks of a widget's script, wherever it runs: JupyterLab, VS Code, Colab. And what a
person on call types into the console of an incident, and reads there.

Each of them loads the script as a module of its own, away from the page, and calls its default export's `render` with a
model and an element. So the script may import nothing, may ask the page for nothing, and speaks with Python over the
model alone. VS Code and Colab themselves are not tried here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pykraft import viz
from pykraft.course import incidents
from pykraft.course.incidents.console import Console, incident
from pykraft.course.incidents.incident import read_link
from pykraft.viz.player.player import Player
from tests.harness.browser import Browser, browser, missing_browser
from tests.harness.contrast import faint_texts
from tests.viz.player.rehearsals import rehearsal_of, take_back

SCRIPT = (Path(viz.__file__).parent / "player/player.js").read_text(encoding="utf-8")
LOAD = """
const [script, data] = arguments;
const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
const asked = [], heard = {}, sent = [];
window.model = {
  get: name => { asked.push(name); return name === "data" ? window.shown : undefined; },
  on: (name, call) => { heard[name] = call; },
  send: content => sent.push(content),
};
Object.assign(window, { shown: data, asked, heard, sent });
const el = document.createElement("div");
el.id = "output";
document.body.replaceChildren(el);
module.default.render({ model: window.model, el });
return [Object.keys(module.default), typeof module.default.render]
"""
PLAYER = "document.querySelector('#output > div').player"


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def test_the_script_imports_nothing_and_asks_the_page_for_nothing() -> None:
    assert len(re.findall(r"^export default \{ render \};$", SCRIPT, re.MULTILINE)) == 1
    code = re.sub(r"//.*", "", SCRIPT)
    assert not re.search(
        r"^\s*import\b|\bimport\(|\brequire\(|\bfetch\(|XMLHttp|WebSocket|localStorage|eval\(", code, re.M
    )
    widget_part = code.partition("function render")[2].partition("export default")[0]
    assert not re.search(r"getElementById|querySelector|\blocation\b|\bhistory\b", widget_part)
    before_page = code.partition("export function page")[0]
    assert not re.search(r"document\.(?:getElementById|querySelector|body)|\blocation\b|history\.", before_page)


def test_all_that_python_and_the_script_share_is_one_trait() -> None:
    rehearsal = rehearsal_of("retention")
    widget = Player(rehearsal).widget
    own = {name for name in widget.keys if not name.startswith("_")} - {"layout", "tabbable", "tooltip", "comm"}
    assert own == {"data"} and widget.data["title"] == rehearsal.scene.title
    assert str(widget._esm) == SCRIPT
    try:
        widget._handle_custom_msg({"act": "kill 2", "ms": 4_000}, [])
        assert widget.data["branch"] == "you kill node 2" and widget.data["before"] is not None
    finally:
        take_back(rehearsal)


@pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser")
def test_a_front_end_that_gives_a_model_and_an_element_gets_a_player(window: Browser) -> None:
    window.open("about:blank")
    data = rehearsal_of("retention").data()
    assert window.ask(f"return (async function() {{ {LOAD} }}).apply(null, arguments)", SCRIPT, data) == [
        ["render"],
        "function",
    ]
    window.until(f"return {PLAYER}.views && {PLAYER}.playing")
    assert set(window.ask("return window.asked")) == {"data"}
    window.ask(f"{PLAYER}.stop(); {PLAYER}.go(4000); {PLAYER}.act('kill 2')")
    assert window.ask("return window.sent") == [{"act": "kill 2", "ms": 4_000}]
    assert set(window.ask("return Object.keys(window.heard)")) == {"msg:custom", "change:data"}
    window.ask("window.heard['msg:custom']({ said: 'It cannot be done.' })")
    assert window.ask("return document.querySelector('.pk-said').textContent") == "It cannot be done."
    window.ask("window.shown = {...window.shown, title: 'Another branch'}; window.heard['change:data']()")
    assert window.ask("return document.querySelector('#output h3').textContent") == "Another branch"


# --- the console of an incident ---------------------------------------------------------------------------------------

CONSOLE = Path(incidents.__file__).parent
CURE = "kafka-transactions forceTerminateTransaction --transactionalId desk-2"


class OnCall:
    """A page with an incident's console, as a front end makes it, and the kernel's side of it. Its clock stands still
    but for what is typed."""

    def __init__(self, window: Browser, console: Console) -> None:
        self._window, self._console = window, console
        console.widget = SimpleNamespace(data=console.data())
        window.open("about:blank")
        script, style = ((CONSOLE / f"console.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
        window.ask(f"return (async function() {{ {LOAD} }}).apply(null, arguments)", script, console.widget.data)
        window.ask(
            "document.head.append(Object.assign(document.createElement('style'), { textContent: arguments[0] }))", style
        )

    def text(self, selector: str) -> str:
        """What is read in the last element of this kind."""
        return str(self._window.ask("return [...document.querySelectorAll(arguments[0])].pop().innerText", selector))

    def acknowledge(self) -> None:
        self._window.ask("document.querySelector('.pk-take').click()")
        self._let_the_kernel_answer()

    def enter(self, line: str) -> None:
        self._window.ask("document.querySelector('.pk-prompt input').focus()")
        self._window.type(line)
        self._window.press("Enter")
        self._let_the_kernel_answer()

    def _let_the_kernel_answer(self) -> None:
        for sent in self._window.until("return window.sent.length && window.sent.splice(0)"):
            self._console._on_message(None, sent, None)
        self._window.ask("window.shown = arguments[0]; window.heard['change:data']()", self._console.widget.data)


@pytest.mark.skipif(bool(missing_browser()), reason=missing_browser() or "there is a browser")
def test_a_person_on_call_types_a_slip_and_the_cure_and_sees_the_judges_end_in_both_themes(window: Browser) -> None:
    console = incident(5)
    page = OnCall(window, console)
    page.acknowledge()
    page.enter("kafka-transaction list")
    assert page.text(".pk-answer") == (
        "kafka-transaction: no such command here. Did you mean kafka-transactions? `help` lists what there is."
    )
    page.enter("kafka-transactions list | grep desk-2")
    assert page.text(".pk-answer").split() == ["desk-2", "1", "0", "Ongoing"]
    assert faint_texts(window, ".pk-call") == []
    page.enter(CURE)
    page.enter("wait 60")
    assert page.text(".pk-pager h3").startswith("✔ Solved.")
    assert "the machine of desk-2 answers again" in page.text(".pk-news")
    assert [line for _, line in read_link(page.text(".pk-end code")).log][-2:] == [CURE, "wait 60"]
    assert faint_texts(window, ".pk-call") == []
    window.ask("document.querySelector('.pk-counter span').style.color = '#888'")
    assert faint_texts(window, ".pk-call") == ["light: 'payments settled': 3.5"], "it looks"
