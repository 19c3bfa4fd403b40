"""A node on real sockets and disks: one thread that owns it, and a loop that reads as Kafka's picture.

::

    while running:
        selector.poll            sockets -> complete requests -> request channel
        stages.handle            each request: answered now, or later by a promise
        node.poll                raft, fetchers, heartbeats, timers
        network_client.send      what the node wants sent

By default everything of the node happens on this thread (`runtime.fused`). With ``network="staged"`` the stages between
a client's socket and the node have threads of their own, as in Kafka (`runtime.staged`). Then the thread of this loop
shares the node with them, and each of its turns holds the node's lock.

Other threads reach it by `call`, which runs a function between two steps of the loop and hands back its result.

Sockets are drained before deadlines are checked. A thread that was held up for a while therefore first hears what came
meanwhile, and only then judges which nodes have been silent for too long.

An exception of a handler, a timer, a gauge, a background job or a callback is a fault: the node counts it, tells it,
and goes on (`common.fault_handler`). What reaches the loop all the same is fatal, for example a disk that fails: the
node stops at once, as a crashed process would, and the error is kept in `failure`. It is never swallowed.
"""

import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from random import Random, SystemRandom
from typing import Any, Literal, Protocol, TypeVar, get_args

from pykraft.broker.describe import TAIL, NodeView, describe
from pykraft.broker.node import Node
from pykraft.broker.requests.quotas import Quotas
from pykraft.broker.settings import config as node_keys
from pykraft.broker.settings import socket_config as keys
from pykraft.broker.settings.config import NodeConfig
from pykraft.common.core import Outbound, Steps
from pykraft.common.errors import ConfigError
from pykraft.common.fault_handler import RETRY_AFTER_FAULT_MS, FaultHandler
from pykraft.common.prometheus import exposition_in_steps
from pykraft.common.settings import broker_config as live_keys
from pykraft.common.settings.config import Config
from pykraft.common.settings.tls_config import store_key
from pykraft.common.trace import TraceSink
from pykraft.common.types import Endpoint
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import BROKER_RESOURCE, ConfigResource, MetadataImage
from pykraft.metadata.settings import ALL_BROKERS, live_broker_config
from pykraft.network.client import NetworkClient
from pykraft.network.connection_quotas import ConnectionLimits, ConnectionQuotas, ListenerLimits
from pykraft.network.inherited import end_in_child
from pykraft.network.metrics_server import MetricsServer
from pykraft.network.selector import Selector
from pykraft.network.socket_server import SocketOptions, StreamMaker
from pykraft.protocol.api import ListenerKind
from pykraft.runtime.background import BackgroundThread
from pykraft.runtime.clock import SystemClock
from pykraft.runtime.fused import FusedStages
from pykraft.runtime.secure_sockets import NodeTls
from pykraft.runtime.staged import StagedStages
from pykraft.security.scram import compute
from pykraft.storage.disk.filesystem import FileSystem, OsFileSystem
from pykraft.storage.disk.open_files import most_open_files
from pykraft.storage.upkeep.log_manager import LogDirectoryFailedError
from pykraft.transport.frame_recorder import FrameRecorder

T = TypeVar("T")
SWITCH_INTERVAL_S = 0.0005
"""How long a Python thread may keep the interpreter from the others: the default of 5 ms adds up over several hops."""

MAX_WAIT_MS = 1000
"""The longest wait; and how often all rooms of the node are visited, whatever is marked (`common.rooms`)."""
NetworkMode = Literal["fused", "staged"]
"""Where the stages between a client's socket and the node run."""


class MillisecondClock(Protocol):
    def now(self) -> int: ...


class NodeStopped(Exception):  # noqa: N818 (it tells a state)
    """The node does not run any more."""


