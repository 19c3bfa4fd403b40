"""A conversation with one of the two servers, written down as it goes.

A case is a test that takes the fixture `talk`, a `Dialogue`. It makes what it needs with `topic`, which is not written
down, and asks with ``talk.to(node).ask(request, version)``, which is. At its end what is written must be what Apache
Kafka answered: that is kept in answers/, one file for each module, and a run with REWRITE_ANSWERS=1 (and Java) writes
it again from the answers of its newest release. Where pykraft answers otherwise and is to stay so for now,
differences.txt says where, how, and why; a difference that is gone must be struck out there (REWRITE_DIFFERENCES=1
writes down what there is, and leaves a question mark for the reason). An older release of Apache Kafka has such a file
of its own: it shows what a release has changed.
"""

from __future__ import annotations

import difflib
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.common.types import Uuid
from pykraft.protocol.messages.admin import CreateTopicsRequest
from pykraft.protocol.messages.data import LATEST_TIMESTAMP, ListOffsetsRequest
from pykraft.protocol.schema import Request, Response
from tests.conformance.servers import NODES, Server, wait_until_led
from tests.conformance.transcript import Names, lines_of
from tests.harness.connection import Closed, Connection, answer_that

FOLDER = Path(__file__).parent
DIFFERENCES = FOLDER / "differences.txt"
"""pykraft's."""
REWRITE = bool(os.environ.get("REWRITE_ANSWERS"))
REWRITE_DIFFERENCES = bool(os.environ.get("REWRITE_DIFFERENCES"))
SILENCE_S = 0.5
WHY = "why:"
_HEADLINE = "=== "
_LIST_OFFSETS = 7


class Speaker:
    """One of the server's listeners."""

    def __init__(self, dialogue: Dialogue, address: str, name: str) -> None:
        self._dialogue = dialogue
        self._address = address
        self._name = name
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._address)
        return self._connection

    def ask(self, request: Request, version: int, says: str = "") -> Any:
        """Ask, and write down question and answer; None if the server hung up."""
        self._question(type(request).__name__.removesuffix("Request"), version, says)
        try:
            response = self.connection.ask(request, version)
        except Closed:
            self._write_closed()
            return None
        self._dialogue.write(*(f"  {line}" for line in lines_of(response, version, self._dialogue.names)))
        return response

    def tell(self, request: Request, version: int, says: str = "") -> None:
        """Send what is not answered. Whether the server hung up because of it, the next question shows."""
        self._question(type(request).__name__.removesuffix("Request"), version, says)
        self.connection.send(request, version)

    def send_bytes(self, data: bytes, says: str) -> bytes | None:
        """Send a frame that is not as it should be; the frame that comes back, None if the server hung up."""
        self._dialogue.write(f"> {self._name}: {says}")
        try:
            self.connection.send_bytes(data)
            return self.connection.receive_frame()
        except Closed:
            self._write_closed()
            return None

    def read(self, response: type[Response], version: int, frame: bytes, position: int) -> Any:
        """Write down an answer that came as bytes."""
        message = response.decode(frame, version, position)
        self._dialogue.write(*(f"  {line}" for line in lines_of(message, version, self._dialogue.names)))
        return message

    def _question(self, api: str, version: int, says: str) -> None:
        self._dialogue.write(f"> {self._name}: {api} {version}{', ' + says if says else ''}")

    def _write_closed(self) -> None:
        self._dialogue.write("  the connection is closed")
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Dialogue:
    """One case, talking to one server."""

    def __init__(self, server: Server, case: str) -> None:
        self.server = server
        self.case = case
        self.lines: list[str] = []
        ports = {int(server.address(node).rpartition(":")[2]): node for node in NODES}
        ports |= {int(server.controller_address(node).rpartition(":")[2]): node for node in NODES}
        self.names = Names(ports)
        self._speakers: dict[str, Speaker] = {}

    def to(self, node: int = 1, called: str = "") -> Speaker:
        """The broker listener of this node; under another name if it differs from run to run which node it is."""
        return self._speaker(self.server.address(node), called or f"broker {node}")

    def to_controller(self, node: int = 1, called: str = "") -> Speaker:
        """The controller listener of this node; under another name if it differs from run to run which node it is."""
        return self._speaker(self.server.controller_address(node), called or f"controller {node}")

    def _speaker(self, address: str, name: str) -> Speaker:
        if name not in self._speakers:
            self._speakers[name] = Speaker(self, address, name)
        return self._speakers[name]

    def write(self, *lines: str) -> None:
        self.lines += lines

    def say(self, text: str) -> None:
        """A remark between two questions."""
        self.write(f"# {text}")

    def close(self) -> None:
        for speaker in self._speakers.values():
            speaker.close()

    # --- what a case needs --------------------------------------------------------------------------------------------

    def topic(
        self, name: str, replicas: Sequence[Sequence[int]] = ((1,),), configs: Mapping[str, object] | None = None
    ) -> Uuid:
        """Make a topic whose partition n has these replicas, the first of which leads; its id. Every node knows of it
        then, and the leaders lead."""
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.Topic(
                    name=name,
                    assignments=[
                        CreateTopicsRequest.Topic.Assignment(partition_index=number, broker_ids=list(brokers))
                        for number, brokers in enumerate(replicas)
                    ],
                    configs=[
                        CreateTopicsRequest.Topic.Config(name=key, value=str(value))
                        for key, value in (configs or {}).items()
                    ],
                )
            ]
        )
        with Connection(self.server.address(replicas[0][0])) as connection:
            created = connection.ask(request, 7).topics[0]
        assert created.error_code == 0, (ErrorCode.of(created.error_code), created.error_message)
        for number, brokers in enumerate(replicas):
            self.wait_for_leader(name, number, brokers[0])
        wait_until_led(self.server, name, sorted({node for brokers in replicas for node in brokers}))
        self.names.topic(created.topic_id)
        return created.topic_id

    def wait_for_leader(self, topic: str, partition: int, node: int) -> None:
        """Until this node leads the partition."""
        asked = ListOffsetsRequest.Topic.Partition(partition_index=partition, timestamp=LATEST_TIMESTAMP)
        request = ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name=topic, partitions=[asked])])
        self.until(node, request, _LIST_OFFSETS, lambda answer: not answer.topics[0].partitions[0].error_code)

    def until(self, node: int, request: Request, version: int, condition: Callable[[Any], bool]) -> Any:
        """Ask a node again and again until its answer is so. Nothing of it is written down."""
        return answer_that(condition, self.server.address(node), request, version)


