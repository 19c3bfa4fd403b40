"""The settings of Java's clients, asked of the newest release: what `pykraft.client.without_effect` must know."""

from __future__ import annotations

from tests.harness.release_changes import table_lines
from tests.harness.tree import ROOT

RELEASE = "4.4.0"
RECORDED = ROOT / "tests" / "unit" / "client" / f"settings_of_kafka_{RELEASE}.txt"


def test_the_recorded_settings_are_those_of_kafka() -> None:
    words = [line.split(" ") for line in table_lines(RELEASE) if line.startswith("setting ")]
    found = [" ".join(each[1:4]) for each in words if each[1] in ("producer", "consumer", "admin")]
    assert found == RECORDED.read_text().splitlines()
