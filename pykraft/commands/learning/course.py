"""``course``: build its notebooks, look at one's progress, grade labs.

    course build 00 08 lab08      run notebooks and keep their outputs; for a lab also the list of its checks
    course slides 02              write build/02_....slides.html: its words and pictures, without code and network
    course status                 what has been done so far, from the learner's own ~/.pykraft/progress.json
    course grade --seed 7341      check work.py of every lab that was begun, with a seed of the grader's choice
    course grade 08 --file f.py   check some other file
    course check 08 8.1           check your work.py, all of it or one task; the same as lab.check in the notebook
    course hint 08 8.1            the next of three hints for a task
    course replay 08              the check that failed last, at the call where it went wrong
    course run 08                 start the live cluster that runs on your code
    course grade 08 --class hand-ins --csv points.csv
                                  check the files of a class, one row for each student and lab
    course binder --write         put the badge that opens this copy on Binder into the README
    course map --write            write pykraft/README.md, one line for each module

A grade is a run of the same checks that the learner has; another seed asks other questions. Exit code 0 says that all
points were won; after a class, that every file was looked at.
"""

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from random import Random

from pykraft.commands.common import CommandError, say, tell
from pykraft.course.places import LABS, ROOT, NoSuchLab, lab_file, lab_folder, lab_folders

LEARNING = {
    "check": "check your work.py",
    "hint": "show the next hint for a task",
    "replay": "show the check that failed last once more, at the call where it went wrong",
    "run": "start the live cluster that runs on your code",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, dest="action", metavar="ACTION")
    build = actions.add_parser("build", help="run notebooks and keep their outputs")
    build.add_argument("names", nargs="+", metavar="NAME", help="a number such as 08, a lab such as lab08, or a path")
    slides = actions.add_parser("slides", help="write a notebook's words and pictures as a page of slides into build/")
    slides.add_argument("names", nargs="+", metavar="NAME", help="a number such as 08, a lab such as lab08, or a path")
    actions.add_parser("status", help="show what has been done so far")
    grading = actions.add_parser("grade", help="check labs, and print points")
    grading.add_argument("labs", nargs="*", metavar="LAB", help="numbers such as 08 (default: all that were begun)")
    grading.add_argument("--seed", type=int, help="what chance begins with (default: one that is drawn)")
    grading.add_argument("--file", type=Path, help="the file to be checked, instead of work.py; for one lab")
    grading.add_argument(
        "--class",
        type=Path,
        dest="folder",
        metavar="FOLDER",
        help="check a class: a folder for each student",
    )
    grading.add_argument(
        "--csv",
        nargs="?",
        const="-",
        metavar="FILE",
        help="with --class: write CSV (to this file, or print it)",
    )
    grading.add_argument("--json", action="store_true", help="print everything that was found, as JSON")
    for name, about in LEARNING.items():
        learning = actions.add_parser(name, help=about)
        learning.add_argument("lab", metavar="LAB", help="a number such as 08")
        if name in ("check", "hint"):
            learning.add_argument("task", metavar="TASK", nargs="?" if name == "check" else None, help="such as 8.1")
    binder = actions.add_parser("binder", help="print the badge that opens the course on Binder")
    binder.add_argument("--repository", metavar="OWNER/NAME", help="on GitHub (default: this copy's origin)")
    binder.add_argument("--ref", default="HEAD", help="a branch or a tag (default: HEAD)")
    binder.add_argument("--write", action="store_true", help="put it into README.md")
    mapping = actions.add_parser("map", help="print the map of the modules")
    mapping.add_argument("--write", action="store_true", help="write it to pykraft/README.md")


def run(options: argparse.Namespace) -> int:
    actions = {"build": _build, "slides": _slides, "status": _status, "grade": _grade, "binder": _binder, "map": _map}
    actions |= dict.fromkeys(LEARNING, _learn)
    try:
        return actions[options.action](options)
    except NoSuchLab as error:
        raise CommandError(str(error)) from None


# --- build ------------------------------------------------------------------------------------------------------------


