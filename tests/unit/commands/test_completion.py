"""The words that a shell completes: what it prints is asked of bash itself."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from pykraft.cli import COMMANDS, main


def completed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What bash offers for the last word."""
    assert main(["completion", "bash"]) == 0
    quoted = " ".join(f"'{word}'" for word in ("pykraft", *words))
    ask = f'COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _pykraft; printf "%s\\n" "${{COMPREPLY[@]}}"'
    script = capsys.readouterr().out + ask
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.split()


@pytest.mark.costly
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("",), list(COMMANDS)),
        (("cons",), ["consume", "consumer-groups", "consumer-perf-test"]),
        (("topics", "--cr"), ["--create"]),
        (("cluster", "list"), ["list-endpoints"]),
        (("metadata-quorum", "--rep"), ["--replication"]),
        (("server", "/etc/hos"), []),  # the shell's own completion follows, see below
    ],
)
def test_bash_offers(words: tuple[str, ...], offered: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(completed(capsys, *words)) == sorted(offered)


def test_the_shell_completes_names_of_files_where_no_word_fits(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh"):
        main(["completion", shell])
        assert capsys.readouterr().out.endswith("complete -o default -F _pykraft pykraft\n")


@pytest.mark.costly
def test_a_shell_that_starts_does_not_wait_for_the_libraries_of_the_extras() -> None:
    code = """if True:
        import sys
        from pykraft.cli import main
        main(["completion", "bash"])
        print(sorted({"nbformat", "jupyter_client", "pyspark", "pandas", "numpy", "plotly"} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_other_shells_get_the_same_words(capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "zsh"])
    assert "bashcompinit\n_pykraft() {" in capsys.readouterr().out
    main(["completion", "fish"])
    told = capsys.readouterr().out.splitlines()
    assert "complete -c pykraft -n '__fish_seen_subcommand_from topics' -l create" in told
    assert len([line for line in told if "-n __fish_use_subcommand" in line]) == len(COMMANDS)
