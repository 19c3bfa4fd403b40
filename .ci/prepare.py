"""Makes `.venv` ready to work in, and returns at once when it is.

The environment is ready when `.venv/prepared` holds three lines: the digest of requirements.lock, the digest of
what installs the project itself (with the one module that is compiled), and the folder in which both were done
(scripts in a virtual environment hold absolute paths, so a moved folder needs a new one). The stamp is removed before
anything changes and written after everything succeeded. An interrupted run therefore leaves an environment without a
stamp, and such an environment is thrown away and made again: pip can not tell a half written package from a whole one.

Two runs at once: each holds an advisory lock on this file, and so does the pip it starts. If the run is killed and
its pip lives on, the next one waits for that pip before it clears up.

pip asks for one package after the other, and PySpark comes as an archive, larger than all the others together, that
has to be made into a wheel. So several are at work, each with packages of its own: what they need of each other does
not matter, for the lock names all that is needed. And the wheel is not compressed: it would be unpacked at once.

pip says little in a way that a program can read, and its bar differs from version to version. What it is doing is
seen from outside: the lines it prints, the size of the file that it downloads, the packages that stand.

Standard library only, and started through `.ci/python`, which sees to it that Python is new enough.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from typing import IO

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "prepared"
SCRATCH = VENV / "scratch"  # pip's temporary files; a small /tmp can not hold PySpark
PARTS = ("pyspark", "first", "second")
"""The lock's parts, each for one pip: the largest package, and the others by turns."""
SETTINGS_OF_BUILDS = "[bdist_wheel]\ncompression = stored\n"
LOCK = ROOT / "requirements.lock"
BUILD, COMPILED = ROOT / "setup.py", ROOT / "pykraft" / "records" / "walk.py"
SETTINGS = ROOT / "binder" / "overrides.json"
SERVER_SETTINGS = ROOT / "binder" / "jupyter_server_config.py"
OUTPUT = ROOT / "build"
SPACE_NEEDED_BYTES = 4 * 10**9
MEGABYTE = 10**6
POLL_S = 0.1
ARCHIVE_CLASSES = "from pykraft.spark.class_archive import main; main()"
ARCHIVE_LATER = "--archive-later"
"""The option of `make test`, which makes the archive of Spark's classes itself, while its first suites run."""


def main() -> None:
    if is_ready():
        return
    with alone() as lock:
        if is_ready():
            return
        started = time.monotonic()
        if not (VENV / "bin" / "python").exists() or not STAMP.exists() or stamped()[2] != str(ROOT):
            create_environment(lock)
        done = stamped()
        STAMP.unlink(missing_ok=True)
        pips = [] if done[0] == digest(LOCK.read_bytes()) else pips_for_packages(lock)
        say("Installing the project itself, so that .venv runs what stands in pykraft/")
        for path in COMPILED.parent.glob("*.so"):  # or it would run in place of a changed module
            path.unlink()
        run([*pips, Pip(lock, "project", "install", "--no-deps", "--editable", str(ROOT))])
        if not list(COMPILED.parent.glob(f"{COMPILED.stem}.*.so")):
            say("  No C compiler that works was found: the walk over records runs as Python, and a broker is slower")
        place_settings()
        if ARCHIVE_LATER not in sys.argv[1:]:
            archive_classes()
        STAMP.write_text("\n".join(state()) + "\n")
        say(f"Ready after {time.monotonic() - started:.0f} s")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def state() -> list[str]:
    """The three lines that the stamp must hold."""
    return [
        digest(LOCK.read_bytes()),
        digest(what_installs(), SETTINGS.read_bytes(), SERVER_SETTINGS.read_bytes()),
        str(ROOT),
    ]


