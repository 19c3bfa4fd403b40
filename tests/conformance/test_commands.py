"""The command line against a cluster: the same session, line for line, with pykraft's nodes and with Apache Kafka's."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pykraft.cli import main
from tests.conformance.servers import Server, wait_until_led
from tests.harness.apache_kafka import VERSION
from tests.harness.waiting import wait_until

OLDER = f"apache-{VERSION}"
"""It does not say what a broker's settings are for a group that has its own."""

T0 = 1_700_000_000_000


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    complaints: str


Run = Callable[..., Done]
Make = Callable[..., str]


@pytest.fixture
def run(server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command, with these words as its standard input."""

    def run_command(command: str, *arguments: str, words: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(words.encode())))
        capsys.readouterr()
        code = main([command, "--bootstrap-server", server.bootstrap_servers, *arguments])
        return Done(code, *capsys.readouterr())

    return run_command


@pytest.fixture
def make(run: Run, server: Server) -> Make:
    """Makes a topic; all brokers know it then."""

    def make_topic(topic: str, *arguments: str) -> str:
        made = run("topics", "--create", "--topic", topic, *arguments)
        assert (made.code, made.out) == (0, f"Created topic {topic}.\n"), made
        wait_until_led(server, topic)
        return topic

    return make_topic


def test_topics_are_made_listed_described_and_deleted(run: Run, make: Make) -> None:
    make("cli-made", "--partitions", "2", "--replication-factor", "3", "--config", "retention.ms=86400000")
    assert "cli-made" in run("topics", "--list").out.split()
    assert run("topics", "--list", "--topic", "cli-m.*").out == "cli-made\n"
    assert run("topics", "--list", "--topic", "cli").out == ""
    head, *partitions = run("topics", "--describe", "--topic", "cli-made").out.splitlines()
    numbers = "PartitionCount: 2\tReplicationFactor: 3"
    configs = "(min.insync.replicas=1,)?retention.ms=86400000"  # Kafka keeps the first for the cluster
    assert re.fullmatch(f"Topic: cli-made\tTopicId: [A-Za-z0-9_-]{{22}}\t{numbers}\tConfigs: {configs}", head)
    assert [
        line.split("\t")[0] for line in run("topics", "--describe", "--topics-with-overrides").out.splitlines()
    ].count("Topic: cli-made") == 1
    for number, line in enumerate(partitions):
        ids, nobody = "[123],[123],[123]", "Elr: \\tLastKnownElr: "
        assert re.fullmatch(
            f"\tTopic: cli-made\tPartition: {number}\tLeader: [123]\tReplicas: {ids}\tIsr: {ids}\t{nobody}", line
        )
    assert len(partitions) == 2
    assert run("topics", "--describe", "--topic", "cli-made", "--unavailable-partitions").out == ""
    assert run("topics", "--delete", "--topic", "cli-made") == Done(0, "", "")
    wait_until(lambda: "cli-made" not in run("topics", "--list").out.split(), "the topic is gone")


def test_replicas_go_where_they_are_sent(run: Run, make: Make) -> None:
    topic = make("cli-sent", "--replica-assignment", "3:1,2:3")
    partitions = run("topics", "--describe", "--topic", topic).out.splitlines()[1:]
    assert [line.split("\t")[4] for line in partitions] == ["Replicas: 3,1", "Replicas: 2,3"]


def test_a_topic_gets_more_partitions_and_they_go_where_they_are_sent(run: Run, make: Make) -> None:
    topic = make("cli-grown", "--replica-assignment", "3:1,2:3")
    grown = run("topics", "--alter", "--topic", "cli-g.*", "--partitions", "3", "--replica-assignment", "1:2,1:2,2:1")
    assert grown == Done(0, "", "")
    assert run("topics", "--alter", "--topic", topic, "--partitions", "5") == Done(0, "", "")

    def described() -> list[str]:
        return run("topics", "--describe", "--topic", topic).out.splitlines()[1:]

    wait_until(lambda: len(described()) == 5, "the brokers know the new partitions")
    assert [line.split("\t")[4] for line in described()[:3]] == ["Replicas: 3,1", "Replicas: 2,3", "Replicas: 2,1"]
    fewer = run("topics", "--alter", "--topic", topic, "--partitions", "4")
    assert (fewer.code, fewer.complaints.split(":")[1]) == (1, " INVALID_PARTITIONS")
    assert run("topics", "--alter", "--topic", "cli-none", "--partitions", "4", "--if-exists") == Done(0, "", "")


def test_partitions_are_moved_and_the_move_is_watched(run: Run, make: Make, tmp_path: Path) -> None:
    topic = make("cli-moved", "--replica-assignment", "3:1,2:3")
    wanted = tmp_path / "wanted.json"
    partitions = [{"topic": topic, "partition": number, "replicas": [1, 2]} for number in (0, 1)]
    wanted.write_text(json.dumps({"version": 1, "partitions": partitions}))

    def reassign(action: str, file: Path = wanted, *rest: str) -> Done:
        return run("reassign-partitions", f"--{action}", "--reassignment-json-file", str(file), *rest)

    begun = reassign("execute")
    assert begun.out.endswith(f"Successfully started partition reassignments for {topic}-0,{topic}-1\n")
    saved = tmp_path / "saved.json"
    saved.write_text(begun.out.splitlines()[2])
    none = Done(0, "No partition reassignments found.\n", "")
    wait_until(lambda: run("reassign-partitions", "--list") == none, "all is where it should be")
    done = f"Status of partition reassignment:\nReassignment of partition {topic}-0 is completed.\n"
    wait_until(lambda: reassign("verify", wanted, "--preserve-throttles").out.startswith(done), "the brokers know it")
    assert reassign("cancel").out.splitlines() == [
        "None of the specified partition reassignments are active.",
        "None of the specified partition moves are active.",
        "Clearing broker-level throttles on brokers 1,2,3",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    back = reassign("execute", saved)
    assert (back.code, back.complaints) == (0, "")
    assert len([line for line in back.out.splitlines() if line.startswith("Successfully started moving")]) == 4
    wait_until(lambda: run("reassign-partitions", "--list") == none, "all is back")
    wait_until(lambda: reassign("verify", saved).out.count("completed") == 6, "in its log directories, too")
    away = tmp_path / "away.json"
    away.write_text(json.dumps({"version": 1, "partitions": [{**partitions[0], "replicas": [1, 7]}]}))
    assert reassign("execute", away).complaints == (
        "pykraft: --reassignment-json-file names brokers that are not there: 7\n"
    )


def test_what_the_cluster_refuses_is_one_sentence(run: Run, make: Make) -> None:
    topic = make("cli-twice", "--partitions", "1", "--replication-factor", "1")
    again = run("topics", "--create", "--topic", topic)
    assert again.code == 1
    assert re.fullmatch("pykraft: TOPIC_ALREADY_EXISTS: .*\n", again.complaints)
    assert run("topics", "--create", "--topic", topic, "--if-not-exists") == Done(0, "", "")
    assert run("topics", "--delete", "--topic", "cli-none").complaints == "pykraft: there is no topic cli-none\n"
    assert run("topics", "--delete", "--topic", "cli-none", "--if-exists") == Done(0, "", "")
    many = run("topics", "--create", "--topic", "cli-many", "--replication-factor", "9")
    assert re.fullmatch("pykraft: INVALID_REPLICATION_FACTOR: .*\n", many.complaints)
    missing = run("consume", "--topic", "cli-none", "--from-beginning")
    assert re.fullmatch("pykraft: UNKNOWN_TOPIC_OR_PARTITION: .*cli-none\n", missing.complaints)
    assert "cli-none" not in run("topics", "--list").out.split()  # to ask for it does not make it


def test_lines_go_in_and_come_out_again(run: Run, make: Make) -> None:
    topic = make("cli-lines", "--partitions", "1", "--replication-factor", "3")
    words = "a:1\tk1\tGrüße\n" + "b:\tNULL\tNULL\n" + "NULL\tk2\t\n"
    reads = [f"--reader-property={text}" for text in ("parse.key=true", "parse.headers=true", "null.marker=NULL")]
    sent = run("produce", "--topic", topic, "--compression-codec", "zstd", *reads, words=words)
    assert sent == Done(0, "", "")
    assert run("produce", "--topic", topic, "--sync", words="last").code == 0
    shows = [f"--formatter-property=print.{name}=true" for name in ("partition", "offset", "headers", "key")]
    came = run("consume", "--topic", topic, "--from-beginning", "--max-messages", "4", *shows)
    assert came.out.splitlines() == [
        "Partition:0\tOffset:0\ta:1\tk1\tGrüße",
        "Partition:0\tOffset:1\tb:\tnull\tnull",
        "Partition:0\tOffset:2\tNO_HEADERS\tk2\t",
        "Partition:0\tOffset:3\tNO_HEADERS\tnull\tlast",
    ]
    assert came.complaints == "Processed a total of 4 messages\n"
    for limits in (("--timeout-ms", "-1", "--max-messages", "4"), ("--timeout-ms", "2000", "--max-messages", "-1")):
        unlimited = run("consume", "--topic", topic, "--from-beginning", *limits)
        assert unlimited.complaints == "Processed a total of 4 messages\n", limits
    one = ("consume", "--topic", topic, "--partition", "0", "--max-messages", "1")
    assert run(*one, "--offset", "3").out == "last\n"
    assert run(*one, "--offset", "earliest").out == "Grüße\n"
    assert run(*one, "--offset", "latest", "--timeout-ms", "300") == Done(0, "", "Processed a total of 0 messages\n")
    assert "cli-lines has no partition 1: it has 1" in run("consume", "--topic", topic, "--partition", "1").complaints


def test_a_pattern_reads_several_topics(run: Run, make: Make) -> None:
    for number in range(2):
        topic = make(f"cli-part-{number}", "--partitions", "1", "--replication-factor", "1")
        assert run("produce", "--topic", topic, words=f"{number}\n").code == 0
    came = run("consume", "--include", "cli-part-.", "--from-beginning", "--max-messages", "2")
    assert sorted(came.out.splitlines()) == ["0", "1"]
    assert run("consume", "--include", "cli-parts").complaints == "pykraft: no topic fits cli-parts\n"


def test_a_line_without_its_separator_ends_the_command_and_those_before_it_are_sent(run: Run, make: Make) -> None:
    topic = make("cli-torn", "--partitions", "1", "--replication-factor", "1")
    sent = run("produce", "--topic", topic, "--reader-property", "parse.key=true", words="a\t1\nb 2\nc\t3\n")
    assert sent == Done(1, "", "pykraft: line 2 has no key.separator '\\t': 'b 2'\n")
    assert run("get-offsets", "--topic", topic).out == "cli-torn:0:1\n"


def test_a_record_that_is_too_large_ends_the_command(run: Run, make: Make) -> None:
    topic = make("cli-large", "--partitions", "1", "--replication-factor", "1", "--config", "max.message.bytes=100")
    sent = run("produce", "--topic", topic, words="x" * 1000)
    assert sent.code == 1
    assert re.fullmatch("pykraft: MESSAGE_TOO_LARGE: .*\n", sent.complaints)


def test_offsets_are_told_by_partition_and_time(run: Run, make: Make) -> None:
    topic = make("cli-offsets", "--partitions", "2", "--replication-factor", "3")
    by_partition = ("--command-property", "linger.ms=0")
    assert run("produce", "--topic", topic, "--sync", *by_partition, words="a\nb\nc\n").code == 0
    asked = ("get-offsets", "--topic-partitions", "cli-offsets")
    ends = dict(line.rsplit(":", 1) for line in run(*asked).out.splitlines())
    assert list(ends) == ["cli-offsets:0", "cli-offsets:1"]
    assert sum(map(int, ends.values())) == 3
    assert run("get-offsets", "--topic-partitions", "cli-offsets:1").out == f"cli-offsets:1:{ends['cli-offsets:1']}\n"
    assert run(*asked, "--time", "earliest").out == "cli-offsets:0:0\ncli-offsets:1:0\n"
    assert run(*asked, "--time", str(T0)).out.splitlines() == [f"{key}:0" for key, end in ends.items() if end != "0"]
    assert run(*asked, "--time", "4102444800000") == Done(0, "", "")  # in 2100
    for line in run(*asked, "--time", "max-timestamp").out.splitlines():  # of several in a millisecond the first
        key, _, newest = line.rpartition(":")
        assert int(newest) < int(ends.pop(key))
    assert set(ends.values()) <= {"0"}
    assert run("get-offsets", "--topic", "cli-none").complaints == "pykraft: no partition fits what was asked for\n"


def test_settings_are_shown_and_changed(run: Run, make: Make) -> None:
    topic = make("cli-configs", "--partitions", "1", "--config", "segment.bytes=2000000")
    named = ("--entity-type", "topics", "--entity-name", topic)
    added = ("--add-config", "retention.ms=1000,cleanup.policy=[compact,delete],")
    changed = run("configs", "--alter", *named, *added, "--delete-config", "segment.bytes")
    assert changed == Done(0, f"Completed updating config for topic {topic}.\n", "")
    policies = "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete"
    expected = [
        f"Dynamic configs for topic {topic} are:",
        f"  cleanup.policy=compact,delete sensitive=false synonyms={{{policies}}}",
        "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}",
    ]
    wait_until(lambda: run("configs", "--describe", "--topic", topic).out.splitlines() == expected, "it is changed")
    whole = run("configs", "--describe", "--topic", topic, "--all").out.splitlines()
    assert whole[0] == f"All configs for topic {topic} are:" and set(expected[1:]) < set(whole)
    assert "  segment.ms=604800000 sensitive=false synonyms={}" in whole
    gone = "The topic 'cli-none' doesn't exist and doesn't have dynamic config.\n"
    assert run("configs", "--describe", "--topic", "cli-none") == Done(0, gone, "")
    deleted = run("configs", "--alter", *named, "--delete-config", "segment.bytes")
    assert deleted == Done(1, "", "pykraft: --delete-config names what is not set: segment.bytes\n")
    wrong = run("configs", "--alter", *named, "--add-config", "retention.ms=soon")
    assert re.fullmatch("pykraft: INVALID_CONFIG: topic cli-configs: .*retention.ms.*\n", wrong.complaints)


def test_settings_of_groups_are_changed_and_described(run: Run, server: Server) -> None:
    gone = "The group 'cli-group' doesn't exist and doesn't have dynamic config.\n"
    assert run("configs", "--describe", "--group", "cli-group") == Done(0, gone, "")
    named = ("--entity-type", "groups", "--entity-name", "cli-group")
    changed = run("configs", "--alter", *named, "--add-config", "consumer.session.timeout.ms=50000")
    assert changed == Done(0, "Completed updating config for group cli-group.\n", "")
    head = "Dynamic configs for group cli-group are:"
    session = "consumer.session.timeout.ms=50000"
    broker = "DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000"
    of_group = f"  {session} sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{session}"
    line = f"{of_group}}}" if server.name == OLDER else f"{of_group}, {broker}}}"
    wait_until(lambda: run("configs", "--describe", *named).out.splitlines() == [head, line], "the group is described")
    wait_until(lambda: head in run("configs", "--describe", "--entity-type", "groups").out, "the group is listed")
    whole = run("configs", "--describe", "--group", "cli-group", "--all").out.splitlines()
    heartbeat = "consumer.heartbeat.interval.ms=5000"
    brokers = "" if server.name == OLDER else "group."
    default = f"  {heartbeat} sensitive=false synonyms={{DEFAULT_CONFIG:{brokers}{heartbeat}}}"
    assert [line for line in whole if line.startswith(("  consumer.heartbeat.", "  consumer.session."))] == [
        default,
        line,
    ]
    refused = run("configs", "--alter", *named, "--add-config", "consumer.session.timeout.ms=1")
    assert refused.code == 1 and refused.complaints.startswith("pykraft: INVALID_CONFIG: group cli-group: ")
    deleted = run("configs", "--alter", *named, "--delete-config", "consumer.session.timeout.ms")
    assert deleted == Done(0, "Completed updating config for group cli-group.\n", "")


def test_settings_of_brokers_are_shown_and_changed(run: Run) -> None:
    name, value = "log.cleaner.delete.retention.ms", "1000"
    default = f"DEFAULT_CONFIG:{name}=86400000"
    of_all, of_one = f"DYNAMIC_DEFAULT_BROKER_CONFIG:{name}={value}", f"DYNAMIC_BROKER_CONFIG:{name}=2000"
    done = run("configs", "--alter", "--broker-defaults", "--add-config", f"{name}={value}")
    assert done == Done(0, "Completed updating default config for brokers in the cluster.\n", "")
    done = run("configs", "--alter", "--entity-type", "brokers", "--entity-name", "2", "--add-config", f"{name}=2000")
    assert done == Done(0, "Completed updating config for broker 2.\n", "")

    def shown(*arguments: str) -> list[str]:
        return [line for line in run("configs", "--describe", *arguments).out.splitlines() if "min.insync" not in line]

    expected = [
        "Dynamic configs for broker 1 are:",
        "Dynamic configs for broker 2 are:",
        f"  {name}=2000 sensitive=false synonyms={{{of_one}, {of_all}, {default}}}",
        "Dynamic configs for broker 3 are:",
        "Default configs for brokers in the cluster are:",
        f"  {name}={value} sensitive=false synonyms={{{of_all}}}",
    ]
    wait_until(lambda: shown("--entity-type", "brokers") == expected, "all brokers know")
    whole = run("configs", "--describe", "--broker", "3", "--all").out.splitlines()
    assert whole[0] == "All configs for broker 3 are:"
    assert f"  {name}={value} sensitive=false synonyms={{{of_all}, {default}}}" in whole
    assert "  node.id=3 sensitive=false synonyms={STATIC_BROKER_CONFIG:node.id=3}" in whole
    assert "  log.roll.ms=null sensitive=false synonyms={}" in whole
    refused = run("configs", "--alter", "--broker", "3", "--add-config", "log.dirs=elsewhere")
    assert re.fullmatch("pykraft: INVALID_REQUEST: broker 3: .*log.dirs.*\n", refused.complaints)
    for action in (("--describe", "--all"), ("--alter", "--add-config", f"{name}=1")):
        nobody = run("configs", *action, "--broker", "9")
        assert nobody == Done(1, "", "pykraft: there is no broker 9 that lives: only it could say\n")
    for whose in (("--broker-defaults",), ("--broker", "2")):
        assert run("configs", "--alter", *whose, "--delete-config", name).code == 0
    wait_until(lambda: name not in "".join(shown("--entity-type", "brokers")), "all is as it was")
