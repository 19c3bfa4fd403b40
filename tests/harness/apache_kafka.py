"""Apache Kafka itself, to compare with: released jars from Maven, started as a KRaft cluster on loopback.

    with ApacheKafka(nodes=3, properties={"min.insync.replicas": "2"}) as kafka:
        Producer({"bootstrap.servers": kafka.bootstrap_servers})
        kafka.kill(1)
        kafka.restart(1)
        kafka.tool("kafka.tools.DumpLogSegments", "--files", ...)

It needs Java 17 or newer (JAVA_HOME, or `java` on PATH) and Maven; `available()` says what is missing, for a skip with
a name. The jars are fetched once into the user's cache folder, under the release's number, and appear there by one
rename, so that two runs do not meet halfway.

Nodes are numbered from 1 and have both roles. Each has a folder below `directory`: server.properties, data/ (its log
directory) and server.log. They stay in the process group of the process that started them, and end with it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from tests.harness.cache import kept
from tests.harness.waiting import wait_until

VERSION = os.environ.get("APACHE_KAFKA_VERSION", "4.2.1")
"""Our base: new clusters of ours have the feature levels of this release."""
NEWEST = "4.4.0"
"""The newest release, whose requests, answers and records ours are."""
CLUSTER_ID = "pykraftReferenceQuorum"  # 22 characters: a Uuid in URL-safe base64
OLDEST_JAVA = 17
FETCH_S = 600
START_S = 90
ALONE_S = 15
TOOL_S = 60
STARTED = b"Kafka Server started"
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Fewer processor seconds until it serves, and less speed afterwards: for tools, and tests of a few records. With just
these, a JVM also maps Kafka's classes from an archive (`archived_classes`)."""
_PORTS = (20_000, 32_000)
"""Below the ports that systems hand out by themselves, so that no client takes one between our look and our use."""

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>reference</groupId><artifactId>apache-kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{version}</version>{without}</dependency>
<dependency>
<groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.3</version>
</dependency>
</dependencies></project>
"""
WITHOUT_CONNECT = "<exclusions>{}</exclusions>".format(
    "".join(
        f"<exclusion><groupId>org.apache.kafka</groupId><artifactId>{name}</artifactId></exclusion>"
        for name in ("connect-runtime", "connect-json")
    )
)
"""From Kafka 4.4 on the tools pull in Connect's web server, which few registries have; what we run does without."""
LOGGING = """Configuration:
  status: "OFF"
  Appenders: {{Console: {{name: STDOUT, PatternLayout: {{pattern: "[%d] %p %m (%c)%n"}}}}}}
  Loggers: {{Root: {{level: {level}, AppenderRef: {{ref: STDOUT}}}}}}
"""


class Unavailable(Exception):  # noqa: N818 (it is an answer, not a fault)
    """Apache Kafka cannot be had here; the message says why."""


@functools.cache
def available(version: str = VERSION) -> str:
    """Why this release cannot be started here; empty if it can. Fetches the jars if they are not there yet."""
    try:
        java()
        fetched(version)
    except Unavailable as reason:
        return str(reason)
    return ""


@functools.cache
def java() -> str:
    """The Java to run Kafka with."""
    home = os.environ.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if found is None or not os.path.exists(found):
        raise Unavailable(f"Apache Kafka needs Java {OLDEST_JAVA} or newer, and there is none")
    done = subprocess.run([found, "-version"], check=False, capture_output=True, text=True, timeout=30)
    version = re.search(r'version "(\d+)', done.stderr)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise Unavailable(f"Apache Kafka needs Java {OLDEST_JAVA} or newer, and this is another: {found}")
    return found


def fetched(version: str) -> pathlib.Path:
    """The folder with that release's jars in libs/, and our settings for its logging."""
    settings = {f"{name}.yaml": LOGGING.format(level=level) for name, level in (("server", "INFO"), ("tool", "ERROR"))}
    without = WITHOUT_CONNECT if tuple(map(int, version.split(".")[:2])) >= (4, 4) else ""
    pom = POM.format(version=version, without=without)
    return fetched_jars(f"apache-kafka-{version}", pom, f"Apache Kafka {version}", settings)


