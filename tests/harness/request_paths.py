"""What a request enters on its way through a node: the calls of pykraft's own functions, and the files they are in.

The node is whole and alone: broker and only voter, on a real disk, in virtual time and without threads. A request
arrives as the bytes of its frame on a connection like those of the socket server. The count begins with the last byte.
It ends when the response is with the stream, and the node has nothing left to do but to wait: what it asks itself
(a forwarded request, a transaction's markers) is part of the path. The socket and the selector are not.

Each request is sent several times, and the last one is counted: the others have made its codecs, sessions and metrics.

The same code gives the same numbers on each run, and on every Python that the project supports. Therefore these are
not counted:

* comprehensions, which are calls of their own only until Python 3.11;
* a generator that goes on, or is closed: Python 3.13 closes most of them without a call;
* functions of the standard library, for they differ from release to release;
* `records.walk`, which may be compiled: then no profiler sees its calls.

Generated functions count: codecs, `__init__` of a dataclass, `__new__` of a named tuple. They are in no file.

    python -m tests.harness.request_paths              the table of all
    python -m tests.harness.request_paths --write      the same, and commit the numbers that the test compares with
    python -m tests.harness.request_paths produce      one path, call by call
"""

from __future__ import annotations

import argparse
import dis
import gc
import itertools
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cache
from inspect import CO_GENERATOR
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pykraft
from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.broker.settings.config import read_node_config
from pykraft.broker.startup.storage_format import format_directories
from pykraft.common.timer import Timer
from pykraft.common.types import Uuid
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.network.selector import Selector
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.header import decode_response, encode_request
from pykraft.protocol.messages.admin import CreateTopicsRequest, CreateTopicsResponse
from pykraft.protocol.messages.data import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from pykraft.protocol.messages.groups import ConsumerGroupHeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from pykraft.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from pykraft.protocol.schema import Request
from pykraft.runtime.fused import FusedStages
from pykraft.runtime.threaded import socket_options
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.server_connection import ServerConnection
from tests.harness.controllers import new_topic
from tests.harness.lone_node import CLUSTER_ID, PROPERTIES, LoneNode
from tests.harness.storage import batch
from tests.harness.tree import ROOT

COMMITTED = ROOT / "tests" / "unit" / "request_paths.txt"
HOME = str(Path(pykraft.__file__).parent)
COMPARED = ("produce", "fetch")
WARM = 4
"""This many times each request is sent; the last one is counted."""
COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>"}
GENERATED = ("pykraft.", "namedtuple_")
"""The modules that generated functions without a file belong to."""
COMPILED = "records/walk"


class Step(NamedTuple):
    """One call of a path."""

    depth: int
    place: str
    """The file within pykraft and the function; of a generated function what it was generated for."""
    file: str | None
    """None for a generated function."""

    def __str__(self) -> str:
        return f"{'  ' * self.depth}{self.place}"


class RequestPath(NamedTuple):
    """All calls of one request, in order."""

    name: str
    steps: tuple[Step, ...]

    @property
    def calls(self) -> int:
        return len(self.steps)

    @property
    def files(self) -> int:
        return len({step.file for step in self.steps if step.file is not None})

    def __str__(self) -> str:
        return f"{self.name:<20} {self.calls:>6} {self.files:>6}"


