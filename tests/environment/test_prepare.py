"""The set-up of .venv: what is missing is one sentence, what was interrupted is mended, what is ready costs nothing.

The set-up is the real one, in a folder of its own. pip and venv are not: they are small stand-ins found through
PYTHONPATH, which note what they are asked for, so that these tests need no network. `make test` on a clean checkout
is the test with the real ones.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.harness.tree import ROOT

STAND_IN_PIP = """
import os, pathlib, signal, sys
folder = pathlib.Path(os.environ["STAND_IN"])
with (folder / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
print("Collecting kafka==1.0", flush=True)
if (folder / "fails").exists():
    sys.exit("ERROR: no route to host")
if (folder / "pyspark fails").exists() and sys.argv[-1].endswith("pyspark.txt"):
    (folder / "pyspark fails").read_text()
    sys.exit("ERROR: no space left on device")
if (folder / "hangs").exists() and sys.argv[-1].endswith("first.txt"):
    with open(folder / "pid", "w") as fifo:
        fifo.write(str(os.getpid()))
    signal.pause()
"""
STAND_IN_VENV = """
import os, pathlib, sys
folder = pathlib.Path(sys.argv[1])
(folder / "bin").mkdir(parents=True)
(folder / "bin" / "python").symlink_to(sys.executable)
(folder / "made").touch()
"""
PIP_FOR_PACKAGES = "install --no-compile --no-deps --require-hashes --requirement"
PIP_FOR_PROJECT = "install --no-deps --editable"
ALL_PIPS = sorted([PIP_FOR_PROJECT, *[PIP_FOR_PACKAGES] * 3])


class Machine:
    """A folder with the project's set-up in it, and stand-ins for pip and venv."""

    def __init__(self, base: pathlib.Path) -> None:
        self.stand_in = base / "stand_in"
        self.project = base / "project"
        for name, text in (("pip", STAND_IN_PIP), ("venv", STAND_IN_VENV)):
            (self.stand_in / name).mkdir(parents=True)
            (self.stand_in / name / "__init__.py").touch()
            (self.stand_in / name / "__main__.py").write_text(text)
        settings = ("binder/overrides.json", "binder/jupyter_server_config.py")
        compiled = ("setup.py", "pykraft/records/walk.py")
        for path in (".ci/prepare.py", ".ci/python", "requirements.lock", "pyproject.toml", *compiled, *settings):
            (self.project / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, self.project / path)
        self.stamp = self.project / ".venv" / "prepared"

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.Popen(
            [sys.executable, str(self.project / ".ci" / "prepare.py"), *arguments],
            env={**inherited, "PYTHONPATH": str(self.stand_in), "STAND_IN": str(self.stand_in), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=30)
        return process.returncode, output

    def calls(self) -> list[str]:
        """What pip was asked for since the last look, without the paths at the end; they all work at once."""
        noted = self.stand_in / "calls"
        lines = noted.read_text().splitlines() if noted.exists() else []
        noted.unlink(missing_ok=True)
        return sorted(line.rpartition(" ")[0] for line in lines)

    def let_pip_hang(self) -> None:
        os.mkfifo(self.stand_in / "pid")
        (self.stand_in / "hangs").touch()

    def hanging_pip(self) -> int:
        """The process id of the pip that hangs, once it does."""
        pid = int((self.stand_in / "pid").read_text())
        (self.stand_in / "hangs").unlink()
        return pid


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Iterator[Machine]:
    yield Machine(tmp_path)


def test_a_fresh_folder_gets_everything_and_the_second_run_does_nothing(machine: Machine) -> None:
    status, output = machine.run()
    assert status == 0, output
    assert machine.calls() == ALL_PIPS
    assert "Creating .venv" in output and "archive" in output and "Ready after" in output
    assert (machine.project / ".venv/share/jupyter/lab/settings/overrides.json").exists()
    assert (machine.project / ".venv/etc/jupyter/jupyter_server_config.py").exists()
    assert machine.run() == (0, "")
    assert machine.calls() == []


def test_the_archive_of_spark_s_classes_may_be_left_to_others(machine: Machine) -> None:
    status, output = machine.run("--archive-later")
    assert status == 0 and "archive" not in output
    assert machine.run() == (0, "")


def test_a_changed_lock_is_installed_into_what_stands(machine: Machine) -> None:
    machine.run()
    (machine.project / ".venv" / "made").unlink()
    (machine.project / "requirements.lock").write_text("kafka==2.0\n")
    machine.calls()
    assert machine.run()[0] == 0
    assert machine.calls() == ALL_PIPS
    assert not (machine.project / ".venv" / "made").exists()


def test_a_changed_lock_that_could_not_be_installed_leaves_nothing_half_done(machine: Machine) -> None:
    machine.run()
    (machine.project / "requirements.lock").write_text("kafka==2.0\n")
    (machine.stand_in / "fails").touch()
    assert machine.run()[0] == 1
    (machine.stand_in / "fails").unlink()
    status, output = machine.run()
    assert status == 0 and "its set-up was interrupted" in output


def test_a_changed_pyproject_installs_the_project_alone(machine: Machine) -> None:
    machine.run()
    machine.calls()
    pyproject = machine.project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text() + "\n[tool.another]\nspeed = 1\n")
    assert machine.run() == (0, "")
    pyproject.write_text("[project]\nname = 'other'\n")
    assert machine.run()[0] == 0
    assert machine.calls() == [PIP_FOR_PROJECT]


def test_a_changed_module_is_compiled_anew_and_what_is_not_compiled_is_said(machine: Machine) -> None:
    """The pip of these tests compiles nothing."""
    assert "the walk over records runs as Python" in machine.run()[1]
    machine.calls()
    module = machine.project / "pykraft" / "records" / "walk.py"
    compiled = module.with_name("walk.of-old.so")
    compiled.touch()
    assert machine.run() == (0, "")
    module.write_text(module.read_text() + "# changed\n")
    assert machine.run()[0] == 0
    assert machine.calls() == [PIP_FOR_PROJECT]
    assert not compiled.exists()


def test_a_moved_folder_gets_a_new_environment(machine: Machine) -> None:
    machine.run()
    machine.project = machine.project.rename(machine.project.with_name("moved"))
    status, output = machine.run()
    assert status == 0 and "made in another folder" in output


def test_an_environment_whose_python_is_gone_is_made_anew(machine: Machine) -> None:
    machine.run()
    python = machine.project / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python")
    assert machine.run()[0] == 0
    assert python.exists()


def test_a_failing_pip_is_shown_and_leaves_no_stamp(machine: Machine) -> None:
    (machine.stand_in / "fails").touch()
    status, output = machine.run()
    assert status == 1 and not machine.stamp.exists()
    assert "no route to host" in output and "build/pip-" in output and "Traceback" not in output
    (machine.stand_in / "fails").unlink()
    assert machine.run()[0] == 0


def test_every_requirement_is_given_to_one_pip(machine: Machine) -> None:
    machine.run()
    parts = [(machine.project / "build" / f"{name}.txt").read_text() for name in ("pyspark", "first", "second")]
    assert parts[0].startswith("pyspark==") and parts[0].count("==") == 1
    given = "".join(parts).splitlines()
    assert sorted(given) == sorted((ROOT / "requirements.lock").read_text().splitlines())


def test_if_pyspark_alone_fails_its_words_are_shown_and_nobody_is_waited_for(machine: Machine) -> None:
    os.mkfifo(machine.stand_in / "pyspark fails")
    machine.let_pip_hang()
    process = machine.start()
    pip = machine.hanging_pip()
    (machine.stand_in / "pyspark fails").write_text("now")
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1 and not machine.stamp.exists()
    assert "no space left" in output and "build/pip-pyspark.log" in output and "Traceback" not in output
    with pytest.raises(ProcessLookupError):
        os.kill(pip, 0)


def test_a_set_up_stopped_by_its_user_is_mended_by_the_next(machine: Machine) -> None:
    machine.let_pip_hang()
    process = machine.start()
    pip = machine.hanging_pip()
    for pid in (process.pid, pip):  # a terminal sends it to both
        os.kill(pid, signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1 and "Stopped." in output and "Traceback" not in output.partition("Stopped.")[2]
    assert not machine.stamp.exists()
    status, output = machine.run()
    assert status == 0 and "its set-up was interrupted" in output


def test_a_killed_set_up_leaves_its_pip_and_the_next_waits_for_it(machine: Machine) -> None:
    machine.let_pip_hang()
    process = machine.start()
    pip = machine.hanging_pip()
    process.kill()
    process.communicate(timeout=30)
    following = machine.start()
    assert following.stdout is not None
    assert following.stdout.readline() == "Another make is setting up .venv: waiting for it\n"
    assert following.poll() is None
    os.kill(pip, signal.SIGKILL)
    output, _ = following.communicate(timeout=30)
    assert following.returncode == 0 and "its set-up was interrupted" in output


def test_two_at_once_do_the_work_once(machine: Machine) -> None:
    with (machine.project / ".ci" / "prepare.py").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        both = [machine.start(), machine.start()]
        assert all(p.stdout is not None and p.stdout.readline().startswith("Another make") for p in both)
    outputs = [process.communicate(timeout=30)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(output.count("Ready after") for output in outputs) == [0, 1]
    assert machine.calls() == ALL_PIPS


def test_a_python_without_pip_is_one_sentence(machine: Machine) -> None:
    (machine.stand_in / "ensurepip.py").write_text("raise ImportError")
    status, output = machine.run()
    version = "{}.{}".format(*sys.version_info)
    assert status == 1 and output.count("\n") == 1
    assert f"apt install python{version}-venv" in output


def choose_python(folder: pathlib.Path, *names: str, old: str = "", wanted: str = "") -> tuple[int, str, str]:
    """Runs .ci/python where only these interpreters are on the path; each prints its name, `old` is too old."""
    for name in (*names, *([old] if old else [])):
        path = folder / name
        path.write_text(
            "#!/bin/sh\n"
            '[ "$1" = --version ] && echo Python 3.8.2 && exit\n'
            f'[ "$1" = -c ] && echo {path} && exit {int(name == old)}\n'
            f'echo {name} "$@"\n'
        )
        path.chmod(0o755)
    environment = {"PATH": str(folder), **({"PYTHON": wanted} if wanted else {})}
    done = subprocess.run(
        [str(ROOT / ".ci" / "python"), "x.py"], check=False, env=environment, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


def test_a_new_enough_python_is_taken(tmp_path: pathlib.Path) -> None:
    assert choose_python(tmp_path, "python3", "python3.13") == (0, "python3 x.py\n", "")


def test_the_named_python_is_taken_first(tmp_path: pathlib.Path) -> None:
    assert choose_python(tmp_path, "python3", "mine", wanted="mine") == (0, "mine x.py\n", "")


def test_beside_an_old_python3_a_newer_one_is_found(tmp_path: pathlib.Path) -> None:
    assert choose_python(tmp_path, "python3.11", "python3.12", old="python3") == (0, "python3.12 x.py\n", "")


def test_an_old_python_alone_is_one_sentence(tmp_path: pathlib.Path) -> None:
    status, output, complaint = choose_python(tmp_path, old="python3")
    assert (status, output) == (1, "")
    assert complaint.startswith("python3 is Python 3.8.2, which is too old: install Python 3.11 or newer")
    assert complaint.count("\n") == 1


def test_no_python_at_all_is_one_sentence(tmp_path: pathlib.Path) -> None:
    status, _, complaint = choose_python(tmp_path)
    assert status == 1 and complaint.startswith("python3 was not found: install Python 3.11")
    assert complaint.count("\n") == 1