def fetched_jars(name: str, pom: str, what: str, files: Mapping[str, str] | None = None) -> pathlib.Path:
    """The folder `name` in the user's cache, with all jars that this POM depends on in libs/, and with `files`; filled
    by Maven if it is not there. Unavailable, naming `what`, if that fails."""

    def fill(coming: pathlib.Path) -> None:
        if shutil.which("mvn") is None:
            raise Unavailable(f"the jars of {what} are fetched with Maven, and there is no mvn")
        (coming / "pom.xml").write_text(pom)
        maven("dependency:copy-dependencies", "-DoutputDirectory=libs", folder=coming, what=what)
        for path, text in (files or {}).items():
            (coming / path).write_text(text)

    return kept(name, fill)


def maven(*arguments: str, folder: pathlib.Path, what: str) -> None:
    """Run Maven in this folder; Unavailable, with its first complaint, if it fails to fetch `what`."""
    try:
        done = subprocess.run(
            ["mvn", "-q", "-B", *arguments],
            check=False,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_S,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"Maven did not fetch {what} in {FETCH_S} s") from None
    if done.returncode:
        words = (done.stdout + done.stderr).strip() or f"exit status {done.returncode}"
        raise Unavailable(f"Maven could not fetch {what}: {words.splitlines()[0][:300]}")


def java_command(
    version: str,
    main: str,
    *arguments: str,
    logging: str = "tool",
    heap: str = "256m",
    options: Sequence[str] = QUICK_START,
    classes: pathlib.Path | None = None,
) -> list[str]:
    """The command line that runs one of Kafka's main classes, or one that is compiled in the folder `classes`."""
    home = fetched(version)
    path = [f"{home / 'libs'}/*", *([] if classes is None else [str(classes)])]
    return [
        java(),
        f"-Xmx{heap}",
        *options,
        *(archived_classes(version) if tuple(options) == QUICK_START else ()),
        f"-Dlog4j2.configurationFile={home / logging}.yaml",
        "-cp",
        os.pathsep.join(path),
        main,
        *arguments,
    ]


