"""A client sees the same of Kafka's socket settings at Apache Kafka as in tests/cluster/test_socket_settings.py."""

from __future__ import annotations

import pytest

from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.socket_settings import IDS, SCENES, Scene

pytestmark = pytest.mark.limit(120)


@pytest.mark.parametrize(("properties", "scene", "seen"), SCENES, ids=IDS)
def test_a_client_of_kafka_sees_what_the_setting_says(properties: dict[str, str], scene: Scene, seen: str) -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    with ApacheKafka(properties=properties, java_options=QUICK_START) as kafka:
        assert scene(kafka.bootstrap_servers) == seen
