"""How long a cluster waits before it takes silence for death: Kafka's defaults, and shorter times for a lesson.

Kafka's times are made for data centres, where a wrong suspicion costs more than a few seconds without a leader. In a
lesson one looks on, so the same mechanisms run with shorter times here: nothing else differs.
"""

import html
from collections.abc import Mapping
from typing import Literal, NamedTuple

from pykraft.broker.settings.config import NODE_CONFIG

LESSON: Mapping[str, int] = {
    "broker.session.timeout.ms": 600,
    "broker.heartbeat.interval.ms": 100,
    "controller.quorum.fetch.timeout.ms": 500,
    "controller.quorum.election.timeout.ms": 300,
    "controller.quorum.election.backoff.max.ms": 200,
    "controller.quorum.request.timeout.ms": 500,
    "replica.lag.time.max.ms": 2000,
    "replica.fetch.wait.max.ms": 100,
    "replica.fetch.backoff.ms": 50,
    "replica.socket.timeout.ms": 1000,
    "controller.socket.timeout.ms": 1000,
    "group.min.session.timeout.ms": 500,
    "group.initial.rebalance.delay.ms": 200,
}
KAFKA: Mapping[str, int] = {}
TimeoutProfile = Literal["lesson", "kafka"]
PROFILES: Mapping[str, Mapping[str, int]] = {"lesson": LESSON, "kafka": KAFKA}


class Timeout(NamedTuple):
    """One setting: its value here, and Kafka's default; milliseconds."""

    key: str
    here: int
    kafka: int
    meaning: str


class Timeouts(list[Timeout]):
    """Several settings; reads as a table."""

    def only(self, *keys: str) -> "Timeouts":
        """Some of them, by their names and in that order; KeyError for one that is not there."""
        known = {timeout.key: timeout for timeout in self}
        return Timeouts(known[key] for key in keys)

    def __repr__(self) -> str:
        width = max((len(timeout.key) for timeout in self), default=0)
        rows = [f"{'setting':<{width}}  {'here':>9}  {'Kafka':>9}  meaning"]
        rows += [f"{t.key:<{width}}  {t.here:>6} ms  {t.kafka:>6} ms  {t.meaning}" for t in self]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        left, right = "<td style='text-align:left'>", "<td style='white-space:nowrap'>"
        rows = "".join(
            f"<tr>{left}<code>{t.key}</code></td>{right}{t.here:,} ms</td>{right}{t.kafka:,} ms</td>"
            f"{left}{html.escape(t.meaning)}</td></tr>"
            for t in self
        )
        titles = f"{left}setting</td>{right}here</td>{right}Kafka</td>{left}meaning</td>".replace("td", "th")
        return f"<table><tr>{titles}</tr>{rows}</table>"


def describe_timeouts(properties: Mapping[str, str]) -> Timeouts:
    """What holds, for a node with these properties, of the settings in which the profiles differ."""
    keys = [NODE_CONFIG.keys[name] for name in LESSON]
    here = {key.name: key.read(properties.get(key.name, str(key.default))) for key in keys}
    return Timeouts(Timeout(key.name, here[key.name], key.default, key.meaning) for key in keys)