class NodeThread:
    """One node, its sockets, and the thread that owns both."""

    def __init__(
        self,
        config: NodeConfig,
        clock: MillisecondClock,
        random: Random,
        trace_sink: TraceSink,
        name: str = "node",
        filesystem: FileSystem | None = None,
        quotas: Quotas | None = None,
        network: NetworkMode = "fused",
    ) -> None:
        """Open the node's directories and listeners, by default on the disk of this machine and without quotas.
        ConfigError, DirectoryInUseError or OSError say why not."""
        assert network in get_args(NetworkMode), network
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.name = f"{name}-{config.node_id}"
        self._clock = clock
        self._tls = NodeTls(config)
        self._selector = Selector()
        self._background = BackgroundThread(self.name, self._selector.wakeup)
        self._calls: deque[tuple[Callable[[Node], Any], Future[Any]]] = deque()
        self._client = NetworkClient(self._selector, f"{self.name}-client", random, True, self._tls.make_wire)
        self._stages: FusedStages | StagedStages | None = None
        self._outbox: list[Outbound] = []
        """What another thread that owned the node has left to be sent."""
        self._deadline = self._round_at = 0
        """When this thread looks at the node again, if nothing wakes it."""
        self._metrics_server: MetricsServer | None = None
        self.failure: BaseException | None = None
        self._kill = threading.Event()
        self._running = True
        self._stopwatch = SystemClock.elapsed_ns
        self._client.login_of = config.logins.get
        self._client.compute = lambda work, then: self._background.submit(partial(compute, work), then)
        node: Node | None = None
        try:
            node = self.node = Node(
                config=config,
                filesystem=filesystem or OsFileSystem(),
                clock=SystemClock(),
                random=random,
                background=self._background,
                trace_sink=trace_sink,
                quotas=quotas,
                nonces=SystemRandom(),
            )
            self._survive_faults(node.fault_handler)
            if config.tls:
                node.loader.publish_to(self._take_up_stores)
            self._client.on_refused_login = node.note_refused_login
            self.stages = self._stages = self._make_stages(network)
            self._bind()
        except BaseException:
            if node is not None:
                node.abandon()
            self._release(reset=False)
            raise
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        end_in_child(self, NodeThread._leave_to_parent)

    def _survive_faults(self, faults: FaultHandler) -> None:
        """What callbacks raise on this thread is no reason to stop."""
        self._selector.on_error = partial(faults.handle_fault, "network")
        self._client.on_error = partial(faults.handle_fault, "response")
        self._client.timer.on_error = partial(faults.handle_fault, "network-timer")
        self._background.on_error = partial(faults.handle_fault, "background")

    def _make_stages(self, network: NetworkMode) -> FusedStages | StagedStages:
        options, quotas = socket_options(self.node.config, self._tls.streams), connection_quotas(self.node.config)
        self.node.client_quotas.on_change.append(lambda: self._set_rates_of_addresses(quotas))
        self.node.loader.publish_to(partial(self._take_up_limits, quotas))
        clock, values = self._clock.now, self.node.config.values
        if network == "fused":
            return FusedStages(self.node, self._selector, self._client.timer, clock, self._stopwatch, options, quotas)
        return StagedStages(
            self.node,
            self.name,
            clock,
            self._stopwatch,
            options,
            quotas,
            poll=self._poll_elsewhere,
            wakeup=self._selector.wakeup,
            network_threads=values[live_keys.NUM_NETWORK_THREADS],
            handlers=values[live_keys.NUM_IO_THREADS],
        )

    def _set_rates_of_addresses(self, quotas: dict[ListenerKind, ConnectionQuotas]) -> None:
        """Let the quotas of the metadata hold for those who connect."""
        rates = self.node.client_quotas.connection_rates
        for each in quotas.values():
            each.set_rates_of_addresses(rates)

    def _take_up_limits(
        self, quotas: dict[ListenerKind, ConnectionQuotas], delta: MetadataDelta, image: MetadataImage
    ) -> Steps[None]:
        """Let the limits of connections hold that the metadata have for this broker, or for all."""
        config = self.node.config
        if not delta.touched_configs.isdisjoint(
            {ConfigResource(BROKER_RESOURCE, name) for name in (ALL_BROKERS, str(config.node_id))}
        ):
            live = live_broker_config(image, config.node_id, config.properties)
            try:
                limits = connection_limits(config, live)
            except ConfigError as error:  # a host's name: what held before goes on
                self.node.fault_handler.handle_fault("connection-limits", error)
            else:
                for each in quotas.values():
                    each.set_limits(limits)
        return
        yield

    def _bind(self) -> None:
        ports = {}
        for listener in self.node.config.listeners:
            try:
                ports[listener.name] = self.stages.bind(listener)
            except OSError as error:
                raise ConfigError(
                    f"listener {listener.name} cannot listen on {listener.bind}: {error.strerror}"
                ) from None
        self.node.bind(ports)
        endpoint = self.node.config.metrics_listener
        if endpoint is not None:
            try:
                self._metrics_server = MetricsServer(
                    self._selector, endpoint, self._exposition, self.node.dispatcher.time_slice
                )
            except OSError as error:
                raise ConfigError(
                    f"{node_keys.METRICS_LISTENER.name} cannot listen on {endpoint}: {error.strerror}"
                ) from None

    def _take_up_stores(self, delta: MetadataDelta, image: MetadataImage) -> Steps[None]:
        """The stores of listeners with TLS may have changed, in the settings or on the disk: read them again. If that
        fails, those from before stay."""
        own = ConfigResource(BROKER_RESOURCE, str(self.node.config.node_id))
        if own in delta.touched_configs:
            settings, reason = image.config_of(*own), None
            try:
                self._tls.reload({name: text for name, text in settings.items() if store_key(name) is not None})
            except ConfigError as error:
                reason = str(error)
            self.node.note_stores(reason)
        return
        yield

    def _exposition(self) -> Steps[str]:
        try:
            return (yield from exposition_in_steps(self.node.metrics))
        except Exception as error:  # nothing that is read here may stop the node
            self.node.fault_handler.handle_fault("exposition", error)
            return ""

    @property
    def metrics_endpoint(self) -> Endpoint | None:
        """Where its metrics are read, if anywhere."""
        return None if self._metrics_server is None else self._metrics_server.endpoint

    def start(self) -> None:
        self._thread.start()

    # --- from other threads -------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def call(self, function: Callable[[Node], T]) -> "Future[T]":
        """Run ``function(node)`` on the node's own thread; NodeStopped if it does not run any more."""
        future: Future[T] = Future()
        self._calls.append((function, future))
        self._selector.wakeup()
        if not self._running:
            self._refuse_calls()
        return future

    def describe(self, tail_records: int = TAIL) -> NodeView:
        """What the node knows; NodeStopped if it does not run any more."""
        return self.call(partial(describe, tail_records=tail_records)).result()

    def _leave_to_parent(self) -> None:
        """This process is a forked child: the node runs in the parent alone."""
        self._running = False

    def begin_stop(self, hand_over: bool = True) -> None:
        """Ask it to stop in order; without handing over what it leads, it does not wait for other nodes."""
        if self.is_running:
            self.call(lambda node: node.begin_shutdown(self._clock.now(), hand_over))

    def stop(self, timeout_s: float = 30) -> None:
        """Stop in order: leaderships handed over, files closed."""
        self.begin_stop()
        self._thread.join(timeout_s)
        if self.is_running:
            self.kill()

    def kill(self) -> None:
        """Stop between two steps of the loop, and reset all connections, as the end of a process does. Nothing is
        flushed, and no other node is notified."""
        self._kill.set()
        self._selector.wakeup()
        self._thread.join()

    def record_from_the_start(self, recorder: FrameRecorder) -> None:
        """The same for a node that has not started yet."""
        self.stages.record(recorder)

    def record(self, recorder: FrameRecorder | None) -> None:
        """Keep the frames that are received and sent from now on, or no more; NodeStopped if it does not run any
        more."""
        self.call(lambda _: self.stages.record(recorder)).result()

    # --- on the node's thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self.node.start(self._clock.now())
            self.stages.start()
            self._loop()
            self.stages.stop()
            if self._kill.is_set():
                self.node.abandon()
            else:
                self._background.finish()  # what it syncs must be on the disk before the node says that all is
                self.node.close()
        except BaseException as error:  # kept, and reported when the cluster is closed
            is_of_file = isinstance(error, OSError) and error.filename is not None
            self.failure = self.node.disk_failure(error) if is_of_file else error  # type: ignore[arg-type]
            self.stages.stop()
            self.node.abandon()
        finally:
            self._running = False
            is_told = self.failure is None or isinstance(self.failure, LogDirectoryFailedError)
            self._release(reset=self._kill.is_set() or not is_told)

    def _loop(self) -> None:
        stages, stopwatch = self.stages, self._stopwatch
        began = stopwatch()
        while not self._kill.is_set():
            now = self._clock.now()
            ready = self._selector.wait(0 if self._has_work else min(self._deadline - now, MAX_WAIT_MS) / 1000)
            ready_at = stopwatch()
            with stages.ownership:
                now = self._client.now = self._clock.now()
                stages.begin(now)
                self._selector.tell(ready)
                network_deadline = self._client.poll(now)
                read_at = stopwatch()
                self._client.dispatch()
                stages.handle(now)
                self._background.drain()
                self._answer_calls()
                if now >= self._round_at:
                    self._round_at = now + MAX_WAIT_MS
                    self.node.rooms.mark_all("round")
                poll = self.node.poll(now)
                self._send((*self._outbox, *poll.requests), now)
                self._outbox.clear()
                attempt, later = self.node.fault_handler.attempt, now + RETRY_AFTER_FAULT_MS
                looked_after = attempt("network", stages.look_after, now, otherwise=later)
                own_deadline = min(self._client.timer.deadline, looked_after)
                self._deadline = min(poll.deadline, network_deadline, own_deadline)
                if self.node.is_shut_down(now):
                    return
            ended = stopwatch()
            stages.spent(began, ready_at, read_at, ended)
            began = ended

    def _send(self, requests: Sequence[Outbound], now: int) -> None:
        for outbound in requests:
            self._client.send(outbound, now)

    def _poll_elsewhere(self, now: int) -> None:
        """Another thread owns the node: it lets the node act, and leaves the sending to this thread."""
        poll = self.node.poll(now)
        self._outbox += poll.requests
        if poll.requests or poll.deadline < self._deadline:
            self._deadline = poll.deadline
            self._selector.wakeup()

    @property
    def _has_work(self) -> bool:
        return bool(self.stages.has_work or self._calls or self._outbox or self._client.has_news)

    def _answer_calls(self) -> None:
        while self._calls:
            function, future = self._calls.popleft()
            try:
                future.set_result(function(self.node))
            except Exception as error:  # the caller's, not the node's
                future.set_exception(error)

    def _release(self, reset: bool) -> None:
        if self._metrics_server is not None:
            self._metrics_server.close()
        if self._stages is not None:
            self._stages.close(reset)
        self._client.close()
        self._background.close()
        self._selector.close()
        self._refuse_calls()

    def _refuse_calls(self) -> None:
        with suppress(IndexError):  # two threads may do this at once
            while True:
                _, future = self._calls.popleft()
                future.set_exception(NodeStopped(f"{self.name} does not run"))

    # --- the network between nodes ------------------------------------------------------------------------------------

    def cut(self, other: "NodeThread") -> None:
        """Let nothing through to the other node, until `mend`."""
        for listener in other.node.config.listeners:
            self.call(partial(self._freeze, listener.advertised)).result()

    def mend(self, other: "NodeThread") -> None:
        """Let everything through again."""
        for listener in other.node.config.listeners:
            self.call(partial(self._thaw, listener.advertised)).result()

    def is_cut(self, other: "NodeThread") -> bool:
        """Whether nothing gets through from this node to the other."""
        return any(self._client.is_frozen(listener.advertised) for listener in other.node.config.listeners)

    def _freeze(self, endpoint: Endpoint, _: Node) -> None:
        self._client.freeze(endpoint)

    def _thaw(self, endpoint: Endpoint, _: Node) -> None:
        self._client.thaw(endpoint)


