"""``consumer-groups`` prints what Kafka's own tool prints of the same groups, and does what it says.

The groups: a classic one with a static and a dynamic member, one of KIP-848, one with members of both protocols, one
without members, and one of no consumers. The tool is called in one JVM.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest

from pykraft import Admin, Cluster, ErrorCode, KafkaError, Producer, TopicPartition
from pykraft.cli import main
from pykraft.client.administration.groups import GroupState
from pykraft.protocol.messages.groups import JoinGroupRequest
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.connection import answer_that
from tests.harness.kafka_tools import run_tool
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.limit(120)

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PROPERTIES = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}
T0 = 1_700_000_000_000
LONG = "a-topic-whose-name-is-longer-than-twenty-four-letters"
TOPICS = {"flights": 3, "seats": 1, LONG: 1}


SERVERS: Mapping[str, Callable[[], Cluster | ApacheKafka]] = {
    "apache": lambda: ApacheKafka(properties=PROPERTIES, java_options=QUICK_START),
    "pykraft": lambda: Cluster(nodes=1, properties=PROPERTIES),
}
WITHOUT_MIGRATION = ("pykraft",)
"""No group there has members of both protocols."""


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    complaints: str


Run = Callable[..., Done]


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name == "pykraft" else pytest.mark.long) for name in SERVERS],
)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with SERVERS[request.param]() as started:
        yield started.bootstrap_servers


@pytest.fixture(scope="module")
def admin(servers: str) -> Iterator[Admin]:
    """An administrator of a cluster with topics, ten records in each partition, and offsets of the group "empty"."""
    with Admin(bootstrap_servers=servers) as admin:
        for topic, partitions in TOPICS.items():
            admin.create_topic(topic, partitions, 1, {"retention.ms": -1})
        with Producer(bootstrap_servers=servers) as producer:
            for topic, partitions in TOPICS.items():
                for partition in range(partitions):
                    for number in range(10):
                        producer.send(topic, b"x", partition=partition, timestamp_ms=T0 + number * 1000)
        admin.alter_consumer_group_offsets("empty", offsets(0, 3, 2, 4) | {TopicPartition(LONG, 0): 10})
        yield admin


@pytest.fixture
def run(servers: str, admin: Admin, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs our command."""

    def run_command(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(["consumer-groups", "--bootstrap-server", servers, *arguments])
        return Done(code, *capsys.readouterr())

    return run_command


def offsets(*numbers: int) -> dict[TopicPartition, int]:
    """Offsets of the topic flights: partition, offset, partition, offset, ..."""
    return {
        TopicPartition("flights", partition): offset
        for partition, offset in zip(numbers[::2], numbers[1::2], strict=True)
    }


# --- the same output --------------------------------------------------------------------------------------------------

SAME = [
    "--list",
    "--list --state",
    "--list --type",
    "--list --type classic --state stable,Empty",
    "--list --state Dead",
    "--describe --all-groups",
    "--describe --all-groups --offsets --verbose",
    "--describe --all-groups --members",
    "--describe --all-groups --members --verbose",
    "--describe --all-groups --state",
    "--describe --all-groups --state --verbose",
    "--describe --group classic --group none",
    "--describe --group connect",
    "--reset-offsets --group empty --topic flights --to-earliest",
    "--reset-offsets --group empty --topic flights:0,1 --to-latest --dry-run",
    "--reset-offsets --group empty --topic flights --topic seats:0 --to-current --dry-run",
    "--reset-offsets --group empty --all-topics --shift-by -2 --dry-run",
    "--reset-offsets --group empty --group fresh --all-topics --to-offset 1000 --dry-run --export",
    f"--reset-offsets --group empty --topic {LONG} --to-offset 7 --dry-run --export",
    "--reset-offsets --group empty --topic flights --to-datetime 2023-11-14T22:13:25.000 --dry-run",
    "--reset-offsets --group empty --topic flights:1 --to-datetime 2023-11-15T00:13:25.001+02:00 --dry-run",
    "--reset-offsets --group empty --topic flights --by-duration P1DT1H --dry-run",
    "--reset-offsets --group classic --group empty --topic seats --to-earliest --dry-run",
    "--reset-offsets --group empty --topic none --to-earliest --dry-run",
    "--reset-offsets --group empty --topic flights:9 --to-earliest --dry-run",
    "--delete-offsets --group modern --topic flights",
    "--delete-offsets --group empty --topic none --topic flights:1,9",
    "--delete --group classic --group none",
]
IN_ANY_ORDER = ("--list", "--reset-offsets", "--delete ")
"""What the tool prints in the order of a hash table, and we sort."""


def plain(text: str, in_any_order: bool) -> str:
    """Without what may differ: the tool has Java's class and words for an error of the protocol, we have our own."""
    text = re.sub("failed due to .*", "failed due to ...", text)
    text = re.sub(
        r"(Error|due to): (org\.apache\.kafka\.common\.errors\.\w+: |[A-Z_]+: |The group ).*", r"\1: ...", text
    )
    return "\n".join(sorted(text.splitlines()) if in_any_order else text.splitlines())


def remarks(text: str) -> str:
    """Standard error without Java's stack traces, and what only our command or its test says there."""
    ours = "New offset|java|org|Caused|\t|$"
    return "\n".join(line for line in text.splitlines() if not re.match(ours, line))


@pytest.fixture
def members(servers: str, admin: Admin, request: pytest.FixtureRequest) -> Iterator[None]:
    """Groups with members, that have read two records of each partition."""

    def member(group: str, name: str, topics: list[str], **settings: str) -> confluent_kafka.Consumer:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": servers, "group.id": group, "client.id": name, "enable.auto.commit": False, **named}
        )
        consumer.subscribe(topics)
        return consumer

    def settle(**expected: int) -> None:
        """Wait until these groups are stable, and so many of their members have partitions."""

        def are_settled() -> bool:
            for consumer in joined:
                consumer.poll(0.02)
            return all(consumer.assignment() for consumer in joined) and expected == {
                name: len([member for member in group.members if member.assignment])
                for name, group in admin.try_describe_consumer_groups(expected).items()
                if not isinstance(group, KafkaError) and group.state is GroupState.STABLE
            }

        wait_until(are_settled, f"members have their partitions: {expected}")

    joined = [
        member("classic", "one", ["flights", "seats"], group_instance_id="first"),
        member("classic", "two", ["flights"]),
        member("modern", "three", ["flights"], group_protocol="consumer"),
        member("mixed", "four", ["flights"], group_protocol="consumer"),
    ]
    try:
        answer_that(lambda answer: answer.error_code == 0, servers, _CONNECT_WORKER, 5)
        settle(classic=2, modern=1, mixed=1)
        if request.node.callspec.params["servers"] not in WITHOUT_MIGRATION:
            joined.append(member("mixed", "five", ["flights"]))
            settle(mixed=2)
        for consumer in joined:
            own = [confluent_kafka.TopicPartition(key.topic, key.partition, 2) for key in consumer.assignment()]
            consumer.commit(offsets=own, asynchronous=False)
        yield
    finally:
        for consumer in joined:
            consumer.close()


