"""A cluster on this machine: started, watched, broken and mended from a notebook or a test.

::

    with Cluster(nodes=3) as cluster:
        print(cluster.bootstrap_servers)
        cluster.kill(1)
        cluster.wait_until(lambda view: view.active_controller not in (None, 1))
        cluster.restart(1)

Each node is built from its own properties file and its own directory, and knows nothing of the others but what comes
through its sockets. By default the nodes are threads of this process; with ``mode="processes"`` each is a process of
its own, started by the same command as from a shell.

`close` stops everything, and raises if a node died that you did not kill: then what you saw before was not the whole
story. A cluster that is garbage collected is stopped, too, but then no exception tells of a node that died.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from pykraft.admin import Admin
from pykraft.broker.describe import TAIL, NodeView
from pykraft.broker.faults import Fault, make_fault
from pykraft.broker.node import Node
from pykraft.broker.settings.config import read_node_config
from pykraft.cluster_arguments import (
    ClusterMode,
    check_arguments,
    rack_of_each,
    reach_of,
)
from pykraft.cluster_files import MOST_REPLICAS, ClusterFiles
from pykraft.cluster_files import ClusterError as ClusterError
from pykraft.cluster_internal_topics import InternalTopics
from pykraft.cluster_users import add_user
from pykraft.cluster_view import ClusterView, view_over_the_wire
from pykraft.common.trace import RingBuffer, TraceEvent
from pykraft.controller.features import levels_with
from pykraft.metadata.hiding import without_secrets_of_metadata
from pykraft.runtime.clock import StallTolerantClock, monotonic_s
from pykraft.runtime.holdings import Holdings, release_when_forgotten
from pykraft.runtime.ports import HOST
from pykraft.runtime.process import NodeProcess
from pykraft.runtime.secure_files import ADMIN, ClusterSecurity, SecureFiles, listener_with
from pykraft.runtime.threaded import NetworkMode, NodeStopped, NodeThread
from pykraft.storage.disk.filesystem import FileSystem
from pykraft.timeouts import TimeoutProfile, Timeouts, describe_timeouts
from pykraft.transport.frame_recorder import RecordedFrames

T = TypeVar("T")
_START_TIMEOUT_S = 30.0
_POLL_S = 0.01
_ASK_TIMEOUT_MS = 2000


class Cluster(ClusterFiles):
    """Some brokers and controllers on 127.0.0.1."""

    def __init__(
        self,
        nodes: int = 3,
        *,
        controllers: int | None = None,
        mode: ClusterMode = "threads",
        timeouts: TimeoutProfile = "lesson",
        directory: str | Path | None = None,
        port: int | None = None,
        host: str = HOST,
        advertise: str | None = None,
        racks: Sequence[str] | None = None,
        properties: Mapping[str, object] | None = None,
        features: Mapping[str, int] | None = None,
        filesystem: FileSystem | None = None,
        network: NetworkMode = "fused",
        security: ClusterSecurity | None = None,
        internal_topics: bool = False,
        log_dirs: int = 1,
    ) -> None:
        """Start `nodes` nodes and wait until they are ready.

        Without `controllers` every node is both broker and controller; otherwise the brokers 1, 2, ... are joined by so
        many controllers 101, 102, .... `timeouts` is "lesson" or "kafka". The files lie in `directory`, or in a
        temporary one that `close` removes; a directory that holds a cluster is started again. The first broker listens
        on `port`, the next on the port after it, and so on; without it the system chooses. Brokers listen on `host`
        (0.0.0.0: on every address) and send clients to `advertise`, by default this machine's name then. `racks` says
        in which rack each broker is, in the order of their ids. `properties` are added to every node's file.
        `features` are levels by name for a new cluster, where it is to have others than usual
        (``{"eligible.leader.replicas.version": 0}``). Nodes that are threads reach the disk through `filesystem`, if
        one is given. With `network="staged"` each node has Kafka's network threads and request handlers
        (`runtime.staged`). With `security="SSL"` or "SASL_SSL" it is a secure one (`runtime.secure_files`). With
        `internal_topics` the topics of groups and transactions are made at once, in the background; otherwise when a
        client first needs them, and librdkafka waits 2 s then: ``pykraft up`` and the fixture ``kafka`` set it. Each
        node has `log_dirs` log directories. ValueError: what is wrong with these; ClusterError: no node comes up.
        """
        check_arguments(nodes, controllers, mode, timeouts, port, network, filesystem is not None, log_dirs)
        self._racks, self._reach = rack_of_each(racks, nodes), reach_of(host, advertise)
        self._filesystem, self._extra, self._log_dirs = filesystem, dict(properties or {}), log_dirs
        self.mode, self.network, self.timeouts = mode, network, timeouts
        self._levels, self._listener = levels_with(features or {}), listener_with(security)
        self.directory, temporary = self._place(directory)
        self._name_nodes(nodes, controllers)
        self._check_unused()
        self._reservation = self._reserve_ports(port)
        ports = self._reservation.ports
        self._broker_ports = dict(zip(self.broker_ids, ports, strict=False))
        self._controller_ports = dict(zip(self.controller_ids, ports[nodes:], strict=True))
        self._clock = StallTolerantClock()
        self._started_at = self._clock.now()
        self._nodes: dict[int, NodeThread | NodeProcess] = {}
        self._holdings = Holdings(self._nodes, self._reservation, [self._clock], temporary)
        self._released = release_when_forgotten(self, self._holdings)
        self._begin_watching()
        try:
            self.cluster_id = self._format()
            self._start_all(internal_topics)
        except BaseException:
            self._release()
            raise

    def _begin_watching(self) -> None:
        self._is_closed = False
        self.secure_files: SecureFiles | None = None
        self._journals = {node_id: RingBuffer() for node_id in self.node_ids}
        self._last_seen: dict[int, NodeView] = {}
        self._admin: Admin | None = None
        self._faults: list[Fault] = []
        self._recording: RecordedFrames | None = None

    # --- starting -----------------------------------------------------------------------------------------------------

    def _start_all(self, internal_topics: bool) -> None:
        for node_id in self.node_ids:
            self._start(node_id)
        self._wait_until_ready(self.node_ids)
        if internal_topics:
            self._holdings.others.append(InternalTopics(self.admin()))

    def _start(self, node_id: int) -> None:
        if (seen := self._last_seen.get(node_id)) is not None:  # it is not ready because it was so before
            self._last_seen[node_id] = seen._replace(broker_state=None)
        if self.mode == "processes":
            log_file = self.directory / f"node-{node_id}.out"
            self._nodes[node_id] = NodeProcess(node_id, self.properties_file(node_id), log_file, self.network)
            return
        config = read_node_config(self.properties(node_id))
        node = NodeThread(
            config,
            self._clock,
            Random(),
            self._journals[node_id],
            filesystem=self._filesystem,
            network=self.network,
        )
        for fault in self._faults:  # a node that is started again has them, too
            node.node.faults.add(fault)
        if self._recording is not None:
            node.record_from_the_start(self._recording.recorder(node_id))
        self._nodes[node_id] = node
        node.start()

    def _wait_until_ready(self, node_ids: list[int]) -> None:
        brokers = {node_id for node_id in node_ids if node_id in self._broker_ports}

        def are_ready(view: ClusterView) -> bool:
            return brokers <= view.ready_brokers

        try:
            self.wait_until(are_ready, _START_TIMEOUT_S, f"nodes {node_ids} are ready")
        except TimeoutError as error:
            raise ClusterError(str(error)) from None

    # --- watching -----------------------------------------------------------------------------------------------------

    def describe(self, tail_records: int = TAIL) -> ClusterView:
        """What the nodes know, now, with the last records of each replica's log."""
        if self.mode == "threads":
            for node_id, node in self._nodes.items():
                assert isinstance(node, NodeThread)
                try:
                    self._last_seen[node_id] = node.describe(tail_records)
                except NodeStopped:
                    continue
        elif alive := self.alive:
            if self._admin is None:
                self._admin = Admin(**self.client_settings(), default_api_timeout_ms=_ASK_TIMEOUT_MS)
                self._holdings.others.append(self._admin)
            ready = [n for n in alive if isinstance(node := self._nodes[n], NodeProcess) and node.is_ready]
            self._last_seen |= view_over_the_wire(self._admin, alive, ready, self.controller_ids)
        alive = self.alive
        seen = {
            node_id: self._last_seen[node_id]._replace(is_alive=node_id in alive)
            for node_id in self.node_ids
            if node_id in self._last_seen
        }
        return ClusterView(self.cluster_id, self._clock.now() - self._started_at, seen, self._cut_links())

    def _cut_links(self) -> frozenset[tuple[int | str, int | str]]:
        """From whom to whom `disconnect` lets nothing through. A node that was started since hears from all."""
        running = {n: node for n, node in self._nodes.items() if isinstance(node, NodeThread) and node.is_running}
        return frozenset(
            (one, other) for one, first in running.items() for other, second in running.items() if first.is_cut(second)
        )

    @property
    def alive(self) -> list[int]:
        """The nodes that run."""
        return [node_id for node_id, node in self._nodes.items() if node.is_running]

    def describe_timeouts(self) -> Timeouts:
        """The times that this cluster waits, beside Kafka's defaults."""
        return describe_timeouts(self.properties(self.node_ids[0]))

    @property
    def started_at_ms(self) -> int:
        """When it started, on the clock of its journals: a view's time counts from there."""
        return self._started_at

    def journal(self, node_id: int) -> list[TraceEvent]:
        """What a node reported lately, oldest first; times are milliseconds of the cluster's clock."""
        self._needs_threads("journal")
        return list(self._journals[self._known(node_id)].events)

    def wait_until(
        self,
        condition: Callable[[ClusterView], bool],
        timeout_s: float = _START_TIMEOUT_S,
        what: str = "the condition holds",
    ) -> ClusterView:
        """Look again and again until the condition is true of the view; returns that view. TimeoutError tells what was
        seen last; ClusterError if a node dies meanwhile."""
        deadline = monotonic_s() + timeout_s
        while True:
            view = self.describe(tail_records=0)  # asked a hundred times a second
            if condition(view):
                complete = self.describe()
                return complete if condition(complete) else view
            self._raise_failures()
            if monotonic_s() > deadline:
                raise TimeoutError(f"after {timeout_s:g} s it is not so that {what}; last seen:\n{view}")
            time.sleep(_POLL_S)

    def admin(self) -> Admin:
        """An administrator's client of this cluster; close it."""
        return Admin(**self.client_settings())

    def client_settings(self, name: str = ADMIN) -> dict[str, Any]:
        """What a client is given to begin with: ``Producer(**cluster.client_settings())``. On a secure cluster the
        client is ``User:NAME``, and has a certificate for that; or a password, which the cluster learns now if it does
        not know that user."""
        if self.secure_files is None:
            return {"bootstrap.servers": self.bootstrap_servers}
        if self.secure_files.lacks_user(name):
            add_user(self.secure_files, name, self.bootstrap_servers)
        return {"bootstrap.servers": self.bootstrap_servers, **self.secure_files.client_settings(name)}

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, and wait until every replica's broker knows it. Without `replication_factor` there are up to
        three replicas. The errors are those of `Admin.create_topic`."""
        if replication_factor is None:
            replication_factor = min(MOST_REPLICAS, len(self.broker_ids))
        with self.admin() as admin:
            admin.create_topic(name, partitions, replication_factor, configs)

        self.wait_until_known(name, partitions)

    def wait_until_known(self, topic: str, partitions: int) -> ClusterView:
        """Wait until every replica's broker knows the topic, with this many partitions; returns what was seen then."""

        def is_known(view: ClusterView) -> bool:
            isrs = [(view.isr(topic, number), view.replicas(topic, number)) for number in range(partitions)]
            return all(isr and isr <= replicas.keys() for isr, replicas in isrs)

        return self.wait_until(is_known, what=f"every replica's broker knows topic {topic}")

    # --- breaking -----------------------------------------------------------------------------------------------------

    def kill(self, node_id: int) -> None:
        """End a node between two steps of its loop (a process: by SIGKILL). Nothing is flushed, and no other node is
        notified."""
        node = self._running(node_id)
        if isinstance(node, NodeThread):
            self._last_seen[node_id] = node.describe()
        node.kill()

    def stop(self, node_id: int) -> None:
        """Stop a node in order: it hands over what it leads, and closes its files."""
        node = self._running(node_id)
        node.stop()
        self._raise_failures()

    def restart(self, node_id: int, wait: bool = True) -> None:
        """Start a node on its directory (after stopping it, if it runs), and wait until it is ready. This forgets the
        error that a node has died of: you have seen it if you restart the node."""
        node = self._nodes[self._known(node_id)]
        if node.is_running:
            self.stop(node_id)
        else:
            node.kill()  # for what a process that has died leaves open
        self._start(node_id)
        if wait:
            self._wait_until_ready([node_id])

    def disconnect(self, one: int, other: int) -> None:
        """Let nothing through between two nodes, in either direction, until `reconnect`. Clients reach both."""
        first, second = self._pair(one, other)
        first.cut(second)
        second.cut(first)

    def reconnect(self, one: int, other: int) -> None:
        """Let everything through between two nodes again."""
        first, second = self._pair(one, other)
        first.mend(second)
        second.mend(first)

    @contextmanager
    def fault(
        self,
        api: str,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        error: str | None = None,
        delay_ms: int = 0,
        drop: str | None = None,
        count: int | None = None,
    ) -> Iterator[Fault]:
        """While this lasts, do something to clients' requests of this API (``"Produce"``): refuse them with an error
        (``"NOT_LEADER_OR_FOLLOWER"``), handle them late, drop the ``"request"`` or the ``"answer"``, or only look on.

        It meets requests about `topic`, of the client with this id, and the first `count` of them, if these are given.
        What it has met is in `Fault.caught`. ValueError says what is wrong. See `pykraft.broker.faults`."""
        self._needs_threads("fault")
        fault = make_fault(api, topic, client_id, error, delay_ms, drop, count)
        self._faults.append(fault)
        self._for_each_node(lambda node: node.faults.add(fault))
        try:
            yield fault
        finally:
            self._faults.remove(fault)
            self._for_each_node(lambda node: node.faults.remove(fault))

    @contextmanager
    def record_frames(self, *, of_nodes: bool = False) -> Iterator[RecordedFrames]:
        """While this lasts, keep the frames that clients send to the nodes, and the responses, with their fields and
        bytes; with `of_nodes` also those that nodes send each other. What was kept stays after it. The newest few
        megabytes of each node are kept. See `pykraft.transport.frame_recorder`."""
        self._needs_threads("record_frames")
        if self._recording is not None:
            raise ValueError("record_frames: this cluster records already; leave the other block first")
        recorded = RecordedFrames(lambda: self._clock.now() - self._started_at, of_nodes, without_secrets_of_metadata)
        self._recording = recorded
        try:
            self._record(recorded)
            yield recorded
        finally:
            self._recording = None
            self._record(None)

    def _record(self, recorded: RecordedFrames | None) -> None:
        for node_id, thread in self._nodes.items():
            assert isinstance(thread, NodeThread)
            with suppress(NodeStopped):
                thread.record(None if recorded is None else recorded.recorder(node_id))

    def call(self, node_id: int, do: Callable[[Node], T]) -> T:
        """Call this with a node that is a thread of this process, between two of its steps; what it returns. Meant for
        looking: a node's state belongs to its own thread."""
        self._needs_threads("call")
        thread = self._running(node_id)
        assert isinstance(thread, NodeThread)
        return thread.call(do).result()

    def _for_each_node(self, do: Callable[[Node], None]) -> None:
        for thread in self._nodes.values():
            assert isinstance(thread, NodeThread)
            with suppress(NodeStopped):
                thread.call(do).result()

    def _pair(self, one: int, other: int) -> tuple[NodeThread, NodeThread]:
        self._needs_threads("disconnect")
        first, second = self._running(one), self._running(other)
        assert isinstance(first, NodeThread)
        assert isinstance(second, NodeThread)
        return first, second

    def _needs_threads(self, what: str) -> None:
        if self.mode != "threads":
            raise ValueError(f'{what} needs nodes in this process: make the cluster with mode="threads"')

    def _known(self, node_id: int) -> int:
        if node_id not in self._nodes:
            raise ValueError(f"there is no node {node_id!r}; there are {', '.join(map(str, self.node_ids))}")
        if self._is_closed:
            raise ValueError("the cluster is closed: start another one")
        return node_id

    def _running(self, node_id: int) -> NodeThread | NodeProcess:
        node = self._nodes[self._known(node_id)]
        if not node.is_running:
            raise ValueError(f"node {node_id} does not run; restart({node_id}) starts it")
        return node

    # --- the end ------------------------------------------------------------------------------------------------------

    def failures(self) -> dict[int, BaseException]:
        """The nodes that died without a `kill`, each with its error."""
        found = {node_id: node.failure for node_id, node in self._nodes.items()}
        return {node_id: failure for node_id, failure in found.items() if failure is not None}

    def _raise_failures(self) -> None:
        for node_id, failure in self.failures().items():
            raise ClusterError(f"node {node_id} died: {type(failure).__name__}: {failure}") from failure

    def close(self) -> None:
        """Stop all nodes and remove temporary files. ClusterError if a node died without a `kill`."""
        if self._is_closed:
            return
        try:
            self._holdings.stop_nodes()
            self._raise_failures()
        finally:
            self._release()

    def _release(self) -> None:
        self._is_closed = True
        self._holdings.release()
        self._released()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif not self._is_closed:
            self._release()
