"""The form of a committed notebook: short, run from top to bottom, small, and readable by all.

Good notebooks are alike in their measure: small cells, one idea in each, a word before every picture. The limits here
are the hard ones, beyond which a test fails; a good notebook stays well within them. What is checked:

* what the author wrote: lengths of cells, sentences and paragraphs, the parts that each notebook has, predictions with
  their answers, a few claims at the end of their sections, whose verdicts are compared between runs;
* what the committed run left: every cell run once and in order, no error, no live widget, no figure without its text,
  nothing that GitHub's page of a notebook removes, no folder of the author's machine, and nothing large.

A notebook of the course and the notebook of a lab have different parts, and the same measure.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pykraft.viz.drawing.alternative import HTML, alternative_of

CODE_CELLS = 30
CELL_LINES = 25
CELL_COLUMNS = 104
"""JupyterLab shows 105 in a cell, on a screen of 1,280 pixels with its list of files open."""
LONG_CELL_LINES = 10
"""Two cells longer than this may not follow each other without a word between them."""
WORDS = 2400
SENTENCE_WORDS = 25
PARAGRAPH_WORDS = 120
BYTES = 300_000
OUTPUT_BYTES = 100_000
PREDICTIONS = 2
FEWEST_CLAIMS, MOST_CLAIMS = 2, 4
CHECKED_HERE = "### Checked here"
"""The heading of a section's claims, at its end."""
EXERCISES = 3
ANSWER = "<details><summary>Answer</summary>"
CHECKED = "nbval-check-output"
HARDWARE = 'kind="hardware"'
LAST_CELL = "nb.finish()"

PARTS = {
    "# ": r"# ",
    "the way to the notebooks beside it, and to its lab": r"(?:Previous|Next): \[\d\d, (?:.|\n)+?\bLab:\s\[\d\d, ",
    "the time that it takes": r"\*\*(?:About|At most) [\w ]+ to run, [\w ]+ to read\.\*\*",
    "what the reader needs to know": r".*\bYou (?:need|should know)\b",
    "what the reader will be able to do, in three points": r"Afterwards you will be able to\n\n(?:- (?:.|\n )+\n){3,}",
    "## Where this differs from Apache Kafka": r"## Where this differs from Apache Kafka\n\n\| Here \| Apache Kafka \|",
    "## Summary": r"## Summary\n",
    "## Exercises": r"## Exercises\n",
    "**Lab:**": r"\*\*Lab:\*\* \[lab ",
    "## References, in points": r"## References\n\n- ",
}
"""What every notebook of the course has, and how it is known."""
LINUX_ONLY = re.compile(
    r"\bkernel\.(?:evict|counted|counters|why_|pages_in)|\.evict\(|\bread_speeds\(|\brestart_machine\(|\bsent_then_overwritten\(|/proc/"
)
"""What only Linux does: evict a file from memory, count a process's calls, lend a socket the pages of a file."""
INCIDENT_PARTS = ("# Incident ", "## Debrief", "## Again", "## Where this differs from Apache Kafka")
LAB_PARTS = ("# ", "## Where this differs from Apache Kafka", "## In the live cluster")

SVG, TEXT, PLOTLY = "image/svg+xml", "text/plain", "application/vnd.plotly.v1+json"
MUTE_KINDS = {"image/png", "image/jpeg", "image/gif", PLOTLY}
"""Pictures whose alternative JupyterLab drops."""
_LOST = re.compile(r'<text[^>]* style="[^"]*"|"url\(#[^)]*\)"|<(?:image|foreignObject|script)\b')
"""What GitHub's page of a notebook removes from a drawing: there a text's own style, a filling without a colour to fall
back to, and anything that is no drawing are not seen."""
_ACTIVE = re.compile(r"<(?:script|style|iframe|link|object|embed)\b|\son\w+=", re.IGNORECASE)
"""What it removes from HTML."""
_PLACES = re.compile(r"(?<![\w.\-:/])/(?:root|home|Users|tmp|work|mnt|private|var)/\w")
_WORD = re.compile(r"\w[\w'.-]*")
_MUTE = re.compile(r"!\[\s*\]\(|<img\b(?![^>]*\balt=[\"'][^\"'])[^>]*>|<svg\b(?![^>]*\baria-label=[\"'][^\"'])[^>]*>")
"""A picture without an alternative in words, in Markdown or in HTML."""
_NOT_SHOWN = re.compile(r"\bbeside (?:the|each) picture\b")
"""What refers a reader who hears the picture to a text that no page shows."""


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook: Any) -> str:
    """All that is written in words."""
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def outputs(notebook: Any) -> Iterator[Any]:
    for cell in code_cells(notebook):
        yield from cell.outputs


