"""Two tenants of one broker, on real sockets: a greedy one that produces without a pause, and a modest one.

::

    tenants = TwoTenants(Cluster(nodes=1, properties=TWO_SAMPLES))
    tenants.run()             nothing holds the greedy tenant back
    tenants.run(megabytes=8)  it has a quota of 8 MB/s

`run` measures three things: how much the greedy tenant writes, the `throttle_time_ms` of its responses, and how long
each produce of the modest tenant takes. The greedy tenant takes no notice of the throttle time: what holds it back is
the broker alone. `connections` shows the same for two clients with one connection each, of which only one waits as it
is asked to. The times when a request was read are the broker's own (`Cluster.record_frames`).

The broker keeps two samples of one second, and not eleven: so little is saved up that a run of two seconds shows the
quota. Not in Kafka.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from pykraft.client.administration.admin import NewTopic
from pykraft.client.administration.quotas import ClientQuotaEntity
from pykraft.cluster import Cluster
from pykraft.common.quotas.entities import PRODUCER_BYTE_RATE
from pykraft.metadata.client_quotas import quota_tables
from pykraft.protocol.header import SIZE, decode_response, encode_request
from pykraft.protocol.messages.data import ProduceRequest, ProduceResponse
from pykraft.records.builder import RecordBatchBuilder
from pykraft.surroundings import Told
from pykraft.transport.frame_recorder import Exchange
from pykraft.viz.clients.mute_chart import Connection
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.measured.stream_chart import stream_over_time

SAMPLES = 2
TWO_SAMPLES = {"quota.window.num": SAMPLES}
"""The broker's properties."""
MODEST = "modest"
LARGE, SMALL = 900_000, 100
"""The bytes of a record of each tenant."""
MIDDLE = 250_000
"""The bytes of a record where pressing and waiting are compared."""
FREE_S, LIMITED_S = 1.0, 2.0
"""How long a run lasts without a quota, and with one: then what was saved up is used first."""
CONNECTIONS = 6
"""Of the greedy tenant."""
PAUSE_S = 0.005
"""Of the modest tenant, between two records."""
_VERSION = 9
STEP_S = 0.1
_TIMEOUT_S = 30.0
_MEGABYTE = 1_000_000


class Answer(NamedTuple):
    """The response to one produce: when it came, and its throttle time."""

    at_s: float
    throttle_time_ms: int
    latency_ms: float


class Run(NamedTuple):
    """What was measured. Seconds count from the beginning of the run."""

    quota: float | None
    """Bytes a second; None: there was none."""
    seconds: float
    greedy: list[Answer]
    modest: list[Answer]
    request_bytes: int
    """Of each request of the greedy tenant."""

    @property
    def taken_bytes(self) -> int:
        """What the broker took from the greedy tenant."""
        return self.request_bytes * len(self.greedy)

    @property
    def megabytes(self) -> float:
        """The same in megabytes."""
        return round(self.taken_bytes / _MEGABYTE, 1)

    @property
    def longest_throttle_ms(self) -> int:
        return max((answer.throttle_time_ms for answer in self.greedy), default=0)

    @property
    def median_ms(self) -> float:
        """Of the modest tenant's produces, see `p99_ms`."""
        return self._latency_ms(0.5)

    @property
    def p99_ms(self) -> float:
        """Of the modest tenant's produces in the second half, one in a hundred took longer. What the greedy tenant had
        saved up is used before."""
        return self._latency_ms(0.99)

    def _latency_ms(self, share: float) -> float:
        known = sorted(answer.latency_ms for answer in self.modest if answer.at_s > self.seconds / 2)
        return round(known[int(share * len(known))], 1)

    @property
    def most_bytes(self) -> float:
        """What the quota allows: its rate over the run and over the samples, and one request for each connection."""
        assert self.quota is not None, "without a quota everything is allowed"
        return self.quota * (self.seconds + SAMPLES) + CONNECTIONS * self.request_bytes


