"""What lab 04 asks of the report of an experiment: its form, and that everything in it follows from its raw numbers.

Nothing here says what is to be found out. A claim that turns out wrong is as good a result as one that holds.
"""

import re
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

import pytest

from pykraft.course.labs.reports import CACHES, COUNTED, FIXED

FEWEST_RUNS = 5
UNITS = ("_bytes", "_kb", "_mb", "_s", "_ms", "_us", "_records", "_times", "_percent")
ROUNDED = 0.02  # how far a number in the report may be from the computed one
VERDICTS = ("HOLDS", "DOES NOT HOLD", "NOT MEASURABLE HERE")
TIMES = r"([\d.,]+) times"
ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|cf|vs|approx|resp|incl|etc|no|fig)\.(?=\s)", re.IGNORECASE)


def words(text):
    return len(re.findall(r"\w[\w'.-]*", text))


def number(text):
    """The number in a text such as "1,200 times"."""
    found = re.search(r"\d[\d,]*(?:\.\d+)?", text)
    assert found, f"there is no number in {text!r}"
    return float(found[0].replace(",", ""))


def moment(text):
    try:
        found = datetime.fromisoformat(text.strip("` "))
    except ValueError:
        raise AssertionError(f"{text!r} is no date and time such as 2026-03-14 15:09") from None
    assert ":" in text, f"{text!r} has no time of day, so it does not show what came first: write 2026-03-14 15:09"
    assert found.tzinfo is None, f"{text!r} names a time zone: write 2026-03-14 15:09, by the clock of the raw numbers"
    return found


def is_close(reported, computed):
    return abs(reported - computed) <= max(ROUNDED * abs(computed), 0.051)


def condition(impl):
    """From "at least 100 times": whether a factor fulfils it, and the number."""
    text = impl.field("4.1", "Holds if").strip("` .")
    found = re.fullmatch(rf"(at least|at most) {TIMES}", text)
    assert found, f"'Holds if' must say at least or at most so many times, and says {text!r}"
    limit = number(found[2])
    return (lambda factor: factor >= limit if found[1] == "at least" else factor <= limit), limit


def compared(impl):
    """The column, and the two values of it: the first is to be divided by the second."""
    text = impl.field("4.1", "Compared").strip("` .")
    found = re.fullmatch(r"(\w+) *= *(.+?) against (\w+) *= *(.+)", text)
    assert found, f"'Compared' must look like: order = in order against order = at random. It is {text!r}"
    assert found[1] == found[3], f"two columns are compared, {found[1]} and {found[3]}: only one may be varied"
    return found[1], (found[2], found[4])


def varied(impl):
    column, _, values = impl.field("4.2", "Varied").strip("` .").partition(":")
    return column.strip(), [value.strip() for value in values.split(",")]


def held(impl):
    parts = [part for part in impl.field("4.2", "Held").strip("` .").split(";") if part.strip()]
    return {name.strip(): value.strip() for name, _, value in (part.partition("=") for part in parts)}


def runs(impl):
    """The raw numbers, a dict for each run."""
    rows = impl.rows("4.3")
    assert rows, "below the line with the columns there is no run"
    missing = [name for name in FIXED if name not in rows[0]]
    assert not missing, f"the raw numbers have no column {missing[0]}"
    return rows


def rates(impl):
    """MB/s of each run, by the value of the column that is compared."""
    column, _ = compared(impl)
    found = {}
    for row in runs(impl):
        assert column in row, f"the raw numbers have no column {column!r}"
        seconds = number(row["seconds"])
        assert seconds > 0, f"a run of {row['seconds']} seconds"
        found.setdefault(row[column], []).append(number(row["bytes"]) / seconds / 1e6)
    return found


def factor_of(impl):
    _, (one, other) = compared(impl)
    found = rates(impl)
    for value in (one, other):
        assert value in found, f"{value!r} is compared, but was never measured: the runs are of {sorted(found)}"
    return median(found[one]) / median(found[other])


# --- 4.1 --------------------------------------------------------------------------------------------------------------


@pytest.mark.task("4.1", points=2)
def test_the_claim_is_one_sentence_with_the_number_that_decides(impl):
    """The claim is a single sentence, two values of one column are compared, and the number of "Holds if" is in it.
    Where the claim says "at least" or "at most" that many times, "Holds if" says the same."""
    claim = impl.field("4.1", "Claim")
    ends = re.findall(r"[.!?](?=\s+[\"'(]?[A-Z]|$)", ABBREVIATIONS.sub(" ", claim))
    assert len(ends) == 1 and claim.endswith("."), f"this is not one sentence: {claim!r}"
    _, limit = condition(impl)
    found = [number(text) for text in re.findall(r"\d[\d,]*(?:\.\d+)?", claim)]
    assert limit in found, f"the claim is decided by {limit:g} times, and does not say so: it cannot be refuted"
    condition_text = impl.field("4.1", "Holds if").strip("` .")
    for word, value in re.findall(rf"(at least|at most) {TIMES}", claim):
        assert number(value) != limit or condition_text.startswith(word), (
            f"the claim says {word} {value} times, and 'Holds if' says {condition_text}: one condition decides both"
        )
    column, (one, other) = compared(impl)
    assert one != other, f"{column} = {one} is compared with itself"


