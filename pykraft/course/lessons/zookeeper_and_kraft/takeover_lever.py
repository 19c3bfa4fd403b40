"""The first picture of notebook 16: what a new controller does once the crash is noticed, like with like.

At each move the active controller of a simulated cluster dies: pykraft's own code, on a network with this round trip.
Beside it is the model of a controller with ZooKeeper, on the same network. How long each waits until it notices the
crash is a setting of either, so both bars begin after that.
"""

from pykraft.course.lessons.zookeeper_and_kraft.controller_failover import ZooKeeperModel, fail_over
from pykraft.viz import Figure
from pykraft.viz.measured.phase_chart import phases


def draw_takeover(round_trip_ms: int, partitions: int, history: int) -> Figure:
    """Both takeovers, in parts; each history has an election of its own."""
    found = fail_over(partitions, history, round_trip_ms=round_trip_ms)
    model = ZooKeeperModel(round_trip_s=round_trip_ms / 1000)
    elected_ms = found.ms - found.noticed_ms
    reading_ms, sending_ms = 1000 * model.reading_s(partitions), 1000 * model.sending_s(partitions)
    rows = {
        "KRaft: simulated": [("elects, and commits one record", elected_ms)],
        "ZooKeeper: a model": [("reads from ZooKeeper", reading_ms), ("sends state to brokers", sending_ms)],
    }
    title = (
        f"In this history KRaft needs {elected_ms:.0f} ms; a controller with ZooKeeper {reading_ms + sending_ms:.0f} ms"
    )
    noticed = f"here that took {found.noticed_ms:.0f} ms"
    note = f"Partitions: {partitions:,}. Both bars begin when the crash is noticed; {noticed}"
    return phases(rows, unit="ms", title=title, note=note)
