"""Scripts with expected output: what a script is, what a changed output looks like, and how it is rewritten."""

from __future__ import annotations

import pathlib

import pytest

from tests.harness.datadriven import Block, MalformedScriptError, parse, play
from tests.harness.inner import run_pytest

HEAD = "# A title\n#\n# Some prose.\n\n"
SCRIPT = HEAD + "say a\nsay b\n----\na\nb\n\n# More prose.\nsilence\n----\nok\n"
VOTERS = HEAD + "voters 1 2 3\n----\nok\n"


def say(line: str) -> list[str]:
    return [] if line == "silence" else [line.removeprefix("say ")]


def test_a_script_is_prose_and_blocks() -> None:
    parts = [part for part in parse(SCRIPT) if isinstance(part, Block)]
    assert parts == [Block(5, ["say a", "say b"], ["a", "b"]), Block(12, ["silence"], ["ok"])]


def test_a_script_whose_output_is_the_same_is_played_to_the_letter() -> None:
    assert play(SCRIPT, say) == SCRIPT


def test_what_is_said_now_takes_the_place_of_what_was_said() -> None:
    assert play(SCRIPT.replace("a\nb\n\n", "a\nc\nd\n\n").replace("ok\n", ""), say) == SCRIPT


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: a script opens with its title"),
        ("say a\n----\na\n", "line 1: a script opens with its title"),
        (HEAD + "say a\n\nsay b\n----\n", "line 5: the commands have no line ----"),
    ],
)
def test_a_text_that_is_no_script_says_why(text: str, problem: str) -> None:
    with pytest.raises(MalformedScriptError, match=problem):
        play(text, say)


def test_a_command_that_fails_is_named_with_its_line() -> None:
    def fail(line: str) -> list[str]:
        raise ValueError(line)

    with pytest.raises(MalformedScriptError, match=r"line 5, 'say a': ValueError\('say a'\)"):
        play(SCRIPT, fail)


def test_a_changed_output_fails_with_the_difference_and_is_rewritten_on_request(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "datadriven"
    folder.mkdir()
    script = folder / "voters.txt"
    script.write_text(VOTERS.replace("ok", "1  is leader in epoch 9"))
    plugin = ("-p", "tests.harness.datadriven", "datadriven")
    _, output = run_pytest(tmp_path, "", *plugin)
    assert "1 failed" in output and "-1  is leader in epoch 9\n+ok" in output and "--rewrite" in output
    _, output = run_pytest(tmp_path, "", *plugin, "--rewrite")
    assert "1 passed" in output and script.read_text() == VOTERS
    _, output = run_pytest(tmp_path, "", *plugin)
    assert "1 passed" in output
