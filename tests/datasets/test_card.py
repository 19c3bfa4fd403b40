"""The numbers of the data card, counted again: what is said of the tables' oddities is what they hold."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pytest

from pykraft import datasets
from pykraft.client.producing.partitioner import murmur2
from tests.harness.tree import ROOT

HOURS_OF_A_YEAR = 365 * 24


@pytest.fixture(scope="module")
def card() -> str:
    """The card in one line, so that a sentence may be looked for wherever its lines end."""
    return " ".join((ROOT / "datasets" / "README.md").read_text().split())


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    return datasets.table("flights").to_pandas()


@pytest.fixture(scope="module")
def planes() -> pd.DataFrame:
    return datasets.table("planes").to_pandas()


@pytest.fixture(scope="module")
def weather() -> pd.DataFrame:
    return datasets.table("weather").to_pandas()


@pytest.mark.parametrize("name", datasets.TABLES)
def test_the_files_have_the_rows_the_bytes_and_the_gaps_that_are_listed(card: str, name: str) -> None:
    size = (datasets.FOLDER / f"{name}.parquet").stat().st_size
    assert f"| `{name}.parquet` | {datasets.row_count(name):,} | {size:,} |" in card
    table = datasets.table(name)
    for column in table.column_names:
        assert f"`{column}`" in card
        gaps = table[column].null_count
        assert not gaps or f"{gaps:,}" in card, (name, column)


def test_partitions_get_unequal_loads(card: str) -> None:
    events = list(datasets.flights())
    routes = Counter(event.key for event in events)
    loads = Counter[int]()
    for key, count in routes.items():
        loads[(murmur2(key) & 0x7FFFFFFF) % 3] += count
    assert f"they get {loads[0]:,}, {loads[1]:,} and {loads[2]:,}." in card
    assert (len(routes), max(routes.values()), list(routes.values()).count(1)) == (224, 11_262, 5)
    assert "There are 224. The busiest has 11,262 flights, five have one each" in card
    sizes = [len(event.value) for event in events]
    assert f"{min(sizes)} to {max(sizes)} bytes, {sum(sizes) / 1e6:.0f} MB in all" in card


def test_times_are_odd_as_told(card: str, flights: pd.DataFrame) -> None:
    assert f"The last {(flights.time_hour.dt.year == 2014).sum()} flights of 2013 have a `time_hour` in 2014" in card
    midnights = [(flights[name] == 2400).sum() for name in ("dep_time", "arr_time", "sched_dep_time", "sched_arr_time")]
    assert midnights[2:] == [0, 0]
    assert f"{midnights[0]} times in `dep_time`, {midnights[1]} times in `arr_time`, never in the two" in card
    minutes = flights.sched_dep_time // 100 * 60 + flights.sched_dep_time % 100 + flights.dep_delay
    assert f"{(minutes > 24 * 60).sum():,} late flights left after midnight" in card
    assert f"The longest delay is {flights.dep_delay.max():,.0f} minutes" in card
    (early,) = flights[flights.sched_dep_time < 500].itertuples()
    assert (early.origin, early.dest, early.distance, early.month, early.day) == ("EWR", "LGA", 17, 7, 27)
    assert early.sched_dep_time == 106 and pd.isna(early.dep_time)


def test_flights_are_cancelled_and_diverted_as_told(card: str, flights: pd.DataFrame) -> None:
    is_cancelled, has_arrived = flights.dep_time.isna(), flights.arr_time.notna()
    nameless = flights.tailnum.isna()
    assert not (nameless & ~is_cancelled).any()
    assert f"are the {is_cancelled.sum():,} without `dep_time`; each of the {nameless.sum():,} without" in card
    diverted = has_arrived & flights.arr_delay.isna()
    assert diverted.equals(has_arrived & flights.air_time.isna())
    assert f"further {(~is_cancelled & ~has_arrived).sum()} left but have no arrival, and {diverted.sum()} arr" in card


def test_what_does_not_match_is_as_told(card: str, flights: pd.DataFrame, planes: pd.DataFrame) -> None:
    unknown = flights[flights.tailnum.notna() & ~flights.tailnum.isin(planes.tailnum)]
    assert f"{len(unknown):,} flights have a `tailnum` that planes lacks ({unknown.tailnum.nunique()} diff" in card
    assert f"{unknown.carrier.isin(['AA', 'MQ']).sum():,} of them fly for American (AA) or Envoy (MQ)" in card
    known = flights.tailnum.dropna()
    assert set(known[~known.str.startswith("N")]) == {"D942DN"}
    abroad = flights[~flights.dest.isin(datasets.table("airports")["faa"].to_pylist())]
    assert set(abroad.dest) == {"SJU", "BQN", "STT", "PSE"}
    assert f"{len(abroad):,} flights go there" in card
    distances = flights.groupby(["origin", "dest"]).distance.agg(["min", "max"])
    odd = distances[distances["min"] != distances["max"]]
    assert list(odd.index) == [("EWR", "EGE"), ("JFK", "EGE")] and set(odd["max"] - odd["min"]) == {1}
    old = flights[flights.tailnum == "N381AA"]
    assert set(old.carrier) == {"AA"} and planes[planes.tailnum == "N381AA"].year.item() == 1956
    assert f"a propeller plane of 1956, N381AA, flew {len(old)} times for American" in card


def test_the_weather_has_the_gaps_that_are_told(card: str, flights: pd.DataFrame, weather: pd.DataFrame) -> None:
    lacks = {name: HOURS_OF_A_YEAR - len(hours) for name, hours in weather.groupby("origin")}
    assert lacks["JFK"] == lacks["LGA"]
    assert f"EWR lacks {lacks['EWR']} hours of the year, JFK and LGA {lacks['JFK']} each" in card
    (storm,) = weather[weather.wind_speed > 100].itertuples()
    assert (storm.origin, storm.month, storm.day, storm.hour) == ("EWR", 2, 12, 3)
    assert f"A storm of {storm.wind_speed:,.0f} miles an hour" in card
    observed = set(zip(weather.origin, weather.time_hour, strict=True))
    blind = sum(moment not in observed for moment in zip(flights.origin, flights.time_hour, strict=True))
    assert f"{blind:,} flights find no weather" in card