def _build(options: argparse.Namespace) -> int:
    from pykraft.course.authoring import build
    from pykraft.course.authoring.execute import NotebookFailed

    for name in options.names:
        try:
            path = build.find(name)
            if path.name == build.LAB_NOTEBOOK:
                _write_checks(path.parent)
            say(f"{path}: built in {build.build(path):.1f} s")
        except NotebookFailed as error:
            raise CommandError(f"{name}: {error}") from None
        for problem in build.what_is_missing(path):
            tell(f"{path}: {problem}")
    return 0


def _write_checks(folder: Path) -> None:
    """Rewrite the section of a lab's README that lists its checks, and the instructor's list of mistakes."""
    from pykraft.course.authoring import mistakes
    from pykraft.course.labs.grading import grade
    from pykraft.course.labs.lab import with_checks

    readme = folder / "README.md"
    report = grade(folder, lab_file(folder, "solution"))
    if not report.has_passed:
        raise CommandError(f"{folder.name}: the solution does not pass: {report.problem or sorted(report.failed)}")
    readme.write_text(with_checks(readme.read_text(encoding="utf-8"), report), encoding="utf-8")
    mistakes.PAGE.write_text(mistakes.with_mistakes(mistakes.PAGE.read_text(encoding="utf-8")), encoding="utf-8")


# --- slides -----------------------------------------------------------------------------------------------------------