def compile_java(source: pathlib.Path, home: pathlib.Path, target: pathlib.Path) -> None:
    """Compile a class that uses the jars in `home`/libs. Unavailable if this Java is no JDK; a mistake in the source
    fails the test."""
    jars = os.pathsep.join(str(jar) for jar in sorted((home / "libs").iterdir()))
    compiler = [java(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", jars, "-d", str(target), str(source)]
    done = subprocess.run(compiler, check=False, capture_output=True, text=True, timeout=FETCH_S)
    said = done.stdout + done.stderr
    if "jdk.compiler not found" in said:
        raise Unavailable(f"{source.name} has to be compiled, and this Java has no compiler")
    assert done.returncode == 0, said[-2000:]


@functools.cache
def archived_classes(version: str) -> tuple[str, ...]:
    """Options by which a JVM maps Kafka's classes from a file, as a broker had them read and checked when it ended
    (JEP 350): 2 instead of 3.5 processor seconds until one serves. None where this Java does not keep them."""

    def fill(coming: pathlib.Path) -> None:
        recording = (*QUICK_START, f"-XX:ArchiveClassesAtExit={coming / 'classes.jsa'}")
        with contextlib.suppress(RuntimeError), ApacheKafka(java_options=recording, version=version) as kafka:
            kafka.stop()

    # An archive belongs to one Java and these very jars.
    about = subprocess.run([java(), "-version"], check=False, capture_output=True, timeout=30).stderr
    jars = sorted((jar.name, jar.stat().st_mtime_ns) for jar in (fetched(version) / "libs").iterdir())
    digest = hashlib.sha256(about + repr(jars).encode()).hexdigest()[:16]
    archive = kept(f"apache-kafka-{version}-classes-{digest}", fill) / "classes.jsa"
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable") if archive.exists() else ()


def free_ports(count: int) -> list[int]:
    """This many ports of 127.0.0.1 that are free."""
    found: list[int] = []
    for port in random.sample(range(*_PORTS), 1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise Unavailable(f"no {count} free ports")


class ApacheKafka:
    """A cluster of combined nodes 1..`nodes`, serving when the constructor returns.

    `properties` go into every node's server.properties, over the ones below. `heap` is each node's, as Java writes it;
    `java_options` are more for its JVM, such as `QUICK_START`. `format_options` are more for the formatting; with
    "--standalone" or "--initial-controllers" the voters stand in the log (kraft.version 1).

    The nodes can be started on the `log_directories` of others, one each: those are left as they are at the end. They
    must have the ports that their quorum knows them by: `ports` are the brokers', then the controllers'. With
    `static_voters` their quorum is at kraft.version 0.
    A node has `patience_s` to start and to end.
    Unavailable if Kafka cannot be had here; RuntimeError with the end of its log if a node does not start.
    """

    def __init__(
        self,
        nodes: int = 1,
        properties: Mapping[str, str] | None = None,
        *,
        heap: str = "512m",
        java_options: Sequence[str] = (),
        version: str = VERSION,
        format_options: Sequence[str] = (),
        ports: Sequence[int] = (),
        log_directories: Sequence[pathlib.Path] = (),
        static_voters: bool = False,
        starts: bool = True,
        patience_s: float = START_S,
    ) -> None:
        self.version = version
        self._patience_s = patience_s
        self._format_options = format_options
        self._log_directories = log_directories
        self._in_log = bool(log_directories) and not static_voters
        self._heap = heap
        self._java_options = java_options
        fetched(version)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.nodes = range(1, nodes + 1)
        ports = ports or free_ports(2 * nodes)
        self._ports, self._controller_ports = ports[:nodes], ports[nodes:]
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        try:
            for node in self.nodes:
                self._write_properties(node, properties or {})
            if not log_directories:
                self._format()
            if starts:
                for node in self.nodes:
                    self._launch(node)
                self._wait_until_serving(self.nodes)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ApacheKafka:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def address(self, node: int) -> str:
        """host:port of one node's broker."""
        return f"127.0.0.1:{self._ports[node - 1]}"

    @property
    def controller_addresses(self) -> list[str]:
        """host:port of each node's controller."""
        return [f"127.0.0.1:{port}" for port in self._controller_ports]

    def folder(self, node: int) -> pathlib.Path:
        """Where the node's properties, data/ and log are."""
        return self.directory / f"node-{node}"

    def data(self, node: int) -> pathlib.Path:
        """Its log directory."""
        return self._log_directories[node - 1] if self._log_directories else self.folder(node) / "data"

    def pid(self, node: int) -> int:
        return self._processes[node].pid

    def log(self, node: int) -> str:
        """What the node has logged since its last start."""
        return (self.folder(node) / "server.log").read_text(errors="replace")

    def kill(self, node: int, how: signal.Signals = signal.SIGKILL) -> None:
        """End one node, and wait until it has: SIGTERM lets it say goodbye, SIGKILL does not."""
        process = self._processes.pop(node)
        process.send_signal(how)
        process.wait(self._patience_s)

    def stop(self) -> None:
        """Stop all nodes in order, and at once: the last ones could not hand over what they lead to anybody.

        A broker asks the quorum for leave to go. One that comes to it after the others' controllers are gone asks for
        five minutes in vain; it is killed after `ALONE_S`, as Kafka's own system tests do with combined nodes.
        """
        processes = list(self._processes.values())
        for process in processes:
            process.send_signal(signal.SIGTERM)

        def has_no_majority() -> bool:
            return 2 * sum(process.poll() is None for process in processes) <= len(self.nodes)

        wait_until(has_no_majority, "most nodes have ended in order", self._patience_s)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ALONE_S)
            process.kill()
            process.wait(self._patience_s)
        self._processes.clear()

    def restart(self, node: int) -> None:
        """Start a node that was ended, on its old folder and ports; returns when it serves."""
        self._launch(node)
        self._wait_until_serving([node])

    def tool(self, main: str, *arguments: str, timeout_s: float = TOOL_S) -> str:
        """Run one of Kafka's tools, such as org.apache.kafka.tools.TopicCommand or kafka.tools.DumpLogSegments; what
        it printed. RuntimeError, with that, if it fails."""
        done = subprocess.run(
            java_command(self.version, main, *arguments),
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        if done.returncode:
            raise RuntimeError(f"{main} failed with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def close(self) -> None:
        """End every node, and remove the folders."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait(START_S)
        self._processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _write_properties(self, node: int, properties: Mapping[str, str]) -> None:
        count = len(self.nodes)
        broker = f"PLAINTEXT://{self.address(node)}"
        values = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "listeners": f"{broker},CONTROLLER://127.0.0.1:{self._controller_ports[node - 1]}",
            "advertised.listeners": broker,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            **self._quorum(),
            "log.dirs": str(self.data(node)),
            "offsets.topic.replication.factor": str(min(3, count)),
            "transaction.state.log.replication.factor": str(min(3, count)),
            "transaction.state.log.min.isr": str(min(2, count)),
            "share.coordinator.state.topic.replication.factor": str(min(3, count)),
            "share.coordinator.state.topic.min.isr": str(min(2, count)),
            "group.initial.rebalance.delay.ms": "0",
            **properties,
        }
        self.folder(node).mkdir()
        (self.folder(node) / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in values.items()))

    def _quorum(self) -> dict[str, str]:
        """How the nodes find the quorum."""
        addresses = {node: f"127.0.0.1:{port}" for node, port in zip(self.nodes, self._controller_ports, strict=True)}
        if self._in_log or {"--standalone", "--initial-controllers"} & {*self._format_options}:
            return {"controller.quorum.bootstrap.servers": ",".join(addresses.values())}
        return {"controller.quorum.voters": ",".join(f"{node}@{address}" for node, address in addresses.items())}

    def _format(self) -> None:
        """Format all log directories, at once: each takes a JVM's start."""
        formatting = [
            subprocess.Popen(
                java_command(
                    self.version,
                    "kafka.tools.StorageTool",
                    *("format", "-t", CLUSTER_ID, "-c", str(self.folder(node) / "server.properties")),
                    *self._format_options,
                    options=self._java_options or QUICK_START,
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for node in self.nodes
        ]
        outputs = [process.communicate(timeout=START_S)[0] for process in formatting]
        for process, output in zip(formatting, outputs, strict=True):
            if process.returncode:
                raise RuntimeError(f"formatting failed: {output.decode(errors='replace')}")

    def _launch(self, node: int) -> None:
        properties = str(self.folder(node) / "server.properties")
        with open(self.folder(node) / "server.log", "wb") as log:
            self._processes[node] = subprocess.Popen(
                java_command(
                    self.version,
                    "kafka.Kafka",
                    properties,
                    logging="server",
                    heap=self._heap,
                    options=self._java_options,
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _wait_until_serving(self, nodes: Sequence[int]) -> None:
        """Until each of them has logged that its broker is started and unfenced."""
        deadline = time.monotonic() + self._patience_s
        waiting = list(nodes)
        while waiting:
            ended = [node for node in waiting if self._processes[node].poll() is not None]
            if ended or time.monotonic() > deadline:
                node = (ended or waiting)[0]
                what = "ended" if ended else f"does not serve after {self._patience_s} s"
                raise RuntimeError(f"node {node} {what}; its log ends:\n{self.log(node)[-3000:]}")
            waiting = [node for node in waiting if STARTED not in (self.folder(node) / "server.log").read_bytes()]
            time.sleep(0.05)
