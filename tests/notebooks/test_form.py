"""What a committed notebook must be, without running it: short, run from top to bottom, small, and readable by all.

The notebooks of the labs are held to the same measure; the limits stand in pykraft.course.authoring.form.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest

from pykraft.course.authoring import form
from pykraft.course.authoring.build import LAB_NOTEBOOK, find, short_name
from pykraft.course.authoring.execute import NotebookFailed, read
from pykraft.course.authoring.first_screen import ABOUT
from pykraft.course.authoring.form import outputs, prose
from pykraft.course.places import is_report
from pykraft.course.shown_source import shown_source
from pykraft.course.syllabus import SYLLABUS
from tests.harness.tree import ROOT

COURSE = sorted((ROOT / "notebooks").glob("*.ipynb"))
NOTEBOOKS = [*COURSE, *sorted((ROOT / "labs").glob("*/lab.ipynb"))]


def links(notebook: Any) -> list[str]:
    """Where it leads on this disk, in its words and in what its cells have printed; without the heading."""
    printed = [output.get("data", {}).get("text/markdown", "") for output in outputs(notebook)]
    text = re.sub(r"```.*?```", "", "\n\n".join([prose(notebook), *printed]), flags=re.DOTALL)
    found = re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=[\"']([^\"']+)", text)
    return [path for link in found for path in ["".join(link).partition("#")[0]] if path and "://" not in path]


@pytest.fixture(params=NOTEBOOKS, ids=short_name)
def path(request: pytest.FixtureRequest) -> Path:
    found = request.param
    assert isinstance(found, Path)
    return found


def test_a_notebook_has_its_form(path: Path) -> None:
    assert list(form.problems(read(path), path.name == LAB_NOTEBOOK, is_report(path.parent))) == []
    assert list(form.file_problems(path)) == []


def test_the_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    notebook = read(path)
    assert links(notebook)
    assert [link for link in links(notebook) if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", COURSE, ids=short_name)
def test_a_notebooks_title_is_the_one_that_the_syllabus_tells(path: Path) -> None:
    assert f"# {SYLLABUS[path.name[:2]].title}" in prose(read(path)).splitlines()


@pytest.mark.parametrize("path", COURSE, ids=short_name)
def test_a_notebook_leads_to_the_notebooks_before_and_behind_it_and_to_their_titles(path: Path) -> None:
    """Under its last heading."""
    place = COURSE.index(path)
    said = " ".join(prose(read(path)).rpartition(f"\n{ABOUT}\n")[2].split())
    for word, beside in (("Previous", COURSE[:place][-1:]), ("Next", COURSE[place + 1 :][:1])):
        for other in beside:
            number = other.name[:2]
            assert f"{word}: [{number}, {SYLLABUS[number].title}]({other.name})" in said


@pytest.mark.parametrize("path", COURSE, ids=short_name)
def test_a_notebook_has_three_pictures(path: Path) -> None:
    assert sum(form.SVG in output.get("data", {}) for output in outputs(read(path))) >= 3


def test_the_code_that_a_notebook_shows_is_the_code_that_runs(path: Path) -> None:
    for output in outputs(read(path)):
        text = output.get("data", {}).get("text/plain", "")
        place = re.match(r"# (pykraft/[\w/]+)\.py: ([\w.]+)\n", text)
        if place:
            thing: Any = importlib.import_module(place[1].replace("/", "."))
            for name in place[2].split("."):
                thing = getattr(thing, name)
            assert text in {repr(shown_source(thing)), repr(shown_source(thing, docstring=False))}, place[0]


def test_each_picture_has_a_title_and_a_description(path: Path) -> None:
    pictures = [
        output.data["image/svg+xml"] for output in outputs(read(path)) if "image/svg+xml" in output.get("data", {})
    ]
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert not {"width", "height"} & set(root.keys()), "a page narrower than the picture would cut it"
        for name in ("title", "desc"):
            assert (root.findtext(f"{{http://www.w3.org/2000/svg}}{name}") or "").strip()


def test_a_notebook_is_as_it_was_built(path: Path) -> None:
    notebook = read(path)
    assert [cell.id for cell in notebook.cells] == [
        f"{short_name(path)}-c{number:02}" for number in range(1, len(notebook.cells) + 1)
    ]
    assert sorted(notebook.metadata) == ["kernelspec", "language_info"]
    assert all(set(cell.metadata) <= {"tags", "slideshow"} for cell in notebook.cells)


def test_a_notebook_is_found_by_its_number_a_lab_by_its_name_and_any_other_by_its_path() -> None:
    assert find("00") == COURSE[0]
    assert find("lab08").parent.name == "lab08_partitioner"
    assert find("some/where.ipynb") == Path("some/where.ipynb")
    for name in ("0", "97", "notebooks"):
        with pytest.raises(NotebookFailed, match=f"there is no notebook {name}"):
            find(name)


# --- the form can fail ------------------------------------------------------------------------------------------------


def code(source: str = "1", tags: tuple[str, ...] = (), **changes: Any) -> Any:
    cell = nbformat.v4.new_code_cell(source, **changes)  # type: ignore[no-untyped-call]
    cell.metadata["tags"] = list(tags)
    return cell


def words(text: str) -> Any:
    return nbformat.v4.new_markdown_cell(text)  # type: ignore[no-untyped-call]


def here() -> Any:
    return words("Why?\n\n### Checked here")


def then() -> Any:
    return words("## 2. What then?")


def shown(**data: Any) -> Any:
    return nbformat.v4.new_output("display_data", data={k.replace("_", "/"): v for k, v in data.items()})  # type: ignore[no-untyped-call]


def bad(*cells: Any) -> Any:
    return nbformat.v4.new_notebook(cells=list(cells))  # type: ignore[no-untyped-call]


LOST = [
    ("image_svg+xml", '<svg><text x="1" style="fill:#fff">a</text></svg>', '<text x="1" style="fill:#fff"'),
    ("image_svg+xml", '<svg><rect fill="url(#tile)"/></svg>', '"url(#tile)"'),
    ("image_svg+xml", '<svg><image href="a.png"/></svg>', "<image"),
    ("text_html", "<div><script>run()</script></div>", "<script"),
    ("text_html", "<b onclick='run()'>x</b>", " onclick="),
]
HARDWARE = 'nb.claim("x", True, kind="hardware", fails_on="a Mac: it copies")'


@pytest.mark.parametrize(
    ("problem", "cells"),
    [
        ("code cell 1 has 26 lines", [code("x = 1\n" * 26)]),
        ("31 code cells", [code() for _ in range(31)]),
        ("two cells of the same text", [code("nb.claim('x', y > 1)"), code("nb.claim('x', y > 1)")]),
        ("two long code cells without a word between them", [code("x = 1\n" * 11), code("y = 1\n" * 11)]),
        ("2401 words", [words("word\n\n" * 2401)]),
        ("a sentence of 41 words", [words("word " * 40 + "end.")]),
        ("a paragraph of 121 words", [words("Two words. " * 60 + "End.")]),
        ("no '## Summary'", [code()]),
        ("no 'the way to the notebooks beside it", [words("# A question?\n\nNext: [01, Why?](01_why.ipynb)")]),
        ("no 'the time that it takes'", [words("# A question?\n\n**A minute.** You need Python.")]),
        ("no 'what the reader needs to know'", [words("# A question?\n\n**About a minute to run, ten to read.**")]),
        ("in three points'", [words("Afterwards you will be able to\n\n- one;\n- two\n  and a half.")]),
        ("no '**Lab:**'", [words("## Exercises\n\nLab: none")]),
        ("no '## References, in points'", [words("## References\n\nA KIP.")]),
        ("fewer than 2 predictions", [code()]),
        ("0 claims: a notebook has 2 to 4", [code()]),
        ("5 claims: a notebook has 2 to 4", [code('nb.claim("x", True)\n' * 5)]),
        ("a claim that is not under '### Checked here'", [words("So it is."), code('nb.claim("x", True)'), then()]),
        ("a claim that is not under '### Checked here'", [here(), code("y = 1"), code('nb.claim("x", True)'), then()]),
        ("a claim that is not at the end of its section", [here(), code('nb.claim("x", True)'), words("So it is.")]),
        ("a claim that is not at the end of its section", [here(), code('nb.claim("x", True)'), code("y = 1")]),
        ("a question or an answer between claims", [here(), code('nb.answer("p")\nnb.claim("x", True)'), then()]),
        ("more than one claim about hardware", [here(), code(HARDWARE), then(), here(), code(HARDWARE)]),
        ("does not say on which machines it fails", [here(), code(HARDWARE.replace(": it copies", "")), then()]),
        ("2 exercises, fewer than 3", [words("## Exercises\n\n1. One\n2. Two\n\n## References\n\n3. Three")]),
        (
            "an exercise without an answer: '2. Two'",
            [words(f"## Exercises\n\n1. One {form.ANSWER}It.\n2. Two\n\n## End")],
        ),
        ("a <details> without a <summary>", [words("1. Why? <details>Because.</details>")]),
        ("a prediction without an answer", [code('nb.predict("p", "skip", a="b")')]),
        ("a prediction is made already: 'b'", [code('nb.predict("p", "b", a="b")')]),
        ('a cell\'s text gives the answer away: nb.answer("p", "b")', [code('nb.answer("p", "b")')]),
        ("a cell's text gives the answer away", [code('nb.answer("p", "b" if x < 2 else "c")')]),
        ("the last cell is not nb.finish()", [code("x = 1")]),
        ("a claim whose verdict is not compared", [code('nb.claim("x", True)')]),
        ("a claim about hardware is compared", [code(HARDWARE, (form.CHECKED,))]),
        ("in one cell with another claim", [code(HARDWARE + '\nnb.claim("x", True)')]),
        ("in one cell with another claim", [code('nb.claim("x", y, unless=z)\nnb.claim("x", True)')]),
        ("a claim about hardware is compared", [code('nb.claim("x", y, unless=z)', (form.CHECKED,))]),
        ("it was not run from top to bottom", [code()]),
        ("a cell to be compared has no output", [code(tags=(form.CHECKED,))]),
        ("an error", [code(outputs=[nbformat.v4.new_output("error", ename="E", evalue="e", traceback=[])])]),  # type: ignore[no-untyped-call]
        ("a live widget", [code(outputs=[shown(**{"application_vnd.jupyter.widget-view+json": {}})])]),
        ("without a picture or a text", [code(outputs=[shown(**{"image_svg+xml": "<svg/>"})])]),
        ("an output without a text", [code(outputs=[shown(text_html="<b>x</b>")])]),
        *(
            (f"what GitHub does not show: {lost}", [code(outputs=[shown(**{kind: drawn})])])
            for kind, drawn, lost in LOST
        ),
        ("DOES NOT HOLD  x", [code(outputs=[shown(text_plain="DOES NOT HOLD  x")])]),
        ("an output of 100,0", [code(outputs=[shown(text_plain="x" * 100_001)])]),
        ("a folder of this machine", [code(outputs=[shown(text_plain="in /" + "home/ann/x")])]),
        ("a folder of this machine", [code(outputs=[shown(text_plain="'/" + "tmp/pykraft-1'")])]),
    ],
)
def test_a_wrong_form_is_seen(problem: str, cells: list[Any]) -> None:
    assert problem in "; ".join(form.problems(bad(*cells)))


@pytest.mark.parametrize(
    ("problem", "cells"),
    [
        ("no %%task cell", [code()]),
        ("tasks ['1.1'] are written, tasks [] are checked", [code("%%task 1.1\nx = 1")]),
        ("no cell with lab.start()", [code()]),
        ("no '## In the live cluster'", [code()]),
    ],
)
def test_a_wrong_form_of_a_lab_is_seen(problem: str, cells: list[Any]) -> None:
    assert problem in "; ".join(form.problems(bad(*cells), is_lab=True))


def test_a_wrong_form_of_a_lab_that_ends_in_a_report_is_seen() -> None:
    found = "; ".join(form.problems(bad(code("lab.start()")), is_lab=True, is_report=True))
    assert "no cell with lab.write(" in found and "no cell with lab.check(" in found and "lab.start" not in found


def test_folklore_may_turn_out_to_be_wrong() -> None:
    fails = shown(text_plain="DOES NOT HOLD  x")
    assert list(form.output_problems(bad(code(HARDWARE, outputs=[fails], execution_count=1)))) == []


def test_claims_in_their_place_are_no_problem() -> None:
    checked = code('is_so = y > 1\nnb.claim("x", is_so)\nnb.claim("y", y > 2)', (form.CHECKED,))
    found = "; ".join(form.problems(bad(here(), checked, then(), here(), code(HARDWARE))))
    assert found and "claim" not in found
