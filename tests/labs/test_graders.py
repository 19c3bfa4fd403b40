"""The graders are graded: a lab's checks must refuse the starter, accept the solution, and catch what is wrong."""

from __future__ import annotations

import ast
import functools
import json
import re
from pathlib import Path

import pytest

from pykraft.course.authoring.build import LAB_NOTEBOOK
from pykraft.course.authoring.form import CELL_COLUMNS
from pykraft.course.labs.grading import NOT_YET, Report, grade_many
from pykraft.course.labs.lab import HINTS, readme_checks, readme_hints
from pykraft.course.labs.mutants import mutants, wrong_solution
from pykraft.course.labs.reports import UNWRITTEN
from pykraft.course.labs.task_cells import definitions, tasks
from pykraft.course.places import is_report, lab_file
from tests.labs.graders import LABS, SHORT, lines_of, mutant_files
from tests.labs.mutations import listed_survivors, mutations, report_mutations

SEEDS = range(1, 4)
MORE_SEEDS = range(4, 21)
UNLUCKY = {"lab10_lost_writes": (10,)}
"""By lab, seeds under which its checks once refused a right answer."""
LOOPS = {"lab12_epoch_truncation": 0.4}
"""By lab, how long a check may compute where wrong solutions ask without end; a right one takes a few milliseconds."""
FEWEST_MUTANTS, MOST_MUTANTS = 4, 24
DYING = 0.9
"""Of all mechanical changes of the solution, the share that must be caught."""
BINDING = re.compile(r"\b(until|again|each|still|only)\b", re.IGNORECASE)
NO_RULES = {
    # They describe what the reader is given or what a column means.
    "It returns the batches of each new segment, one segment for a group, and the map's end.",
}

pytestmark = pytest.mark.parametrize("folder", LABS, ids=SHORT)


def seeds_of(folder: Path) -> tuple[int, ...]:
    return (*SEEDS, *UNLUCKY.get(folder.name, ()))


@functools.cache
def graded(folder: Path) -> dict[tuple[Path, int], Report]:
    """What the checks say of the starter, of the solution under the first seeds, and of the mutants."""
    solution = lab_file(folder, "solution")
    runs = [
        (lab_file(folder, "starter"), 1),
        *((solution, seed) for seed in seeds_of(folder)),
        *((file, 1) for file in mutant_files(folder).values()),
    ]
    limit_s = LOOPS.get(folder.name, 2.0)
    return dict(zip(runs, grade_many(folder, runs, check_limit_s=limit_s), strict=True))


def test_a_lab_has_all_its_files(folder: Path) -> None:
    wanted = {
        "README.md",
        "lab.ipynb",
        "live.py",
        "mutants",
        "solution.py",
        "starter.py",
        "survivors.txt",
        "test_lab.py",
    }
    if is_report(folder):
        wanted = wanted - {"live.py", "solution.py", "starter.py"} | {"solution.md", "starter.md"}
    mine = {lab_file(folder, "work").name, "__pycache__", ".ipynb_checkpoints"}
    assert {path.name for path in folder.iterdir()} - mine == wanted


def test_the_starter_fails_every_check_and_only_with_its_own_words(folder: Path) -> None:
    report = graded(folder)[lab_file(folder, "starter"), 1]
    assert not report.problem
    assert {check.outcome for check in report.checks} == {NOT_YET}
    assert {check.kind for check in report.checks} == {"NotImplementedError"}
    for check in report.checks:
        assert check.message.startswith(f"Task {check.task}: "), check


def test_the_solution_passes_under_three_seeds(folder: Path) -> None:
    for seed in seeds_of(folder):
        assert_passed(graded(folder)[lab_file(folder, "solution"), seed])


@pytest.mark.long
def test_the_solution_passes_under_seventeen_more_seeds(folder: Path) -> None:
    solution = lab_file(folder, "solution")
    for report in grade_many(folder, [(solution, seed) for seed in MORE_SEEDS]):
        assert_passed(report)


def assert_passed(report: Report) -> None:
    assert report.has_passed, (report.seed, report.problem, report.failed)
    assert report.points == report.total > 0


def test_every_mutant_is_caught_by_the_check_that_it_names_and_passes_half_of_them(folder: Path) -> None:
    found = mutant_files(folder)
    assert FEWEST_MUTANTS <= len(found) <= MOST_MUTANTS
    for mutant, file in found.items():
        report = graded(folder)[file, 1]
        assert not report.problem, f"{mutant.name}: {report.problem}"
        assert mutant.killer in report.failed, f"{mutant.name} SURVIVED {mutant.killer}: caught by {report.failed}"
        assert len(report.failed) <= len(report.checks) / 2, f"{mutant.name} is no plausible mistake: {report.failed}"
        (check,) = [check for check in report.checks if check.name == mutant.killer]
        assert " " in check.message and "Error:" not in check.message, f"{mutant.name} is not told in words: {check}"


def test_a_mutant_is_a_patch_that_fits_the_solution_and_leaves_a_program(folder: Path) -> None:
    assert {path.suffix for path in (folder / "mutants").iterdir()} == {".patch"}
    made = [wrong_solution(folder, mutant) for mutant in mutants(folder)]
    assert len({lab_file(folder, "solution").read_text(), *made}) == len(made) + 1, "two mutants are the same program"
    for mutant, text in zip(mutants(folder), made, strict=True):
        assert len(mutant.mistake) <= 110
        if not is_report(folder):
            compile(text, mutant.name, "exec")


