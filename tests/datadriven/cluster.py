"""A whole cluster: controllers and brokers as they are, on disks in memory.

::

    cluster controllers=9 brokers=1,2 [SETTING=VALUE ...]   the nodes start; the brokers register and are unfenced
    cluster controllers=9 brokers=1,2 keeps-elr [...]   the same with eligible leader replicas
    topic t replicas=1,2 [SETTING=VALUE ...]   a client has a topic made; its one partition is led by the first replica
    ask-for-topic 9 t replicas=1     a client asks this controller for a topic; the answer may come later
    delete t                         a client has a topic deleted; what it had acknowledged need not be there any more
    produce 1 3 records [acks=1]     a client sends a batch for the first topic to broker 1
    elect unclean                    an administrator orders an election (also: elect preferred)
    stop 2                           the broker hands over what it leads, and stops
    acknowledged                     which of the records acknowledged with acks=all the present leader has
    state                            what the controllers have decided, and per broker its replica of the topic

The nodes are real (`pykraft.broker.node.Node`), with Kafka's settings but for those below. What says nothing about a
script's rule is no line of the dialogue: heartbeats, fetches of the metadata log, and producer's requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from pykraft.broker.node import Node
from pykraft.broker.replication.partition import Partition
from pykraft.broker.settings.config import read_node_config
from pykraft.broker.startup.lifecycle import LifecycleState
from pykraft.broker.startup.storage_format import format_directories
from pykraft.common.core import Poll, Promise
from pykraft.common.errors import ErrorCode
from pykraft.common.trace import TraceEvent
from pykraft.common.types import TopicPartition, Uuid
from pykraft.controller.features import levels_with
from pykraft.metadata.image import PartitionRegistration
from pykraft.metadata.versions import ELR_VERSION
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.brokers import RECOVERING
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.elections import ElectionType
from pykraft.protocol.schema import Request
from pykraft.raft.client import RaftClient
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.log import UnifiedLog
from pykraft.transport.server_channel import InboundRequest, RequestContext
from tests.datadriven.vocabulary import ScriptError, World, command, numbers
from tests.datadriven.wording import leader, listed, runs
from tests.harness.asking import elect
from tests.harness.controllers import new_topic
from tests.harness.storage import Inline, ManualClock, batch, read_batches

CLUSTER_ID = str(Uuid(bytes(15) + b"\xc8"))
PORTS = {"PLAINTEXT": 9092, "CONTROLLER": 9093}
_SETTINGS = {
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "controller.quorum.append.linger.ms": "0",
    "metadata.max.idle.interval.ms": "0",
    "replica.lag.time.max.ms": "5000",
    "replica.fetch.backoff.ms": "100",
    "auto.create.topics.enable": "false",
}
_START_LIMIT_MS = 10_000
_STEP_MS = 50
_NEVER_MS = 1 << 30


class WholeNode:
    """A node on the stage."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def poll(self, now: int) -> Poll:
        poll = self.node.poll(now)
        return Poll(requests=poll.requests) if self.node.is_shut_down(now) else poll

    def handle(self, request: Request, port: int, now: int) -> Promise[Any]:
        listener, kind = {9092: ("PLAINTEXT", ListenerKind.BROKER), 9093: ("CONTROLLER", ListenerKind.CONTROLLER)}[port]
        version = request.versions[1]
        context = RequestContext("c", listener, kind, "User:script", "script", "127.0.0.1", request.api, version, 1, 0)
        response: Promise[Any] = Promise()
        answered = self.node.handle(InboundRequest(context, request), now)
        if isinstance(answered, Promise):
            answered.then(lambda answer: response.keep(answer.response))
        else:
            response.keep(answered.response)
        return response


