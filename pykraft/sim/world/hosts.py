"""Hosts in the simulator: a whole node between a virtual network, clock and disk.

`SimulatedNode` does what `runtime.threaded.NodeThread` does, without the thread and the sockets: it takes what has come
in, hands it to the node, polls the node, and sends what the node wants sent. The core cannot tell the difference.
(Hosts of clients are in `client_hosts`.)

A node can end in several ways: between two steps, like a killed process; within a step, before any of its changes of
the disk (and with a part of that one written); by an error of its disk; or in order. A process that ends leaves every
byte that it wrote in the kernel's hands; a machine without power loses what was not synced.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar

from pykraft.broker.node import Node
from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.settings.listener_config import Listener
from pykraft.broker.settings.socket_config import QUEUED_MAX_REQUESTS
from pykraft.common.core import FOREVER
from pykraft.common.fault_handler import StrictFaultHandler
from pykraft.common.time_slice import TimeSlice
from pykraft.common.trace import TraceEvent
from pykraft.common.types import Endpoint
from pykraft.protocol.header import SIZE
from pykraft.sim.world.disk import Crash, MemoryFileSystem
from pykraft.sim.world.network import End, Network
from pykraft.sim.world.scheduler import US_PER_MS, Planned, Scheduler
from pykraft.sim.world.slices import SeededBursts
from pykraft.sim.world.work import MeteredChannel, MeteredNode, WorkMeter, WorkSlice
from pykraft.transport.pace import Pace
from pykraft.transport.peers import Peer, Peers
from pykraft.transport.request_metrics import RequestMetrics
from pykraft.transport.server_connection import QueuedRequest, RequestChannel, ServerConnection

T = TypeVar("T")
EPOCH_MS = 1_700_000_000_000
"""The time of day at which every simulation begins."""
_AGAIN_US = 50
_MAX_REQUEST_BYTES = 100 << 20
MAX_HANDLING_US = 20_000
"""After so much work for requests a node looks after itself, as `runtime.fused` does."""


class SimulatedWire:
    """One connection that was opened: between a `Peer` and the network."""

    def __init__(self, host: "Machine", endpoint: Endpoint, peer: Peer) -> None:
        self._host = host
        self._peer = peer
        self._end = host.network.connect(host, endpoint, self)

    def send(self, parts: Sequence[Any]) -> None:
        self._end.send(parts)

    def close(self) -> None:
        self._end.close()

    def connected(self) -> None:
        self._host.act(lambda: self._peer.connected(self._host.scheduler.now))

    def received(self, data: bytes) -> None:
        def receive() -> None:
            self._peer.channel.frames.feed(data)
            self._peer.received(self._host.scheduler.now)

        self._host.act(receive)

    def closed(self) -> None:
        self._host.act(lambda: self._peer.closed(self._host.scheduler.now))


class Security(Protocol):
    """How a host opens connections, where some have TLS (`sim.world.secure_hosts`)."""

    def dial(self, host: "Machine", endpoint: Endpoint, peer: Peer) -> SimulatedWire: ...


class ListenerSecurity(Security, Protocol):
    """And how a node accepts them."""

    def begin(self) -> None: ...

    def accept(self, listener: Listener, end: End, requests: RequestChannel) -> "SimulatedStream": ...

    def close_idle(self, now: int) -> int: ...


class Machine:
    """A host with a core in it: runs the core when something has come or a deadline is reached."""

    def __init__(self, name: str, scheduler: Scheduler, network: Network) -> None:
        self.name = name
        self.scheduler = scheduler
        self.network = network
        self.is_up = False
        self.stalled_until_us = 0
        self._peers: Peers
        self._wake: Planned | None = None
        self._wake_us = FOREVER

    secure: Security | None = None
    """None: no connection has TLS."""

    @property
    def peers(self) -> Peers:
        """The connections that it has opened."""
        return self._peers

    def dial(self, endpoint: Endpoint, peer: Peer) -> SimulatedWire:
        return SimulatedWire(self, endpoint, peer) if self.secure is None else self.secure.dial(self, endpoint, peer)

    def accept(self, endpoint: Endpoint, end: End) -> Any:
        raise AssertionError(f"{self.name} does not listen")

    def act(self, action: Callable[[], None]) -> None:
        """Let something happen on this host, and let the core answer to it."""
        if self.is_up:
            self.scheduler.actor = self.name
            self._peers.now = self.scheduler.now
            action()
            self.step()

    def step(self) -> None:
        """One round of the loop; plans the next."""
        now = self.scheduler.now
        deadline = self._peers.poll(now)
        self._peers.dispatch()
        deadline = min(deadline, self._poll(now), self._peers.timer.deadline)
        if self._peers.has_news or deadline <= now:
            self._wake_at(self.scheduler.now_us + _AGAIN_US)
        elif deadline < FOREVER:
            self._wake_at(deadline * US_PER_MS)

    def _poll(self, now: int) -> int:
        raise NotImplementedError

    def _wake_at(self, time_us: int) -> None:
        if self._wake is not None and self._wake_us <= time_us:
            return
        if self._wake is not None:
            self._wake.cancel()
        self._wake_us = time_us
        self._wake = self.scheduler.at(time_us, self._on_wake)

    def _on_wake(self) -> None:
        self._wake = None
        if self.stalled_until_us > self.scheduler.now_us:
            self._wake_at(self.stalled_until_us)
        elif self.is_up:
            self.act(lambda: None)

    def _go_down(self) -> None:
        self.is_up = False
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self.network.drop_host(self)


class SimulatedStream:
    """The byte stream under a connection that a node has accepted."""

    output = ()

    def __init__(self, machine: "SimulatedNode", listener: Listener, end: End, requests: RequestChannel) -> None:
        self._machine = machine
        self._end = end
        name = f"{machine.name}-{machine.next_connection()}"
        channel = requests.channel(name, listener.name, listener.kind, "peer", _MAX_REQUEST_BYTES, listener.protocol)
        self._frames = channel.frames
        self.connection = machine.connection_class(channel, self, requests)
        self._unread: deque[bytes] = deque()
        """What has come, and was not read yet; nothing is the end."""
        self.is_readable = self.has_hung_up = self.has_ended = False
        self.last_active = self.accepted_at = machine.scheduler.now

    def connected(self) -> None:
        """It was from the beginning."""

    def received(self, data: bytes) -> None:
        """More has come, or (without any bytes) the end."""
        self._unread.append(data)
        self.is_readable = True
        self._machine.hear(self.connection)

    def closed(self) -> None:
        self.has_hung_up = True
        self.received(b"")

    def receive(self) -> bool:
        data = self._unread.popleft()
        self.is_readable = bool(self._unread)
        self._frames.feed(data)
        self.last_active = self._machine.scheduler.now
        self.has_ended = not data
        return not self.has_ended

    def send(self, parts: Sequence[Any]) -> None:
        """The answers of a burst are sent together, and each is a piece of its own: the weather may part them, and a
        story tells of each."""
        data = b"".join(parts)
        while data:
            size = SIZE.size + SIZE.unpack_from(data)[0]
            self._put(data[:size])
            data = data[size:]

    def _put(self, frame: bytes) -> None:
        self._end.send([frame])

    @property
    def client(self) -> str:
        """The name of the host at the other end."""
        return self._end.other.host.name

    def watch(self) -> None:
        """The network tells of what comes."""

    def close(self, reset: bool) -> None:
        self._machine.streams.pop(self, None)
        self._end.close()


class SimulatedBackground:
    """Long work is done a moment later, as another thread would; after a crash it is not done at all."""

    def __init__(self, machine: "SimulatedNode", random: Random, longest_us: int) -> None:
        self._machine = machine
        self._random = random
        self._longest_us = longest_us
        self._free_us = 0

    def submit(self, job: Callable[[], T], on_done: Callable[[T], None]) -> None:
        life = self._machine.life

        def run() -> None:
            if self._machine.life == life:
                self._machine.act(lambda: self._do(job, on_done))

        begin_us = max(self._free_us, self._machine.scheduler.now_us)
        self._free_us = begin_us + self._random.randint(1, self._longest_us)
        self._machine.scheduler.at(self._free_us, run)

    def _do(self, job: Callable[[], T], on_done: Callable[[T], None]) -> None:
        try:
            on_done(job())
        except OSError as error:
            assert self._machine.node is not None
            self._machine.node.fault_handler.handle_fault("background", error)


class SimulatedNode(Machine):
    """A node, its disk, and its lives."""

    traced = 0
    """Counts the events."""
    ends_without_room = 0
    died_of_its_disk = False
    """The life that is over ended by an error of the disk."""
    """How many of its processes have ended because the disk was full."""
    work: WorkMeter | None = None
    """What its turns cost; None: they take no time."""

    def __init__(
        self,
        config: NodeConfig,
        scheduler: Scheduler,
        network: Network,
        random: Random,
        on_event: Callable[[TraceEvent], None],
        before_end: Callable[["SimulatedNode"], None],
        clock_skew_ms: int,
        background_us: int,
        time_slice: TimeSlice | None = None,
        bursts: SeededBursts | None = None,
    ) -> None:
        super().__init__(f"node-{config.node_id}", scheduler, network)
        self.node_id = config.node_id
        self.config = config
        self.filesystem = MemoryFileSystem()
        self.filesystem.shows_damage = False
        self._random = random
        self._on_event = on_event
        self._before_end = before_end
        self.clock_skew_ms = clock_skew_ms
        """How far its wall clock is ahead. The clock may be set; what waits does not notice."""
        self._background_us = background_us
        self._time_slice = time_slice
        self._bursts = bursts or SeededBursts(random, 0)
        self._heard: dict[ServerConnection, None] = {}
        """Connections on which something has come while the node was busy."""
        self.audit: Callable[[Node, Callable[[], tuple[int, ...]], int], None] | None = None
        """Called after each turn with the node, with what counts its deeds, and with the time (`laws.sleep_laws`)."""
        self._put_off: list[Callable[[], None]] = []  # what has happened while it was busy
        self.secure: ListenerSecurity | None = None
        self.streams: dict[SimulatedStream, None] = {}
        """Those under the accepted connections, where a law looks at them."""
        self.on_request: Callable[[QueuedRequest], None] | None = None
        """Sees each request before the node does."""
        self.on_boot: Callable[[], None] | None = None
        """Called when the node has been made, and has not started yet."""
        self._connections = 0
        self._requests: RequestChannel
        self._handler: MeteredNode
        self.connection_class = ServerConnection
        self.node: Node | None = None
        self.life = 0
        """Counts the starts."""
        self.is_stopping = False
        self.is_kept_down = False
        """The script has ended it, and only the script starts it again."""
        self.disk_failed = False
        """Or it will, at one of its next changes; in the next life, if this one ends in order before."""
        self.power_will_fail = False
        """When the machine stops within a step."""
        self.lost_power = False
        """It has lost power, and the laws have not looked yet at what is left."""
        self.was_active = False
        """Something happened on it that the laws have not looked at yet."""
        self.has_ended = False
        """A life is over, and the next one is not scheduled yet."""
        for listener in config.listeners:
            network.add_address(listener.advertised, self)

    def cost_time(self, slowness: int) -> WorkMeter:
        """From now on, before its first start, its turns take time."""
        work = self.work = WorkMeter(self.scheduler, self.filesystem, slowness)
        self._time_slice = WorkSlice(work)
        self.network.delays[self.name] = lambda: work.spent_us
        return work

    # --- the ports ----------------------------------------------------------------------------------------------------

    def time_ms(self) -> int:
        """The time of day, as this machine's clock shows it."""
        return EPOCH_MS + self.clock_skew_ms + self.scheduler.now

    def elapsed_us(self) -> int:
        """A stopwatch on virtual time: within a step of the simulator none passes, but for the work that it costs."""
        return self.scheduler.now_us + (0 if self.work is None else self.work.spent_us)

    def emit(self, event: TraceEvent) -> None:
        self.traced += 1
        shown = self._hide_damage()
        self._on_event(event)
        self.filesystem.shows_damage = shown

    def _hide_damage(self) -> bool:
        """What looks at the node now is no part of it; whether the node met the damage of its disk."""
        shown, self.filesystem.shows_damage = self.filesystem.shows_damage, False
        return shown

    def accept(self, endpoint: Endpoint, end: End) -> SimulatedStream:
        listener = next(listener for listener in self.config.listeners if listener.advertised == endpoint)
        if self.secure is None and self.work is None:
            return SimulatedStream(self, listener, end, self._requests)
        if self.secure is None:
            stream = SimulatedStream(self, listener, end, self._requests)
        else:
            stream = self.secure.accept(listener, end, self._requests)
        self.streams[stream] = None
        return stream

    def hear(self, connection: ServerConnection) -> None:
        """Something has come on a connection: let the node read it, at once or when it has the time."""
        if self._heard:
            self._heard[connection] = None
        elif busy_us := self._bursts.busy_us():
            self._heard[connection] = None
            self.scheduler.after(busy_us, partial(self._listen, self.life))
        else:
            self.act(connection.go_on)

    def _listen(self, life: int) -> None:
        if life == self.life:
            heard, self._heard = self._heard, {}

            def go_on() -> None:
                for connection in heard:
                    connection.go_on()

            self.act(go_on)

    @property
    def queued_requests(self) -> int:
        """How many requests wait to be handled."""
        return len(self._requests)

    @property
    def unseen_events(self) -> int:
        """How much has happened while it was busy that it has not looked at."""
        return len(self._put_off)

    def next_connection(self) -> int:
        self._connections += 1
        return self._connections

    # --- a life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the node on its disk."""
        assert not self.is_up
        self.life += 1
        self.was_active = True
        self.is_stopping = self.died_of_its_disk = False
        background = SimulatedBackground(self, self._random, self._background_us)
        disk = self.filesystem
        disk.shows_damage = True
        if self.work is not None:
            self.work.begin_turn()
        try:
            self._boot(background)
        except (Crash, OSError) as failure:
            self._die_of(failure)
        disk.shows_damage = False
        if self.work is not None:
            self.work.end_turn(is_first=True)

    def _boot(self, background: SimulatedBackground) -> None:
        self.node = Node(
            config=self.config,
            filesystem=self.filesystem,
            clock=self,
            random=self._random,
            background=background,
            trace_sink=self,
            time_slice=self._time_slice,
            fault_handler=StrictFaultHandler,  # a bug that a node could survive is a bug all the same
        )
        self.node.bind({listener.name: listener.advertised.port for listener in self.config.listeners})
        self._peers = Peers(self, self.name, self._random, is_of_node=True)
        self._peers.login_of = self.config.logins.get
        self._peers.now = self.scheduler.now
        capacity = self.config.values[QUEUED_MAX_REQUESTS]
        pace = Pace(self._peers.timer, lambda: self.scheduler.now, burst_requests=self._bursts.requests)
        metrics = RequestMetrics(self.node.metrics, lambda: self.scheduler.now_us * 1000)
        if self.work is None:
            self._requests = RequestChannel(capacity, pace, metrics)
        else:
            self._requests = MeteredChannel(capacity, pace, metrics)
            self._requests.meter = self.work
            self.work.count(self.node)
            pace.time_slice = self._time_slice
            self._handler = MeteredNode(self.node, self.work)
        self._requests.authentications = self.node.authentications
        self.node.rooms.more_waits = lambda: len(self._requests) > 0
        if self.secure is not None:
            self.secure.begin()
        self.is_up = True
        if self.on_boot is not None:
            shown = self._hide_damage()
            self.on_boot()
            self.filesystem.shows_damage = shown
        self.node.start(self.scheduler.now)
        self.step()

    def act(self, action: Callable[[], None]) -> None:
        work = self.work
        if work is None:
            self._take_turn(action)
        elif self.is_up:
            if work.is_busy:
                self._wait_for_the_end(action)
                return
            work.begin_turn()
            work.add("event")
            self._take_turn(action)
            work.end_turn()

    def _take_turn(self, action: Callable[[], None]) -> None:
        self.was_active = True
        disk = self.filesystem
        disk.shows_damage = True
        try:
            super().act(action)
        except (Crash, OSError) as failure:
            self._die_of(failure)
        disk.shows_damage = False

    def _wait_for_the_end(self, action: Callable[[], None]) -> None:
        """The node is busy: this happens when it has done what it does."""
        assert self.work is not None
        if not self._put_off:
            self.scheduler.at(self.work.busy_until_us, partial(self._end_of_work, self.life))
        self._put_off.append(action)

    def _end_of_work(self, life: int) -> None:
        if life == self.life:
            assert self.work is not None
            put_off, self._put_off = self._put_off, []

            def do_all() -> None:
                assert self.work is not None
                self.work.add("event", len(put_off) - 1)
                for action in put_off:
                    action()

            self.act(do_all)

    def _die_of(self, failure: Crash | OSError) -> None:
        """The machine may stop within any change of the disk, or the disk may fail."""
        disk = self.filesystem
        if isinstance(failure, OSError) and not (self.disk_failed or disk.refusals or disk.failed_folders):
            raise failure
        self.died_of_its_disk = isinstance(failure, OSError)
        self.ends_without_room += self.filesystem.refusals > 0
        if self.power_will_fail:
            self.lose_power(self._random)
        else:
            self.crash()

    def _poll(self, now: int) -> int:
        node = self.node
        assert node is not None
        self._requests.read_large()
        while (queued := self._requests.receive()) is not None:
            if self.on_request is not None:
                self.on_request(queued)
            queued.connection.serve(queued, node if self.work is None else self._handler, now)
            self._requests.feed()
            if self.work is not None and self.work.spent_us >= MAX_HANDLING_US:
                break
        poll = node.poll(now)
        for outbound in poll.requests:
            self._peers.send(outbound, now)
        if self.work is not None:
            self.work.add("message", len(poll.requests))
            if self._requests.queue or self._requests.large:
                poll = poll._replace(deadline=now)
        if self.audit is not None:
            self.audit(node, self._count_deeds, now)
        if node.is_shut_down(now):
            self._hide_damage()
            self._before_end(self)
            node.close()
            self._end()
            return FOREVER
        return poll.deadline if self.secure is None else min(poll.deadline, self.secure.close_idle(now))

    def _count_deeds(self) -> tuple[int, int, int]:
        return self.traced, self.filesystem.operations, self.scheduler.planned

    # --- its end ------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop in order."""
        if self.is_up and self.node is not None:
            self.is_stopping = True
            node = self.node
            self.act(lambda: node.begin_shutdown(self.scheduler.now))

    def crash(self) -> None:
        """The process ends, now. What it wrote stays."""
        self._hide_damage()
        self._before_end(self)
        self._end()
        self.filesystem.crash_process()
        self.spare()

    def lose_power(self, random: Random) -> None:
        """The machine stops, now. What was not synced is lost, as the dice fall."""
        self._hide_damage()
        self._before_end(self)
        self._end()
        self.lost_power = True
        self.filesystem.crash_power(random)
        self.spare()

    def spare(self) -> None:
        """What was to befall the disk, or within a step, does not happen, or has happened."""
        self.disk_failed = self.power_will_fail = False
        self.filesystem.spare()

    def _end(self) -> None:
        self.has_ended = True
        self._heard = {}
        self._put_off = []
        self.streams = {}
        self.node = None
        self.life += 1
        self._go_down()
