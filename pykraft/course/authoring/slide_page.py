"""A notebook as one page of slides that needs no network and shows no code.

`slides` says what each cell is among the slides. Here they become one HTML file: the words, the pictures and the
results, in order. Its style and its twenty lines of script are in the file, links lead nowhere, so the page is the same
in a room without network. Keys: arrows, space, Page Up and Page Down, Home and End; a click or a tap goes on, one in
the left third goes back. A verdict appears by a key of its own. On paper each slide is a page.
"""

import html
import re
from collections.abc import Iterator
from typing import Any

from nbconvert.filters.markdown_mistune import markdown2html_mistune

from pykraft.course.authoring.slides import FRAGMENT, NOTES, SKIP, SLIDE, SUBSLIDE, slide_type
from pykraft.viz.drawing.alternative import SVG

SHOWN_SOURCE = "# pykraft/"
"""Begins the output of a cell that shows code of the package."""
NOT_ASKED = re.compile(r" ?You skip this one\.| ?You skipped it\.")
"""What a run without a reader leaves after a prediction: the room has not skipped it."""
WORDS_BESIDE = 80
"""More words than this do not fit beside a picture."""

_STYLE = """
:root { color-scheme: light dark; font: 22px/1.45 system-ui, sans-serif }
body { margin: 0 }
section { display: none; box-sizing: border-box; min-height: 100vh; max-width: 1180px; margin: auto; padding: 4vh 4vw }
section.now { display: block }
h1, h2, h3 { line-height: 1.15 }
a { color: inherit; text-decoration: none }
pre { font-size: 18px; line-height: 1.35; overflow: auto; white-space: pre-wrap }
table { border-collapse: collapse; font-size: 18px }
td, th { padding: .25em .7em; border-bottom: 1px solid; text-align: left; vertical-align: top }
svg { width: 100%; height: auto; max-height: 64vh }
.fragment { visibility: hidden }
.fragment.shown { visibility: visible }
#count { position: fixed; right: 1em; bottom: .5em; font-size: 14px; opacity: .7 }
@media print {
  section, .fragment { display: block; visibility: visible; break-after: page; min-height: 0 }
  #count { display: none }
}
"""
_SCRIPT = """
const slides = [...document.querySelectorAll("section")];
let now = Math.min(slides.length, Math.max(1, parseInt(location.hash.slice(1)) || 1)) - 1;
function show(to) {
  now = Math.min(slides.length - 1, Math.max(0, to));
  slides.forEach((slide, number) => slide.classList.toggle("now", number === now));
  document.getElementById("count").textContent = `${now + 1} / ${slides.length}`;
  history.replaceState(null, "", `#${now + 1}`);
  scrollTo(0, 0);
}
function next() {
  const hidden = slides[now].querySelector(".fragment:not(.shown)");
  if (hidden) hidden.classList.add("shown"); else show(now + 1);
}
function back() {
  const shown = [...slides[now].querySelectorAll(".fragment.shown")].pop();
  if (shown) shown.classList.remove("shown"); else show(now - 1);
}
const keys = { ArrowRight: next, ArrowDown: next, PageDown: next, " ": next, ArrowLeft: back, ArrowUp: back,
  PageUp: back, Home: () => show(0), End: () => show(slides.length - 1) };
addEventListener("keydown", event => { if (keys[event.key]) { event.preventDefault(); keys[event.key](); } });
addEventListener("click", event => {
  if (!event.target.closest("summary")) (event.clientX < innerWidth / 3 ? back : next)();
});
show(now);
"""


def slide_page(notebook: Any, title: str) -> str:
    """The whole page, as HTML."""
    sections = "\n".join(f"<section>\n{slide}\n</section>" for slide in slides_of(notebook))
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n<body>\n{sections}\n"
        f'<div id="count" aria-hidden="true"></div>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n'
    )


def slides_of(notebook: Any) -> Iterator[str]:
    """Each slide's content, as HTML. What shows nothing without its code makes no slide; a few words and the picture
    that they lead to share one."""
    slide: list[str] = []
    for cell in notebook.cells:
        kind = slide_type(cell)
        content = "" if kind in (SKIP, NOTES) else _content(cell)
        if not content:
            continue
        is_new = kind == SLIDE or (kind == SUBSLIDE and not _leads_on("\n".join(slide), content))
        if is_new and slide:
            yield "\n".join(slide)
            slide = []
        slide.append(f'<div class="fragment">{content}</div>' if kind == FRAGMENT else content)
    if slide:
        yield "\n".join(slide)


def _leads_on(slide: str, content: str) -> bool:
    """Whether a slide has room for what comes next: it has no picture, and there are few words. A question has a slide
    of its own, so that the room can think."""
    is_question = "<strong>Predict." in slide + content
    words = len(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", slide + content, flags=re.DOTALL).split())
    return bool(slide) and not is_question and "<svg" not in slide and words <= WORDS_BESIDE


def _content(cell: Any) -> str:
    """What a cell shows, without its code and without a way out of the page."""
    if cell.cell_type == "markdown":
        return _without_links(re.sub(r"<a class=\"anchor-link\".*?</a>", "", markdown2html_mistune(cell.source)))
    return "\n".join(filter(None, map(_output, cell.outputs)))


def _output(output: Any) -> str:
    """One result, in the form that a page shows best."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if data.get("text/plain", "").startswith(SHOWN_SOURCE):
        return ""
    if SVG in data:
        return _without_namespace(data[SVG])
    if "text/html" in data:
        return _without_links(NOT_ASKED.sub("", data["text/html"]))
    text = NOT_ASKED.sub("", data.get("text/plain", ""))
    return f"<pre>{html.escape(text)}</pre>" if text else ""


def _without_links(page: str) -> str:
    """A slide is no place to leave: what a link says stays, where it leads goes."""
    return re.sub(r"<a\b[^>]*>(.*?)</a>", r"<b>\1</b>", page, flags=re.DOTALL)


def _without_namespace(picture: str) -> str:
    """HTML knows what SVG is."""
    return re.sub(r'\sxmlns(?::\w+)?="[^"]*"', "", picture)
