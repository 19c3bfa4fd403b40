"""Makes `.venv` ready to work in, and returns at once when it is.

The environment is ready when `.venv/prepared` holds three lines: the digest of requirements.lock, the digest of
what installs the project itself, and the folder in which both were done (scripts in a virtual environment hold
absolute paths, so a moved folder needs a new one). The stamp is removed before anything changes and written after
everything succeeded. An interrupted run therefore leaves an environment without a stamp, and such an environment is
thrown away and made anew: pip can not tell a half written package from a whole one.

Two runs at once: each holds an advisory lock on this file, and so does the pip it starts. If the run is killed and
its pip lives on, the next one waits for that pip before it clears up.

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
import select
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
LOCK = ROOT / "requirements.lock"
SETTINGS = ROOT / "binder" / "overrides.json"
PIP_OUTPUT = ROOT / "build" / "pip.log"
SPACE_NEEDED_BYTES = 4 * 10**9
MEGABYTE = 10**6
ARCHIVE_CLASSES = "from pykraft.spark.class_archive import main; main()"
ARCHIVE_LATER = "--archive-later"
"""Said by whoever makes the archive of Spark's classes himself: `make test`, while its first suites run."""


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
        if done[0] != digest(LOCK.read_bytes()):
            install_packages(lock)
        with contextlib.ExitStack() as stack:
            archive = None if ARCHIVE_LATER in sys.argv[1:] else stack.enter_context(beside("-c", ARCHIVE_CLASSES))
            say("Installing the project itself, so that .venv runs what stands in pykraft/")
            pip(lock, "install", "--no-deps", "--editable", str(ROOT))
            place_settings()
            if archive is not None:
                say("Putting Spark's classes into an archive, once: half a minute")
                words = archive.communicate()[0].strip()
                say("  " + (words or "not possible here, so Spark starts more slowly"))
        STAMP.write_text("\n".join(state()) + "\n")
        say(f"Ready after {time.monotonic() - started:.0f} s")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def state() -> list[str]:
    """The three lines that the stamp must hold."""
    return [digest(LOCK.read_bytes()), digest(what_installs(), SETTINGS.read_bytes()), str(ROOT)]


def what_installs() -> bytes:
    """What pyproject.toml says about installing the project: not how its tools check it."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text())
    kept = tables.get("build-system"), tables.get("project"), tables.get("tool", {}).get("setuptools")
    return repr(kept).encode()


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


def install_packages(lock: IO[str]) -> None:
    wanted = len(re.findall(r"^[\w.-]+==", LOCK.read_text(), re.MULTILINE))
    say(f"Installing the packages of requirements.lock, {wanted} at most; the largest, PySpark, is 456 MB")
    # Of 10,000 modules a few hundred are ever imported: Python compiles those then.
    pip(lock, "install", "--no-compile", "--require-hashes", "--requirement", str(LOCK), progress=Progress(wanted))


def pip(lock: IO[str], *arguments: str, progress: "Progress | None" = None) -> None:
    """Runs pip to its end, its output in build/pip.log; ends this run if pip fails."""
    SCRATCH.mkdir(exist_ok=True)
    PIP_OUTPUT.parent.mkdir(exist_ok=True)
    environment = dict(os.environ, TMPDIR=str(SCRATCH), PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1")
    command = [str(VENV / "bin" / "python"), "-m", "pip", *arguments]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=[lock.fileno()],
    )
    assert process.stdout is not None
    with PIP_OUTPUT.open("wb") as log, process:
        try:
            follow(process.stdout.fileno(), log, progress)
        except KeyboardInterrupt:
            process.wait()
            raise
    if process.returncode:
        words = PIP_OUTPUT.read_text(errors="replace").rstrip().split("\n")
        last = [line for line in words if not line.startswith("Ignoring ")][-6:]
        sys.exit(
            "\n".join(last) + "\npip failed: its last words are above, all of them in build/pip.log."
            " If it could not find or fetch a package, see that this machine reaches the network, and try again."
        )
    shutil.rmtree(SCRATCH)


def follow(pipe: int, log: IO[bytes], progress: "Progress | None") -> None:
    """Copies pip's output to the log until it ends, and shows progress meanwhile."""
    unfinished = b""
    while True:
        readable, _, _ = select.select([pipe], [], [], 0.5)
        if readable:
            data = os.read(pipe, 65536)
            if not data:
                break
            log.write(data)
            *lines, unfinished = (unfinished + data).split(b"\n")
            if progress is not None:
                for line in lines:
                    progress.read(line.decode(errors="replace").strip())
        if progress is not None:
            progress.show()
    if progress is not None:
        progress.end()


class Progress:
    """What pip is at, on one line that is rewritten on a terminal, or on a new line now and then elsewhere."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.started = self.shown = time.monotonic()
        self.terminal = sys.stdout.isatty()
        self.pause_s = 0.5 if self.terminal else 10.0
        self.collected = 0
        self.task = "asking for packages"
        self.installing = False

    def read(self, line: str) -> None:
        if line.startswith("Collecting "):
            self.collected += 1
            self.task = line.split()[1].split("==")[0]
        elif line.startswith("Building wheel for "):
            self.task = "building " + line.split()[3]
        elif line.startswith("Installing collected packages"):
            self.installing = True

    def show(self) -> None:
        now = time.monotonic()
        if now - self.shown < self.pause_s:
            return
        self.shown = now
        if self.installing:
            standing = len(list(VENV.glob("lib/python*/site-packages/*.dist-info")))
            text = f"  installed {standing} of {self.wanted}"
        else:
            text = f"  collected {self.collected} of {self.wanted}: {self.task}{self.download()}"
        text += f", {now - self.started:.0f} s"
        sys.stdout.write(f"\r\033[K{text}" if self.terminal else f"{text}\n")
        sys.stdout.flush()

    def download(self) -> str:
        """How far the file is that pip fetches now, if it is large enough to wait for."""
        if self.task.startswith("building"):
            return ""
        sizes = []
        for path in SCRATCH.glob("pip-unpack-*/*"):
            with contextlib.suppress(FileNotFoundError):
                sizes.append((path.stat().st_mtime, path.stat().st_size))
        newest_bytes = max(sizes)[1] if sizes else 0
        return f" {newest_bytes // MEGABYTE} MB" if newest_bytes > 5 * MEGABYTE else ""

    def end(self) -> None:
        if self.terminal:
            sys.stdout.write("\r\033[K")


def place_settings() -> None:
    """JupyterLab's settings for this course, the same as on Binder."""
    folder = VENV / "share" / "jupyter" / "lab" / "settings"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SETTINGS, folder)


@contextlib.contextmanager
def beside(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Runs Python with these arguments while the caller goes on, and waits for it in the end. What it does makes things
    faster: if it fails, all works the same."""
    command = [str(VENV / "bin" / "python"), *arguments]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, stdin=nowhere, stdout=pipe, stderr=nowhere, text=True) as process:
        try:
            yield process
            process.wait()
        finally:
            process.terminate()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nStopped. The same command starts the set-up anew; what was downloaded is kept.")
