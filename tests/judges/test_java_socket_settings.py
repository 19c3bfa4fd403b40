"""A client sees the same of Kafka's socket settings at Apache Kafka as in tests/cluster/test_socket_settings.py."""

from __future__ import annotations

import pytest

from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.socket_settings import IDS, OF_TWO_LISTENERS, SCENES, Scene, two_listeners

pytestmark = pytest.mark.limit(120)


@pytest.mark.parametrize(("properties", "scene", "seen"), SCENES, ids=IDS)
def test_a_client_of_kafka_sees_what_the_setting_says(properties: dict[str, str], scene: Scene, seen: str) -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with ApacheKafka(properties=properties, java_options=QUICK_START) as kafka:
        assert scene(kafka.bootstrap_servers) == seen


@pytest.mark.parametrize(("properties", "scene", "seen"), OF_TWO_LISTENERS)
def test_a_client_of_kafka_sees_the_limits_of_each_listener(
    properties: dict[str, str], scene: Scene, seen: tuple[str, str]
) -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    own, other, quorum = (f"127.0.0.1:{port}" for port in apache_kafka.free_ports(3))
    properties = properties | two_listeners(own, other, quorum)
    with ApacheKafka(properties=properties, java_options=QUICK_START):
        assert (scene(own), scene(other)) == seen