def what_installs() -> bytes:
    """What pyproject.toml says about installing the project, not how its tools check it; and what is compiled."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text())
    kept = tables.get("build-system"), tables.get("project"), tables.get("tool", {}).get("setuptools")
    return digest(repr(kept).encode(), BUILD.read_bytes(), COMPILED.read_bytes()).encode()


def stamped() -> list[str]:
    """The three lines that the stamp does hold, empty ones where there is none."""
    lines = STAMP.read_text().split("\n") if STAMP.exists() else []
    return [*lines, "", "", ""][:3]


def is_ready() -> bool:
    return stamped() == state() and (VENV / "bin" / "python").exists()


@contextlib.contextmanager
def alone() -> Iterator[IO[str]]:
    """Yields an open file whose lock no other run, nor a pip that it left behind, holds at the same time."""
    with open(__file__) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another make is setting up .venv: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def create_environment(lock: IO[str]) -> None:
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        version = "{}.{}".format(*sys.version_info)
        sys.exit(
            f"Python {version} has come without the module venv or pip:"
            f" install them (Debian, Ubuntu: apt install python{version}-venv)."
        )
    free_bytes = shutil.disk_usage(ROOT).free
    if free_bytes < SPACE_NEEDED_BYTES:
        sys.exit(
            f"The set-up needs {SPACE_NEEDED_BYTES // 10**9} GB of disk, and {free_bytes / 10**9:.1f} GB are free."
        )
    if VENV.exists():
        say("Removing .venv: its set-up was interrupted, or it was made in another folder")
        STAMP.unlink(missing_ok=True)
        shutil.rmtree(VENV)
    say("Creating .venv with Python {}.{}.{}".format(*sys.version_info))
    # The interpreter may itself be the one of an activated environment, even of the one just removed.
    base = getattr(sys, "_base_executable", sys.executable)
    command = [base, "-m", "venv", str(VENV)]
    made = subprocess.run(command, check=False, capture_output=True, text=True, pass_fds=[lock.fileno()])
    if made.returncode:
        sys.exit(f"{made.stdout}{made.stderr}Python could not create .venv: its own words are above.")


def pips_for_packages(lock: IO[str]) -> "list[Pip]":
    requirements = re.findall(r"^[\w.-]+==.*(?:\n .*)*", LOCK.read_text(), re.MULTILINE)
    say(f"Installing the packages of requirements.lock, {len(requirements)} at most; the largest, PySpark, is 456 MB")
    # Of 10,000 modules a few hundred are ever imported: Python compiles those then.
    install = ("install", "--no-compile", "--no-deps", "--require-hashes", "--requirement")
    others = [each for each in requirements if not each.startswith(f"{PARTS[0]}==")]
    largest = [each for each in requirements if each not in others]
    OUTPUT.mkdir(exist_ok=True)
    pips = []
    for name, part in zip(PARTS, (largest, others[::2], others[1::2]), strict=True):
        file = OUTPUT / f"{name}.txt"
        file.write_text("\n".join(part) + "\n")
        pips.append(Pip(lock, name, *install, str(file)))
    return pips


class Pip:
    """A pip at work. What it prints is in a file of build/, what it unpacks in a folder of its own."""

    def __init__(self, lock: IO[str], name: str, *arguments: str) -> None:
        self.output = OUTPUT / f"pip-{name}.log"
        self._scratch = SCRATCH / name
        OUTPUT.mkdir(exist_ok=True)
        self._scratch.mkdir(parents=True, exist_ok=True)
        settings = self._scratch / "builds.cfg"
        settings.write_text(SETTINGS_OF_BUILDS)
        environment = {
            **os.environ,
            "TMPDIR": str(self._scratch),
            "DIST_EXTRA_CONFIG": str(settings),
            "PIP_USER": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        command = [str(VENV / "bin" / "python"), "-m", "pip", *arguments]
        with self.output.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, pass_fds=[lock.fileno()]
            )

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def has_failed(self) -> bool:
        return bool(self.process.poll())

    def words(self) -> list[str]:
        """The lines that it has printed."""
        return self.output.read_text(errors="replace").rstrip().split("\n")

    def downloaded_bytes(self) -> int:
        """The size of the file that it fetches now."""
        sizes = []
        for path in self._scratch.glob("pip-unpack-*/*"):
            with contextlib.suppress(FileNotFoundError):
                sizes.append((path.stat().st_mtime, path.stat().st_size))
        return max(sizes)[1] if sizes else 0


def run(pips: list[Pip]) -> None:
    """Waits for all of them, and shows how they get on; ends this run if one fails."""
    progress = Progress(pips)
    try:
        while any(pip.is_running for pip in pips) and not any(pip.has_failed for pip in pips):
            time.sleep(POLL_S)
            progress.show()
    except KeyboardInterrupt:  # they have got it as well
        for pip in pips:
            pip.process.wait()
        raise
    progress.end()
    failed = next((pip for pip in pips if pip.has_failed), None)
    if failed is not None:
        for other in pips:
            if other.is_running:
                other.process.terminate()
                other.process.wait()
        last = [line for line in failed.words() if not line.startswith("Ignoring ")][-6:]
        sys.exit(
            "\n".join(last)
            + f"\npip failed: its last words are above, all of them in {failed.output.relative_to(ROOT)}."
            " If it could not find or fetch a package, see that this machine reaches the network, and try again."
        )
    shutil.rmtree(SCRATCH)


class Progress:
    """What the pips are at, on one line that is rewritten on a terminal, or on a new line now and then elsewhere."""

    def __init__(self, pips: list[Pip]) -> None:
        self._pips = pips
        self._started = self._shown = time.monotonic()
        self._is_terminal = sys.stdout.isatty()
        self._pause_s = 0.5 if self._is_terminal else 10.0

    def show(self) -> None:
        now = time.monotonic()
        if now - self._shown < self._pause_s:
            return
        self._shown = now
        standing = len(list(VENV.glob("lib/python*/site-packages/*.dist-info")))
        tasks = "; ".join(task(pip) for pip in self._pips if pip.is_running)
        text = f"  {standing} packages stand, {now - self._started:.0f} s: {tasks}"
        width = shutil.get_terminal_size().columns - 1  # a line that is broken could not be rewritten
        sys.stdout.write(f"\r\033[K{text[:width]}" if self._is_terminal else f"{text}\n")
        sys.stdout.flush()

    def end(self) -> None:
        if self._is_terminal:
            sys.stdout.write("\r\033[K")


def task(pip: Pip) -> str:
    """What it is doing, by what it has printed last."""
    for line in reversed(pip.words()):
        if line.startswith("Installing collected packages"):
            return "installing"
        if line.startswith("Building wheel for "):
            return "building a wheel"
        if line.lstrip().startswith("Preparing metadata"):
            return "unpacking"
        if line.startswith("Collecting "):
            size = pip.downloaded_bytes()
            return "fetching " + line.split()[1].split("==")[0] + (f" {size // MEGABYTE} MB" if size > MEGABYTE else "")
    return "asking for packages"


def place_settings() -> None:
    """JupyterLab's settings for this course, and its server's, the same as on Binder."""
    for settings, folder in ((SETTINGS, "share/jupyter/lab/settings"), (SERVER_SETTINGS, "etc/jupyter")):
        (VENV / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(settings, VENV / folder)


def archive_classes() -> None:
    """Makes Spark start faster: where it fails, all works the same."""
    say("Putting Spark's classes into an archive, once: half a minute")
    command = [str(VENV / "bin" / "python"), "-c", ARCHIVE_CLASSES]
    done = subprocess.run(command, check=False, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    say("  " + (done.stdout.strip() or "not possible here, so Spark starts more slowly"))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nStopped. The same command starts the set-up again; what was downloaded is kept.")