class TwoTenants:
    """The tenants of a broker."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._runs = 0

    def run(self, megabytes: float | None = None, seconds: float | None = None) -> Run:
        """Let both produce for a while; `megabytes` a second are the greedy tenant's quota. Without `seconds` it takes
        `FREE_S` or `LIMITED_S`. Told if the broker is closed, as after the notebook's last cell."""
        if not self.cluster.alive:
            raise Told("the broker is closed, as after the notebook's last cell: run the cell that starts it again")
        self._runs += 1
        name = f"greedy-{self._runs}"  # a new name has a new count: the runs do not disturb each other
        quota = None if megabytes is None else megabytes * _MEGABYTE
        seconds = seconds or (FREE_S if quota is None else LIMITED_S)
        greedy: list[Answer] = []
        modest: list[Answer] = []
        with self._topic(f"orders-{self._runs}") as topic, self._limited([name], quota):
            large, small = produce_request(topic, name, LARGE), produce_request(topic, MODEST, SMALL)
            start = time.monotonic()
            work = [(small, modest, PAUSE_S), *[(large, greedy, 0.0)] * CONNECTIONS]
            together([partial(produce, self.cluster, *each, start, seconds) for each in work])
        return Run(quota, seconds, sorted(greedy), sorted(modest), len(large))

    def connections(self, requests: int = 4, quota: float = 400_000) -> dict[str, Connection]:
        """Two clients with equal quotas produce this many requests each. One waits for as long as each response asks,
        the other sends them all at once. What became of their connections, by name."""
        self._runs += 1
        ways: dict[str, Callable[[socket.socket, bytes, int, list[float]], None]] = {"waits": _wait, "presses": _press}
        names = {way: f"{way}-{self._runs}" for way in ways}
        sent: dict[str, list[float]] = {way: [] for way in ways}
        with self._topic(f"orders-{self._runs}") as topic, self._limited([*names.values()], quota):

            def play(way: str) -> None:
                with connect(self.cluster) as wire:
                    ways[way](wire, produce_request(topic, names[way], MIDDLE), requests, sent[way])

            with self.cluster.record_frames() as frames:
                together([partial(play, way) for way in ways])
        seen = {way: frames.of("Produce", names[way]) for way in ways}
        # Two clocks, the clients' and the broker's: both begin with the first request.
        began = min(moment for some in sent.values() for moment in some)
        start = min(each.request.time_ms for some in seen.values() for each in some)
        return {way: _connection([(moment - began) * 1000 for moment in sent[way]], seen[way], start) for way in ways}

    @contextmanager
    def _topic(self, name: str) -> Iterator[str]:
        """A topic that is gone afterwards, with its files."""
        with self.cluster.admin() as admin:
            admin.create_topics([NewTopic(name, 1, 1, topic_configs={"file.delete.delay.ms": "0"})])
            self.cluster.wait_until_known(name, 1)
            yield name
            admin.delete_topics([name])

    @contextmanager
    def _limited(self, client_ids: Sequence[str], quota: float | None) -> Iterator[None]:
        """These client ids have this quota of produced bytes, if any."""
        if quota is None:
            yield
            return
        for value in (quota, None):
            with self.cluster.admin() as admin:
                changes = {ClientQuotaEntity(client_id=name): {PRODUCER_BYTE_RATE: value} for name in client_ids}
                admin.alter_client_quotas(changes)
            deadline = time.monotonic() + _TIMEOUT_S
            while any(self._limit_of(name) != value for name in client_ids):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the broker does not know the quotas after {_TIMEOUT_S:g} s")
                time.sleep(0.005)
            if value is not None:
                yield

    def _limit_of(self, client_id: str) -> float | None:
        quotas = self.cluster.call(1, lambda node: node.loader.image.client_quotas)
        return quota_tables(quotas)[PRODUCER_BYTE_RATE].find("ANONYMOUS", client_id)[1]


def run_chart(run: Run) -> Figure:
    """The three figures of a run, a dot for each tenth of a second: how much the greedy tenant wrote, and the largest
    throttle time and latency."""
    quota = "no quota" if run.quota is None else f"a quota of {run.quota / _MEGABYTE:g} MB/s"
    written = [(answer.at_s, run.request_bytes / STEP_S / _MEGABYTE) for answer in run.greedy]
    return stream_over_time(
        {
            "greedy: MB/s": in_steps(run.seconds, written, sum),
            "throttle_time_ms": in_steps(run.seconds, [(a.at_s, a.throttle_time_ms) for a in run.greedy], max),
            "modest: slowest, ms": in_steps(run.seconds, [(a.at_s, a.latency_ms) for a in run.modest], max),
        },
        title=f"With {quota}, a modest produce takes {run.median_ms:g} ms in the median; its p99 is {run.p99_ms:g} ms",
        note=f"The greedy tenant writes {run.megabytes:g} MB in {run.seconds:g} s",
    )


