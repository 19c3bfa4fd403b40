"""The first picture of notebook 22: a greedy tenant without a quota, then with one, and what a modest tenant feels.

At each move a broker starts, and two tenants produce on real sockets (`two_tenants`): for a second without a quota, and
for two with the quota that you set. All four figures are measured on your machine: what each tenant gets, the greedy
tenant's throttle time, and the modest tenant's latency.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykraft.cluster import Cluster
from pykraft.course.lessons.quotas.two_tenants import (
    FREE_S,
    LIMITED_S,
    STEP_S,
    TWO_SAMPLES,
    Run,
    TwoTenants,
    in_steps,
)
from pykraft.viz import Figure
from pykraft.viz.measured.before_after_chart import Panel, before_and_after

_MEGABYTE = 1_000_000


class Runs(NamedTuple):
    """The same tenants, without the quota and with it."""

    free: Run
    held: Run


def draw_quota(quota_mb_per_s: int) -> Figure:
    """Both runs, in one picture."""
    return picture(measured(quota_mb_per_s))


def measured(quota_mb_per_s: float, free_s: float = FREE_S, held_s: float = LIMITED_S) -> Runs:
    """Start a broker, and let the tenants produce without the quota, and then with it."""
    with Cluster(nodes=1, properties=TWO_SAMPLES) as cluster:
        tenants = TwoTenants(cluster)
        return Runs(tenants.run(seconds=free_s), tenants.run(quota_mb_per_s, held_s))


def picture(runs: Runs) -> Figure:
    """A panel for each of the four figures."""
    free, held = runs
    assert held.quota is not None
    quota = f"{held.quota / _MEGABYTE:g} MB/s"
    panels = [
        _panel("greedy: MB/s", runs, _megabytes, sum, lambda run: f"{run.megabytes / run.seconds:.1f} MB/s"),
        _panel("greedy: throttle ms", runs, _throttle_ms, max, _longest_throttle),
        _panel("modest: records/s", runs, _records, sum, lambda run: f"{len(run.modest) / run.seconds:.0f} records/s"),
        _panel("modest: latency, ms", runs, _latency_ms, max, lambda run: f"median {run.median_ms:g} ms"),
    ]
    came_to = f"from {free.median_ms:g} to {held.median_ms:g} ms"
    title = f"With {quota} for the greedy tenant, the modest one's latency goes {came_to} in the median"
    note = "A bar is a tenth of a second. A quota allows an average: at first, what was saved up goes at full speed."
    return before_and_after(panels, ("no quota", f"producer_byte_rate of {quota}"), title=title, note=note)


Points = list[tuple[float, float]]


def _panel(
    name: str,
    runs: Runs,
    points_of: Callable[[Run], Points],
    joined: Callable[[Sequence[float]], float],
    said: Callable[[Run], str],
) -> Panel:
    before, after = ([value for _, value in in_steps(run.seconds, points_of(run), joined)] for run in runs)
    return Panel(name, before, after, (said(runs.free), said(runs.held)))


def _megabytes(run: Run) -> Points:
    return [(answer.at_s, run.request_bytes / STEP_S / _MEGABYTE) for answer in run.greedy]


def _throttle_ms(run: Run) -> Points:
    return [(answer.at_s, answer.throttle_time_ms) for answer in run.greedy]


def _records(run: Run) -> Points:
    return [(answer.at_s, 1 / STEP_S) for answer in run.modest]


def _latency_ms(run: Run) -> Points:
    return [(answer.at_s, answer.latency_ms) for answer in run.modest]


def _longest_throttle(run: Run) -> str:
    return f"up to {run.longest_throttle_ms:,} ms" if run.longest_throttle_ms else "none"
