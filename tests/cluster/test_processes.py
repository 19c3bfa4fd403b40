"""One node per process, from the shell and from a notebook: formatted, started, killed, stopped; and each mistake that
one can make with it, answered in one sentence."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from pykraft import Admin, Cluster, Consumer, NewTopic, Producer, TopicPartition
from pykraft.cluster import ClusterError
from pykraft.common.settings.config import format_properties, parse_properties
from pykraft.common.types import Uuid
from pykraft.runtime.process import NodeProcess
from tests.harness.waiting import wait_until

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
QUICK = {
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",  # this long after a kill no other process may register under this id
    "controller.quorum.election.timeout.ms": "300",
}


def pykraft(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "pykraft", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def properties(folder: Path, **changes: str | None) -> dict[str, str]:
    """A combined node under Kafka's own keys, each of those that a server.properties of Kafka's has."""
    broker, controller = free_ports(2)
    settings: dict[str, str | None] = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"CLIENTS://127.0.0.1:{broker},QUORUM://127.0.0.1:{controller}",
        "advertised.listeners": f"CLIENTS://127.0.0.1:{broker},QUORUM://127.0.0.1:{controller}",
        "controller.listener.names": "QUORUM",
        "inter.broker.listener.name": "CLIENTS",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,QUORUM:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "log.dirs": str(folder / "logs"),
        "metadata.log.dir": str(folder / "metadata"),
        "offsets.topic.replication.factor": "1",
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        **QUICK,
        **{key.replace("_", "."): value for key, value in changes.items()},
    }
    return {key: value for key, value in settings.items() if value is not None}


def written(folder: Path, settings: Mapping[str, str]) -> Path:
    file = folder / "server.properties"
    file.write_text(format_properties(settings))
    return file


@pytest.fixture(scope="module")
def formatted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The properties file of a node whose directories are made."""
    folder = tmp_path_factory.mktemp("node")
    file = written(folder, properties(folder))
    done = pykraft("storage", "format", "-t", CLUSTER_ID, "-c", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(folder / "logs") in done.stdout and str(folder / "metadata") in done.stdout
    return file


class Server:
    """A node started as one starts it in a shell."""

    def __init__(self, file: Path, *arguments: object, cwd: Path | None = None) -> None:
        self.output = file.with_suffix(".out")
        self.clients = parse_properties(file.read_text())["listeners"].split(",")[0].partition("://")[2]
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pykraft", "server", str(file), *map(str, arguments)],
                stdout=out,
                stderr=out,
                cwd=cwd,
            )

    @property
    def said(self) -> str:
        return self.output.read_text()

    def wait_until_running(self) -> None:
        wait_until(lambda: "lifecycle  state=running" in self.said or self.process.poll() is not None, "it runs")
        assert self.process.poll() is None, self.said

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


# --- from the shell ---------------------------------------------------------------------------------------------------


def test_a_node_runs_from_a_shell_and_sigterm_stops_it_in_order(formatted: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        server = Server(formatted)
        server.wait_until_running()
        with Producer(bootstrap_servers=server.clients, acks="all") as producer:
            producer.send("made-on-demand", b"x").result(30)
        assert server.end(number) == 0, server.said
        states = [line.rpartition("state=")[2] for line in server.said.splitlines() if "  lifecycle  " in line]
        assert states == ["starting", "running", "controlled shutdown", "shutting down"]
        assert "Traceback" not in server.said
    folder = formatted.parent / "logs"
    assert (folder / ".kafka_cleanshutdown").exists()


def test_a_node_tells_in_files_that_do_not_grow_for_ever(formatted: Path, tmp_path: Path) -> None:
    file = tmp_path / "node.log"
    server = Server(formatted, "--log-file", file, "--log-file-bytes", 400, "--log-file-count", 2)
    wait_until(lambda: "state=running" in everything(file) or server.process.poll() is not None, "it runs")
    assert server.end(signal.SIGTERM) == 0, server.said
    assert server.said == ""
    found = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(found) == {"node.log", "node.log.1", "node.log.2"}
    assert max(found.values()) <= 400
    assert re.match(r"\d{4}-\d\d-\d\dT[0-9:.]+\+00:00 +\d+ ms  node 1  ", everything(file))
    assert "state=shutting down" in everything(file)


def everything(file: Path) -> str:
    """What the files say, the oldest first."""
    files = (file.with_name(f"{file.name}.2"), file.with_name(f"{file.name}.1"), file)
    return "".join(path.read_text() for path in files if path.exists())


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (("--log-file", "/dev/null/node.log"), "--log-file /dev/null/node.log cannot be written: Not a directory"),
        (("--log-file", "node.log", "--log-file-count", 0), "--log-file-bytes and --log-file-count must be at least 1"),
        (("--override", "node.id"), "--override node.id is no KEY=VALUE"),
        (("--override", "node.id=one"), "node.id is 'one', but must be a whole number of at least 0"),
        (
            ("--override", "log.dirs=/dev/null/logs"),
            "the directory /dev/null/logs is not formatted",
        ),
    ],
)
def test_a_server_that_cannot_start_says_why(formatted: Path, said: Sequence[object], sentence: str) -> None:
    done = pykraft("server", formatted, *said)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert sentence in done.stderr