def socket_options(config: NodeConfig, streams: Mapping[str, StreamMaker] | None = None) -> SocketOptions:
    values = config.values
    return SocketOptions(
        max_request_bytes=values[keys.SOCKET_REQUEST_MAX_BYTES],
        send_buffer_bytes=values[keys.SOCKET_SEND_BUFFER_BYTES],
        receive_buffer_bytes=values[keys.SOCKET_RECEIVE_BUFFER_BYTES],
        backlog=values[keys.SOCKET_LISTEN_BACKLOG_SIZE],
        max_idle_ms=values[keys.CONNECTIONS_MAX_IDLE_MS],
        queued_max_requests=values[keys.QUEUED_MAX_REQUESTS],
        max_file_number=most_open_files() * 7 // 8,
        streams=streams or {},
    )


def connection_quotas(config: NodeConfig) -> dict[ListenerKind, ConnectionQuotas]:
    """How many connections there may be to the broker's listeners, and to the controller's."""
    limits = connection_limits(config, config.values)
    names = {kind: [each.name for each in config.listeners if each.kind is kind] for kind in ListenerKind}
    return {kind: ConnectionQuotas(limits, names[kind], config.inter_broker_listener) for kind in ListenerKind}


def connection_limits(config: NodeConfig, values: Config) -> ConnectionLimits:
    """The limits that these values have; ConfigError if a host's name has no address."""
    return ConnectionLimits(
        connections=values[live_keys.MAX_CONNECTIONS],
        per_ip=values[live_keys.MAX_CONNECTIONS_PER_IP],
        per_ip_overrides=_limits_of_addresses(live_keys.limits_of_hosts(values)),
        creation_rate=values[live_keys.MAX_CONNECTION_CREATION_RATE],
        of_listeners={
            listener.name: ListenerLimits(
                *(keys.value_of_listener(key, listener.name, config.properties, values) for key in keys.OF_LISTENERS)
            )
            for listener in config.listeners
        },
    )


def _limits_of_addresses(limits: dict[str, int]) -> dict[str, int]:
    """The same with the addresses of the hosts; ConfigError if a host has none."""
    found = {}
    for host, limit in limits.items():
        try:
            infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            name = live_keys.MAX_CONNECTIONS_PER_IP_OVERRIDES.name
            raise ConfigError(f"{name} has the host {host}, whose name cannot be resolved: write its address") from None
        found.update({str(info[4][0]): limit for info in infos})
    return found
