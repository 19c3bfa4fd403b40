"""The derived sets: what Spark computed is computed here again, row by row in plain Python, and must be the same.

The script's own check, which needs Spark, is run once, in a long run: neither the script nor the files change often.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
import pytest

from pykraft import datasets
from tests.harness.tree import ROOT

CARIBBEAN = {"SJU", "BQN", "STT", "PSE"}
DAY = 24 * 60


def january(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = datasets.table(name).filter(pc.field("month") == 1).to_pylist()
    return rows


@cache
def flights() -> list[dict[str, Any]]:
    return january("flights")


@cache
def zones() -> dict[str, int]:
    known = {row["faa"]: row["tz"] for row in datasets.table("airports", ["faa", "tz"]).to_pylist()}
    return {**known, **dict.fromkeys(CARIBBEAN, -4)}


def key(flight: dict[str, Any]) -> str:
    return f"{flight['carrier']}{flight['flight']} {flight['year']}-{flight['month']:02}-{flight['day']:02}"


def scheduled(flight: dict[str, Any]) -> datetime:
    hour: datetime = flight["time_hour"]
    return hour + timedelta(minutes=flight["minute"])


def later(time: datetime, minutes: int) -> datetime:
    return time + timedelta(minutes=minutes)


def block_minutes(flight: dict[str, Any]) -> int:
    """From gate to gate on the timetable."""
    leaves, arrives = (flight[name] // 100 * 60 + flight[name] % 100 for name in ("sched_dep_time", "sched_arr_time"))
    return int((arrives - leaves - 60 * (zones()[flight["dest"]] + 5)) % DAY)


def changes(flight: dict[str, Any]) -> Iterator[tuple[datetime, str, int | None]]:
    yield datetime(flight["year"], flight["month"], flight["day"], 5, tzinfo=UTC), "scheduled", None
    if flight["dep_time"] is None:
        yield scheduled(flight), "cancelled", None
        return
    yield later(scheduled(flight), flight["dep_delay"]), "departed", flight["dep_delay"]
    if flight["arr_delay"] is not None:
        landing = later(scheduled(flight), block_minutes(flight) + flight["arr_delay"])
        yield landing, "landed", flight["arr_delay"]


def in_words(minutes: int) -> str:
    return "on time" if not minutes else f"{abs(minutes)} min {'late' if minutes > 0 else 'early'}"


def departure_line(flight: dict[str, Any]) -> str:
    name = f"flight {flight['carrier']}{flight['flight']} to {flight['dest']}"
    if flight["dep_time"] is None:
        time, level, text = scheduled(flight), "WARN", f"{name} is cancelled"
    else:
        delay = flight["dep_delay"]
        time, level = later(scheduled(flight), delay), "WARN" if delay >= 60 else "INFO"
        text = f"{name} left {in_words(delay)}, aircraft {flight['tailnum']}"
    return f"{time:%Y-%m-%dT%H:%M:%SZ} {flight['origin']} {level} departures: {text}"


def test_each_change_of_a_status_is_what_plain_python_makes_of_the_source() -> None:
    wanted = {
        (key(flight), time, status, flight["origin"], flight["dest"], scheduled(flight), delay)
        for flight in flights()
        for time, status, delay in changes(flight)
    }
    found = [tuple(row.values()) for row in datasets.table("flight_status").to_pylist()]
    assert len(found) == len(wanted) == datasets.row_count("flight_status") == 80_406
    assert set(found) == wanted


def test_the_data_card_counts_what_there_is() -> None:
    card = (ROOT / "datasets" / "README.md").read_text()
    counted = Counter(datasets.table("flight_status")["status"].to_pylist())
    for status, count in counted.items():
        assert re.search(rf"^\| `{status}` \| {count:,} \|", card, re.MULTILINE), (status, count)
    for name in datasets.DERIVED:
        size = (datasets.DERIVED_FOLDER / f"{name}.parquet").stat().st_size
        assert f"| `{name}.parquet` | {datasets.row_count(name):,} | {size:,} |" in card
    assert (
        f"{len({row['flight'] for row in datasets.table('flight_status', ['flight']).to_pylist()}):,} different" in card
    )


def test_between_departure_and_landing_lies_the_time_in_the_air_and_some_on_the_ground() -> None:
    """The time in the air took no part in deriving the instants."""
    in_the_air = {key(flight): flight["air_time"] for flight in flights()}
    times: dict[str, dict[str, datetime]] = {"departed": {}, "landed": {}, "scheduled": {}, "cancelled": {}}
    for row in datasets.table("flight_status").to_pylist():
        times[row["status"]][row["flight"]] = row["time"]
    on_the_ground = [
        (landing - times["departed"][flight]).total_seconds() / 60 - in_the_air[flight]
        for flight, landing in times["landed"].items()
    ]
    assert len(on_the_ground) == 26_398
    assert (min(on_the_ground), max(on_the_ground)) == (7, 156)


def test_updates_come_in_time_order_and_each_flights_own_in_the_order_of_its_day() -> None:
    events = list(datasets.flight_statuses())
    order = {"scheduled": 0, "departed": 1, "cancelled": 1, "landed": 2}
    assert all(a.timestamp_ms <= b.timestamp_ms for a, b in pairwise(events))
    seen: dict[bytes, int] = {}
    for event in events:
        value = json.loads(event.value)
        assert value["flight"].encode() == event.key
        assert seen.get(event.key, -1) < order[value["status"]]
        seen[event.key] = order[value["status"]]
    assert len(seen) == 27_004


def test_a_status_is_one_json_object() -> None:
    events = {event.key: event for event in datasets.flight_statuses()}  # the last of each key stays
    assert json.loads(events[b"UA1545 2013-01-01"].value) == {
        "flight": "UA1545 2013-01-01",
        "status": "landed",
        "origin": "EWR",
        "dest": "IAH",
        "scheduled": "2013-01-01T10:15:00Z",
        "delay": 11,
        "time": "2013-01-01T14:30:00Z",
    }
    assert events[b"UA1545 2013-01-01"].timestamp_ms == 1_357_050_600_000


def test_each_line_is_what_plain_python_makes_of_the_source() -> None:
    lines = [event.value.decode() for event in datasets.operations()]
    departures = [line for line in lines if " departures: " in line]
    assert Counter(departures) == Counter(map(departure_line, flights()))
    weather = {line.split(" weather: ")[0].rsplit(" ", 1)[0] for line in lines if " weather: " in line}
    hours = january("weather")
    assert weather == {f"{row['time_hour']:%Y-%m-%dT%H:%M:%SZ} {row['origin']}" for row in hours}
    assert len(lines) == len(departures) + len(hours) == datasets.row_count("operations")


def test_the_weather_of_a_line_is_the_sources_rounded() -> None:
    rows = {(f"{row['time_hour']:%Y-%m-%dT%H:%M:%SZ}", row["origin"]): row for row in january("weather")}
    form = re.compile(r"(\S+) (\w+) (INFO|WARN) weather: (-?\d+) F, wind (\d+) mph, visibility ([\d.]+) miles(.*)")
    for event in datasets.operations():
        match = form.fullmatch(event.value.decode())
        if match is None:
            assert b" departures: " in event.value, event.value
            continue
        time, airport, level, degrees, wind, visibility, gust = match.groups()
        row = rows[time, airport]
        assert abs(float(degrees) - row["temp"]) <= 0.5001 and abs(float(wind) - row["wind_speed"]) <= 0.5001
        assert abs(float(visibility) - row["visib"]) <= 0.0501
        assert bool(gust) == (row["wind_gust"] is not None)
        assert (level == "WARN") == (row["visib"] < 1 or (row["wind_gust"] or 0) >= 40)


def test_lines_come_in_time_order_with_their_airport_as_key() -> None:
    events = list(datasets.operations())
    assert all(a.timestamp_ms <= b.timestamp_ms for a, b in pairwise(events))
    assert {event.key for event in events} == {b"EWR", b"JFK", b"LGA"}
    for event in events[::97]:
        time, airport = event.value.decode().split()[:2]
        assert airport.encode() == event.key
        assert datetime.fromisoformat(time).timestamp() * 1000 == event.timestamp_ms


def test_a_limit_is_kept_and_a_wrong_one_refused() -> None:
    assert [
        len(list(events(limit=n))) for events in (datasets.operations, datasets.flight_statuses) for n in (0, 3)
    ] == [
        0,
        3,
        0,
        3,
    ]
    with pytest.raises(ValueError, match=r"operations\(limit=-1\): the limit must be 0 or more"):
        datasets.operations(-1)


def test_a_missing_file_is_told_at_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "DERIVED_FOLDER", tmp_path)
    with pytest.raises(datasets.DatasetNotFoundError, match=r"python datasets/derive\.py"):
        datasets.operations()


# --- the jobs ---------------------------------------------------------------------------------------------------------


def load_derive_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("datasets_derive", ROOT / "datasets" / "derive.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_spark_computes_what_is_committed_and_notices_when_it_does_not(tmp_path: Path) -> None:
    """One file is as it was committed, in the other one row is missing."""
    whole, cut = (parquet.read_table(datasets.DERIVED_FOLDER / f"{name}.parquet") for name in datasets.DERIVED)
    parquet.write_table(whole, tmp_path / "flight_status.parquet")
    parquet.write_table(cut.slice(1), tmp_path / "operations.parquet")
    command = [sys.executable, "datasets/derive.py", "--check", "--target", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=110)
    assert done.returncode == 1, done.stderr
    first, second = done.stdout.splitlines()
    assert first.endswith("as computed") and second.endswith("not what is computed now")


def test_a_set_is_written_as_a_whole(tmp_path: Path) -> None:
    script = load_derive_script()
    table = pa.table({"a": [1, 2]})
    script.write(table, tmp_path / "derived" / "a.parquet")
    assert [path.name for path in (tmp_path / "derived").iterdir()] == ["a.parquet"]
    assert parquet.read_table(tmp_path / "derived" / "a.parquet").equals(table)