def test_a_port_that_is_taken_is_one_sentence(formatted: Path) -> None:
    host, port = parse_properties(formatted.read_text())["listeners"].split(",")[0].partition("://")[2].split(":")
    with socket.create_server((host, int(port))):
        done = pykraft("server", formatted)
    assert done.returncode == 1
    assert done.stderr == f"pykraft: listener CLIENTS cannot listen on {host}:{port}: Address already in use\n"


def test_a_fault_of_a_file_meets_the_clients_of_a_process(formatted: Path, tmp_path: Path) -> None:
    file = tmp_path / "faults"
    added = pykraft("fault", file, "--api", "Produce", "--topic", "lost", "--drop", "answer", "--count", 1)
    assert (added.returncode, added.stdout) == (0, "fault 1 is added\n")
    server = Server(formatted, "--faults", file)
    server.wait_until_running()
    with Producer(bootstrap_servers=server.clients, client_id="c") as producer:
        wait_until(lambda: has_met(producer, file), "the node has the fault")
    shown = pykraft("fault", file, "--list").stdout.splitlines()
    assert shown[0] == "fault 1: api=Produce topic=lost drop=answer count=1; has met 1"
    assert re.fullmatch(r"  node 1: Produce \d+ of 'c' about lost", shown[1])
    assert pykraft("fault", file, "--clear").returncode == 0
    assert pykraft("fault", file, "--list").stdout == ""
    assert server.end(signal.SIGTERM) == 0, server.said