def _slides(options: argparse.Namespace) -> int:
    from pykraft.course.authoring import build
    from pykraft.course.authoring.execute import NotebookFailed, read
    from pykraft.course.authoring.slide_page import slide_page

    folder = ROOT / "build"
    for name in options.names:
        try:
            path = build.find(name)
            notebook = read(path)
        except NotebookFailed as error:
            raise CommandError(str(error)) from None
        title = notebook.cells[0].source.splitlines()[0].lstrip("# ") if notebook.cells else path.stem
        stem = path.parent.name if path.name == build.LAB_NOTEBOOK else path.stem
        page = folder / f"{stem}.slides.html"
        try:
            folder.mkdir(exist_ok=True)
            page.write_text(slide_page(notebook, title), encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{page} cannot be written: {error.strerror}") from None
        say(f"{page}")
    return 0


# --- status -----------------------------------------------------------------------------------------------------------


def _status(_: argparse.Namespace) -> int:
    from pykraft.course.progress import progress_file, read_progress

    progress = read_progress()
    if not progress["notebooks"] and not progress["labs"]:
        say(f"Nothing is noted yet in {progress_file()}: it begins with the first notebook or lab that you run.")
        return 0
    for number, seen in sorted(progress["notebooks"].items()):
        guesses = list(seen.get("predictions", {}).values())
        score = f", {guesses.count('right')} of {len(guesses)} predictions right" if guesses else ""
        finished = seen.get("finished")
        say(f"notebook {number}   {f'finished {finished}' if finished else 'begun'}{score}")
    for number, seen in sorted(progress["labs"].items()):
        tasks = seen.get("tasks", {})
        won, total = (sum(task[name] for task in tasks.values()) for name in ("points", "of"))
        hints = sum(seen.get("hints", {}).values())
        notes = [f"{won} of {total} points in {len(tasks)} tasks"] if tasks else ["begun"]
        notes += [f"{hints} hints taken"] if hints else []
        notes += ["solution revealed"] if seen.get("revealed") else []
        say(f"lab {number}        {', '.join(notes)}")
    return 0


# --- a lab without a notebook -----------------------------------------------------------------------------------------


def _learn(options: argparse.Namespace) -> int:
    """What a cell of the lab's notebook does. Exit code 1 says that something has not passed, or does not agree."""
    from pykraft.course.labs.lab import Lab, LabError

    try:
        lab = Lab(options.lab, LABS)
        if options.action == "check":
            if not lab.work.exists():
                say(repr(lab.start()))
            verdict = lab.check(options.task)
            say(repr(verdict).replace("lab.replay()", f"course replay {lab.number}"))
            return 0 if verdict.report.has_passed else 1
        if options.action == "run":
            outcome = lab.run_in_cluster()
            say(repr(outcome))
            return 0 if getattr(outcome, "agrees", False) else 1
        say(repr(lab.hint(options.task) if options.action == "hint" else lab.replay()))
    except LabError as error:
        raise CommandError(str(error)) from None
    return 0


# --- grade ------------------------------------------------------------------------------------------------------------


def _grade(options: argparse.Namespace) -> int:
    from pykraft.course.labs import handed_in

    folders = [lab_folder(number) for number in options.labs]
    if options.folder is not None:
        return _grade_class(options, folders or lab_folders(LABS))
    if options.csv is not None:
        raise CommandError("--csv needs the folder of a class, as in: course grade 08 --class FOLDER --csv")
    if options.file is not None:
        if len(folders) != 1:
            raise CommandError("--file needs the number of one lab, as in: course grade 08 --file FILE")
        if not options.file.is_file():
            raise CommandError(f"{options.file} cannot be read: there is no such file")
    else:
        folders = [
            folder for folder in folders or lab_folders(LABS) if lab_file(folder, "work").exists() or options.labs
        ]
        missing = [folder for folder in folders if not lab_file(folder, "work").exists()]
        if missing or not folders:
            who = f"{missing[0].name} was not begun" if missing else "No lab was begun"
            file = lab_file(missing[0], "work").name if missing else "work.py"
            raise CommandError(f"{who}: there is no {file} to be graded")
    seed = Random().randrange(1 << 31) if options.seed is None else options.seed
    files = {folder: (options.file or lab_file(folder, "work")).resolve() for folder in folders}
    reports = [handed_in.graded(folder, file, seed, handed_in.outline(folder, seed)) for folder, file in files.items()]
    seen = [handed_in.flags(folder, file) for folder, file in files.items()]
    if options.json:
        found = [{**report.as_json(), "flags": each} for report, each in zip(reports, seen, strict=True)]
        say(json.dumps({"seed": seed, "labs": found}, indent=1))
        return 0 if all(report.has_passed for report in reports) else 1
    for report, each in zip(reports, seen, strict=True):
        say(f"{report.lab}: {report.points} of {report.total} points{f' ({report.problem})' if report.problem else ''}")
        for check in report.checks:
            if check.message:
                say(f"  {check.outcome:<8} {check.name}: {check.message.splitlines()[0][:300]}")
        if each:
            say(f"  look at it: {'; '.join(each)}")
    say(f"seed {seed}")
    return 0 if all(report.has_passed for report in reports) else 1


def _grade_class(options: argparse.Namespace, labs: list[Path]) -> int:
    from pykraft.course.labs import classroom

    if options.file is not None or options.json:
        raise CommandError("--class takes --csv; --file and --json are for a single file")
    try:
        found = classroom.submissions(options.folder, labs)
    except OSError as error:
        raise CommandError(f"{options.folder} cannot be read: {error.strerror}") from None
    if not found:
        raise CommandError(f"{options.folder} has no folder of a student in it, such as {options.folder}/ann/lab08.py")
    seed = Random().randrange(1 << 31) if options.seed is None else options.seed
    rows = classroom.grade_class(found, seed)
    try:
        with ExitStack() as stack:
            if options.csv is not None:
                to = sys.stdout if options.csv == "-" else stack.enter_context(open(options.csv, "w", newline=""))
                rows = classroom.write_csv(rows, to)
            for row in rows:
                line = f"{row.student}, {row.report.lab}: {row.report.points} of {row.total} points"
                line += f" ({row.report.problem})" * bool(row.report.problem)
                (say if options.csv is None else tell)(line + f" [{'; '.join(row.flags)}]" * bool(row.flags))
    except OSError as error:
        raise CommandError(f"{options.csv} cannot be written: {error.strerror}") from None
    tell(f"seed {seed}")
    return 0


# --- binder -----------------------------------------------------------------------------------------------------------


def _binder(options: argparse.Namespace) -> int:
    from pykraft.course.authoring import binder

    try:
        text = binder.badge(options.repository or binder.this_repository(), options.ref)
        if options.write:
            readme = ROOT / "README.md"
            readme.write_text(binder.with_badge(readme.read_text(encoding="utf-8"), text), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CommandError(str(error)) from None
    say(text)
    return 0


# --- map --------------------------------------------------------------------------------------------------------------


def _map(options: argparse.Namespace) -> int:
    from pykraft.course.authoring import module_map

    text = module_map.module_map()
    if options.write:
        module_map.MAP.write_text(text, encoding="utf-8")
        say(f"{module_map.MAP.relative_to(ROOT)} is written")
    else:
        say(text)
    return 0