class Cluster(World):
    """Controllers and brokers."""

    hidden = ("Heartbeat", "MetadataFetch", "AllocateProducerIds", "BeginQuorumEpoch", "EndQuorumEpoch")

    def __init__(self) -> None:
        super().__init__()
        self.properties: dict[int, dict[str, str]] = {}
        self.disks: dict[int, MemoryFileSystem] = {}
        self.nodes: dict[int, Node] = {}
        self.topic = ""
        self.produced = 0
        self.acknowledged: dict[int, bytes] = {}

    # --- nodes --------------------------------------------------------------------------------------------------------

    def locate(self, host: str, port: int) -> int:
        return int(host.removeprefix("node-"))

    def raft(self, node_id: int) -> RaftClient:
        return self.nodes[node_id].raft

    @command(r"cluster controllers=([\d,]+)(?: brokers=([\d,]+))?( keeps-elr)?((?: \S+=\S+)*)")
    def begin(self, controllers: str, brokers: str | None, keeps_elr: str | None, settings: str) -> None:
        levels = levels_with({ELR_VERSION: 1 if keeps_elr else 0})
        voters = numbers(controllers)
        for node_id in [*voters, *(numbers(brokers) if brokers else [])]:
            role, name = ("controller", "CONTROLLER") if node_id in voters else ("broker", "PLAINTEXT")
            self.properties[node_id] = {
                **_SETTINGS,
                "process.roles": role,
                "node.id": str(node_id),
                "listeners": f"{name}://node-{node_id}:{PORTS[name]}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.quorum.voters": ",".join(f"{n}@node-{n}:{PORTS['CONTROLLER']}" for n in voters),
                "log.dirs": "/data",
                **dict(pair.split("=") for pair in settings.split()),
            }
            self.disks[node_id] = MemoryFileSystem()
            config = read_node_config(self.properties[node_id])
            format_directories(config, CLUSTER_ID, self.disks[node_id], Random(node_id), 0, levels=levels)
            self.disks[node_id].sync_all()
        self.stage.is_quiet = True
        for node_id in self.properties:
            self.start_node(node_id)
        if len(voters) > 1:
            self.timeout(str(voters[0]))
        self._wait_until_all_run()
        self.stage.is_quiet = False
        self._say_who_is_who()

    def start_node(self, node_id: int) -> None:
        config = read_node_config(self.properties[node_id])
        disk = self.disks[node_id]
        node = Node(
            config=config,
            filesystem=disk,
            clock=ManualClock(),
            random=Random(f"node {node_id}, life {disk.life}"),
            background=Inline(),
            trace_sink=self,
        )
        node.bind({listener.name: listener.advertised.port for listener in config.listeners})
        self.nodes[node_id] = node
        self.stage.add(node_id, WholeNode(node))
        node.start(self.stage.clock(node_id))

    def crash_node(self, node_id: int, dice: Random | None) -> None:
        self.nodes.pop(node_id).abandon()
        if dice is None:
            self.disks[node_id].crash_process()
        else:
            self.disks[node_id].crash_power(dice)

    def _wait_until_all_run(self) -> None:
        for _ in range(0, _START_LIMIT_MS, _STEP_MS):
            brokers = [node.broker for node in self.nodes.values() if node.broker is not None]
            if self.controller is not None and all(b.lifecycle.state is LifecycleState.RUNNING for b in brokers):
                return
            self.stage.wait(_STEP_MS)
        raise ScriptError("the cluster does not start")

    def _say_who_is_who(self) -> None:
        for node_id, node in sorted(self.nodes.items()):
            if node.broker is not None:
                self.stage.say(f"{node_id}  broker, broker epoch {node.broker.lifecycle.epoch}")
            else:
                active = ", active" if node is self.controller else ""
                self.stage.say(f"{node_id}  controller{active}, epoch {node.raft.leader_and_epoch.epoch}")

    def emit(self, event: TraceEvent) -> None:
        """A node reports. What every broker goes through as an observer of the metadata log is left out."""
        is_role_of_observer = event.name == "role" and self.properties[event.node]["process.roles"] == "broker"
        if not is_role_of_observer and event.name != "metadata_high_watermark":
            super().emit(event)

    @property
    def controller(self) -> Node | None:
        """The active controller's node, the newest if two believe that they are."""
        active = [node for node in self.nodes.values() if node.controller is not None and node.controller.is_active]
        return max(active, key=lambda node: node.raft.leader_and_epoch.epoch, default=None)

    @command(r"stop (\d+)")
    def stop(self, node_id: str) -> None:
        node = self.nodes[int(node_id)]
        node.begin_shutdown(self.stage.clock(int(node_id)))
        for _ in range(0, _START_LIMIT_MS, _STEP_MS):
            self.stage.settle()
            if node.is_shut_down(self.stage.clock(int(node_id))):
                break
            self.stage.wait(_STEP_MS)
        node.close()
        del self.nodes[int(node_id)]
        self.stage.remove(int(node_id))
        self.disks[int(node_id)].crash_process()

    # --- topics -------------------------------------------------------------------------------------------------------

    @command(r"topic (\S+) replicas=([\d,]+)((?: \S+=\S+)*)")
    def make_topic(self, name: str, replicas: str, settings: str) -> None:
        assert self.controller is not None
        self._ask_for_topic(self.controller.config.node_id, name, replicas, settings)

    @command(r"ask-for-topic (\d+) (\S+) replicas=([\d,]+)((?: \S+=\S+)*)")
    def ask_for_topic(self, controller: str, name: str, replicas: str, settings: str) -> None:
        self._ask_for_topic(int(controller), name, replicas, settings)

    def _ask_for_topic(self, controller: int, name: str, replicas: str, settings: str) -> None:
        configs = dict(pair.split("=") for pair in settings.split())
        topic = new_topic(name, assignment={0: numbers(replicas)}, configs=configs)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=_NEVER_MS)

        def on_response(response: Any) -> None:
            for made in response.topics:
                error = ErrorCode.of(made.error_code)
                if error is ErrorCode.NONE:
                    self.topic = self.topic or made.name
                    self.wording.topics[made.topic_id] = made.name
                text = f"{made.name} is made" if error is ErrorCode.NONE else f"{made.name} is refused, {error.name}"
                self.stage.say(f"{controller} -> client  CreateTopics: {text}")

        self._ask(controller, request, on_response)

    @command(r"delete (\S+)")
    def delete_topic(self, name: str) -> None:
        assert self.controller is not None
        controller = self.controller.config.node_id
        request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name=name)], timeout_ms=_NEVER_MS)

        def on_response(response: Any) -> None:
            error = ErrorCode.of(response.responses[0].error_code)
            text = f"{name} is deleted" if error is ErrorCode.NONE else f"{name} is not deleted, {error.name}"
            self.stage.say(f"{controller} -> client  DeleteTopics: {text}")
            if error is ErrorCode.NONE and name == self.topic:
                self.acknowledged.clear()

        self._ask(controller, request, on_response)

    @command(r"elect (unclean|preferred)")
    def elect(self, kind: str) -> None:
        assert self.controller is not None
        controller = self.controller.config.node_id

        def on_response(response: Any) -> None:
            error = ErrorCode.of(response.replica_election_results[0].partition_result[0].error_code)
            self.stage.say(f"{controller} -> client  ElectLeaders: {error.name}")

        self._ask(controller, elect(ElectionType[kind.upper()], (self.topic, [0])), on_response)

    def _ask(self, node_id: int, request: Request, on_response: Callable[[Any], None]) -> None:
        """A client asks this node."""
        port = PORTS["PLAINTEXT" if self.nodes[node_id].broker is not None else "CONTROLLER"]
        answer = self.stage.actors[node_id].handle(request, port, self.stage.clock(node_id))
        answer.then(on_response)
        self.stage.settle()
        if not answer.kept:
            self.stage.say(f"{node_id}  lets the client wait")

    # --- records ------------------------------------------------------------------------------------------------------

    @command(r"produce (\d+) (\d+) records?(?: acks=(1|all))?")
    def produce(self, broker: str, count: str, acks: str | None) -> None:
        topic = ProduceRequest.Topic
        self.produced += 1
        sent = batch(int(count), key=b"%d" % self.produced)  # no two batches are equal
        part = topic.Partition(index=0, records=sent.buffer)
        request = ProduceRequest(
            acks=1 if acks == "1" else -1,
            timeout_ms=_NEVER_MS,
            topic_data=[topic(topic_id=self._registered()[0], partition_data=[part])],
        )

        def on_response(response: Any) -> None:
            answer = response.responses[0].partition_responses[0]
            error = ErrorCode.of(answer.error_code)
            offsets = list(range(answer.base_offset, answer.base_offset + int(count)))
            text = f"acknowledges {listed_runs(offsets)}" if error is ErrorCode.NONE else error.name
            self.stage.say(f"{broker} -> client  Produce: {text}")
            if error is ErrorCode.NONE and acks != "1":
                values = [bytes(record.key or b"") for record in sent.records()]
                self.acknowledged.update(zip(offsets, values, strict=True))

        self._ask(int(broker), request, on_response)

    @command(r"acknowledged")
    def compare(self) -> None:
        leading = self._registered()[1].leader
        known = listed_runs(sorted(self.acknowledged))
        if leading not in self.nodes:
            self.stage.say(f"{known} acknowledged; there is no leader to read them from")
            return
        has = {
            record_batch.base_offset + number: bytes(record.key or b"")
            for record_batch in read_batches(self._partition(leading).log)
            for number, record in enumerate(record_batch.records())
        }
        lost = [offset for offset, value in sorted(self.acknowledged.items()) if has.get(offset) != value]
        has_all = "has them all" if not lost else f"LACKS {listed_runs(lost)}"
        self.stage.say(f"{known} acknowledged; leader {leading} {has_all}")

    def _registered(self) -> tuple[Uuid, PartitionRegistration]:
        """The topic's id and its partition, as the active controller has them."""
        assert self.controller is not None and self.controller.controller is not None
        image = self.controller.controller.image
        topic = image.topic_named(self.topic)
        if topic is None:
            raise ScriptError(f"there is no topic {self.topic}")
        return topic.topic_id, topic.partitions[0]

    def _partition(self, broker: int) -> Partition:
        node = self.nodes[broker]
        assert node.broker is not None
        return node.broker.replicas.partitions[TopicPartition(self.topic, 0)]

    # --- state --------------------------------------------------------------------------------------------------------

    def described(self) -> Iterator[str]:
        for node_id in sorted(self.properties):
            node = self.nodes.get(node_id)
            if node is None:
                yield f"{node_id}  is down"
            elif node.controller is not None:
                yield from self._described_controller(node_id, node)
            elif self.topic and TopicPartition(self.topic, 0) in node.broker.replicas.partitions:  # type: ignore[union-attr]
                yield from _described_replica(node_id, self._partition(node_id))
            else:
                yield f"{node_id}  has no replica"

    def _described_controller(self, node_id: int, node: Node) -> Iterator[str]:
        assert node.controller is not None
        role, log = node.raft.replica.quorum.role, node.raft.replica.log
        image = node.controller.image
        topics = listed(sorted(image.topic_ids))
        if len(self._controllers) > 1:
            yield f"{node_id}  {role.name.value} in epoch {role.epoch}, topics {topics}"
            yield f"   log {_log(log.unified)}, high watermark {log.high_watermark}"
        else:
            for name, topic_id in sorted(image.topic_ids.items()):
                partition = image.topics[topic_id].partitions[0]
                epochs = f"leader epoch {partition.leader_epoch}, partition epoch {partition.partition_epoch}"
                elr = partition.eligible_leader_replicas
                more = f", ELR {listed(elr)}" if elr else ""
                more += ", recovering" if partition.leader_recovery_state == RECOVERING else ""
                yield f"{node_id}  {name}-0: {leader(partition.leader)}, {epochs}, ISR {listed(partition.isr)}{more}"

    @property
    def _controllers(self) -> list[int]:
        return [n for n, found in self.properties.items() if found["process.roles"] == "controller"]


def _described_replica(node_id: int, partition: Partition) -> Iterator[str]:
    log = f"log {_log(partition.log)}, high watermark {partition.log.high_watermark}"
    if not partition.is_leader:
        role = f"follows {partition.leader_id}" if partition.leader_id >= 0 else "waits for a leader"
        yield f"{node_id}  {role} in leader epoch {partition.leader_epoch}"
        yield f"   {log}"
        return
    state = partition.isr_state
    asks = f" (asks for {listed(sorted(state.wanted))})" if state.is_in_flight else ""
    yield f"{node_id}  leads in leader epoch {partition.leader_epoch}, ISR {listed(sorted(state.isr))}{asks}"
    ends = [f"{n} at {f.end_offset}" for n, f in sorted(partition.followers.items()) if f.end_offset >= 0]
    yield f"   {log}, followers {listed(ends)}"


def _log(log: UnifiedLog) -> str:
    return runs(read_batches(log))


def listed_runs(offsets: list[int]) -> str:
    """Offsets as runs: ``0-3, 7``."""
    found: list[list[int]] = []
    for offset in offsets:
        if found and found[-1][1] + 1 == offset:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return listed(f"{first}-{last}" if first < last else f"{first}" for first, last in found)
