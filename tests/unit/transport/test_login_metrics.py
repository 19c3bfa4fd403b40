"""Logins and failed ones under Kafka's names, by listener and network processor."""

from __future__ import annotations

import pathlib
import re

from pykraft.common.metrics import Metrics
from pykraft.common.prometheus import exposition
from pykraft.transport.login_metrics import LoginMetrics, tell_logins

NAMES = [f"{how}-authentication-{figure}" for how in ("successful", "failed") for figure in ("total", "rate")]


def test_outcomes_are_counted_by_listener_and_their_rates_are_of_the_last_minute() -> None:
    now = [0]
    logins, metrics = LoginMetrics(lambda: now[0]), Metrics()
    tell_logins(metrics, lambda: [("SASL_SSL", "0", logins), ("SSL", "1", logins)])
    for second in range(30):
        now[0] = 1000 * second
        logins.count("SASL_SSL", True)
        logins.count("SASL_SSL", second % 3 == 0)
    shown = {(name, tags): value for _, name, tags, value in rows(metrics)}
    assert [shown[name, "SASL_SSL"] for name in NAMES] == [40, 40 / 59, 20, 20 / 58]
    assert [shown[name, "SSL"] for name in NAMES] == [0, 0, 0, 0], "a listener without any is shown, too"
    now[0] += 61_000
    assert logins.per_second("SASL_SSL", True) == 0
    text = 'kafka_server_socket_server_metrics_failed_authentication_total{listener="SASL_SSL",networkprocessor="0"} 20'
    assert text in exposition(metrics)


def rows(metrics: Metrics) -> list[tuple[str, str, str, float]]:
    return [
        (family.kind, family.name, dict(tags)["listener"], float(value))  # type: ignore[arg-type]
        for family in metrics.families()
        for tags, value in family.metrics.items()
    ]


def test_the_names_are_those_of_kafka() -> None:
    golden = pathlib.Path(__file__).parents[2] / "golden" / "kafka-mbeans.txt"
    known = re.findall(r"type=socket-server-metrics,name=(\S+) by listener,networkProcessor", golden.read_text())
    assert set(NAMES) <= set(known)
