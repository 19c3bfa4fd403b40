"""Static quorums, and their upgrade to kraft.version 1, by Apache Kafka's own tools and with Apache Kafka as a voter.

The cluster is ours, and kafka-features.sh and kafka-metadata-quorum.sh raise and show the level. Then Apache Kafka
serves its directories. Or the quorum is a mixed one, a node of Kafka and two controllers of ours. A voter of either
kind leads it, and each kind tells the other what it is.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

import pytest

from pykraft import Admin, Cluster, FeatureUpdate
from pykraft.cli import main
from pykraft.common.errors import KafkaError
from pykraft.common.settings.config import format_properties
from pykraft.common.types import ZERO_UUID
from pykraft.runtime.process import NodeProcess
from tests.harness import apache_kafka
from tests.harness.apache_kafka import CLUSTER_ID, QUICK_START, ApacheKafka, free_ports
from tests.harness.asking import PATIENT
from tests.harness.kafka_tools import run_tools
from tests.harness.waiting import wait_until
from tests.interop.test_java_directories import adopt, apache, quorum_state, stop

pytestmark = [pytest.mark.limit(400), pytest.mark.long]

FEATURES = "org.apache.kafka.tools.FeatureCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
LEVEL = re.compile(r"Feature: kraft.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+Finalized\S+: (\d)")
RAISE = {"kraft.version": FeatureUpdate(1)}


@pytest.fixture(autouse=True, scope="module")
def needs_java() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)


def wait_until_all_support_it(admin: Admin) -> None:
    """Until each voter has told the leader that it supports level 1."""

    def is_allowed() -> bool:
        with suppress(KafkaError):
            admin.update_features(RAISE, validate_only=True)
            return True
        return False

    wait_until(is_allowed, "the leader has heard of all voters", 60)


def test_kafkas_tools_raise_the_level_of_our_quorum_whose_directories_kafka_then_serves(tmp_path: pathlib.Path) -> None:
    with Cluster(3, directory=tmp_path, features={"kraft.version": 0}, properties=PATIENT) as cluster:
        servers = ("--bootstrap-server", cluster.bootstrap_servers)
        with cluster.admin() as admin:
            admin.create_topic("ours", 1, 3)
            wait_until_all_support_it(admin)
        status = (QUORUM, (*servers, "describe", "--status"))
        levels = (FEATURES, (*servers, "describe"))
        told = run_tools(
            [
                *(status, levels),
                (FEATURES, (*servers, "upgrade", "--feature", "kraft.version=1")),
                *(status, levels),
                (FEATURES, (*servers, "downgrade", "--feature", "kraft.version=0")),
                (FEATURES, (*servers, "upgrade", "--feature", "kraft.version=1")),
            ]
        )
        before, at_zero, upgrade, after, at_one, downgrade, again = told
        assert '"directoryId"' not in before.out and '"id": 1' in before.out
        assert LEVEL.findall(at_zero.out) == ["0"]
        assert "kraft.version was upgraded to 1." in upgrade.out
        assert LEVEL.findall(at_one.out) == ["1"]
        assert after.out.count('"directoryId"') == 3
        assert "kraft.version" in downgrade.out + downgrade.complaints
        assert "was downgraded" not in downgrade.out
        assert "kraft.version was upgraded to 1." in again.out
    with apache(tmp_path, nodes=3) as kafka, Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        assert admin.describe_features().finalized_features["kraft.version"] == 1
        assert {voter.directory_id for voter in admin.describe_quorum().voters}.isdisjoint({ZERO_UUID})
        assert "ours" in admin.list_topics()
        assert quorum_state(tmp_path)["data_version"] == 1
        kafka.stop()
    with Cluster(3, directory=tmp_path, properties=PATIENT) as cluster, cluster.admin() as admin:
        assert admin.describe_features().finalized_features["kraft.version"] == 1


def test_a_quorum_that_kafka_has_upgraded_is_ours(tmp_path: pathlib.Path) -> None:
    """The level and the voters are in the middle of its log."""
    lowered = ("--feature", "share.version=0", "--feature", "streams.version=0")
    with ApacheKafka(java_options=QUICK_START, format_options=lowered) as kafka:
        servers = ("--bootstrap-server", kafka.bootstrap_servers)
        assert "upgraded to 1" in kafka.tool(FEATURES, *servers, "upgrade", "--feature", "kraft.version=1")
        stop(kafka)
        adopt(kafka, tmp_path)
    with Cluster(1, directory=tmp_path, properties=PATIENT) as cluster, cluster.admin() as admin:
        assert admin.describe_features().finalized_features["kraft.version"] == 1
        (voter,) = admin.describe_quorum().voters
        assert voter.directory_id != ZERO_UUID


# --- a mixed quorum ---------------------------------------------------------------------------------------------------

OURS = (2, 3)


class MixedQuorum(ApacheKafka):
    """Node 1 is Apache Kafka's, broker and controller; its static voters are itself and the controllers of ours."""

    def __init__(self, controllers: Mapping[int, str]) -> None:
        self._others = controllers
        lowered = ("--feature", "share.version=0", "--feature", "streams.version=0")
        super().__init__(1, PATIENT, heap="256m", java_options=QUICK_START, format_options=lowered, starts=False)

    def voters(self) -> str:
        addresses = {1: self.controller_addresses[0], **self._others}
        return ",".join(f"{node}@{address}" for node, address in addresses.items())

    def _quorum(self) -> dict[str, str]:
        return {"controller.quorum.voters": self.voters()}