def problems(notebook: Any, is_lab: bool = False, is_report: bool = False) -> Iterator[str]:
    """All that is wrong with a notebook, in words; `is_report` is a lab whose result is a report."""
    yield from length_problems(notebook)
    yield from linux_problems(notebook)
    if is_report:
        yield from report_problems(notebook)
    else:
        yield from (lab_problems(notebook) if is_lab else part_problems(notebook))
    yield from output_problems(notebook)


def incident_problems(notebook: Any) -> Iterator[str]:
    """All that is wrong with the notebook of an incident: it is a console and a debrief, with few words around them."""
    yield from length_problems(notebook)
    yield from linux_problems(notebook)
    lines = prose(notebook).splitlines()
    for part in INCIDENT_PARTS:
        if not any(line.startswith(part) for line in lines):
            yield f"no {part!r}"
    yield from output_problems(notebook)


def file_problems(path: Path) -> Iterator[str]:
    """What is wrong with its file."""
    if path.stat().st_size > BYTES:
        yield f"{path.stat().st_size:,} bytes, more than {BYTES:,}"


def picture_problems(notebook: Any) -> Iterator[str]:
    """Each picture that says nothing to a reader who does not see it, in the author's words or in an output."""
    for found in _MUTE.findall(prose(notebook)):
        yield f"a picture without an alternative: {found[:60]!r}"
    for output in outputs(notebook):
        data = output.get("data", {})
        if SVG in data:
            title = html.unescape("".join(re.findall(r"<title>(.*?)</title>", data[SVG])[:1]))
            yield from _problems_of_words(alternative_of(data[SVG]), title)
        for kind in data.keys() & MUTE_KINDS:
            yield f"a picture without an alternative: {kind}"
        for found in _MUTE.findall(data.get(HTML, "")):
            yield f"a picture without an alternative: {found[:60]!r}"


def _problems_of_words(said: str, title: str) -> Iterator[str]:
    if not said:
        yield f"a picture without an alternative: {title!r}"
    elif not said.startswith(title) or len(said) < len(title) + 5:
        yield f"an alternative that does not say what the picture shows: {said!r}"
    if _NOT_SHOWN.search(said):
        yield f"an alternative that refers to a text that is not shown: {said!r}"


# --- what the author wrote --------------------------------------------------------------------------------------------


def length_problems(notebook: Any) -> Iterator[str]:
    """What is too long to be read with pleasure."""
    cells = code_cells(notebook)
    if len(cells) > CODE_CELLS:
        yield f"{len(cells)} code cells, more than {CODE_CELLS}"
    for index, cell in enumerate(cells, 1):
        if _lines(cell) > CELL_LINES:
            yield f"code cell {index} has {_lines(cell)} lines, more than {CELL_LINES}"
    for one, other in pairwise(notebook.cells):
        if one.cell_type == other.cell_type == "code" and min(_lines(one), _lines(other)) > LONG_CELL_LINES:
            yield f"two long code cells without a word between them: {other.source[:40]!r}"
    for source, count in Counter(cell.source for cell in cells).items():
        if count > 1:
            yield f"two cells of the same text, which pass for one that runs again: {source[:40]!r}"
    words = len(_WORD.findall(prose(notebook)))
    if words > WORDS:
        yield f"{words} words, more than {WORDS}"
    for paragraph in _paragraphs(prose(notebook)):
        if len(_WORD.findall(paragraph)) > PARAGRAPH_WORDS:
            yield f"a paragraph of {len(_WORD.findall(paragraph))} words: {paragraph[:60]!r}"
        for sentence in re.split(r"(?<=[.?!:;])\s+", paragraph):
            if len(_WORD.findall(sentence)) > SENTENCE_WORDS:
                yield f"a sentence of {len(_WORD.findall(sentence))} words: {sentence[:60]!r}"


def _lines(cell: Any) -> int:
    return sum(bool(line.strip()) for line in cell.source.splitlines())


