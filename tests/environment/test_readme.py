"""What README says is so: its examples run, its commands exist, and it lists the notebooks that there are."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
from importlib import import_module

import pytest

from pykraft import cli
from pykraft.commands.verbs import COMMANDS, module_of
from pykraft.course.syllabus import SYLLABUS
from tests.harness.tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
COUNTED = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
COUNTED += ("twenty", "twenty-one", "twenty-two", "twenty-three", "twenty-four", "twenty-five", "twenty-six")
COUNTED += ("twenty-seven",)
LIMIT_S = 60


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(text: str, language: str = "") -> list[str]:
    """The examples in this language; "" is the shell."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [code for name, code in fenced if name == language]


def commands() -> list[list[str]]:
    """Each command of pykraft in an example, as its words: from the command's name to the end of the pipe's part."""
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    lines = [line for code in (*blocks(README), *re.findall(r"`([^`]+)`", prose)) for line in code.splitlines()]
    parts = [part for line in lines for part in re.split(r"[|()]", line)]
    begun = (re.match(r"\s*(?:python -m pykraft|pykraft|kafka) (.*)", part) for part in parts)
    return [shlex.split(found[1]) for found in begun if found]


def declared(parser: argparse.ArgumentParser) -> set[str]:
    """All options of a parser, and of its verbs."""
    found = {option for action in parser._actions for option in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= set(action.choices).union(*(declared(verb) for verb in action.choices.values()))
    return found


def run_example(code: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    exec(compile(code, "README.md", "exec"), {})
    return capsys.readouterr().out


def test_the_table_lists_the_notebooks_that_there_are_with_their_questions() -> None:
    rows = re.findall(r"^\| \[(\d\d)\]\((notebooks/\S+)\) \| (.*) \|$", README, re.MULTILINE)
    assert [path for _, path, _ in rows] == [
        path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("notebooks/*.ipynb"))
    ]
    for number, path, question in rows:
        assert path.startswith(f"notebooks/{number}_")
        assert question.startswith(SYLLABUS[number].title)


def test_the_numbers_of_notebooks_and_labs_are_right() -> None:
    notebooks, labs = (len(list(ROOT.glob(pattern))) for pattern in ("notebooks/*.ipynb", "labs/*/lab.ipynb"))
    said = re.search(r"([\w-]+)\s+notebooks\s+and\s+([\w-]+)\s+labs", section("What stands"))
    assert said is not None
    assert [COUNTED.index(word) + 10 for word in said.groups()] == [notebooks, labs]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_and_its_options_are_declared(words: list[str]) -> None:
    name, *rest = words
    assert name in COMMANDS
    parser = argparse.ArgumentParser()
    import_module(module_of(name)).add_arguments(parser)
    assert {word for word in rest if word.startswith("--")} <= declared(parser)


def test_the_commands_of_the_examples_are_found() -> None:
    found = {words[0] for words in commands()}
    assert found >= {"up", "server", "storage", "topics", "produce", "consume", "metrics", "fault", "completion"}


def test_the_example_of_a_cluster_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(section("From Python, and from a shell"), "python")
    assert "greetings-0" in run_example(code, capsys)


def test_the_example_of_a_fault_makes_a_second_record(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(section("Faults on purpose"), "python")
    first, second = run_example(code, capsys).splitlines()
    assert re.fullmatch(r"Produce version \d+", first)
    assert second == "b'one' b'one'"


def test_the_arguments_of_a_fault_in_the_table_are_those_that_there_are(tmp_path: pathlib.Path) -> None:
    rows = re.findall(r"^\| `(\w+)=(.*?)` \|", section("Faults on purpose"), re.MULTILINE)
    assert {name for name, _ in rows} == {"error", "drop", "delay_ms"}
    for name, value in rows:
        option = f"--{name.replace('_', '-')}"
        arguments = ["fault", str(tmp_path / "faults.json"), "--api", "Produce", option, value.strip('"')]
        assert cli.main(arguments) == 0


def wait_for_port(port: int, server: subprocess.Popen[bytes]) -> None:
    """Until something listens there. A connection that is refused says so at once; between two there is a moment."""
    for _ in range(LIMIT_S * 10):
        assert server.poll() is None, "the server has ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(0.1)
    pytest.fail(f"nothing listens at port {port}")


@pytest.mark.limit(180)
def test_the_shell_examples_run_from_beginning_to_end(tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = {"9092": str(one.getsockname()[1]), "9093": str(other.getsockname()[1])}

    def here(text: str) -> str:
        return re.sub(r"(?<=127\.0\.0\.1:)(9092|9093)", lambda found: ports[found[0]], text)

    properties, *_ = blocks(section("From Python, and from a shell"), "properties")
    (tmp_path / "server.properties").write_text(here(properties))
    start, tools = blocks(section("From Python, and from a shell"))
    (faults,) = blocks(section("Faults on purpose"))
    storage, _ = start.splitlines()
    serve, *at_run_time = faults.splitlines()
    assert serve.startswith("python -m pykraft server server.properties")

    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}

    def bash(text: str) -> str:
        script = "set -eo pipefail; shopt -s expand_aliases\n" + here(text)
        done = subprocess.run(
            ["bash", "-c", script],
            check=False,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    bash(storage)
    server = subprocess.Popen(shlex.split(serve), cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_for_port(int(ports["9092"]), server)
        told = bash(tools)
        assert "\n".join("12345") in told
        assert "flights:0:" in told and "readers" in told
        assert "fault 1 is added" in bash("\n".join(at_run_time))
    finally:
        server.terminate()
        server.wait(LIMIT_S)