@pytest.fixture
def mixed(tmp_path: pathlib.Path) -> Iterator[tuple[MixedQuorum, dict[int, NodeProcess]]]:
    addresses = dict(zip(OURS, (f"127.0.0.1:{port}" for port in free_ports(len(OURS))), strict=True))
    controllers: dict[int, NodeProcess] = {}
    with MixedQuorum(addresses) as kafka:
        try:
            for node, address in addresses.items():
                file = tmp_path / f"{node}.properties"
                values = {
                    **PATIENT,
                    "process.roles": "controller",
                    "node.id": str(node),
                    "listeners": f"CONTROLLER://{address}",
                    "controller.listener.names": "CONTROLLER",
                    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                    "controller.quorum.voters": kafka.voters(),
                    "log.dirs": str(tmp_path / str(node)),
                }
                file.write_text(format_properties(values))
                assert main(["storage", "format", "-t", CLUSTER_ID, "-c", str(file)]) == 0
                controllers[node] = NodeProcess(node, file, tmp_path / f"{node}.out")
            kafka.restart(1)
            yield kafka, controllers
        finally:
            for controller in controllers.values():
                controller.kill()


def leader(admin: Admin) -> int:
    """-1 while it is not known."""
    with suppress(KafkaError):
        return admin.describe_quorum().leader_id
    return -1


def is_made(admin: Admin, topic: str) -> bool:
    """A controller that loses its leadership may answer NOT_CONTROLLER to what is committed after all."""
    with suppress(KafkaError):
        admin.create_topic(topic, 1, 1)
    return topic in admin.list_topics()


def restart(controllers: dict[int, NodeProcess], node: int, folder: pathlib.Path) -> None:
    controllers[node].kill()
    controllers[node] = NodeProcess(node, folder / f"{node}.properties", folder / f"{node}.out")


@pytest.mark.parametrize("led_by", ["pykraft", "apache"])
def test_voters_of_both_kinds_tell_the_leader_what_they_are_and_get_the_level(
    mixed: tuple[MixedQuorum, dict[int, NodeProcess]], led_by: str, tmp_path: pathlib.Path
) -> None:
    kafka, controllers = mixed
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:

        def is_led() -> bool:
            """Whether a voter of that kind leads; if one of the other kind does, that one starts again."""
            found = leader(admin)
            if found in OURS and led_by == "apache":
                restart(controllers, found, tmp_path)
            elif found == 1 and led_by == "pykraft":
                kafka.kill(1)
                kafka.restart(1)
            return (found in OURS) if led_by == "pykraft" else found == 1

        wait_until(is_led, f"{led_by} leads", 120)
        assert {voter.directory_id for voter in admin.describe_quorum().voters} == {ZERO_UUID}
        wait_until_all_support_it(admin)
        admin.update_features(RAISE)
        assert is_led(), "the leader that was asked is still the leader"
        voters = admin.describe_quorum().voters
        assert [voter.replica_id for voter in voters] == [1, *OURS]
        assert len({voter.directory_id for voter in voters} - {ZERO_UUID}) == len(voters)
        wait_until(lambda: admin.describe_features().finalized_features.get("kraft.version") == 1, "the level", 30)
        for node in OURS:
            restart(controllers, node, tmp_path)
            wait_until(lambda: leader(admin) > 0, "a leader", 60)
        wait_until(lambda: is_made(admin, "after"), "a topic is made", 60)
        assert admin.describe_features().finalized_features["kraft.version"] == 1
