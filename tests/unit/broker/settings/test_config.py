"""A node's properties: what is read from them, and the one sentence that refuses each mistake."""

from __future__ import annotations

import pytest

from pykraft.broker.settings.config import NODE_CONFIG, read_node_config
from pykraft.common.errors import ConfigError
from pykraft.common.settings.topic_config import MIN_INSYNC_REPLICAS, RETENTION_MS, check_topic_settings
from pykraft.common.types import Endpoint, Node
from pykraft.protocol.api import ListenerKind
from pykraft.timeouts import LESSON, describe_timeouts

GOOD = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.voters": "1@h:9093,2@i:9093",
    "log.dirs": "/data/",
}


def test_a_node_is_what_its_file_says() -> None:
    config = read_node_config(
        {
            **GOOD,
            "advertised.listeners": "PLAINTEXT://public:1",
            "metadata.log.dir": "/meta",
            "min.insync.replicas": "2",
            "broker.color": "red",
        }
    )
    assert config.is_broker and config.is_controller and config.node_id == 1
    assert [(li.name, li.kind, str(li.bind), str(li.advertised)) for li in config.listeners] == [
        ("PLAINTEXT", ListenerKind.BROKER, "h:9092", "public:1"),
        ("CONTROLLER", ListenerKind.CONTROLLER, "h:9093", "h:9093"),
    ]
    assert config.voters == (Node(1, "h", 9093), Node(2, "i", 9093))
    assert config.bootstrap == (Endpoint("h", 9093), Endpoint("i", 9093))
    assert (config.log_dir, config.metadata_dir) == ("/data", "/meta")
    assert config.inter_broker_listener == "PLAINTEXT"
    assert config.unknown == ("broker.color",)
    assert config.topic_config({})[MIN_INSYNC_REPLICAS] == 2
    assert config.topic_config({"min.insync.replicas": "3"})[MIN_INSYNC_REPLICAS] == 3