@pytest.mark.task("4.1", points=1)
def test_the_prediction_is_a_number_and_has_a_reason(impl):
    """The prediction says how many times, and the reason has at least twelve words."""
    told = impl.field("4.1", "Prediction").strip("` .")
    assert re.fullmatch(TIMES, told), f"the prediction must be a number of times, and is {told!r}"
    assert number(told) > 0, f"the prediction is {told}"
    because = impl.field("4.1", "Because")
    assert words(because) >= 12, f"the reason has {words(because)} words: say what you know about disks"


@pytest.mark.task("4.1", points=1)
def test_the_prediction_was_there_before_the_first_number(impl):
    """The moment under "Written", which has a date and a time of day, is before the first run, by no more than a
    month."""
    written = moment(impl.field("4.1", "Written"))
    first = min(moment(row["at"]) for row in runs(impl))
    assert written <= first, f"the prediction is of {written}, the first run of {first}: that is no prediction"
    assert first - written < timedelta(days=31), f"the prediction is of {written}, the first run of {first}"


# --- 4.2 --------------------------------------------------------------------------------------------------------------


@pytest.mark.task("4.2", points=2)
def test_one_thing_is_varied_and_everything_else_is_held(impl):
    """The values under "Varied" are those in the raw numbers; every other column of yours has one value, which is under
    "Held". All runs are cold, or all warm, unless the cache is what you vary."""
    column, values = varied(impl)
    told = held(impl)
    rows = runs(impl)
    assert column == compared(impl)[0], f"{column!r} is varied, and {compared(impl)[0]!r} is compared"
    assert set(values) == {row.get(column) for row in rows}, f"the design varies {column} over {sorted(values)}"
    caches = sorted({row["cache"] for row in rows})
    assert column == "cache" or len(caches) == 1, f"two things are varied: {column}, and the cache, {caches}"
    for name in set(rows[0]) - set(FIXED) - {column}:
        found = sorted({row[name] for row in rows})
        assert len(found) == 1, f"{name} is not held: it was {' and '.join(found)}"
        assert told.get(name) == found[0], f"'Held' does not say that {name} = {found[0]}"
    missing = sorted(set(told) - set(rows[0]))
    assert told and not missing, f"'Held' tells of {missing or 'nothing'}, which the raw numbers do not know"


@pytest.mark.task("4.2", points=2)
def test_each_value_was_measured_five_times_or_more_as_the_design_says(impl):
    """As many runs for each value as "Repeated" says, and at least five: one run has no spread."""
    wanted = number(impl.field("4.2", "Repeated"))
    assert wanted >= FEWEST_RUNS, f"{wanted:g} runs each: below {FEWEST_RUNS} a result cannot be told from chance"
    for value, found in rates(impl).items():
        assert len(found) == wanted, f"{value} was measured {len(found)} times, and the design says {wanted:g}"


@pytest.mark.task("4.2", points=1)
def test_the_values_take_turns(impl):
    """In the order of time, each round has every value once: else a busy minute would hit one of them only."""
    column, values = varied(impl)
    in_time = [row.get(column) for row in sorted(runs(impl), key=lambda row: moment(row["at"]))]
    for start in range(0, len(in_time), len(values)):
        now = in_time[start : start + len(values)]
        assert sorted(map(str, now)) == sorted(values), (
            f"these runs follow each other: {now}. The values do not take turns"
        )


# --- 4.3 --------------------------------------------------------------------------------------------------------------


@pytest.mark.task("4.3", points=1)
def test_the_raw_numbers_have_their_columns_and_their_units(impl):
    """The columns at, cache, bytes, seconds, read_bytes; a column of yours that holds numbers ends in its unit, such as
    block_bytes, or says what is counted, such as readers."""
    rows = runs(impl)
    assert len(rows) >= 2 * FEWEST_RUNS, f"{len(rows)} runs"
    for row in rows:
        assert row["cache"] in CACHES, f"cache is {row['cache']!r}: it must be one of {', '.join(CACHES)}"
        for name in COUNTED:
            assert re.fullmatch(r"\d+(\.\d+)?", row[name]), f"{name} is {row[name]!r}, which is no number"
    for name in set(rows[0]) - set(FIXED):
        if all(re.fullmatch(r"[\d.]+", row[name]) for row in rows):
            assert name.endswith((*UNITS, "s")), (
                f"column {name} holds numbers: its name must end in a unit ({', '.join(UNITS)}), or be the plural of"
                f" what is counted, as in readers"
            )


