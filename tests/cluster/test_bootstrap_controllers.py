"""Controllers are asked without a broker in between: by `Admin`, and by commands."""

from __future__ import annotations

import re

import pytest

from pykraft import Admin, Cluster, ConfigResource, ConfigResourceType, KafkaError
from pykraft.cli import main

ALL_BROKERS = ConfigResource(ConfigResourceType.BROKER, "")


def test_controllers_answer_while_no_broker_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(1, controllers=1) as cluster:
        with cluster.admin() as admin:
            (listeners,) = admin.describe_quorum().endpoints.values()
        address = listeners[0].removeprefix("CONTROLLER://")
        brokers = cluster.bootstrap_servers
        lost = Admin(bootstrap_controllers=brokers, default_api_timeout_ms=300)
        with lost, pytest.raises(KafkaError, match=r"no controller has answered at .* \(a broker's listener;"):
            lost.describe_quorum()
        (broker,) = (number for number, node in cluster.describe().nodes.items() if "broker" in node.roles)
        cluster.kill(broker)
        with Admin(bootstrap_controllers=address) as admin:
            (controller,) = admin.describe_cluster().brokers
            assert f"{controller.host}:{controller.port}" == address
            assert admin.describe_quorum().leader_id == controller.id == admin.describe_cluster().controller_id
            admin.incremental_alter_configs({ALL_BROKERS: {"log.retention.ms": 60_000}})
            assert admin.describe_configs([ALL_BROKERS])[ALL_BROKERS]["log.retention.ms"].value == "60000"
        asked = ["--bootstrap-controller", address]
        for call in (
            ["cluster", "list-endpoints", *asked],
            ["features", *asked, "describe", "--node-id", str(controller.id)],
            ["configs", *asked, "--describe", "--broker-defaults"],
            ["reassign-partitions", *asked, "--list"],
        ):
            assert main(call) == 0, call
        printed = capsys.readouterr().out
        row = rf"{controller.id} +{controller.host} {controller.port} +null +controller"
        for line in (
            row,
            "Feature: metadata.version",
            r"  log\.retention\.ms=60000",
            "No partition reassignments found",
        ):
            assert re.search(f"^{line}", printed, re.MULTILINE), line
        assert main(["reassign-partitions", *asked, "--verify", "--reassignment-json-file", "x"]) == 1
        assert "--bootstrap-controller is for --list and --cancel, not for --verify" in capsys.readouterr().err
