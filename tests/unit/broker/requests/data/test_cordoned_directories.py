"""A broker says which of its log directories takes no new replicas, as its settings have it (KIP-1066)."""

from __future__ import annotations

import pytest

from pykraft.broker.settings.config import read_node_config
from pykraft.common.errors import ConfigError, ErrorCode
from pykraft.controller.features import NEW_CLUSTER
from pykraft.metadata.versions import IV_4_3_0_CORDONED_DIRECTORIES, METADATA_VERSION
from pykraft.protocol.messages.configs import IncrementalAlterConfigsRequest, ResourceType
from pykraft.protocol.messages.logs import DescribeLogDirsRequest
from tests.harness.lone_node import PROPERTIES, LoneNode

AT_4_3 = {**NEW_CLUSTER, METADATA_VERSION: IV_4_3_0_CORDONED_DIRECTORIES}


def is_cordoned(node: LoneNode) -> bool:
    (result,) = node.ask(DescribeLogDirsRequest()).results
    return bool(result.is_cordoned)


def change(node: LoneNode, value: str | None, broker: str = "1") -> ErrorCode:
    kind = IncrementalAlterConfigsRequest.Resource
    config = kind.Config(name="cordoned.log.dirs", config_operation=0 if value is not None else 1, value=value)
    resource = kind(resource_type=ResourceType.BROKER, resource_name=broker, configs=[config])
    answer = node.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    node.run(50)
    return ErrorCode.of(answer.responses[0].error_code)


def test_a_setting_cordons_the_log_directory_while_the_broker_runs() -> None:
    node = LoneNode(levels=AT_4_3)
    assert not is_cordoned(node)
    for value in ("*", "/data"):
        assert change(node, value) is ErrorCode.NONE
        assert is_cordoned(node), value
    assert change(node, "/elsewhere") is ErrorCode.INVALID_REQUEST
    assert change(node, "*,/data") is ErrorCode.INVALID_REQUEST
    assert change(node, "*", broker="") is ErrorCode.INVALID_REQUEST
    assert change(node, None) is ErrorCode.NONE
    assert not is_cordoned(node)


def test_below_the_level_that_knows_it_nothing_is_cordoned() -> None:
    assert not is_cordoned(LoneNode(cordoned_log_dirs="*"))
    assert is_cordoned(LoneNode(levels=AT_4_3, cordoned_log_dirs="*"))


def test_a_file_may_cordon_what_is_in_log_dirs_only() -> None:
    with pytest.raises(ConfigError, match=r"cordoned.log.dirs names /other, which is not in log.dirs: /data is"):
        read_node_config({**PROPERTIES, "log.dirs": "/data", "cordoned.log.dirs": "/other"})


def test_the_controller_hears_it_in_a_heartbeat() -> None:
    node = LoneNode(levels=AT_4_3, cordoned_log_dirs="*")
    node.run(5000)
    assert node.node.loader.image.brokers[1].is_cordoned