@pytest.mark.task("4.3", points=1)
def test_the_runs_follow_each_other_in_time(impl):
    """No run begins before the one above it has ended, and no line is there twice."""
    rows = runs(impl)
    for one, other in pairwise(rows):
        end = moment(one["at"]) + timedelta(seconds=number(one["seconds"]) - 0.002)
        assert moment(other["at"]) >= end, f"the run of {other['at']} begins before that of {one['at']} has ended"
    seconds = [row["seconds"] for row in rows]
    assert len(set(seconds)) > len(seconds) / 2, "most runs took exactly as long as another one: are they copies?"


@pytest.mark.task("4.3", points=2)
def test_the_kernel_has_counted_what_was_cold_and_what_was_warm(impl):
    """A cold run fetched at least nine tenths of its bytes from a device, a warm one at most a tenth. If the verdict is
    NOT MEASURABLE HERE, the counters must show that instead."""
    rows = runs(impl)
    is_told_so = "NOT MEASURABLE" in impl.text.partition("- Verdict:")[2].partition("\n")[0]
    for row in rows:
        moved, fetched = number(row["bytes"]), number(row["read_bytes"])
        assert moved > 0, f"the run of {row['at']} moved no bytes"
        if row["cache"] == "cold" and not is_told_so:
            assert fetched >= 0.9 * moved, f"the cold run of {row['at']} fetched {fetched:,.0f} of {moved:,.0f} bytes"
        if row["cache"] == "warm":
            assert fetched <= 0.1 * moved, f"the warm run of {row['at']} fetched {fetched:,.0f} of {moved:,.0f} bytes"
    if is_told_so:
        cold = [row for row in rows if row["cache"] == "cold"]
        assert any(number(row["read_bytes"]) < 0.5 * number(row["bytes"]) for row in cold), (
            "the verdict is NOT MEASURABLE HERE, but the cold runs were fetched from a device"
        )


# --- 4.4 --------------------------------------------------------------------------------------------------------------


@pytest.mark.task("4.4", points=2)
def test_the_table_is_what_the_raw_numbers_give(impl):
    """For each value the number of runs, and the median, lowest and highest MB/s, computed again from bytes and
    seconds."""
    table = {row["value"]: row for row in impl.table("4.4")}
    found = rates(impl)
    assert set(table) == set(found), f"the table has {sorted(table)}, the raw numbers have {sorted(found)}"
    for value, measured in found.items():
        computed = {"runs": len(measured)}
        computed |= {"median MB/s": median(measured), "lowest MB/s": min(measured), "highest MB/s": max(measured)}
        for name, right in computed.items():
            told = number(table[value].get(name, ""))
            assert is_close(told, right), f"{value}: the table says {name} {told:,g}, the raw numbers give {right:,.4g}"


@pytest.mark.task("4.4", points=2)
def test_the_factor_and_the_verdict_follow_from_the_medians(impl):
    """The factor is one median divided by the other; the verdict is what "Holds if" makes of it."""
    told, verdict = number(impl.field("4.4", "Factor")), impl.field("4.4", "Verdict").strip("` .*")
    factor = factor_of(impl)
    assert is_close(told, factor), f"the report says {told:g} times, the medians give {factor:.4g}"
    assert verdict in VERDICTS, f"the verdict is {verdict!r}: it must be {', '.join(VERDICTS)}"
    holds, limit = condition(impl)
    if verdict != VERDICTS[2]:
        right = VERDICTS[0] if holds(factor) else VERDICTS[1]
        assert verdict == right, f"the verdict is {verdict}; {factor:.4g} against {limit:g} times makes it {right}"


@pytest.mark.task("4.4", points=2)
def test_there_are_three_threats_each_with_what_was_done_about_it(impl):
    """At least three different threats; after a semicolon each says what was, or would have to be, done."""
    threats = impl.fields("4.4", "Threat")
    assert len(set(threats)) >= 3, f"{len(set(threats))} different threats, and three are wanted"
    for threat in threats:
        what, _, done = threat.partition(";")
        assert words(what) >= 5, f"this threat is too short to be understood: {threat!r}"
        assert words(done) >= 4, f"say after a semicolon what was done about this threat: {threat!r}"
