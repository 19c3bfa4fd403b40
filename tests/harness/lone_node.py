"""One whole node without a thread or a socket: broker and only voter, on a disk in memory, in virtual time.

What it sends to itself is delivered at once; what it sends to anybody else is kept in `sent`. A test speaks to it with
`ask`, in any version, on either listener, and plays the other brokers: `join` registers one that is only a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from pykraft.broker.node import Node
from pykraft.broker.requests.authorizer import Authorizer
from pykraft.broker.requests.dispatch import Answer
from pykraft.broker.requests.quotas import Quotas
from pykraft.broker.settings.config import read_node_config
from pykraft.broker.startup.storage_format import format_directories
from pykraft.common.core import Failure, Outbound, Poll, Promise
from pykraft.common.fault_handler import FaultHandler, StrictFaultHandler
from pykraft.common.trace import RingBuffer
from pykraft.common.types import Uuid
from pykraft.controller.features import NEW_CLUSTER
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest
from pykraft.protocol.messages.brokers import AssignReplicasToDirsRequest, BrokerHeartbeatRequest
from pykraft.protocol.messages.data import FetchRequest, ProduceRequest
from pykraft.protocol.messages.records import MetadataRecord, encode_metadata_record
from pykraft.protocol.schema import Request
from pykraft.raft.log.snapshot import encode_snapshot
from pykraft.sim.laws.sleep_laws import SleepAudit
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk.checkpoint import BOOTSTRAP_CHECKPOINT
from pykraft.transport.server_channel import InboundRequest, RequestContext
from tests.harness.controllers import new_topic, registration
from tests.harness.storage import CountedSlice, Inline, ManualClock

CLUSTER_ID = str(Uuid(bytes(15) + b"\xc8"))
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://node:9092,CONTROLLER://node:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.voters": "1@node:9093",
}
"""What a lone node is formatted for, in any folder."""
REQUEST_BYTES = 200
"""The size that every request is said to have."""
PORTS = {"PLAINTEXT": 9092, "CONTROLLER": 9093}


class LoneNode:
    """Node 1, ready. While it is `cut_off` no request arrives, not even what its broker asks its controller."""

    def __init__(
        self,
        filesystem: MemoryFileSystem | None = None,
        *,
        cut_off: bool = False,
        authorizer: Authorizer | None = None,
        quotas: Quotas | None = None,
        levels: Mapping[str, int] = NEW_CLUSTER,
        survives_faults: bool = False,
        bootstrap: Sequence[MetadataRecord] = (),
        **settings: str,
    ) -> None:
        """With `survives_faults` it goes on after a fault, as a real node does; otherwise a fault fails the test.
        `bootstrap` are records that its bootstrap.checkpoint has instead of the levels."""
        self.now = 1000
        self.cut_off = cut_off
        self.journal = RingBuffer()
        self.filesystem = filesystem or MemoryFileSystem()
        self.sent: list[Outbound] = []
        self._audit = SleepAudit(Random(1), deep=0)
        self.clock = ManualClock()
        self.time_slice = CountedSlice(500)
        """How many items of a request are answered in one turn of the node."""
        config = read_node_config(
            {
                **PROPERTIES,
                "log.dirs": "/data",
                "metadata.max.idle.interval.ms": "0",
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        if filesystem is None:
            format_directories(config, CLUSTER_ID, self.filesystem, Random(1), 0, levels=levels)
            if bootstrap:
                values = [encode_metadata_record(record, 0) for record in bootstrap]
                data = encode_snapshot(None, values, epoch=0, timestamp=0, last_timestamp=0)
                self.filesystem.write(f"/data/{BOOTSTRAP_CHECKPOINT}", data)
            self.filesystem.sync_all()
        self.node = Node(
            config=config,
            filesystem=self.filesystem,
            clock=self.clock,
            random=Random(f"life {self.filesystem.life}"),  # each process draws an incarnation id of its own
            background=Inline(),
            trace_sink=self.journal,
            authorizer=authorizer,
            quotas=quotas,
            time_slice=self.time_slice,
            fault_handler=FaultHandler if survives_faults else StrictFaultHandler,
        )
        self.node.bind({each.name: each.bind.port for each in config.listeners})
        try:
            self.node.start(self.now)
            self.run(200)
        except OSError:
            self.node.abandon()
            raise

    @property
    def broker(self) -> Any:
        return self.node.broker

    def run(self, duration_ms: int = 60) -> None:
        """Let time pass."""
        end = self.now + duration_ms
        while True:
            poll = self.poll()
            for outbound in poll.requests:
                self._deliver(outbound)
            if poll.requests:
                continue
            due = max(self.now + 1, poll.deadline)
            if due > end:  # time never goes back: this turn is not made
                break
            self.now = due
        self.now = end
        self.poll()

    def poll(self) -> Poll:
        """One turn. What sleeps after it may sleep; but what a test lets raise is raised to the node, not here."""
        poll = self.node.poll(self.now)
        if not isinstance(self.node.fault_handler, StrictFaultHandler):
            return poll
        self._audit.check(self.node, lambda: (self.journal.count, self.filesystem.operations), self.now)
        return poll

    def _deliver(self, outbound: Outbound) -> None:
        if self.cut_off:
            outbound.on_response(Failure.DISCONNECTED, self.now)
            return
        if outbound.destination.port not in PORTS.values():
            self.sent.append(outbound)
            return
        is_controller = outbound.destination.port == PORTS["CONTROLLER"]
        answer = self.handle(outbound.request, ListenerKind.CONTROLLER if is_controller else ListenerKind.BROKER)
        answer.then(lambda done: outbound.on_response(done.response, self.now))

    @staticmethod
    def context(
        request: Request,
        kind: ListenerKind = ListenerKind.BROKER,
        version: int | None = None,
        principal: str = "User:test",
        address: str = "127.0.0.1",
        client_id: str = "test",
    ) -> RequestContext:
        """Of a request that is handed in: how it came."""
        listener = "PLAINTEXT" if kind is ListenerKind.BROKER else "CONTROLLER"
        number = request.versions[1] if version is None else version
        return RequestContext("c", listener, kind, principal, client_id, address, request.api, number, 1, REQUEST_BYTES)

    def handle(
        self,
        request: Request,
        kind: ListenerKind = ListenerKind.BROKER,
        version: int | None = None,
        principal: str = "User:test",
        address: str = "127.0.0.1",
        client_id: str = "test",
    ) -> Promise[Answer]:
        """Hand in a request; the answer may come later. No time passes."""
        context = self.context(request, kind, version, principal, address, client_id)
        answered = self.node.handle(InboundRequest(context, request), self.now)
        return answered if isinstance(answered, Promise) else Promise.of(answered)

    def ask(
        self,
        request: Request,
        kind: ListenerKind = ListenerKind.BROKER,
        version: int | None = None,
        principal: str = "User:test",
        address: str = "127.0.0.1",
        client_id: str = "test",
    ) -> Any:
        """The response, after a moment."""
        answer = self.handle(request, kind, version, principal, address, client_id)
        self.run()
        answer.value.encode(self.context(request, kind, version, principal, address, client_id))
        return answer.value.response

    def join(self, broker_id: int, rack: str | None = None) -> int:
        """Another broker registers and is unfenced; returns its epoch."""
        request = registration(broker_id, rack=rack, cluster_id=CLUSTER_ID)
        epoch: int = self.ask(request, ListenerKind.CONTROLLER).broker_epoch
        self.heartbeat(broker_id)
        return epoch

    def heartbeat(self, broker_id: int, offline_log_dirs: Sequence[Uuid] = ()) -> Any:
        image = self.node.loader.image
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=image.brokers[broker_id].epoch,
            current_metadata_offset=image.provenance.offset,
            want_fence=False,
            want_shut_down=False,
            offline_log_dirs=list(offline_log_dirs),
        )
        return self.ask(request, ListenerKind.CONTROLLER)

    def lose_a_directory(self, broker_id: int, topic: str) -> None:
        """Another broker, which has registered two directories, names one for its replica of the topic's partition, and
        then loses it."""
        image = self.node.loader.image
        broker = image.brokers[broker_id]
        lost = broker.directories[0]
        kind = AssignReplicasToDirsRequest.Directory
        named = kind.Topic(topic_id=image.topic_ids[topic], partitions=[kind.Topic.Partition(partition_index=0)])
        request = AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=image.brokers[broker_id].epoch,
            directories=[kind(id=lost, topics=[named])],
        )
        self.ask(request, ListenerKind.CONTROLLER)
        self.heartbeat(broker_id, [lost])

    def create(self, name: str = "t", replicas: tuple[int, ...] = (1,), *, partitions: int = 1, **configs: str) -> Uuid:
        """A topic whose partitions are all on these brokers; returns its id."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = new_topic(name, assignment={n: list(replicas) for n in range(partitions)}, configs=settings)
        response = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), ListenerKind.CONTROLLER)
        assert not response.topics[0].error_code, response
        self.run()
        return self.node.loader.image.topic_ids[name]

    def produce(
        self, topic_id: Uuid, records: Any, acks: int = -1, timeout_ms: int = 500, partition: int = 0
    ) -> Promise[Answer]:
        topic = ProduceRequest.Topic
        part = topic.Partition(index=partition, records=memoryview(bytearray(records)))
        request = ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[topic(topic_id=topic_id, partition_data=[part])]
        )
        return self.handle(request)

    def fetch(
        self,
        topic_id: Uuid,
        offset: int,
        *,
        follower: int = -1,
        last_epoch: int = -1,
        log_start: int = -1,
        leader_epoch: int = -1,
        version: int | None = None,
        partition: int = 0,
        **fields: Any,
    ) -> Promise[Answer]:
        """A consumer's fetch; with `follower` that of a replica."""
        topic = FetchRequest.Topic
        image = self.node.loader.image
        epoch = image.brokers[follower].epoch if follower >= 0 else -1
        part = topic.Partition(
            partition=partition,
            fetch_offset=offset,
            current_leader_epoch=leader_epoch,
            last_fetched_epoch=last_epoch,
            log_start_offset=log_start,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=follower, replica_epoch=epoch),
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[topic(topic_id=topic_id, partitions=[part])],
        )
        return self.handle(request.replace(**fields), version=version)