def has_met(producer: Producer, file: Path) -> bool:
    producer.send("lost", b"x").result(30)  # also that one whose first answer is lost
    return "has met 1" in pykraft("fault", file).stdout


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("--error NOT_LEADER_OR_FOLLOWER", "--api NAME is missing"),
        ("--api Prodce", "api='Prodce': there is no such api; did you mean 'Produce'?"),
        ("--api Produce --error OOPS", "error='OOPS': there is no such error"),
        ("--api Produce --count 0", "count=0: must be a whole number, and at least 1"),
        ("--api Produce --clear", "--clear ends all faults: leave out the rest"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(said: str, sentence: str, tmp_path: Path) -> None:
    done = pykraft("fault", tmp_path / "faults", *said.split())
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert sentence in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_file_that_holds_no_faults_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("my notes")
    done = pykraft("fault", tmp_path / "notes", "--api", "Produce")
    assert "notes holds no faults: it must be made by this command" in done.stderr
    assert (tmp_path / "notes").read_text() == "my notes"


def test_what_was_acknowledged_survives_kill_9(formatted: Path) -> None:
    server = Server(formatted)
    server.wait_until_running()
    with Producer(bootstrap_servers=server.clients, acks="all") as producer:
        last = [producer.send("kept", b"%d" % n) for n in range(30)][-1].result(30)
    assert last.offset == 29
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    again = Server(formatted)
    again.wait_until_running()
    with Consumer(bootstrap_servers=again.clients, auto_offset_reset="earliest") as consumer:
        place = TopicPartition("kept", 0)
        consumer.assign([place])
        found: list[bytes] = []

        def has_all() -> bool:
            found.extend(record.value for record in consumer.poll(100).get(place, []))
            return len(found) >= 30

        wait_until(has_all, "all are read")
    assert found == [b"%d" % n for n in range(30)]
    assert again.end(signal.SIGTERM) == 0


def test_an_unknown_key_is_warned_about_and_the_node_runs(tmp_path: Path) -> None:
    file = written(tmp_path, properties(tmp_path, zookeeper_connect="localhost:2181"))
    done = pykraft("storage", "format", "-t", CLUSTER_ID, "-c", file)
    assert done.returncode == 0
    told = (
        f"pykraft: {file} sets zookeeper.connect, which pykraft does not know and ignores: there is no ZooKeeper since "
    )
    assert done.stderr == f"{told}Kafka 4: leave it out; controller.quorum.voters names the controllers\n"
    server = Server(file)
    server.wait_until_running()
    assert "zookeeper.connect" in server.said
    assert server.end(signal.SIGTERM) == 0


def test_two_nodes_cannot_have_one_directory(formatted: Path) -> None:
    first = Server(formatted)
    first.wait_until_running()
    refused = pykraft("server", formatted)
    assert refused.returncode == 1
    assert_one_sentence(refused.stderr, "logs")
    assert first.end(signal.SIGTERM) == 0


def test_a_new_cluster_id_is_printed() -> None:
    done = pykraft("storage", "random-uuid")
    assert done.returncode == 0 and Uuid.parse(done.stdout.strip())


def test_a_directory_is_formatted_once(formatted: Path) -> None:
    again = pykraft("storage", "format", "-t", CLUSTER_ID, "-c", formatted)
    assert again.returncode == 1
    assert_one_sentence(again.stderr, "is formatted already")
    ignored = pykraft("storage", "format", "-t", CLUSTER_ID, "-c", formatted, "--ignore-formatted")
    assert (ignored.returncode, ignored.stdout) == (0, "")


def test_a_cluster_may_be_formatted_at_an_older_level(tmp_path: Path) -> None:
    file = written(tmp_path, properties(tmp_path))
    command = ("storage", "format", "-t", CLUSTER_ID, "-c", file, "--feature")
    wrong = pykraft(*command, "transaction.version=9")
    assert wrong.returncode == 1
    assert_one_sentence(wrong.stderr, "transaction.version must be 0 to 2")
    assert pykraft(*command, "transaction.version=1").returncode == 0
    bootstrap = next(tmp_path.rglob("bootstrap.checkpoint"))
    dumped = pykraft("dump-log", "--cluster-metadata-decoder", "--files", bootstrap)
    assert '"name":"transaction.version","featureLevel":1' in dumped.stdout


def test_the_first_voters_may_be_named_when_it_is_formatted(tmp_path: Path) -> None:
    """As with Kafka: no voters in the file, only where to look for them; ids of the directories on the command line."""
    settings = properties(tmp_path, **{"controller.quorum.voters": None})
    controller = settings["listeners"].rpartition("://")[2]
    file = written(tmp_path, {**settings, "controller.quorum.bootstrap.servers": controller})
    wrong = pykraft("storage", "format", "-t", CLUSTER_ID, "-c", file, "--initial-controllers", f"1@{controller}")
    assert wrong.returncode == 1
    assert_one_sentence(wrong.stderr, "must have id@host:port:id,...")
    directory_id = str(Uuid.random(Random(1)))
    voters = f"1@{controller}:{directory_id}"
    for said, sentence in {
        f"3000000000@{controller}:{directory_id}": "but must be a whole number of at least 0 and at most 2147483647",
        f"{voters},{voters}": "--initial-controllers has 1 twice, but each voter must have an id of its own",
        "": "so --initial-controllers must name the first voters",
    }.items():
        refused = pykraft("storage", "format", "-t", CLUSTER_ID, "-c", file, "--initial-controllers", said)
        assert refused.returncode == 1
        assert_one_sentence(refused.stderr, sentence)
    done = pykraft("storage", "format", "-t", CLUSTER_ID, "-c", file, "--initial-controllers", voters)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"directory.id={directory_id}" in (tmp_path / "metadata" / "meta.properties").read_text()
    server = Server(file)
    server.wait_until_running()
    try:
        with Producer(bootstrap_servers=server.clients, acks="all") as producer:
            producer.send("made-on-demand", b"x").result(30)
    finally:
        assert server.end(signal.SIGTERM) == 0, server.said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_partitions": "many"}, ["num.partitions", "'many'", "a whole number of at least 1"]),
        ({"process_roles": "zookeeper"}, ["process.roles", "'zookeeper'", "broker, controller"]),
        ({"node_id": None}, ["node.id is not set"]),
        ({"auto_create_topics_enable": "maybe"}, ["auto.create.topics.enable", "'maybe'", "true or false"]),
    ],
)
def test_a_wrong_value_is_refused_with_its_key_and_what_is_allowed(
    tmp_path: Path, changes: dict[str, str | None], words: list[str]
) -> None:
    done = pykraft("server", written(tmp_path, properties(tmp_path, **changes)))
    assert done.returncode == 1
    assert_one_sentence(done.stderr, *words)


