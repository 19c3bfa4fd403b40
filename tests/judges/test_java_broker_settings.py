"""The settings of Java's brokers and controllers, asked of the releases: what a node must know, and describe."""

from __future__ import annotations

import pytest

from pykraft.broker.settings.config import NODE_CONFIG
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.asking import BROKER, describe
from tests.harness.broker_settings import OWN, described
from tests.harness.connection import Connection
from tests.harness.release_changes import table_lines
from tests.harness.tree import ROOT

RELEASE = "4.4.0"
RECORDED = ROOT / "tests" / "unit" / "broker" / "settings" / f"described_by_kafka_{RELEASE}.txt"


@pytest.mark.parametrize("release", ["4.2.1", "4.3.1", RELEASE])
def test_a_node_knows_every_setting_of_the_release(release: str) -> None:
    words = [line.split(" ") for line in table_lines(release) if line.startswith("setting broker ")]
    assert len(words) > 300
    assert not [each[2] for each in words if each[2] not in NODE_CONFIG.keys]


def test_the_recorded_description_is_that_of_kafka() -> None:
    with (
        ApacheKafka(1, OWN, version=RELEASE, java_options=QUICK_START, heap="256m") as kafka,
        Connection(kafka.address(1)) as connection,
    ):
        answer = connection.ask(describe((BROKER, "1"), include_synonyms=True), 4)
    assert list(described(answer.results[0].configs)) == RECORDED.read_text().splitlines()
