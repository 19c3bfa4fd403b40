"""Pictures of a cluster and of what was measured on it: static SVG first, with the same facts as text.

`board` draws a cluster, and `board.live` one with buttons; `bars`, `heat_map`, `timeline`, `lines` and `points` draw
numbers; `verdicts` draws claims that were put to the test; `explore` draws a frame of the protocol; the others draw one
mechanism each: batches, a consumer group, deliveries, keys and their partitions, one record's way, tasks, a compacted
log, files, pages, the way of a file's bytes to a socket, bytes. Each returns a `Figure`, which a notebook shows as SVG
where pictures can be shown, and as text where they cannot. The names are looked up when they are used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykraft.viz.batch_chart import batches_over_time, log_orders
    from pykraft.viz.byte_path import BytePath, byte_paths
    from pykraft.viz.charts import bars, heat_map, timeline
    from pykraft.viz.cluster_board import board
    from pykraft.viz.delivery_chart import Step, exchange, tally
    from pykraft.viz.fetch_chart import fetches_over_time
    from pykraft.viz.figure import Figure
    from pykraft.viz.file_chart import file_strips
    from pykraft.viz.frame_drawing import explore
    from pykraft.viz.group_drawing import group_map
    from pykraft.viz.hex_dump import Field, hexdump
    from pykraft.viz.image_chart import image_map
    from pykraft.viz.key_chart import key_order, key_paths
    from pykraft.viz.lag_chart import lag_over_time
    from pykraft.viz.log_strip import log_strips
    from pykraft.viz.ownership_chart import ownership
    from pykraft.viz.page_chart import page_map
    from pykraft.viz.plots import lines, points
    from pykraft.viz.record_chart import record_way
    from pykraft.viz.role_chart import roles_over_time
    from pykraft.viz.stage_drawing import StageCounts, broker_stages
    from pykraft.viz.task_chart import read_by_tasks
    from pykraft.viz.verdict_chart import verdicts

_HOMES = {
    "BytePath": "pykraft.viz.byte_path",
    "Field": "pykraft.viz.hex_dump",
    "Figure": "pykraft.viz.figure",
    "StageCounts": "pykraft.viz.stage_drawing",
    "Step": "pykraft.viz.delivery_chart",
    "bars": "pykraft.viz.charts",
    "batches_over_time": "pykraft.viz.batch_chart",
    "board": "pykraft.viz.cluster_board",
    "broker_stages": "pykraft.viz.stage_drawing",
    "byte_paths": "pykraft.viz.byte_path",
    "exchange": "pykraft.viz.delivery_chart",
    "fetches_over_time": "pykraft.viz.fetch_chart",
    "explore": "pykraft.viz.frame_drawing",
    "file_strips": "pykraft.viz.file_chart",
    "group_map": "pykraft.viz.group_drawing",
    "heat_map": "pykraft.viz.charts",
    "hexdump": "pykraft.viz.hex_dump",
    "image_map": "pykraft.viz.image_chart",
    "key_order": "pykraft.viz.key_chart",
    "key_paths": "pykraft.viz.key_chart",
    "lag_over_time": "pykraft.viz.lag_chart",
    "lines": "pykraft.viz.plots",
    "log_orders": "pykraft.viz.batch_chart",
    "log_strips": "pykraft.viz.log_strip",
    "page_map": "pykraft.viz.page_chart",
    "ownership": "pykraft.viz.ownership_chart",
    "points": "pykraft.viz.plots",
    "read_by_tasks": "pykraft.viz.task_chart",
    "record_way": "pykraft.viz.record_chart",
    "roles_over_time": "pykraft.viz.role_chart",
    "tally": "pykraft.viz.delivery_chart",
    "timeline": "pykraft.viz.charts",
    "verdicts": "pykraft.viz.verdict_chart",
}

__all__ = [
    "BytePath",
    "Field",
    "Figure",
    "StageCounts",
    "Step",
    "bars",
    "batches_over_time",
    "board",
    "broker_stages",
    "byte_paths",
    "exchange",
    "explore",
    "fetches_over_time",
    "file_strips",
    "group_map",
    "heat_map",
    "hexdump",
    "image_map",
    "key_order",
    "key_paths",
    "lag_over_time",
    "lines",
    "log_orders",
    "log_strips",
    "ownership",
    "page_map",
    "points",
    "read_by_tasks",
    "record_way",
    "roles_over_time",
    "tally",
    "timeline",
    "verdicts",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module pykraft.viz has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
