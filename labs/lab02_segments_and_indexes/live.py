"""Lab 02 in a live cluster: your functions find what consumers ask for, in every broker.

Some thousand flights go into a topic of one partition, in small batches and small segments. Then an ordinary consumer
jumps to offsets here and there, and asks for the offsets of some moments. Each broker answers with your code: which
segment, which index entry, which batch. What it read to find out is counted.
"""

from bisect import bisect_left
from collections import Counter
from itertools import islice
from random import Random

from pykraft import Cluster, Consumer, NewTopic, Producer, TopicPartition
from pykraft.course.labs.plug import Outcome, at_most, plugged
from pykraft.course.syllabus import SEED
from pykraft.datasets import flights
from pykraft.records.batch import HEADER_BYTES, RecordBatch
from pykraft.storage.file_records import BatchPosition
from pykraft.storage.index import OffsetPosition, TimestampOffset
from pykraft.surroundings import pick
from pykraft.viz import bars

PARTITION = TopicPartition("flights", 0)
JUMPS, MOMENTS = 40, 20
PATIENCE_MS, DELIVERY_MS = 10_000, 600_000
ENOUGH_HEADERS = 12
"""At most this many headers are between two entries of the index, if batches have about two kilobytes."""
FLOOR = "pykraft.storage.log_segments.LogSegments.floor"
OFFSETS = "pykraft.storage.index.OffsetIndex.lookup"
TIMES = "pykraft.storage.index.TimeIndex.lookup"
SCAN = "pykraft.storage.file_records.FileRecords.find"


def run(work):
    """Look up with the functions of `work`; the outcome agrees if every answer is right and none took a long scan."""
    events = list(islice(flights(), pick(small=4_000, full=20_000)))
    chance = Random(SEED)
    touched = Counter()
    # No node is killed here, and Kafka's own timeouts do not take a busy disk for a death.
    with Cluster(nodes=3, timeouts="kafka") as cluster:
        with cluster.admin() as admin:
            settings = {"segment.bytes": str(1 << 20), "retention.ms": "-1"}
            admin.create_topics([NewTopic("flights", 1, 1, topic_configs=settings)])
        write(cluster, events)
        folder = cluster.partition_directory(cluster.describe().leader("flights", 0), "flights", 0)
        segments = sorted(folder.glob("*.log"))
        log_bytes = sum(segment.stat().st_size for segment in segments)
        with plugged(places(work, touched)) as plugs:
            wrong = jumps(cluster, events, chance) + moments(cluster, events, chance)
    scans = max(1, plugs[SCAN].calls)
    headers, entries = touched["headers"] / scans, touched["entries"] / max(1, plugs[OFFSETS].calls)
    lines = [
        f"{len(events):,} flights are in {len(segments)} segments of {log_bytes:,} bytes together.",
        f"{JUMPS + MOMENTS - len(wrong)} of {JUMPS + MOMENTS} questions of a consumer were answered rightly."
        + (f" The first wrong one: {wrong[0]}" if wrong else ""),
        f"A lookup read {entries:.1f} entries of the index and {headers:.1f} headers of the log, on average.",
    ]
    read = {
        "index": entries * 8,
        "headers in the log": headers * HEADER_BYTES,
        "the segments": log_bytes / len(segments),
    }
    figure = bars(
        {name: round(size) for name, size in read.items()},
        unit="bytes",
        marked=["index", "headers in the log"],
        title=f"To find one offset, {read['index'] + read['headers in the log']:,.0f} bytes were read",
        note="Averages of one lookup; the last bar is the size of a segment.",
    )
    facts = {"wrong": wrong, "headers": headers, "entries": entries, "segments": len(segments)}
    compared = {
        "wrong answers": (len(wrong), 0),
        "headers of the log for a lookup": (round(headers, 1), at_most(ENOUGH_HEADERS)),
    }
    return Outcome(compared, tuple(lines), tuple(plugs.values()), figure, facts)


def write(cluster, events):
    """All flights, however long it takes: an answer is judged by what the log should have."""
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "linger_ms": 0, "batch_size": 2_048}
    with Producer(**settings, delivery_timeout_ms=DELIVERY_MS) as producer:
        sent = [producer.send("flights", e.value, e.key, timestamp_ms=e.timestamp_ms) for e in events]
    for future in sent:
        future.result()


def places(work, touched):
    """Your functions behind the names and types that the broker knows."""

    def entries_of(index):
        def read(position, length):
            touched["entries"] += 1
            return bytes(index._entries[position : position + length])

        return read, len(index), index.base_offset

    def floor(segments, offset):
        base = work.find_segment(segments.base_offsets, offset)
        return 0 if base is None else segments.base_offsets.index(base)

    def scan(records, offset, position):
        def read(at, length):
            touched["headers"] += 1
            return records._file.read(at, length)

        found = work.find_batch(read, records.size, position, offset)
        if found is None:
            return None
        return BatchPosition(found, RecordBatch(memoryview(records._file.read(found, HEADER_BYTES))))

    def by_offset(index, offset):
        return OffsetPosition(*work.lookup_offset(*entries_of(index), offset))

    def by_time(index, timestamp):
        return TimestampOffset(*work.lookup_time(*entries_of(index), timestamp))

    return {FLOOR: floor, OFFSETS: by_offset, TIMES: by_time, SCAN: scan}


def jumps(cluster, events, chance):
    """Read one record here and one there; what came instead of what should have come."""
    wrong = []
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "fetch_max_bytes": 1, "max_partition_fetch_bytes": 1}
    with Consumer(**settings, auto_offset_reset="none") as consumer:
        consumer.assign([PARTITION])
        for _ in range(JUMPS):
            offset = chance.randrange(len(events))
            consumer.seek(PARTITION, offset)
            record = next(iter(consumer.poll(PATIENCE_MS, max_records=1).get(PARTITION, ())), None)
            if record is None or (record.offset, record.value) != (offset, events[offset].value):
                came = "nothing came" if record is None else f"offset {record.offset:,} came"
                wrong.append(f"offset {offset:,} was asked for, and {came}")
                if record is None:  # a broker that finds nothing will not find the rest either
                    return wrong + ["not asked any more"] * (JUMPS - len(wrong))
    return wrong


def moments(cluster, events, chance):
    """Ask for the first flight from some moment on."""
    wrong = []
    times = [event.timestamp_ms for event in events]
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        for _ in range(MOMENTS):
            moment = chance.randrange(times[0], times[-1])
            found = consumer.offsets_for_times({PARTITION: moment})[PARTITION]
            wanted = bisect_left(times, moment)
            if found is None or found.offset != wanted:
                told = "none" if found is None else f"{found.offset:,}"
                wrong.append(f"the first flight from {moment} on has offset {wanted:,}, and the answer was {told}")
    return wrong
