"""`make bench`: measures, part by part, prints the rows with their targets, and writes them into build/bench.json.

    python -m tests.bench                     all parts
    python -m tests.bench silence start       only these
    python -m tests.bench spark --spark-records 2000000

A target that is missed is said, and is no failure: what a shared machine reached today proves nothing. A part that
breaks is one; the other parts run all the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence

import pyspark

from pykraft.course.machine import Machine
from tests.bench import (
    authorizer,
    controllers,
    fairness,
    group_memory,
    groups,
    idle_follower,
    librdkafka,
    many_partitions,
    metadata,
    reassignment,
    replication,
    silence,
    small_requests,
    spark_replay,
    spark_streams,
    start,
    storage,
    tls,
    transactions,
)
from tests.bench.rows import Row, load_average, table
from tests.bench.sides import APACHE, why_without_apache
from tests.harness.tree import ROOT

RESULT = ROOT / "build" / "bench.json"
RATIO_TO_SPARKS_OWN = 2.0


def replay(records: int) -> list[Row]:
    """The rows of `spark_replay`, with their target."""
    rows = []
    for row in spark_replay.measure(records):
        has_target = row.peer == spark_replay.SPARKS_OWN
        rows.append(
            Row(
                row.name,
                row.unit,
                row.ours,
                row.peer,
                row.theirs,
                how=f"best of {spark_replay.ROUNDS}",
                target=f"ratio >= {RATIO_TO_SPARKS_OWN:g}" if has_target else "",
                is_met=None if row.ratio is None or not has_target else row.ratio >= RATIO_TO_SPARKS_OWN,
                note=f"{row.cpu}; Spark {pyspark.__version__}, {records:,} rows",
            )
        )
    if why_without_apache():
        rows += [
            Row(
                spark_replay.row_name(question, value_bytes, "Apache Kafka"),
                spark_replay.UNIT,
                None,
                peer,
                None,
                note=why_without_apache(),
            )
            for value_bytes in spark_replay.VALUE_BYTES
            for question in spark_replay.QUESTIONS
            for peer in (spark_replay.SPARKS_OWN, spark_replay.PARQUET)
        ]
    return rows


PARTS: dict[str, Callable[[], list[Row]]] = {
    "start": start.measure,
    "silence": silence.measure,
    "replication": replication.measure,
    "reassignment": reassignment.measure,
    "librdkafka": librdkafka.measure,
    "tls": tls.measure,
    "small_requests": small_requests.measure,
    "authorizer": authorizer.measure,
    "fairness": fairness.measure,
    "storage": storage.measure,
    "partitions": many_partitions.measure,
    "controllers": controllers.measure,
    "metadata": metadata.measure,
    "idle_follower": idle_follower.measure,
    "groups": groups.measure,
    "group_memory": group_memory.measure,
    "transactions": transactions.measure,
    "spark_streams": spark_streams.measure,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measures pykraft beside its peers.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these of: {', '.join(PARTS)}, spark")
    parser.add_argument(
        "--spark-records",
        type=int,
        default=spark_replay.RECORDS,
        metavar="N",
        help=f"rows of 100 bytes for the part spark; {spark_replay.RECORDS:,} out of the box",
    )
    options = parser.parse_args(arguments)
    parts = {**PARTS, "spark": lambda: replay(options.spark_records)}
    chosen = options.parts or list(parts)
    unknown = [name for name in chosen if name not in parts]
    if unknown:
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(parts)}")
    machine = Machine.here()
    say(repr(machine))
    say(why_without_apache() or f"beside {APACHE}")
    results = []
    broken = []
    for name in chosen:
        began = time.monotonic()
        say(f"\n--- {name}, load average {load_average()} before")
        try:
            rows = parts[name]()
        except Exception:
            broken.append(name)
            say(traceback.format_exc())
            continue
        say(table(rows))
        say(f"{time.monotonic() - began:.0f} s, load average {load_average()} after")
        results += [{"part": name, **row.as_json()} for row in rows]
        write(machine, results, broken)
    write(machine, results, broken)
    judge(results)
    say(f"written to {RESULT.relative_to(ROOT)}" + (f"; BROKEN: {', '.join(broken)}" if broken else ""))
    return 1 if broken else 0


def write(machine: Machine, results: Sequence[dict[str, object]], broken: Sequence[str]) -> None:
    """All rows so far: a run that is ended early keeps the parts that it has measured."""
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"machine": repr(machine), "rows": results, "broken": broken}, indent=1) + "\n")


def judge(results: Sequence[dict[str, object]]) -> None:
    """Say how many targets are met, and name the others."""
    judged = [row for row in results if row["is_met"] is not None]
    say(f"\n{sum(bool(row['is_met']) for row in judged)} of {len(judged)} targets met")
    for row in judged:
        if not row["is_met"]:
            say(f"not met: {row['name']}, {row['target']} (beside {row['peer']})")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
