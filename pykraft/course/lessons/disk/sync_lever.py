"""The first picture of notebook 04: records are appended to a file, and synced as often as the reader says.

At each move the same records are appended for a moment, once without a sync and once with one after so many records: on
this machine, in the folder that the reader names. What a sync costs is in no table: it is measured now.
"""

import os
import tempfile
import time
from pathlib import Path

from pykraft.course.kernel import folder_for_measurements
from pykraft.viz import Figure, bars

_RUN_S = 0.12


def draw_syncs(records_per_sync: int, record_bytes: int, folder: str) -> Figure:
    """Records a second, with and without a sync. ValueError if the folder is none that we may write to."""
    place = Path(folder).expanduser() if folder else folder_for_measurements()
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise ValueError(f"{folder} is no folder that we may write to: name another one, or none")
    with tempfile.TemporaryDirectory(prefix="syncs-", dir=place) as name:
        unsynced = appended_per_s(Path(name), record_bytes, 0)
        synced = appended_per_s(Path(name), record_bytes, records_per_sync)
    each = "each record" if records_per_sync == 1 else f"{records_per_sync:,} records"
    title = f"A sync for {each}: {synced:,.0f} records/s; without a sync {unsynced:,.0f}"
    note = f"Records of {record_bytes:,} bytes; a sync and its records take {1000 * records_per_sync / synced:,.2f} ms"
    return bars({"no sync": unsynced, f"a sync for {each}": synced}, title=title, note=note, unit="records/s")


def appended_per_s(folder: Path, record_bytes: int, records_per_sync: int) -> float:
    """Append for a moment, and sync after so many records; 0 for never."""
    record = bytes(record_bytes)
    done, started = 0, time.perf_counter()
    with (folder / "log").open("wb", buffering=0) as log:
        while (seconds := time.perf_counter() - started) < _RUN_S:
            for _ in range(records_per_sync or 100):
                log.write(record)
            if records_per_sync:
                os.fsync(log.fileno())
            done += records_per_sync or 100
    return done / seconds
