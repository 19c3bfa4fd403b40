"""Members of groups in processes of their own, of every library that can be had here: each is found and started alike.

    member = Member("kafkajs", servers, "group", "topic")
    member.assigned        what it owns now, as it says
    member.kill()          SIGKILL

The programs are group_member.py, group_member.js, GroupMember.java and franz/main.go. What they need is fetched once
into the user's cache: the jars by Maven, kafkajs by npm, franz-go's modules by Go. `why_not` says what is missing.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from tests.harness import apache_kafka
from tests.harness.apache_kafka import VERSION, Unavailable, compile_java, java_command
from tests.harness.cache import kept
from tests.harness.tree import ROOT

CLASSIC = ("kafka-python", "confluent-kafka", "aiokafka", "kafkajs", "java", "franz-go")
"""The libraries, in the protocol that all of them speak."""
NEWER = ("confluent-kafka-848", "java-848", "franz-go-848")
"""The same libraries in the protocol of KIP-848."""
IN_PYTHON = ("kafka-python", "confluent-kafka", "confluent-kafka-848", "aiokafka")
KAFKAJS_VERSION = "2.2.4"
SESSION_MS = 2000
FETCH_S = 300
HERE = pathlib.Path(__file__).parent
_READ = re.compile(r"(\S+-\d+) (\d+)\n")
FRANZ = HERE / "franz"


def kafkajs() -> pathlib.Path:
    """The folder that has kafkajs, as node looks for it."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise Unavailable("there is no Node.js")

    def fill(coming: pathlib.Path) -> None:
        command = [npm, "install", "--prefix", str(coming), "--no-audit", "--no-fund", f"kafkajs@{KAFKAJS_VERSION}"]
        if subprocess.run(command, check=False, capture_output=True, timeout=FETCH_S).returncode:
            raise Unavailable("npm cannot fetch kafkajs")

    return kept(f"npm-kafkajs-{KAFKAJS_VERSION}", fill) / "node_modules"


def franz() -> pathlib.Path:
    """The program with franz-go. go.sum has the digests of its modules."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable("there is no Go")
    sources = [FRANZ / name for name in ("go.mod", "go.sum", "main.go")]

    def fill(coming: pathlib.Path) -> None:
        command = [go, "build", "-o", str(coming / "member"), "."]
        done = subprocess.run(command, check=False, cwd=FRANZ, capture_output=True, text=True, timeout=FETCH_S)
        if done.returncode:
            raise Unavailable(f"Go cannot build with franz-go: {done.stderr.strip().splitlines()[0][:300]}")

    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    return kept(f"franz-go-{digest}", fill) / "member"


def java_classes() -> pathlib.Path:
    """The folder with GroupMember's class: many JVMs start, and one compiles."""
    source = HERE / "GroupMember.java"

    def fill(coming: pathlib.Path) -> None:
        compile_java(source, apache_kafka.fetched(VERSION), coming)

    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    return kept(f"group-member-{VERSION}-{digest}", fill)


def command(library: str, *arguments: str) -> list[str]:
    """The command line of the library's program. Unavailable if it cannot be had here."""
    if library in IN_PYTHON:
        return [sys.executable, "-m", "tests.interop.group_member", library, *arguments]
    if library == "kafkajs":
        return ["env", f"NODE_PATH={kafkajs()}", "node", str(HERE / "group_member.js"), library, *arguments]
    if library in ("java", "java-848"):
        return java_command(VERSION, "GroupMember", library, *arguments, classes=java_classes())
    return [str(franz()), library, *arguments]


@functools.cache
def why_not(library: str) -> str:
    """Why this library cannot be had here; empty if it can."""
    try:
        command(library)
    except Unavailable as reason:
        return str(reason)
    return ""


class Member:
    """A process in a group, and what it has said."""

    def __init__(
        self, library: str, servers: str, group: str, topic: str, session_ms: int = SESSION_MS, login: str = ""
    ) -> None:
        self.library = library
        self.assigned: list[str] = []
        """What it owns now."""
        self.changes = 0
        """How often that has changed, or was given again."""
        self.seen: dict[str, list[int]] = defaultdict(list)
        """The offsets that it has read, by partition."""
        self._complaints: deque[str] = deque(maxlen=30)
        self._process = subprocess.Popen(
            command(library, servers, group, topic),
            cwd=ROOT,
            env={**os.environ, "GROUP_SESSION_MS": str(session_ms), "GROUP_LOGIN": login},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("assigned"):
                self.assigned = line.split()[1:]
                self.changes += 1
            elif (read := _READ.fullmatch(line)) is not None:
                self.seen[read[1]].append(int(read[2]))
            else:
                self._complaints.append(line)

    def kill(self) -> None:
        """End it with SIGKILL, if it still runs."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __str__(self) -> str:
        """For a test that failed."""
        ended = ""
        if self._process.poll() is not None:
            ended = f", ended with {self._process.returncode}: {''.join(self._complaints)}"
        return f"{self.library} owns {self.assigned}{ended}"


class Peer:
    """A process that commits and reads offsets with one library, and writes with some."""

    def __init__(self, library: str, servers: str, login: str = "") -> None:
        self.library = library
        self._process = subprocess.Popen(
            command(library, servers),
            cwd=ROOT,
            env={**os.environ, "GROUP_LOGIN": login},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _ask(self, *words: object) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")

    def commit(self, group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
        answer = self._ask("commit", group, topic, partition, offset, metadata)
        assert answer == "done", f"{self.library} answers {answer!r}"

    def committed(self, group: str, topic: str, partition: int) -> str:
        """The offset and its metadata, or "none"."""
        # confluent-kafka writes the zero byte after its text, which it does not show when it reads.
        return self._ask("committed", group, topic, partition).removesuffix("\0")

    def write(self, topic: str, partition: int, value: str) -> int:
        """The offset of the record. AssertionError with what the library complains of."""
        answer = self._ask("write", "-", topic, partition, value)
        assert answer, f"{self.library} has not written it"
        return int(answer)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def are_shared(members: Sequence[Member], partitions: Iterable[str]) -> bool:
    """Each partition belongs to one of them, and none has more than its part."""
    wanted = sorted(partitions)
    owned = sorted(name for member in members for name in member.assigned)
    most = -(-len(wanted) // len(members))
    return owned == wanted and all(len(member.assigned) <= most for member in members)