def test_a_node_whose_reader_hangs_up_goes_on_and_stops_in_order(formatted: Path) -> None:
    """As Ctrl-C ends ``python -m pykraft server FILE | tee FILE``: the reader is gone first."""
    command = [sys.executable, "-m", "pykraft", "server", str(formatted)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            if line.endswith(b"  lifecycle  state=running\n"):
                break
        process.stdout.close()
        process.send_signal(signal.SIGINT)
        complaints = process.stderr.read()
        assert (process.wait(30), complaints) == (0, b"")
    assert (formatted.parent / "logs" / ".kafka_cleanshutdown").exists()


def test_only_what_is_not_formatted_is_when_the_rest_is_to_be_left(tmp_path: Path) -> None:
    file = written(tmp_path, properties(tmp_path))
    format_it = ("storage", "format", "-c", file, "--ignore-formatted", "-t")
    assert len(pykraft(*format_it, CLUSTER_ID).stdout.splitlines()) == 2
    shutil.rmtree(tmp_path / "logs")
    another = pykraft(*format_it, "AAAAAAAAAAAAAAAAAAAAAg")
    assert another.returncode == 1
    assert_one_sentence(another.stderr, "metadata belongs to node 1 of cluster 4L6g3nShT-eMCtK--X86sw")
    done = pykraft(*format_it, CLUSTER_ID)
    assert (done.returncode, done.stdout) == (0, f"formatted {tmp_path}/logs for node 1 of cluster {CLUSTER_ID}\n")
    (tmp_path / "metadata" / "meta.properties").write_text("rubbish")
    for broken in (pykraft(*format_it, CLUSTER_ID), pykraft("server", file)):
        assert broken.returncode == 1
        assert_one_sentence(broken.stderr, "meta.properties is damaged")


def test_a_node_without_meta_properties_says_how_to_format(tmp_path: Path) -> None:
    done = pykraft("server", written(tmp_path, properties(tmp_path)))
    assert done.returncode == 1
    assert_one_sentence(done.stderr, "is not formatted", "python -m pykraft storage format -t CLUSTER_ID -c FILE")


def test_a_file_that_is_not_there_and_a_wrong_id_are_told(tmp_path: Path) -> None:
    missing = pykraft("server", tmp_path / "none.properties")
    assert_one_sentence(missing.stderr, "none.properties cannot be read")
    file = written(tmp_path, properties(tmp_path))
    wrong = pykraft("storage", "format", "-t", "not-an-id", "-c", file)
    assert_one_sentence(wrong.stderr, "not-an-id", "22 characters")
    assert missing.returncode == wrong.returncode == 1


def assert_one_sentence(text: str, *words: str) -> None:
    assert text.startswith("pykraft: ") and text.count("\n") == 1 and "Traceback" not in text, text
    for word in words:
        assert word in text


# --- a cluster of processes -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processes() -> Iterator[Cluster]:
    with Cluster(nodes=3, mode="processes") as cluster:
        with cluster.admin() as admin:
            admin.create_topic("t", 1, 3, {"min.insync.replicas": "2"})
        yield cluster


def test_processes_are_killed_with_kill_9_and_come_back(processes: Cluster) -> None:
    view = processes.wait_until(lambda v: len(v.isr("t", 0)) == 3)
    dead = view.leader("t", 0)
    assert dead is not None and view.active_controller is not None
    with Producer(bootstrap_servers=processes.bootstrap_servers, acks="all") as producer:
        producer.send("t", b"before").result(30)
        node = processes._nodes[dead]
        assert isinstance(node, NodeProcess)
        pid = node.pid
        processes.kill(dead)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        producer.send("t", b"after").result(30)
    processes.wait_until(lambda v: v.leader("t", 0) not in (None, dead) and dead not in v.isr("t", 0))
    processes.restart(dead)
    processes.wait_until(lambda v: len(v.isr("t", 0)) == 3)
    assert processes.failures() == {}


def test_a_process_that_was_killed_is_ready_when_the_new_one_serves(processes: Cluster) -> None:
    """The others take the old process for alive for a while yet."""
    processes.kill(2)
    processes.restart(2, wait=False)
    assert processes.describe().ready_brokers == {1, 3}
    processes.wait_until(lambda v: v.ready_brokers == {1, 2, 3} and len(v.isr("t", 0)) == 3)


def test_a_process_that_nobody_can_ask_is_not_ready_because_the_one_before_it_was(processes: Cluster) -> None:
    for node in (1, 2, 3):
        processes.kill(node)
    assert [view.is_alive for view in processes.describe().nodes.values()] == [False] * 3
    processes.restart(1, wait=False)
    assert processes.describe().ready_brokers == set(), "one of three has no quorum"
    processes.restart(2, wait=False)
    processes.restart(3, wait=False)
    processes.wait_until(lambda v: v.ready_brokers == {1, 2, 3} and len(v.isr("t", 0)) == 3)


def test_a_process_that_is_stopped_hands_over(processes: Cluster) -> None:
    view = processes.wait_until(lambda v: len(v.isr("t", 0)) == 3)
    leader = view.leader("t", 0)
    assert leader is not None
    processes.stop(leader)
    said = (processes.directory / f"node-{leader}.out").read_text()
    assert "state=controlled shutdown" in said and "state=shutting down" in said
    assert processes.describe().leader("t", 0) not in (None, leader)
    processes.restart(leader)


def test_who_interrupts_a_cell_does_not_interrupt_the_nodes(processes: Cluster) -> None:
    """A notebook's button sends the signal to all processes of the kernel's group."""
    groups = {os.getpgid(node.pid) for node in processes._nodes.values() if isinstance(node, NodeProcess)}
    assert len(groups) == 3 and os.getpgrp() not in groups


def test_what_needs_threads_says_so(processes: Cluster) -> None:
    for use in (lambda: processes.disconnect(1, 2), lambda: processes.journal(1)):
        with pytest.raises(ValueError, match='make the cluster with mode="threads"'):
            use()


def test_a_flood_of_connections_takes_neither_the_logs_files_nor_the_clients_place() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        cluster = Cluster(nodes=1, mode="processes")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with cluster, contextlib.ExitStack() as flood:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        for _ in range(400):
            flood.enter_context(socket.create_connection((host, int(port)), 10))
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 100, 1)])
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for future in [producer.send("t", b"x", partition=number) for number in range(100)]:
                future.result(30)
        assert cluster.alive == [1]


def test_a_process_that_dies_of_itself_is_told_with_its_last_words() -> None:
    cluster = Cluster(nodes=1, mode="processes")
    node = cluster._nodes[1]
    assert isinstance(node, NodeProcess)
    os.kill(node.pid, signal.SIGABRT)
    wait_until(lambda: not cluster.alive, "it is dead")
    cluster.restart(1, wait=False)
    cluster.stop(1)
    assert cluster.failures() == {}, "who starts it again has seen that it died, and one that begins may be stopped"
    cluster.restart(1)
    node = cluster._nodes[1]
    assert isinstance(node, NodeProcess)
    os.kill(node.pid, signal.SIGABRT)
    wait_until(lambda: not cluster.alive, "it is dead again")
    with pytest.raises(ClusterError, match=r"node 1 died: .*ended with code -6; the end of its output: .*node 1"):
        cluster.close()
    assert [view.is_alive for view in cluster.describe().nodes.values()] == [False]