def test_each_until_again_each_still_and_only_of_the_problem_has_a_mutant_that_breaks_it(folder: Path) -> None:
    problem = (folder / "README.md").read_text().partition("## The problem")[2].partition("\n## ")[0]
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n|\n- |\n\d\. |\|\n", problem)]
    broken = {mutant.breaks for mutant in mutants(folder) if mutant.breaks}
    assert not [words for words in broken if not any(words in block for block in blocks)], "a quotation is wrong"
    clauses = [clause for block in blocks for clause in re.split(r"(?<=[.:;])\s", block)]
    rules = [clause for clause in clauses if BINDING.search(clause) and clause not in NO_RULES]
    assert not [rule for rule in rules if not any(words in rule or rule in words for words in broken)]


@pytest.mark.long
def test_nine_of_ten_mechanical_changes_of_the_solution_are_caught_and_the_others_are_listed(
    folder: Path, tmp_path: Path
) -> None:
    solution = lab_file(folder, "solution")
    made = list((report_mutations if is_report(folder) else mutations)(solution.read_text()))
    files = [tmp_path / f"{number}{solution.suffix}" for number in range(len(made))]
    for mutation, file in zip(made, files, strict=True):
        file.write_text(mutation.text)
    reports = grade_many(folder, [(file, 1) for file in files], stop_at_first=True, check_limit_s=0.25)
    survivors = {mutation.key for mutation, report in zip(made, reports, strict=True) if report.has_passed}
    assert len(made) >= 20
    assert survivors == set(listed_survivors((folder / "survivors.txt").read_text()))
    assert len(survivors) <= (1 - DYING) * len(made), f"{len(survivors)} of {len(made)} survive"


def test_starter_and_solution_have_the_same_tasks_and_signatures(folder: Path) -> None:
    starter, solution = (lab_file(folder, name).read_text() for name in ("starter", "solution"))
    assert [task[:2] for task in tasks(starter)] == [task[:2] for task in tasks(solution)]
    assert all(task.name.startswith(f"{int(folder.name[3:5])}.") for task in tasks(starter))

    def signatures(text: str) -> dict[str, str]:
        if is_report(folder):
            return dict.fromkeys(re.findall(r"^## .*$|^- [\w ]+:", text, re.MULTILINE), "")
        functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
        return {node.name: ast.unparse(node.args) for node in functions}

    assert signatures(starter).items() <= signatures(solution).items()
    assert set(definitions(starter)) <= set(definitions(solution))


def test_the_cells_of_the_notebook_are_the_tasks_of_the_starter_and_no_line_is_wider_than_a_cell(folder: Path) -> None:
    cells = [cell for cell in json.loads((folder / LAB_NOTEBOOK).read_text())["cells"] if cell["cell_type"] == "code"]
    texts = ["".join(cell["source"]) for cell in cells]
    assert [line for text in texts for line in text.splitlines() if len(line) > CELL_COLUMNS] == []
    if not is_report(folder):
        starter = lab_file(folder, "starter").read_text()
        assert [line for line in starter.splitlines() if len(line) > CELL_COLUMNS] == []
        written = [text for text in texts if text.startswith("%%task ")]
        assert written == [f"%%task {task.name}\n{task.body}" for task in tasks(starter)]


def test_the_solution_is_as_long_as_promised(folder: Path) -> None:
    promised = re.search(r"The solution has (\d+) lines", (folder / "README.md").read_text())
    assert promised is not None
    assert lines_of(lab_file(folder, "solution")) == int(promised[1])
    row = next(line for line in (folder.parent / "README.md").read_text().splitlines() if f"]({folder.name}/" in line)
    assert f"| {promised[1]} |" in row


def test_the_readme_lists_the_checks_as_they_are_and_has_three_hints_for_each_task(folder: Path) -> None:
    readme = (folder / "README.md").read_text()
    report = graded(folder)[lab_file(folder, "solution"), 1]
    assert readme_checks(report) in readme, f"run: python -m pykraft course build {folder.name[:5]}"
    for task in report.tasks:
        hints = readme_hints(readme, task)
        assert len(hints) == HINTS and all(hints)


def test_every_check_says_what_it_sends_and_what_is_wrong(folder: Path) -> None:
    tree = ast.parse((folder / "test_lab.py").read_text())
    checks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    assert len(checks) >= 8
    for check in checks:
        assert ast.get_docstring(check), f"{check.name} has no docstring"
        assert any("task" in ast.unparse(decorator) for decorator in check.decorator_list), f"{check.name} has no task"
    silent = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert) and node.msg is None]
    assert not silent, f"an assertion without words in line {silent}"


def test_the_starter_is_no_copy_of_the_solution(folder: Path) -> None:
    bodies = {t.name: t.body for t in tasks(lab_file(folder, "solution").read_text())}
    missing = UNWRITTEN if is_report(folder) else "NotImplementedError"
    assert all(missing in t.body != bodies[t.name] for t in tasks(lab_file(folder, "starter").read_text()))
    assert missing not in "".join(bodies.values())