def _paragraphs(text: str) -> Iterator[str]:
    """Blocks and items of lists, without code, tables, headings, tags, emphasis, and where links lead."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        if not block.lstrip().startswith(("|", "#")):
            yield re.sub(r"<[^>]+>|\]\([^)]*\)|\*\*", " ", block).strip()


def linux_problems(notebook: Any) -> Iterator[str]:
    """Which cells need Linux is said by the numbers of their sections: in the first cell, or at the end."""
    said = re.search(r"^\*\*Linux:\*\* (?:.|\n(?!\n))+", prose(notebook), re.MULTILINE)
    if said is None:
        yield "no '**Linux:**', which says what cells need it"
        return
    sections, section = set(re.findall(r"\b\d+\b", said[0])), ""
    for cell in notebook.cells:
        heading = re.search(r"^## (\d+)\.", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else None
        section = heading[1] if heading else section
        if cell.cell_type == "code" and LINUX_ONLY.search(cell.source) and section not in sections:
            yield f"section {section} needs Linux, and the notebook does not say so: {cell.source[:40]!r}"


def part_problems(notebook: Any) -> Iterator[str]:
    """What a notebook of the course must have."""
    text, cells = prose(notebook), code_cells(notebook)
    for wanted, pattern in PARTS.items():
        if not re.search(f"^{pattern}", text, re.MULTILINE):
            yield f"no {wanted!r}"
    sources = "\n".join(cell.source for cell in cells)
    if sources.count("nb.predict(") < PREDICTIONS:
        yield f"fewer than {PREDICTIONS} predictions"
    yield from _claim_problems(notebook)
    predicted = re.findall(r'nb\.(?:predict|mark)\(\s*"(\w+)"', sources)
    if sorted(predicted) != sorted(re.findall(r'nb\.answer\(\s*"(\w+)"', sources)):
        yield "a prediction without an answer, or an answer without a prediction"
    for choice in re.findall(r'nb\.predict\(\s*"\w+",\s*"(\w+)"', sources):
        if choice != "skip":
            yield f"a prediction is made already: {choice!r}"
    for given_away in re.findall(r'nb\.answer\([^\n]*"[a-h]"[^\n]*', sources):
        yield f"a cell's text gives the answer away: {given_away}"
    if re.search(r"<details>(?!\s*<summary>)", text):
        yield "a <details> without a <summary>: each page gives it a name of its own"
    yield from _exercise_problems(text.partition("## Exercises")[2].partition("\n## ")[0])
    if not notebook.cells or notebook.cells[-1].source != LAST_CELL:
        yield f"the last cell is not {LAST_CELL}"


def _exercise_problems(text: str) -> Iterator[str]:
    """A reader without a teacher checks each exercise by its folded answer."""
    exercises = re.split(r"^(?=\d+\. )", text, flags=re.MULTILINE)[1:]
    if len(exercises) < EXERCISES:
        yield f"{len(exercises)} exercises, fewer than {EXERCISES}"
    for exercise in exercises:
        if ANSWER not in exercise:
            yield f"an exercise without an answer: {exercise.strip()[:40]!r}"


def _claim_problems(notebook: Any) -> Iterator[str]:
    """A few claims, at the end of their section, so that the word HOLDS says something. Other facts are plain tests."""
    cells = [cell for cell in code_cells(notebook) if "nb.claim(" in cell.source]
    count = sum(cell.source.count("nb.claim(") for cell in cells)
    if not FEWEST_CLAIMS <= count <= MOST_CLAIMS:
        yield f"{count} claims: a notebook has {FEWEST_CLAIMS} to {MOST_CLAIMS}"
    if sum(cell.source.count(HARDWARE) for cell in cells) > 1:
        yield "more than one claim about hardware, which may fail"
    for index, cell in enumerate(notebook.cells):
        if "nb.claim(" in cell.source and cell.cell_type == "code":
            before, after = notebook.cells[max(0, index - 1)], notebook.cells[index + 1 : index + 2]
            if before.cell_type != "markdown" or not re.search(rf"^{CHECKED_HERE}$", before.source, re.MULTILINE):
                yield f"a claim that is not under '{CHECKED_HERE}': {cell.source[:40]!r}"
            if not all(next_one.cell_type == "markdown" and next_one.source.startswith("## ") for next_one in after):
                yield f"a claim that is not at the end of its section: {cell.source[:40]!r}"
            yield from _problems_of_claims(cell)


def _problems_of_claims(cell: Any) -> Iterator[str]:
    """A verdict is compared with the committed one, unless it is about hardware or may be not measurable."""
    if re.search(r"\bnb\.(?:answer|predict|mark)\(", cell.source):
        yield f"a question or an answer between claims: {cell.source[:40]!r}"
    is_compared = CHECKED in cell.metadata.get("tags", ())
    may_differ = HARDWARE in cell.source or "unless=" in cell.source
    if may_differ and cell.source.count("nb.claim(") > 1:
        yield "a claim that may differ from machine to machine in one cell with another claim"
    if may_differ == is_compared:
        yield "a claim about hardware is compared" if may_differ else "a claim whose verdict is not compared"
    if HARDWARE in cell.source and not re.search(r'fails_on="[^":]+: [^"]+"', cell.source):
        yield "a claim about hardware that does not say on which machines it fails, and why"


def lab_problems(notebook: Any) -> Iterator[str]:
    """What the notebook of a lab must have."""
    for wanted in LAB_PARTS:
        if not re.search(rf"^{wanted}", prose(notebook), re.MULTILINE):
            yield f"no {wanted!r}"
    sources = [cell.source for cell in code_cells(notebook)]
    tasks = {match[1] for source in sources if (match := re.match(r"%%task ([\d.]+)", source))}
    checked = {name for source in sources for name in re.findall(r'lab\.check\("([\d.]+)"\)', source)}
    if not tasks:
        yield "no %%task cell"
    if tasks != checked:
        yield f"tasks {sorted(tasks)} are written, tasks {sorted(checked)} are checked"
    for wanted in ("lab.start()", "lab.run_in_cluster()"):
        if not any(wanted in source for source in sources):
            yield f"no cell with {wanted}"


def report_problems(notebook: Any) -> Iterator[str]:
    """What the notebook of a lab must have that ends in a report: the report is written elsewhere."""
    sources = "\n".join(cell.source for cell in code_cells(notebook))
    if not re.search(r"^# ", prose(notebook), re.MULTILINE):
        yield "no '# '"
    for wanted in ("lab.start()", "lab.write(", "lab.check("):
        if wanted not in sources:
            yield f"no cell with {wanted}"


# --- what the committed run left --------------------------------------------------------------------------------------


def output_problems(notebook: Any) -> Iterator[str]:
    """What does not belong into a committed run, or is missing there."""
    cells = code_cells(notebook)
    if [cell.execution_count for cell in cells] != list(range(1, len(cells) + 1)):
        yield "it was not run from top to bottom"  # without counts nbval compares nothing, and passes
    if "widgets" in notebook.metadata:
        yield "it holds the state of widgets"
    for cell in cells:
        if CHECKED in cell.metadata.get("tags", ()) and not cell.outputs:
            yield "a cell to be compared has no output"
        for output in cell.outputs:
            yield from _problems_of_output(output, HARDWARE in cell.source)


def _problems_of_output(output: Any, is_hardware: bool) -> Iterator[str]:
    if output.output_type == "error" or output.get("name") == "stderr":
        yield f"an error or its text: {str(output)[:80]}"
    data = output.get("data", {})
    if any("widget" in kind for kind in data):
        yield "a live widget, which is empty without a kernel"
    if (SVG in data or PLOTLY in data) and not {SVG, TEXT} <= set(data):
        yield "a figure without a picture or a text"
    if data and TEXT not in data:
        yield f"an output without a text: {sorted(data)}"
    lost = _LOST.search(data.get(SVG, "")) or _ACTIVE.search(data.get("text/html", ""))
    if lost:
        yield f"what GitHub does not show: {lost[0][:60]}"
    if re.match(r"DOES NOT HOLD\b(?!:)", data.get(TEXT, "")) and not is_hardware:
        yield f"{data[TEXT]}"
    size = len(str(output))
    if size > OUTPUT_BYTES:
        yield f"an output of {size:,} bytes, more than {OUTPUT_BYTES:,}"
    for text in (output.get("text", ""), *data.values()):
        place = _PLACES.search(text) if isinstance(text, str) else None
        if place:
            yield f"a folder of this machine: {text[place.start() : place.start() + 40]!r}"
