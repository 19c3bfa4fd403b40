"""A notebook in the terminal: its headings and text results as they come, and the executed page as HTML in build/."""

import re
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, TextIO

from pykraft.course.authoring.execute import NotebookFailed, execute, is_kept, read
from pykraft.viz.drawing.alternative import SVG

FOLDER = Path("build")
_WIDTH = 100
_SCRIPT = re.compile(r"<script\b[^>]*>.*?</script>", re.DOTALL)
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What would move the cursor, colour the screen or worse, in text that comes from elsewhere."""


def run(notebook_path: Path, folder: Path = FOLDER, out: TextIO | None = None) -> int:
    """Run the notebook; 0 if all of its cells ran, else 1 and one sentence. The page is written in either case."""
    teller = _Teller(out or sys.stdout)
    try:
        notebook = read(notebook_path)
        teller.total = sum(cell.cell_type == "code" for cell in notebook.cells)
    except NotebookFailed as error:
        teller.line(f"pykraft: {error}")
        return 1
    failure = None
    try:
        execute(notebook, notebook_path.resolve().parent, teller.before, teller.after)
    except NotebookFailed as error:
        failure = error
    page = folder / notebook_path.with_suffix(".html").name
    write_page(notebook, page, notebook_path.stem)
    teller.line("")
    if failure is not None:
        teller.line(f"{notebook_path}: {failure}. The page up to there is {page}")
        return 1
    teller.line(f"All {teller.total} cells ran in {teller.seconds:.0f} s. The page with its pictures: {page}")
    return 0


def write_page(notebook: Any, page: Path, title: str) -> None:
    """The executed notebook as one HTML file. Nothing is loaded from the internet: nbconvert's scripts for formulas and
    diagrams would be, and no lesson has any."""
    from nbconvert import HTMLExporter

    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [_on_a_page(output) for output in cell.outputs if is_kept(output)]
    exporter = HTMLExporter(template_name="lab")  # type: ignore[no-untyped-call]
    text, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}})
    text = _SCRIPT.sub(lambda found: "" if "https://" in found[0] else found[0], text)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")


def _on_a_page(output: Any) -> Any:
    """A picture becomes a part of the page: as an image beside it, it would lose its title and its description."""
    if SVG in output.get("data", {}):
        output.data = type(output.data)({"text/html": output.data[SVG]})
    return output


class _Teller:
    """Says what happens."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._started = time.monotonic()
        self._cell = 0
        self.total = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def line(self, text: str) -> None:
        self._out.write(_CONTROL.sub("", text) + "\n")
        self._out.flush()

    def before(self, _: int, cell: Any) -> None:
        if cell.cell_type == "markdown":
            for heading in re.findall(r"^#+ +(.+)$", cell.source, re.MULTILINE)[:1]:
                self.line(f"\n{heading}\n{'-' * min(len(heading), _WIDTH)}")
        elif cell.cell_type == "code":
            self._cell += 1
            first = next((line for line in cell.source.splitlines() if line.strip()), "")
            self.line(f"[{self._cell}/{self.total}, {self.seconds:.0f} s] {textwrap.shorten(first, 80)}")

    def after(self, _: int, cell: Any) -> None:
        for output in cell.get("outputs", ()):
            if output.get("name") != "stderr":
                data = output.get("data", {})
                # A live widget has nothing to say when it is over.
                text = (
                    "" if any("widget" in kind for kind in data) else output.get("text") or data.get("text/plain", "")
                )
                for line in text.rstrip().splitlines():
                    self.line("    " + line)
