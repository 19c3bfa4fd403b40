"""A broker of ours at a controller of Apache Kafka, and a quorum of both, where each connection asks for a login or a
certificate. With passwords, clients and brokers log in by SCRAM, and nodes log in to controllers by PLAIN. Both kinds
of nodes have rules of access, so that each node must be who it says."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pykraft import Admin, KafkaError, NewTopic
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.cli import main
from pykraft.client.administration.scram import ScramMechanism, UserScramCredentialUpsertion
from pykraft.common.settings.config import format_properties, parse_properties
from pykraft.runtime.process import NodeProcess
from pykraft.runtime.secure_files import SecureFiles, new_password
from tests.harness import apache_kafka
from tests.harness.apache_kafka import CLUSTER_ID, ApacheKafka, free_ports
from tests.harness.asking import PATIENT
from tests.harness.java_broker import credentials, secured_kafka
from tests.harness.secure_clients import (
    LIMIT_S,
    allow,
    end_offsets,
    leaders,
    of_librdkafka,
    read_with_librdkafka,
    write_with_librdkafka,
)
from tests.harness.waiting import wait_until
from tests.interop.test_java_snapshots import LOWERED

pytestmark = [pytest.mark.long, pytest.mark.limit(300)]

JAVA, OURS = 1, 2
BOTH = frozenset({JAVA, OURS})


class Pair:
    """Node 1 is Kafka's, broker and controller. Node 2 is ours: a broker, or a controller of the same quorum too."""

    def __init__(self, folder: pathlib.Path, protocol: str, roles: str, stack: ExitStack) -> None:
        self.files = SecureFiles(folder / "security", [JAVA, OURS], protocol)
        ports = free_ports(4)
        self.address = f"127.0.0.1:{ports[2]}"
        self._folder, self._stack = folder, stack
        voters = [f"{JAVA}@127.0.0.1:{ports[1]}"]
        listeners = [f"{protocol}://{self.address}"]
        if "controller" in roles:
            voters.append(f"{OURS}@127.0.0.1:{ports[3]}")
            listeners.append(f"CONTROLLER://127.0.0.1:{ports[3]}")
        shared = {
            **PATIENT,
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "controller.quorum.voters": ",".join(voters),
            "offsets.topic.num.partitions": "2",
        }
        self.java: ApacheKafka = stack.enter_context(
            secured_kafka(self.files, ports=ports[:2], more=shared, levels=LOWERED, starts=False)
        )
        own = {
            **self.files.node_properties(OURS),
            **shared,
            "process.roles": roles,
            "node.id": str(OURS),
            "listeners": ",".join(listeners),
            "advertised.listeners": listeners[0],
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": protocol,
            "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:{protocol}",
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
        }
        self._file = folder / "2.properties"
        self._file.write_text(format_properties(own))
        formatting = ["-t", CLUSTER_ID, "-c", str(self._file), *credentials(self.files)]
        assert main(["storage", "format", *formatting]) == 0

    def log(self) -> str:
        """What our node has said."""
        return (self._folder / "2.out").read_text()

    def forget_password(self) -> None:
        """Our node logs in to the controllers with another password than its own."""
        assert self.files.passwords is not None
        right, values = self.files.passwords[f"node-{OURS}"], parse_properties(self._file.read_text())
        login = "listener.name.controller.plain.sasl.jaas.config"
        values[login] = values[login].replace(f' password="{right}"', ' password="wrong"')
        self._file.write_text(format_properties(values))

    def start(self) -> None:
        self.ours = NodeProcess(OURS, self._file, self._folder / "2.out")
        self._stack.callback(self.ours.kill)
        self.java.restart(JAVA)

    def admin(self, name: str = "admin", node: int = OURS) -> Admin:
        address = self.address if node == OURS else self.java.address(JAVA)
        return Admin(**{**self.files.client_settings(name), "bootstrap.servers": address})


@pytest.fixture
def java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


@pytest.fixture(
    params=[
        ("SASL_PLAINTEXT", "broker"),
        ("SASL_SSL", "broker"),
        ("SSL", "broker"),
        ("SASL_SSL", "broker,controller"),
    ],
    ids=lambda each: "-".join(each).replace(",", "-"),
)
def pair(java: None, tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    with ExitStack() as stack:
        both = Pair(tmp_path, *request.param, stack)
        both.start()
        yield both


def add_user(pair: Pair, admin: Admin, name: str) -> None:
    """A user with a password, which our broker forwards to the controller."""
    if pair.files.passwords is None:
        return
    password = new_password()
    pair.files.passwords.keep(name, password)
    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_512, password.encode())]
    )


def test_our_broker_serves_at_a_controller_of_apache_kafka_and_comes_back(pair: Pair) -> None:
    with pair.admin() as admin:
        wait_until(lambda: {each.id for each in admin.describe_cluster().brokers} == BOTH, "both serve", LIMIT_S)
        admin.create_topics([NewTopic("both", replica_assignments={0: [JAVA, OURS], 1: [OURS, JAVA]})])
        led = {(0, JAVA, BOTH), (1, OURS, BOTH)}
        wait_until(lambda: leaders(admin, "both") == led, "each leads one", LIMIT_S)
        add_user(pair, admin, "eve")
        rules = ("allow eve ALL TOPIC both", "allow eve CREATE TOPIC eve...", "allow eve ALL GROUP g")
        allow(admin, *rules)
        with pair.admin(node=JAVA) as of_java:
            allow(of_java, *rules)  # it knows them, too
        eve = of_librdkafka(pair.files, pair.address, "eve")
        write_with_librdkafka(eve, "both", [b"%d" % number for number in range(50)], 2)
        assert end_offsets(eve, "both", 2) == [25, 25]
        assert len(read_with_librdkafka(eve, "both", "g", 50)) == 50
        for number in range(8):  # each time a client asks either broker, which forwards the request
            with pair.admin("eve") as forwarded:
                forwarded.create_topic(f"eves-{number}", 1, 1)
                with pytest.raises(KafkaError, match=r"(?i)authori[sz]ation"):
                    forwarded.create_topic(f"of-another-{number}", 1, 1)
        pair.java.kill(JAVA)
        pair.java.restart(JAVA)
        write_with_librdkafka(eve, "both", [b"%d" % number for number in range(50, 100)], 2)
        wait_until(lambda: end_offsets(eve, "both", 2) == [50, 50], "both lead or follow again", LIMIT_S)
        admin.create_topic("afterwards", 2, 2)
        wait_until(lambda: {each[2] for each in leaders(admin, "afterwards")} == {BOTH}, "both replicate", LIMIT_S)
    assert pair.ours.failure is None


@pytest.mark.usefixtures("java")
def test_our_broker_says_that_a_controller_of_apache_kafka_refuses_its_password(tmp_path: pathlib.Path) -> None:
    with ExitStack() as stack:
        pair = Pair(tmp_path, "SASL_SSL", "broker", stack)
        pair.forget_password()
        pair.start()
        wait_until(lambda: "Authentication failed" in pair.log(), "our node hears why", LIMIT_S)
        with pair.admin(node=JAVA) as admin:
            assert {each.id for each in admin.describe_cluster().brokers} == {JAVA}