class Recorder:
    """Notes the calls between `start` and `stop`."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._places: dict[CodeType, tuple[str, str | None] | None] = {}
        self._depth = 0

    def start(self) -> None:
        gc.disable()  # what other tests left must not be collected here: its end may be a call
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)
        gc.enable()

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code not in self._places:
            self._places[code] = _place(frame)
        place = self._places[code]
        if place is None:
            return
        if event == "call" and not _is_resumed(frame):
            self.steps.append(Step(self._depth, *place))
        self._depth += 1 if event == "call" else -1


def _place(frame: FrameType) -> tuple[str, str | None] | None:
    """Where a function is; None if it does not count."""
    code = frame.f_code
    if code.co_filename.startswith(HOME):
        file = code.co_filename[len(HOME) + 1 :]
        if code.co_name in COMPREHENSIONS or file.startswith(COMPILED):
            return None
        return f"{file} {code.co_qualname}", file
    if not code.co_filename.startswith("<") or code.co_filename.startswith("<frozen"):
        return None
    module = str(frame.f_globals.get("__name__", "pykraft.protocol"))  # a codec's names have none
    if not module.startswith(GENERATED):
        return None
    return f"{code.co_filename} {code.co_qualname}", None


def _is_resumed(frame: FrameType) -> bool:
    """Whether a generator goes on, or is closed, after it has begun."""
    return bool(frame.f_code.co_flags & CO_GENERATOR) and frame.f_lasti > _start(frame.f_code)


@cache
def _start(generator: CodeType) -> int:
    """Where a generator begins."""
    return next(each.offset for each in dis.get_instructions(generator) if each.opname == "RESUME")


class MemoryStream:
    """The bytes of one connection, which never breaks and has room for everything."""

    def __init__(self, channel: ServerChannel) -> None:
        self._frames = channel.frames
        self._arrived = b""
        self.is_readable = self.has_hung_up = self.has_ended = False
        self.output: list[Any] = []
        """Nothing: what is sent leaves at once."""
        self.sent: list[Any] = []

    def bring(self, data: bytes) -> None:
        self._arrived = data
        self.is_readable = True

    def receive(self) -> bool:
        self._frames.feed(self._arrived)
        self.is_readable = False
        return True

    def send(self, parts: Sequence[Any]) -> None:
        self.sent += parts

    def watch(self) -> None:
        pass

    def close(self, reset: bool) -> None:
        raise AssertionError("the node has hung up")


class RealDisk(OsFileSystem):
    """The disk of this machine, for a lone node, which asks these of its disk in memory."""

    life = 1
    operations = 0


class TracedNode(LoneNode):
    """Node 1 on a real disk, with one connection to its listener for clients."""

    def __init__(self, folder: str) -> None:
        disk: Any = RealDisk()
        config = {**PROPERTIES, "log.dirs": folder}
        format_directories(read_node_config(config), CLUSTER_ID, disk, Random(1), 0)
        super().__init__(disk, log_dirs=folder, broker_session_timeout_ms="600000")
        selector = Selector()
        timer, stopwatch = Timer(), itertools.count().__next__
        options = socket_options(self.node.config)
        self._stages = FusedStages(self.node, selector, timer, lambda: self.now, stopwatch, options, {})
        self._requests = self._stages._requests
        channel = ServerChannel("c", "PLAINTEXT", ListenerKind.BROKER, "127.0.0.1", 1 << 20)
        self._stream = MemoryStream(channel)
        self._connection = ServerConnection(channel, self._stream, self._requests)
        self._selector = selector

    def close(self) -> None:
        self._selector.close()
        self.node.abandon()

    def send(self, request: Request, recorder: Recorder | None = None) -> Any:
        """The response to a request in its newest version. Both travel as bytes."""
        version = type(request).versions[1]
        self._stream.sent.clear()
        self._stream.bring(b"".join(encode_request(request, version, 1, "client")))
        if recorder is not None:
            recorder.start()
        try:
            self._serve()
        finally:
            if recorder is not None:
                recorder.stop()
        parts = [part if isinstance(part, bytes) else part.read(0, len(part)) for part in self._stream.sent]
        _, response = decode_response(type(request).response, version, memoryview(b"".join(parts))[4:])
        return response

    def _serve(self) -> None:
        """One turn with the request, and as many more as the node takes until it waits and the answer has left."""
        self._connection.go_on()
        while True:
            self._stages.handle(self.now)
            poll = self.node.poll(self.now)
            for outbound in poll.requests:
                self._deliver(outbound)
            if poll.requests or poll.deadline <= self.now:
                continue
            if self._stream.sent:
                return
            self.now = poll.deadline


class Session:
    """The fetch session of a consumer, or of broker 2 as a follower: it reads a partition from its beginning on."""

    def __init__(self, node: TracedNode, topic_id: Uuid, follower: int = -1) -> None:
        self._topic_id = topic_id
        self._replica = FetchRequest.ReplicaState()
        if follower >= 0:
            epoch = node.node.loader.image.brokers[follower].epoch
            self._replica = FetchRequest.ReplicaState(replica_id=follower, replica_epoch=epoch)
        self._session_id, self._epoch = 0, -1
        self._session_id = node.send(self.next(0)).session_id
        assert self._session_id, "the node has made no session"

    def next(self, offset: int) -> FetchRequest:
        """A fetch from there on. The first one, of epoch 0, asks for the session, and is answered without records."""
        self._epoch += 1
        topic = FetchRequest.Topic
        partition = topic.Partition(
            partition=0,
            current_leader_epoch=0,
            fetch_offset=offset,
            last_fetched_epoch=0 if offset else -1,
            log_start_offset=0 if self._replica.replica_id >= 0 else -1,
            partition_max_bytes=1 << 20,
        )
        return FetchRequest(
            replica_state=self._replica,
            max_wait_ms=500,
            min_bytes=1 if self._epoch else 0,
            max_bytes=1 << 20,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[topic(topic_id=self._topic_id, partitions=[partition])],
        )


class Requests:
    """The requests whose paths are counted. Each method brings the node to where its request is a usual one, and
    returns it."""

    def __init__(self, node: TracedNode) -> None:
        self._node = node
        node.join(2)
        self._flights, self._airports = node.create("flights"), node.create("airports")
        self._routes = node.create("routes", (1, 2))
        node.create(GROUP_TOPIC, cleanup_policy="compact")
        node.create(TRANSACTION_TOPIC, cleanup_policy="compact")
        node.run(200)
        self._consumer = Session(node, self._airports)
        self._follower = Session(node, self._routes, follower=2)
        self._numbers = itertools.count()
        self._classic_member = ""
        self._heartbeat: ConsumerGroupHeartbeatRequest | None = None
        self._producer: Any = None

    def all(self) -> dict[str, Callable[[], Request]]:
        return {
            "produce": self.produce,
            "fetch": self.fetch,
            "follower fetch": self.follower_fetch,
            "create topic": self.create_topic,
            "join group": self.join_group,
            "consumer heartbeat": self.consumer_heartbeat,
            "end transaction": self.end_transaction,
        }

    def produce(self) -> Request:
        """One batch of one record for a partition with one replica, with acks=all."""
        return _produce(self._flights)

    def fetch(self) -> Request:
        """A consumer reads the batch that was appended last, within its session."""
        offset = self._node.send(_produce(self._airports)).responses[0].partition_responses[0].base_offset
        return self._consumer.next(offset)

    def follower_fetch(self) -> Request:
        """Broker 2 reads the batch that was appended last; it has those before."""
        offset = self._node.send(_produce(self._routes, acks=1)).responses[0].partition_responses[0].base_offset
        return self._follower.next(offset)

    def create_topic(self) -> Request:
        """A topic of one partition with one replica, asked of the broker, which forwards it to the controller."""
        topic = new_topic(f"new-{next(self._numbers)}")
        return CreateTopicsRequest(topics=[topic], timeout_ms=1000)

    def join_group(self) -> Request:
        """The only member of a stable group, and so its leader, joins again."""
        protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
        join = JoinGroupRequest(
            group_id="classic",
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            member_id=self._classic_member,
            protocol_type="consumer",
            protocols=[protocol],
        )
        if not self._classic_member:
            self._classic_member = self._node.send(join).member_id
            join = join.replace(member_id=self._classic_member)
        joined = self._node.send(join)
        assert not joined.error_code, joined
        sync = SyncGroupRequest(
            group_id="classic",
            generation_id=joined.generation_id,
            member_id=self._classic_member,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequest.Assignment(member_id=self._classic_member, assignment=b"")],
        )
        synced = self._node.send(sync)
        assert not synced.error_code, synced
        return join

    def consumer_heartbeat(self) -> Request:
        """A member of a consumer group (KIP-848) for which nothing has changed."""
        if self._heartbeat is None:
            join = ConsumerGroupHeartbeatRequest(
                group_id="consumers",
                member_id=str(Uuid(bytes(15) + b"m")),
                member_epoch=0,
                rebalance_timeout_ms=300_000,
                subscribed_topic_names=["flights"],
                topic_partitions=[],
            )
            joined = self._node.send(join)
            assert not joined.error_code, joined
            self._heartbeat = ConsumerGroupHeartbeatRequest(
                group_id=join.group_id, member_id=join.member_id, member_epoch=joined.member_epoch
            )
        return self._heartbeat

    def end_transaction(self) -> Request:
        """A transaction that has written to one partition is committed."""
        if self._producer is None:
            init = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
            self._node.send(init)  # the coordinator asks the controller for producer ids first
            self._node.run(200)
            self._producer = self._node.send(init)
            assert not self._producer.error_code, self._producer
        owner = {"producer_id": self._producer.producer_id, "producer_epoch": self._producer.producer_epoch}
        produced = self._node.send(_produce(self._flights, "t", **owner, base_sequence=0, transactional=True))
        assert not produced.responses[0].partition_responses[0].error_code, produced
        self._producer = self._producer.replace(producer_epoch=self._producer.producer_epoch + 1)
        return EndTxnRequest(transactional_id="t", committed=True, **owner)


def _produce(topic_id: Uuid, transactional_id: str | None = None, acks: int = -1, **fields: Any) -> ProduceRequest:
    topic = ProduceRequest.Topic
    partition = topic.Partition(index=0, records=memoryview(bytearray(batch(1, size=100, **fields).buffer)))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=500,
        topic_data=[topic(topic_id=topic_id, partition_data=[partition])],
    )


def trace(*names: str) -> list[RequestPath]:
    """The paths of these requests; of all, if none is named."""
    found = []
    with tempfile.TemporaryDirectory() as folder, closing(TracedNode(folder)) as node:
        for name, prepared in Requests(node).all().items():
            if names and name not in names:
                continue
            recorder = Recorder()
            for number in range(1, WARM + 1):
                request = prepared()
                node.run(200)
                response = node.send(request, recorder if number == WARM else None)
                assert not _error(response), f"{request} is answered with {response}"
            found.append(RequestPath(name, tuple(recorder.steps)))
    return found


def _error(response: Any) -> int:
    """The error of a response, or of the partition or topic in it."""
    match response:
        case ProduceResponse():
            error = response.responses[0].partition_responses[0].error_code
        case FetchResponse():
            error = response.error_code or response.responses[0].partitions[0].error_code
        case CreateTopicsResponse():
            error = response.topics[0].error_code
        case _:
            error = response.error_code
    return int(error)


def table(paths: Sequence[RequestPath]) -> str:
    """A line for each path, below a headline."""
    return "\n".join([f"{'request':<20} {'calls':>6} {'files':>6}", *map(str, paths)])


def committed() -> dict[str, tuple[int, int]]:
    """The calls and files of the compared requests, by their names."""
    rows = (line.rsplit(maxsplit=2) for line in COMMITTED.read_text().splitlines()[1:])
    return {name: (int(calls), int(files)) for name, calls, files in rows}


def verdict(path: RequestPath, known: Mapping[str, tuple[int, int]]) -> str | None:
    """What to do about a path whose numbers are not the committed ones; None if they are."""
    calls, files = known[path.name]
    if (path.calls, path.files) == (calls, files):
        return None
    if path.calls > calls or path.files > files:
        advice = "Simplify the path, or commit the new numbers and give the reason in the commit's message"
    else:
        advice = "The path is shorter: commit the new numbers"
    return (
        f"A warm {path.name} takes {path.calls} calls in {path.files} files; {COMMITTED.name} has {calls} in {files}. "
        f"{advice} (python -m tests.harness.request_paths --write)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What requests enter on their way through a node.")
    parser.add_argument("request", nargs="*", help="show the calls of these requests")
    parser.add_argument("--write", action="store_true", help=f"write {COMMITTED.relative_to(ROOT)}")
    arguments = parser.parse_args()
    paths = trace(*arguments.request)
    calls = [line for path in paths for line in ("", path.name, *map(str, path.steps))]
    sys.stdout.write("\n".join([*(calls if arguments.request else ()), table(paths), ""]))
    if arguments.write:
        COMMITTED.write_text(table(trace(*COMPARED)) + "\n")


if __name__ == "__main__":
    main()