_CONNECT_WORKER = JoinGroupRequest(
    group_id="connect",
    session_timeout_ms=60_000,
    rebalance_timeout_ms=60_000,
    group_instance_id="worker",
    protocol_type="connect",
    protocols=[JoinGroupRequest.Protocol(name="sessioned", metadata=b"")],
)


@pytest.mark.usefixtures("members")
def test_our_command_prints_what_kafkas_own_tool_prints(servers: str, run: Run) -> None:
    theirs = run_tool(TOOL, [[*call.split(), "--bootstrap-server", servers] for call in SAME])
    for call, told in zip(SAME, theirs, strict=True):
        in_any_order = call.startswith(IN_ANY_ORDER)
        done = run(*call.split())
        assert plain(done.out, in_any_order) == plain(told.out, in_any_order), call
        assert remarks(done.complaints) == remarks(told.complaints), call
        assert done.code == ("Error: " in told.out), call


# --- what is done -----------------------------------------------------------------------------------------------------

RULES = {
    "--to-earliest": (0, 0, 0),
    "--to-latest": (10, 10, 10),
    "--to-current": (3, 10, 4),
    "--to-offset 6": (6, 6, 6),
    "--to-datetime 2023-11-14T22:13:27.500Z": (8, 8, 8),
    "--by-duration P9999D": (0, 0, 0),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_reset_commits_only_with_execute(rule: str, run: Run, admin: Admin) -> None:
    group, before = f"reset {rule}", offsets(0, 3, 2, 4)
    admin.alter_consumer_group_offsets(group, before)
    said = ["--reset-offsets", "--group", group, "--topic", "flights", *rule.split()]
    assert run(*said, "--dry-run").code == 0
    assert committed(admin, group) == before
    done = run(*said, "--execute")
    expected = offsets(*(number for pair in enumerate(RULES[rule]) for number in pair))
    assert [line.split()[-1] for line in done.out.splitlines()[2:]] == [str(offset) for offset in expected.values()]
    assert committed(admin, group) == expected


def committed(admin: Admin, group: str) -> dict[TopicPartition, int]:
    found = admin.list_consumer_group_offsets(group)
    return {key: place.offset for key, place in sorted(found.items()) if place is not None}


def test_an_offset_stays_within_the_log(run: Run, admin: Admin) -> None:
    admin.alter_consumer_group_offsets("within", offsets(0, 3, 1, 8))
    done = run("--reset-offsets", "--group", "within", "--all-topics", "--shift-by", "-5", "--execute")
    assert committed(admin, "within") == offsets(0, 0, 1, 3)
    assert done.complaints == (
        "New offset (-2) is lower than earliest offset for topic partition flights-0. Value will be set to 0\n"
    )
    lacking = run("--reset-offsets", "--group", "within", "--topic", "flights", "--shift-by", "1", "--execute")
    assert lacking.complaints == (
        "pykraft: Cannot shift offset for partition flights-2 since there is no current committed offset\n"
    )
    assert committed(admin, "within") == offsets(0, 0, 1, 3)


def test_exported_offsets_can_be_read_again(run: Run, admin: Admin, tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    for groups in (["plain"], ["plain", 'one, "two"']):
        said = [word for group in groups for word in ("--group", group)]
        for group in groups:
            admin.alter_consumer_group_offsets(group, offsets(0, 3, 1, 8))
        exported = run("--reset-offsets", *said, "--all-topics", "--to-current", "--dry-run", "--export").out
        file.write_text(exported)
        for group in groups:
            admin.alter_consumer_group_offsets(group, offsets(0, 0, 1, 0))
        again = run("--reset-offsets", *said, "--from-file", str(file), "--execute", "--export")
        assert again == Done(0, exported, "")
        assert all(committed(admin, group) == offsets(0, 3, 1, 8) for group in groups)
    missing = run("--reset-offsets", "--group", "other", "--group", "plain", "--from-file", str(file), "--dry-run")
    assert (missing.code, missing.out.splitlines()[1]) == (1, "Error: No reset plan for group other found")


def test_groups_and_single_offsets_are_deleted(run: Run, admin: Admin) -> None:
    for group in ("gone", "less"):
        admin.alter_consumer_group_offsets(group, offsets(0, 3, 1, 8))
    done = run("--delete-offsets", "--group", "less", "--topic", "flights:0")
    assert done.out.splitlines() == [
        "Request succeeded for deleting offsets from group less.",
        "",
        "TOPIC           PARTITION  STATUS         ",
        "flights         0          Successful     ",
    ]
    assert committed(admin, "less") == offsets(1, 8)
    assert run("--delete", "--group", "gone", "--group", "less") == Done(
        0, "Deletion of requested consumer groups ('gone', 'less') was successful.\n", ""
    )
    assert committed(admin, "gone") == {}
    with pytest.raises(KafkaError) as refused:
        admin.delete_consumer_groups(["gone"])
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_that_consumes_goes_on_where_it_has_committed(
    servers: str, admin: Admin, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    shown = [f"--formatter-property=print.{name}={value}" for name, value in _SHOWN.items()]
    read: list[bytes] = []
    for count in (12, 18):
        said = ["consume", "--bootstrap-server", servers, "--topic", "flights", "--group", "readers", *shown]
        assert main([*said, "--from-beginning", "--max-messages", str(count)]) == 0
        lines = capfdbinary.readouterr().out.splitlines()
        assert len(lines) == count
        read += lines
        assert sum(committed(admin, "readers").values()) == len(read)
    assert len(set(read)) == len(read) == 30


_SHOWN = {"partition": "true", "offset": "true", "value": "false"}


def test_static_members_are_removed_by_their_names(servers: str, admin: Admin) -> None:
    join = _CONNECT_WORKER.replace(group_id="static", protocol_type="consumer")
    joined = answer_that(lambda answer: answer.error_code == 0, servers, join, 5)
    assert [member.group_instance_id for member in joined.members] == ["worker"]
    with pytest.raises(KafkaError) as refused:
        admin.remove_members_from_consumer_group("static", ["stranger"])
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    admin.remove_members_from_consumer_group("static", ["worker"])
    assert admin.describe_consumer_groups(["static"])["static"].members == ()
    answer_that(lambda answer: answer.error_code == 0, servers, join, 5)
    admin.remove_members_from_consumer_group("static")
    assert admin.describe_consumer_groups(["static"])["static"].state is GroupState.EMPTY