def in_steps(
    seconds: float, values: Sequence[tuple[float, float]], joined: Callable[[Sequence[float]], float]
) -> list[tuple[float, float]]:
    """One value for each step of time; 0 where there is none."""
    steps: list[list[float]] = [[] for _ in range(round(seconds / STEP_S))]
    for moment, value in values:
        steps[min(len(steps) - 1, int(moment / STEP_S))].append(value)
    return [(round(n * STEP_S, 1), joined(some) if some else 0.0) for n, some in enumerate(steps)]


def table(runs: Mapping[str, Run]) -> dict[str, str]:
    """The figures of several runs, a line for each."""
    return {
        name: f"greedy: {run.megabytes:g} MB in {run.seconds:g} s, throttled for up to {run.longest_throttle_ms:,} ms; "
        f"modest: median {run.median_ms:g} ms, p99 {run.p99_ms:g} ms"
        for name, run in runs.items()
    }


# --- bytes ------------------------------------------------------------------------------------------------------------


def produce_request(topic: str, client_id: str, size: int) -> bytes:
    """A Produce request with one record of this size, its own size in front."""
    builder = RecordBatchBuilder()
    builder.append(int(time.time() * 1000), None, bytes(size))
    kind = ProduceRequest.Topic
    partition = kind.Partition(index=0, records=bytes(builder.build()))
    asked = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[kind(name=topic, partition_data=[partition])])
    return b"".join(encode_request(asked, _VERSION, 1, client_id))


def receive_throttle_time(wire: socket.socket) -> int:
    """The next response of a connection: its throttle time. AssertionError if the broker appended nothing."""
    (size,) = SIZE.unpack(exactly(wire, SIZE.size))
    _, response = decode_response(ProduceResponse, _VERSION, memoryview(exactly(wire, size)))
    assert isinstance(response, ProduceResponse)
    errors = {each.error_code for topic in response.responses for each in topic.partition_responses}
    assert errors == {0}, errors
    return response.throttle_time_ms


def connect(cluster: Cluster) -> socket.socket:
    """A connection to the first broker."""
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    wire = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return wire


def produce(
    cluster: Cluster, frame: bytes, answers: list[Answer], pause_s: float, start: float, seconds: float
) -> None:
    """Produce on a connection of its own, until the time is over. A request that the broker has not read by then is not
    waited for."""
    with connect(cluster) as wire:
        while (began := time.monotonic()) < start + seconds:
            wire.sendall(frame)
            wire.settimeout(max(0.001, start + seconds - began))
            try:
                throttle_time_ms = receive_throttle_time(wire)
            except TimeoutError:
                return
            now = time.monotonic()
            answers.append(Answer(now - start, throttle_time_ms, (now - began) * 1000))
            time.sleep(pause_s)


def exactly(wire: socket.socket, size: int) -> bytes:
    """The next bytes of a connection, this many."""
    found = b""
    while len(found) < size:
        part = wire.recv(size - len(found))
        if not part:
            raise ConnectionError("the broker has closed the connection")
        found += part
    return found


def together(work: Sequence[Callable[[], None]]) -> None:
    """Do all of this, each in a thread of its own."""
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _wait(wire: socket.socket, frame: bytes, requests: int, sent: list[float]) -> None:
    for _ in range(requests):
        sent.append(time.monotonic())
        wire.sendall(frame)
        time.sleep(receive_throttle_time(wire) / 1000)


def _press(wire: socket.socket, frame: bytes, requests: int, sent: list[float]) -> None:
    """Send in a thread of its own: what the broker does not read fills the sockets, and then `sendall` waits."""
    sent += [time.monotonic()] * requests
    sender = threading.Thread(target=wire.sendall, args=(frame * requests,))
    sender.start()
    for _ in range(requests):
        receive_throttle_time(wire)
    sender.join()


def _connection(sent_ms: Sequence[float], exchanges: Sequence[Exchange], start: int) -> Connection:
    """What the broker saw of a connection."""
    muted = []
    for each in exchanges:
        assert each.response is not None, "every request was answered"
        told = each.response.fields().root.find("throttleTimeMs").value
        assert isinstance(told, int)
        answered = each.response.time_ms - start
        muted.append((answered, answered + told))
    return Connection(sent_ms, [each.request.time_ms - start for each in exchanges], muted)
