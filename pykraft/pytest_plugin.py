"""A real broker for other people's tests: pytest finds these fixtures wherever pykraft is installed.

::

    def test_my_service(kafka, kafka_topic):
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce(kafka_topic, b"hello")

``kafka`` is a `pykraft.Cluster` of the test's own, ready in less than 0.2 s and gone afterwards; a node that died
during the test fails it. ``@pytest.mark.kafka(nodes=3)`` asks for another one: the arguments are those of `Cluster`.

A test waits for no more than it has to (`QUICK`): a group's first member does not wait for others, the controller
writes each record at once, and nothing is synced to the disk. A ``directory`` that you name is synced, since it
outlasts the test, and so are nodes in processes of their own. What remains of a small test with librdkafka is
librdkafka's own wait: 100 ms before a consumer asks for the first offset of a group that has committed none.

With ``kafka_scope = session`` (or module, ...) in pytest's own settings the tests share one, and have topics of their
own; with ``kafka_network = staged`` its nodes have Kafka's threads. ``kafka_topic`` is the name of a new topic;
``@pytest.mark.kafka_topic(partitions=3)`` says what it is like.

``kafka_secure`` is a cluster with TLS, for tests of a client's security settings::

    def test_my_service_shows_its_certificate(kafka_secure):
        settings = kafka_secure.client_settings("alice")  # ssl.keystore.location and the like

With ``@pytest.mark.kafka(security="SASL_SSL")`` its clients log in with a password over TLS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

Scope = Literal["session", "package", "module", "class", "function"]

SCOPES: tuple[Scope, ...] = ("session", "package", "module", "class", "function")
QUICK = {"group.initial.rebalance.delay.ms": 0, "controller.quorum.append.linger.ms": 0}
"""Settings of the nodes, unless the mark ``kafka`` has its own or asks for Kafka's timeouts."""
_LONGEST_NAME = 200  # Kafka allows 249; a number follows
_numbers = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "kafka_scope", "how long the fixture kafka keeps its cluster: function, ..., session", default="function"
    )
    parser.addini("kafka_network", "the threads of its nodes: fused (one each) or staged (Kafka's)", default="fused")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kafka(...): what the fixture kafka is like; the arguments of pykraft.Cluster")
    config.addinivalue_line("markers", "kafka_topic(...): what the fixture kafka_topic is like; those of create_topic")


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    wanted = config.getini("kafka_scope")
    for scope in SCOPES:
        if wanted == scope:
            return scope
    raise pytest.UsageError(f"kafka_scope is {wanted}, but must be one of {', '.join(SCOPES)}")


@pytest.fixture(scope=_scope)
def kafka(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster that runs; one node, if the mark ``kafka`` does not say otherwise."""
    with _cluster(request) as cluster:
        yield cluster


@pytest.fixture
def kafka_secure(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of the test's own whose listeners have TLS and ask for a certificate: `Cluster.client_settings` has
    one. The mark ``kafka`` counts here, too."""
    with _cluster(request, security="SSL") as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka: Cluster) -> str:
    """The name of a topic of the test's own."""
    name = f"{re.sub(r'[^a-zA-Z0-9._-]', '-', request.node.name)[:_LONGEST_NAME]}-{next(_numbers)}"
    kafka.create_topic(name, **_said(request, "kafka_topic"))
    return name


def _cluster(request: pytest.FixtureRequest, **more: object) -> Cluster:
    """The cluster that the mark ``kafka`` asks for, quick where the mark leaves it open."""
    from pykraft.cluster import Cluster  # only now: most tests need none
    from pykraft.storage.disk.unsynced import UnsyncedFileSystem

    network = request.config.getini("kafka_network")
    arguments = {"nodes": 1, "network": network, "internal_topics": True, **more, **_said(request, "kafka")}
    if arguments.get("mode", "threads") == "threads" and arguments.get("directory") is None:
        arguments.setdefault("filesystem", UnsyncedFileSystem())
    if arguments.get("timeouts", "lesson") == "lesson":
        arguments["properties"] = {**QUICK, **(arguments.get("properties") or {})}
    return Cluster(**arguments)


def _said(request: pytest.FixtureRequest, name: str) -> dict[str, Any]:
    mark = request.node.get_closest_marker(name)
    if mark is not None and mark.args:
        raise pytest.UsageError(f"the mark {name} takes its arguments by name, as in {name}(nodes=3)")
    return {} if mark is None else dict(mark.kwargs)
