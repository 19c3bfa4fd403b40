"""``metrics``: print the metrics of a node, by the names that Prometheus gets.

The node must have a ``pykraft.metrics.listener``. Without ``--interval`` each metric is a line, name and value. With it
the metrics are read twice, and of what only grows the second column says by how much in a second.

    python -m pykraft metrics --server 127.0.0.1:9404 --match requests_total --interval 5
"""

import argparse
import http.client
import re
import time

from pykraft.commands.common import CommandError, say
from pykraft.common.prometheus import Sample, parse
from pykraft.common.types import Endpoint

_LIMIT_S = 10
_GROWING = ("counter", "summary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server", required=True, metavar="[HOST:]PORT", help="the node's pykraft.metrics.listener")
    parser.add_argument("--match", default="", metavar="REGEX", help="only metrics whose line matches")
    parser.add_argument("--interval", type=float, metavar="SECONDS", help="read twice; show what grows per second")


def run(options: argparse.Namespace) -> int:
    """Print the metrics."""
    endpoint = _endpoint(options.server)
    try:
        wanted = re.compile(options.match)
    except re.error as error:
        raise CommandError(f"--match is {options.match!r}, which is no regular expression: {error}") from None
    if options.interval is not None and options.interval <= 0:
        raise CommandError(f"--interval is {options.interval:g}, but must be more than 0")
    began, samples = time.monotonic(), _read(endpoint)
    before: dict[str, float] | None = None
    if options.interval is not None:
        before = {_title(sample): sample.value for sample in samples}
        time.sleep(options.interval)
        samples = _read(endpoint)
    elapsed_s = time.monotonic() - began
    lines = [(_title(sample), _figures(sample, before, elapsed_s)) for sample in samples]
    shown = [(title, figures) for title, figures in lines if wanted.search(title)]
    if not shown:
        raise CommandError(f"no metric of {endpoint} matches {options.match!r}")
    width = max(len(title) for title, _ in shown)
    for title, figures in shown:
        say(f"{title:<{width}}  {figures}")
    return 0


def _endpoint(text: str) -> Endpoint:
    try:
        return Endpoint.parse(f"127.0.0.1:{text}" if text.isdecimal() else text)
    except ValueError:
        raise CommandError(f"--server is {text!r}, but must be host:port or a port of this machine") from None


def _read(endpoint: Endpoint) -> list[Sample]:
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=_LIMIT_S)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        text = response.read().decode()
        if response.status != http.client.OK:
            raise CommandError(f"{endpoint} answers {response.status} {response.reason}: it serves no metrics")
        return parse(text)
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or "the answer is no HTTP"
        raise CommandError(
            f"no metrics were read from {endpoint} ({why}): does the node have pykraft.metrics.listener={endpoint}?"
        ) from None
    except ValueError as error:  # also if it is no UTF-8
        raise CommandError(f"{endpoint} serves no metrics: {error}") from None
    finally:
        connection.close()


def _title(sample: Sample) -> str:
    labels = ",".join(f'{key}="{value}"' for key, value in sample.labels)
    return f"{sample.name}{{{labels}}}" if labels else sample.name


def _figures(sample: Sample, before: dict[str, float] | None, elapsed_s: float) -> str:
    value = f"{sample.value:.15g}"
    is_quantile = any(key == "quantile" for key, _ in sample.labels)
    if before is None or sample.kind not in _GROWING or is_quantile:
        return value
    return f"{value}  {(sample.value - before.get(_title(sample), 0)) / elapsed_s:.6g}/s"