def test_a_listener_without_a_host_is_bound_to_every_address_and_advertised_under_the_machines_name() -> None:
    of_file = {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093,INNER://h:9094", "advertised.listeners": ""}
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INNER:PLAINTEXT"}
    config = read_node_config({**GOOD, **of_file, **protocols}, lambda: "machine.example.org")
    assert [(str(each.bind), str(each.advertised)) for each in config.listeners] == [
        (":9092", "machine.example.org:9092"),
        (":9093", "machine.example.org:9093"),
        ("h:9094", "h:9094"),
    ]
    said = {**GOOD, "advertised.listeners": "PLAINTEXT://:1"}  # so is what others are told to use
    assert str(read_node_config(said, lambda: "m").listeners[0].advertised) == "m:1"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"process.roles": None},
            "process.roles is not set, but must be: what the node is: broker, controller",
        ),
        (
            {"process.roles": None, "zookeeper.connect": "localhost:2181"},
            "zookeeper.connect is set and process.roles is not: since Kafka 4 there is no ZooKeeper. Say process.roles",
        ),
        (
            {"process.roles": "king"},
            "process.roles is 'king', but must be a comma-separated list of broker",
        ),
        ({"node.id": None}, "node.id is not set, but must be"),
        ({"node.id": "-1"}, "node.id is '-1', but must be a whole number of at least 0"),
        ({"node.id": "one"}, "node.id is 'one', but must be a whole number"),
        ({"node.id": "2147483648"}, "a whole number of at least 0 and at most 2147483647"),
        (
            {"process.roles": "broker", "controller.quorum.auto.join.enable": "true"},
            "controller.quorum.auto.join.enable is true, but only a controller joins the voters",
        ),
        ({"node.id": "3"}, "node.id is 3, but must be one of controller.quorum.voters: 1, 2"),
        ({"listeners": None}, "listeners is not set"),
        ({"listeners": "h:9092"}, "listeners has 'h:9092', but must have NAME://host:port"),
        ({"listeners": "PLAINTEXT://h"}, "listeners: 'h' is no host:port"),
        (
            {"listeners": "PLAINTEXT://h:1,plaintext://h:2"},
            "listeners has PLAINTEXT twice, but each listener must have",
        ),
        (
            {"listeners": "PLAINTEXT://:9,CONTROLLER://:8"},
            "advertised.listeners must say which address of this machine",
        ),
        ({"listeners": "PLAINTEXT://0.0.0.0:9"}, "clients would connect to '0.0.0.0:9'"),
        ({"advertised.listeners": "PLAINTEXT://[::]:9"}, "clients would connect to '[::]:9'"),
        (
            {"advertised.listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"},
            "advertised.listeners has PLAINTEXT twice, but each listener must have a name of its own",
        ),
        ({"listeners": "PLAINTEXT://h:99999"}, "listeners: 'h:99999' is no host:port"),
        ({"listeners": "PLAINTEXT://h:1,X://h:2"}, "listener.security.protocol.map has no entry for listener X"),
        ({"listeners": "PLAINTEXT://h:1"}, "controller.listener.names is 'CONTROLLER', but must be one of"),
        ({"listeners": "CONTROLLER://h:1"}, "listeners names no listener for clients"),
        ({"advertised.listeners": "Y://h:1"}, "advertised.listeners names Y, which listeners does not"),
        ({"controller.listener.names": None}, "controller.listener.names is not set"),
        (
            {"inter.broker.listener.name": "CONTROLLER"},
            "inter.broker.listener.name is 'CONTROLLER', but must be",
        ),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "has 'PLAINTEXT', but must have NAME:PROTOCOL"),
        (
            {"listener.security.protocol.map": "CONTROLLER:TLS"},
            "gives CONTROLLER the protocol TLS, but must give it one",
        ),
        ({"controller.quorum.voters": None}, "controller.quorum.voters is not set, but must be: id@host:port"),
        ({"controller.quorum.voters": "h:9093"}, "controller.quorum.voters has 'h:9093', but must have id@host:port"),
        (
            {"controller.quorum.voters": "x@h:9093"},
            "the id of one of controller.quorum.voters is 'x', but must be a whole number of at least 0",
        ),
        ({"controller.quorum.voters": "9" * 5000 + "@h:9093"}, "99', but must be a whole number of at least 0 and at"),
        ({"controller.quorum.voters": "1@h"}, "controller.quorum.voters: 'h' is no host:port"),
        ({"log.dirs": "/a,/b/,/b"}, "log.dirs names /b twice, but each directory must be there once"),
        ({"auto.create.topics.enable": "yes"}, "auto.create.topics.enable is 'yes', but must be true or false"),
        ({"replica.fetch.wait.max.ms": "40000"}, "must be at least replica.fetch.wait.max.ms, which is 40000"),
        (
            {
                "listeners": "PLAINTEXT://h:1,X://g:1",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,X:PLAINTEXT",
            },
            "listeners has PLAINTEXT and X at port 1, but each must have a port of its own",
        ),
        ({"process.roles": "broker"}, "node.id is 1, as of a voter, but a node that is no controller cannot vote"),
        (
            {"process.roles": "broker", "node.id": "7"},
            "listeners has CONTROLLER, but a node that is no controller has no such listener",
        ),
        ({"log.dirs": "/a\0b"}, "log.dirs is '/a\\x00b', but must be text without NUL"),
        ({"metadata.log.dir": "/a\ud800"}, "metadata.log.dir is '/a\\ud800', but must be text without NUL"),
        ({"controller.quorum.voters": "1@h\ud800:9"}, "but must be text without NUL"),
        ({"controller.quorum.voters": "1@a b:9"}, "'a b:9' is no host:port"),
        ({"log.retention.hours": "3000000000"}, "log.retention.hours is 3000000000, but must be at most 2147483647"),
        ({"log.roll.hours": "3000000000"}, "log.roll.hours is 3000000000, but must be at most 2147483647"),
        ({"log.retention.ms": "0"}, "log.retention.ms is 0, but must be -1 or at least 1"),
        ({"log.retention.minutes": "0"}, "log.retention.minutes is 0, but must be -1 or at least 1"),
        ({"log.segment.bytes": "few"}, "log.segment.bytes is 'few', but must be a whole number"),
        ({"default.replication.factor": "0"}, "default.replication.factor is '0', but must be a whole number of at l"),
    ],
)
def test_a_mistake_is_one_sentence_with_key_value_and_what_is_allowed(
    changes: dict[str, str | None], sentence: str
) -> None:
    properties = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    with pytest.raises(ConfigError) as refused:
        read_node_config(properties)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_root_directory_is_one_and_ipv4_and_ipv6_may_share_a_port() -> None:
    said = "PLAINTEXT://127.0.0.1:9,X://[::1]:9,CONTROLLER://h:8"
    protocols = "PLAINTEXT:PLAINTEXT,X:PLAINTEXT,CONTROLLER:PLAINTEXT"
    config = read_node_config({**GOOD, "log.dirs": "/", "listeners": said, "listener.security.protocol.map": protocols})
    assert (config.log_dir, config.metadata_dir) == ("/", "/")
    assert len(config.listeners) == 3


