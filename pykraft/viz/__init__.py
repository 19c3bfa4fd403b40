"""Pictures of a cluster and of what was measured on it: static SVG first, with the same facts as text.

`board` draws a cluster. `play` plays a failure, and what you do to it. `bars`,
`heat_map`, `timeline`, `lines` and `points` draw numbers; `verdicts` draws claims that were put to the test; `explore`
draws a frame of the protocol; the others draw one mechanism each: batches, a consumer group, deliveries, keys and their
partitions, one record's way, tasks, a compacted log, files, pages, the way of a file's bytes to a socket, bytes. Each
returns a `Figure`, which a notebook shows as SVG where pictures can be shown, and as text where they cannot. The names
are looked up when they are used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykraft.viz.boards.cluster_board import board
    from pykraft.viz.clients.batch_chart import batches_over_time, log_orders
    from pykraft.viz.clients.delivery_chart import Step, exchange, tally
    from pykraft.viz.clients.fetch_chart import fetches_over_time
    from pykraft.viz.clients.hash_chart import hash_paths
    from pykraft.viz.clients.key_chart import key_order, key_paths
    from pykraft.viz.clients.record_chart import record_way
    from pykraft.viz.drawing.charts import bars, heat_map, timeline
    from pykraft.viz.drawing.figure import Figure
    from pykraft.viz.drawing.plots import lines, points
    from pykraft.viz.groups.group_drawing import group_map
    from pykraft.viz.groups.lag_chart import lag_over_time
    from pykraft.viz.groups.ownership_chart import ownership
    from pykraft.viz.logs.file_chart import file_strips
    from pykraft.viz.logs.image_chart import image_map
    from pykraft.viz.logs.log_strip import log_strips
    from pykraft.viz.logs.page_chart import page_map
    from pykraft.viz.measured.rights_chart import rights_table
    from pykraft.viz.measured.role_chart import roles_over_time
    from pykraft.viz.measured.task_chart import read_by_tasks
    from pykraft.viz.measured.verdict_chart import verdicts
    from pykraft.viz.player.player import play
    from pykraft.viz.wire.byte_path import BytePath, byte_paths
    from pykraft.viz.wire.frame_drawing import explore
    from pykraft.viz.wire.hex_dump import Field, hexdump
    from pykraft.viz.wire.stage_drawing import StageCounts, broker_stages

_HOMES = {
    "BytePath": "pykraft.viz.wire.byte_path",
    "Field": "pykraft.viz.wire.hex_dump",
    "Figure": "pykraft.viz.drawing.figure",
    "StageCounts": "pykraft.viz.wire.stage_drawing",
    "Step": "pykraft.viz.clients.delivery_chart",
    "bars": "pykraft.viz.drawing.charts",
    "batches_over_time": "pykraft.viz.clients.batch_chart",
    "board": "pykraft.viz.boards.cluster_board",
    "broker_stages": "pykraft.viz.wire.stage_drawing",
    "byte_paths": "pykraft.viz.wire.byte_path",
    "exchange": "pykraft.viz.clients.delivery_chart",
    "fetches_over_time": "pykraft.viz.clients.fetch_chart",
    "explore": "pykraft.viz.wire.frame_drawing",
    "file_strips": "pykraft.viz.logs.file_chart",
    "group_map": "pykraft.viz.groups.group_drawing",
    "hash_paths": "pykraft.viz.clients.hash_chart",
    "heat_map": "pykraft.viz.drawing.charts",
    "hexdump": "pykraft.viz.wire.hex_dump",
    "image_map": "pykraft.viz.logs.image_chart",
    "key_order": "pykraft.viz.clients.key_chart",
    "key_paths": "pykraft.viz.clients.key_chart",
    "lag_over_time": "pykraft.viz.groups.lag_chart",
    "lines": "pykraft.viz.drawing.plots",
    "log_orders": "pykraft.viz.clients.batch_chart",
    "log_strips": "pykraft.viz.logs.log_strip",
    "page_map": "pykraft.viz.logs.page_chart",
    "mutes_over_time": "pykraft.viz.clients.mute_chart",
    "ownership": "pykraft.viz.groups.ownership_chart",
    "play": "pykraft.viz.player.player",
    "points": "pykraft.viz.drawing.plots",
    "read_by_tasks": "pykraft.viz.measured.task_chart",
    "record_way": "pykraft.viz.clients.record_chart",
    "rights_table": "pykraft.viz.measured.rights_chart",
    "roles_over_time": "pykraft.viz.measured.role_chart",
    "tally": "pykraft.viz.clients.delivery_chart",
    "timeline": "pykraft.viz.drawing.charts",
    "verdicts": "pykraft.viz.measured.verdict_chart",
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
    "hash_paths",
    "heat_map",
    "hexdump",
    "image_map",
    "key_order",
    "key_paths",
    "lag_over_time",
    "lines",
    "log_orders",
    "log_strips",
    "mutes_over_time",
    "ownership",
    "page_map",
    "play",
    "points",
    "read_by_tasks",
    "record_way",
    "rights_table",
    "roles_over_time",
    "tally",
    "timeline",
    "verdicts",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module pykraft.viz has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
