"""Run the course's pipeline: flights into a topic at a chosen speed, and Spark makes a table and alerts of them.

    python datasets/pipeline.py                              a cluster of its own, 2,000 flights a second
    python datasets/pipeline.py --per-second 20000           faster
    python datasets/pipeline.py --folder here                keeps table and checkpoints: run it again, and it goes on
    python datasets/pipeline.py --bootstrap-servers HOST:PORT --folder here    on a cluster that runs already
    python datasets/pipeline.py --master spark://HOST:PORT --folder /shared    computed by a cluster of Spark

It prints a line for each batch, with rows per second, lag and state, until all flights were read or Ctrl-C is pressed.
The alerts are written exactly once: kill the program at any moment, start it again with the same cluster and folder,
and a reader of committed data finds none twice and none missing. The functions are those of notebook 24:
`pykraft.course.lessons.structured_streaming.flight_stream`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from pykraft import Admin, Cluster, Consumer, NewTopic, TopicPartition
from pykraft.course.lessons.structured_streaming import flight_stream as pipeline
from pykraft.spark import session, stop
from pykraft.spark.stream_watch import Batch, Watched, watch

TOPICS = (pipeline.TOPIC, "alerts")
PARTITIONS = 3
LOOK_S = 0.2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap-servers", help="a cluster that runs (default: one of its own)")
    parser.add_argument("--folder", type=Path, help="for table and checkpoints (default: a temporary one)")
    parser.add_argument("--per-second", type=int, default=2_000, help="flights a second (default: 2000)")
    parser.add_argument("--flights", type=int, default=100_000, help="how many in all (default: 100000)")
    parser.add_argument("--master", help="where Spark computes, like spark://host:7077 (default: here)")
    parser.add_argument("--python", help="the interpreter of the workers there (default: this one)")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    return parser.parse_args()


def main() -> None:
    said = arguments()
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        folder = said.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pykraft-pipeline-")))
        servers = said.bootstrap_servers or stack.enter_context(Cluster(nodes=1)).bootstrap_servers
        sent = create_missing_topics(servers)
        spark = session(master=said.master, python=said.python, conf=dict(one.split("=", 1) for one in said.conf))
        stack.callback(stop)
        flights = pipeline.flights_stream(spark, servers)
        watches = {
            "table": stack.enter_context(closing(watch(pipeline.start_table(flights, folder)))),
            "alerts": stack.enter_context(closing(watch(start_alerts(flights, servers, folder)))),
        }
        feed = stack.enter_context(closing(pipeline.FlightFeed(servers, said.per_second, said.flights, first=sent)))
        follow(watches, feed)


def start_alerts(flights: DataFrame, servers: str, folder: Path) -> StreamingQuery:
    return pipeline.start_alerts(flights, servers, "alerts", folder / "alerts", exactlyOnce="true")


def create_missing_topics(servers: str) -> int:
    """How many flights are in the topic already."""
    with Admin(bootstrap_servers=servers) as admin:
        missing = set(TOPICS) - set(admin.list_topics())
        admin.create_topics(
            [NewTopic(name, PARTITIONS, 1, topic_configs=pipeline.FOR_EVER) for name in sorted(missing)]
        )
    with Consumer(bootstrap_servers=servers) as consumer:
        return sum(consumer.end_offsets([TopicPartition(pipeline.TOPIC, n) for n in range(PARTITIONS)]).values())


def follow(watches: dict[str, Watched], feed: pipeline.FlightFeed) -> None:
    """A line for each batch of each query, until all flights were sent and read, or a query has failed."""
    told = dict.fromkeys(watches, 0)
    is_over = False
    while not is_over:
        is_over = not feed.is_running or not all(watched.query.isActive for watched in watches.values())
        for name, watched in watches.items():
            if is_over:
                finish(name, watched)
            for batch in watched.batches[told[name] :]:
                sys.stdout.write(f"{name:6} {described(batch)}\n")
                sys.stdout.flush()
            told[name] = len(watched.batches)
        time.sleep(LOOK_S)


def finish(name: str, watched: Watched) -> None:
    """Wait for the last batches. What a query has failed with ends the program in a sentence: Spark can tell it only as
    long as its session runs."""
    try:
        watched.query.processAllAvailable()
    except PySparkException as error:
        failure = watched.query.exception()
        sys.exit(f"the query {name} has stopped: {failure if failure is not None else error}")
    watched.look()


def described(batch: Batch) -> str:
    speed = f"{batch.rows_per_s:8,.0f} rows/s"
    state = f"{batch.state_rows:5,} rows of state"
    return f"batch {batch.number:3}: {batch.rows:7,} rows, {speed}, lag {batch.lag:7,}, {state}"


if __name__ == "__main__":
    main()