def test_a_topic_may_keep_nothing_where_its_broker_may_not() -> None:
    assert check_topic_settings({"retention.ms": "0"}, {})[RETENTION_MS] == 0


def test_without_a_map_of_protocols_the_controllers_listener_is_plain_text_and_no_other() -> None:
    said = {key: value for key, value in GOOD.items() if key != "listener.security.protocol.map"}
    assert [listener.name for listener in read_node_config(said).listeners] == ["PLAINTEXT", "CONTROLLER"]
    with pytest.raises(ConfigError, match="has no entry for listener X: add X:PLAINTEXT"):
        read_node_config({**said, "listeners": said["listeners"] + ",X://h:1"})
    with pytest.raises(ConfigError, match="has no entry for listener CONTROLLER: add CONTROLLER:PLAINTEXT"):
        read_node_config({**said, "listeners": said["listeners"] + ",SSL://h:1"})


def test_kafkas_own_keys_are_known_with_kafkas_defaults() -> None:
    """Those that the lesson changes, and a few besides, as Kafka 4.2 documents them."""
    defaults = {
        "broker.session.timeout.ms": 9000,
        "broker.heartbeat.interval.ms": 2000,
        "controller.quorum.fetch.timeout.ms": 2000,
        "controller.quorum.election.timeout.ms": 1000,
        "controller.quorum.election.backoff.max.ms": 1000,
        "controller.quorum.request.timeout.ms": 2000,
        "controller.quorum.retry.backoff.ms": 20,
        "controller.quorum.append.linger.ms": 25,
        "replica.lag.time.max.ms": 30000,
        "replica.fetch.wait.max.ms": 500,
        "replica.fetch.backoff.ms": 1000,
        "replica.socket.timeout.ms": 30000,
        "controller.socket.timeout.ms": 30000,
        "replica.high.watermark.checkpoint.interval.ms": 5000,
        "socket.request.max.bytes": 104857600,
        "num.partitions": 1,
        "default.replication.factor": 1,
        "metadata.max.idle.interval.ms": 500,
        "connections.max.idle.ms": 600000,
        "queued.max.requests": 500,
        "num.network.threads": 3,
        "num.io.threads": 8,
        "max.connections": 2147483647,
        "max.connections.per.ip": 2147483647,
        "max.connections.per.ip.overrides": "",
        "max.connection.creation.rate": 2147483647,
    }
    assert {key: NODE_CONFIG.keys[key].default for key in defaults} == defaults


def test_the_lesson_is_shorter_than_kafka_in_every_time_that_it_names() -> None:
    table = describe_timeouts({key: str(value) for key, value in LESSON.items()})
    assert {timeout.key for timeout in table} == set(LESSON)
    assert all(timeout.here < timeout.kafka for timeout in table)
    assert all(timeout.here == timeout.kafka for timeout in describe_timeouts({}))
    assert repr(table).splitlines()[0].split() == ["setting", "here", "Kafka", "meaning"]
    two = ["replica.socket.timeout.ms", "broker.session.timeout.ms"]
    assert [line.split()[0] for line in repr(table.only(*two)).splitlines()] == ["setting", *two]
    assert repr(table.only()).split() == ["setting", "here", "Kafka", "meaning"]