# --- the golden answers -----------------------------------------------------------------------------------------------


def judge(dialogue: Dialogue, module: str) -> None:
    """AssertionError unless this is what Apache Kafka answers, but for the differences that are written down."""
    path = FOLDER / "answers" / f"{module}.txt"
    answers = read_sections(path)
    if dialogue.server.name == "apache" and REWRITE:
        write_sections(path, {**answers, dialogue.case: dialogue.lines})
        return
    assert dialogue.case in answers, f"{path.name} has no answers of Apache Kafka to {dialogue.case}: REWRITE_ANSWERS=1"
    found = difference(answers[dialogue.case], dialogue.lines)
    listed: list[str] = []
    if dialogue.server.name != "apache":
        path = differences_of(dialogue.server.name)
        known = read_sections(path)
        noted = known.pop(f"{module}.{dialogue.case}", [])
        listed = [line for line in noted if not line.startswith(WHY)]
        if REWRITE_DIFFERENCES:
            why = [line for line in noted if line.startswith(WHY)] or [f"{WHY} ?"]
            write_sections(path, known | ({f"{module}.{dialogue.case}": [*why, *found]} if found else {}))
            return
    if found != listed:
        title = f"{dialogue.server.name} (+) does not answer as Apache Kafka (-):"
        expected = ["", "differences.txt has:", *listed] if listed else []
        raise AssertionError("\n".join([title, *found, *expected]))


def differences_of(server: str) -> Path:
    """Where it is written how this server answers otherwise than Apache Kafka's newest release."""
    return DIFFERENCES if server == "pykraft" else FOLDER / f"differences-{server}.txt"


def difference(apache: Sequence[str], other: Sequence[str]) -> list[str]:
    """Question by question the lines that differ: the question, then "-" and Apache Kafka's, "+" and the other's."""
    found: list[str] = []
    for ours, theirs in itertools.zip_longest(_by_question(other), _by_question(apache), fillvalue=["> not asked"]):
        if ours != theirs:
            lines = [line for line in difflib.ndiff(theirs[1:], ours[1:]) if line[0] in "-+"]
            found += [*dict.fromkeys([theirs[0], ours[0]]), *lines]
    return found


def _by_question(lines: Sequence[str]) -> list[list[str]]:
    blocks: list[list[str]] = [["beginning"]]
    for line in lines:
        if line.startswith((">", "#")):
            blocks.append([line])
        else:
            blocks[-1].append(line)
    return blocks


def read_sections(path: Path) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.startswith(_HEADLINE):
            sections[line.removeprefix(_HEADLINE)] = current = []
        elif line and sections:
            current.append(line)
    return sections


def write_sections(path: Path, sections: Mapping[str, Sequence[str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    texts = ["\n".join([f"{_HEADLINE}{name}", *lines]) + "\n" for name, lines in sorted(sections.items())]
    path.write_text("\n".join(texts))
