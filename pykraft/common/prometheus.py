r"""Metrics as the text that a Prometheus server scrapes, and back.

The names follow from Kafka's by a rule, the one that most users of Kafka have in their JMX exporter, so that dashboards
for Kafka work here::

    kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions
    kafka_server_replicamanager_underreplicatedpartitions

    kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=t
    kafka_server_brokertopicmetrics_bytesin_total{topic="t"}

    kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce
    kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}     and ..._sum, ..._count

Group, type and name in small letters with ``_`` between them and for every other character. A meter loses "PerSec", as
it only counts, and ends in ``_total``. A histogram is a summary: quantiles, ``_sum`` and ``_count``. Tags are labels.

Follows Prometheus' text format 0.0.4.
"""

import re
from collections.abc import Iterator
from math import isfinite, isnan
from typing import NamedTuple

from pykraft.common.core import Steps, finish
from pykraft.common.metrics import QUANTILES, Family, Histogram, Meter, Metrics, Tags

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ILLEGAL = re.compile(r"[^a-z0-9_]")
_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {"\\": r"\\", '"': r"\"", "\n": r"\n"}
_UNESCAPES = {escaped: plain for plain, escaped in _ESCAPES.items()}


def metric_name(family: Family) -> str:
    """The name of this family in Prometheus."""
    is_meter = any(isinstance(metric, Meter) for metric in family.metrics.values())
    name = family.name.removesuffix("PerSec") + "_total" if is_meter else family.name
    return _ILLEGAL.sub("_", "_".join((family.group, family.kind, name)).lower())


def exposition(metrics: Metrics) -> str:
    """The text of all metrics."""
    return finish(exposition_in_steps(metrics))


def exposition_in_steps(metrics: Metrics) -> Steps[str]:
    """The same, a family of metrics in a step: a node with thousands of partitions has much to read."""
    lines: list[str] = []
    for family in metrics.families():
        if family.metrics:
            name = metric_name(family)
            kind = {Meter: "counter", Histogram: "summary"}.get(type(next(iter(family.metrics.values()))), "gauge")
            lines.append(f"# HELP {name} {family.group}:type={family.kind},name={family.name}\n# TYPE {name} {kind}\n")
            for tags, metric in family.metrics.items():
                lines += _samples(name, tags, metric)
        yield
    return "".join(lines)


def _samples(name: str, tags: Tags, metric: Meter | Histogram | float) -> Iterator[str]:
    if isinstance(metric, Histogram):
        for quantile, value in zip(QUANTILES, metric.quantiles(), strict=True):
            yield f"{name}{_labels((*tags, ('quantile', str(quantile))))} {value:g}\n"
        yield f"{name}_sum{_labels(tags)} {metric.sum!r}\n"
        yield f"{name}_count{_labels(tags)} {metric.count}\n"
    else:
        value = metric.count if isinstance(metric, Meter) else metric
        yield f"{name}{_labels(tags)} {_number(value)}\n"


def _number(value: float) -> str:
    if isfinite(value):
        return str(int(value)) if value == int(value) else repr(value)
    return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"


def _labels(tags: Tags) -> str:
    if not tags:
        return ""
    parts = (f'{_ILLEGAL.sub("_", key.lower())}="{_escaped(value)}"' for key, value in tags)
    return "{" + ",".join(parts) + "}"


def _escaped(value: str) -> str:
    return "".join(_ESCAPES.get(char, char) for char in value)


class Sample(NamedTuple):
    """One line of the text."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    kind: str
    """counter, gauge or summary; empty if the text does not say."""


def parse(text: str) -> list[Sample]:
    """The samples of a text. ValueError names the line that is none."""
    kinds: dict[str, str] = {}
    samples = []
    for line in text.split("\n"):
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:4]
            kinds[name] = kind
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None:
            raise ValueError(f"this is no line of Prometheus' text format: {line!r}")
        name, labels, value = match.groups()
        found = tuple((key, _unescaped(escaped)) for key, escaped in _LABEL.findall(labels or ""))
        kind = kinds.get(name) or kinds.get(re.sub("_(sum|count)$", "", name), "")
        samples.append(Sample(name, found, float(value), kind))
    return samples


def _unescaped(value: str) -> str:
    return re.sub(r"\\.", lambda match: _UNESCAPES.get(match[0], match[0][1:]), value)
