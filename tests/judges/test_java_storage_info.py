"""What Apache Kafka's tool says of log directories is what is recorded, on which the tests of ``storage info`` rest."""

from __future__ import annotations

import pytest

from tests.harness import apache_kafka
from tests.harness.apache_kafka import VERSION
from tests.harness.storage_info import asked, recorded


@pytest.mark.limit(240)
def test_what_was_recorded_is_what_kafka_says() -> None:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    assert asked(VERSION) == recorded()
