"""Lab 20 in a live cluster: a node's cleaner forgets with your code.

The changing states of flights go into a compacted topic; some flights are deleted in the middle, by a tombstone. The
cleaner is kept waiting until all of it is written. Then it comes, and asks your code for the map, for the records that
stay, and for the segments that are put together. librdkafka, which has never heard of this course, reads what is left.
"""

import time

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Producer as OtherProducer

from pykraft import Cluster, ConfigResource, ConfigResourceType, NewTopic
from pykraft.common.topic_config import SEGMENT_BYTES
from pykraft.course.plug import Outcome, plugged
from pykraft.course.surroundings import pick
from pykraft.datasets import flight_statuses
from pykraft.records.filtering import outlines
from pykraft.viz import bars

TOPIC, DELETED = "states", 100
HOUSEKEEPING = {"log.cleaner.backoff.ms": "200"}
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "file.delete.delay.ms": "0",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "3600000",
}
MAP = "pykraft.storage.cleaner.OffsetMap.note"
RECORDS = "pykraft.storage.cleaner.OffsetMap.pick"
GROUPS = "pykraft.storage.cleaner.Cleaning._groups"
ITERATORS = ("pykraft.storage.cleaner.outlines", "pykraft.records.filtering.outlines")
"""They are lists here: where your code raises, pykraft's own has to see the same records once more."""
SMALLER, LIMIT_S, EMPTY_POLLS, FLUSH_S = 0.8, 15, 3, 30


def run(work):
    """Compact with the functions of `work`; the outcome agrees if the log has shrunk and readers believe the same."""
    sent = changes(pick(small=20_000, full=60_000))
    with Cluster(nodes=1, properties=HOUSEKEEPING) as cluster, plugged(places(work)) as plugs, cluster.admin() as admin:
        admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs=SETTINGS)])
        write(cluster, sent)
        before = log_bytes(cluster)
        admin.incremental_alter_configs(
            {ConfigResource(ConfigResourceType.TOPIC, TOPIC): {"min.compaction.lag.ms": "0"}}
        )
        after = settled(cluster, before)
        left = read(cluster, len(sent) - 1)
    yours = tuple(plugs[place] for place in (MAP, RECORDS, GROUPS))
    tombstones = sum(value is None for _, _, value in left)
    believed, wanted = view((key, value) for _, key, value in left), view(sent)
    wrong = sum(believed.get(key) != wanted.get(key) for key in believed.keys() | wanted.keys())
    moved = sum(sent[offset] != (key, value) for offset, key, value in left)
    lines = [
        f"{len(sent):,} changes of flights had {before:,} bytes, and have {after:,} now.",
        f"{len(left):,} records are left; {moved} of them are not at the offset that they had.",
        f"A reader who begins now is wrong about {wrong} flights.",
        f"{tombstones} of {DELETED} tombstones are there, for readers who come late.",
    ]
    figure = bars(
        {"before": before, "after": after},
        unit="bytes",
        marked=["after"],
        title=f"Your compactor has left {after / before:.0%} of the log",
        note="The active segment is never compacted.",
    )
    facts = {"left": len(left), "wrong": wrong, "tombstones": tombstones, "before": before, "after": after}
    is_smaller = after < SMALLER * before
    is_right = not wrong and not moved and tombstones == DELETED
    agrees = is_smaller and is_right and not any(plug.errors for plug in yours)
    return Outcome(agrees, tuple(lines), yours, figure, facts)


def places(work):
    """Your functions where the cleaner makes its map, picks records, and puts segments together."""

    def note(offset_map, records, first_offset):
        its = tuple(as_record(work, record) for record in records)
        if its:
            batch = work.Batch(its[0].offset, its[-1].offset, its)
            offset_map._offsets.update(work.latest_offsets([batch], first_offset, 1 << 30)[0])

    def pick_records(offset_map, records, tombstones_stay):
        outlines = {record.offset: record for record in records}
        its = [as_record(work, record) for record in outlines.values()]
        end = offset_map.latest_offset + 1
        return [outlines[r.offset] for r in work.survivors(its, offset_map._offsets, end, tombstones_stay)]

    def groups(cleaning):
        reached = [segment for segment in cleaning.segments if segment.base_offset <= cleaning.offsets.latest_offset]
        return work.groups(reached, cleaning.config[SEGMENT_BYTES])

    again = {place: lambda batch, data: list(outlines(batch, data)) for place in ITERATORS}
    return {MAP: note, RECORDS: pick_records, GROUPS: groups, **again}


def as_record(work, outline):
    """What the cleaner knows of a record: its value it leaves alone."""
    return work.Record(outline.offset, outline.key, None if outline.is_tombstone else b"")


def changes(count):
    """(key, value) of flights; half way through some are deleted and do not come again. Then as much as fills a
    segment: the last one is never compacted."""
    events = [(event.key, event.value) for event in flight_statuses(count)]
    first, rest = events[: count // 2], events[count // 2 :]
    deleted = sorted({key for key, _ in first})[:DELETED]
    filler = [(b"filler", b"x" * 1000)] * 1100
    return [*first, *((key, None) for key in deleted), *(e for e in rest if e[0] not in set(deleted)), *filler]


def view(changes):
    """What a reader believes: key -> value."""
    return {key: value for key, value in dict(changes).items() if value is not None}


def write(cluster, sent):
    producer = OtherProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5, "log_level": 0})
    for key, value in sent:
        producer.produce(TOPIC, value, key, partition=0)
        producer.poll(0)
    producer.flush(FLUSH_S)
    del producer


def log_bytes(cluster):
    found = 0
    for file in cluster.partition_directory(cluster.node_ids[0], TOPIC, 0).glob("*.log"):
        try:
            found += file.stat().st_size
        except FileNotFoundError:  # it was replaced meanwhile
            continue
    return found


def settled(cluster, before):
    """The log's bytes once the cleaner has made it smaller, and has nothing more to do; or when time is up."""
    deadline, last, since = time.monotonic() + LIMIT_S, before, time.monotonic()
    while time.monotonic() < deadline:
        now = log_bytes(cluster)
        if now != last:
            last, since = now, time.monotonic()
        if now < SMALLER * before and time.monotonic() - since > 1:
            break
        time.sleep(0.1)
    return last


def read(cluster, last_offset):
    """(offset, key, value) of all that is left, by librdkafka."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "lab", "enable.auto.commit": False}
    consumer = Consumer({**settings, "log_level": 0, "check.crcs": True})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found, empty = [], 0
    while empty < EMPTY_POLLS and not (found and found[-1][0] >= last_offset):
        messages = [message for message in consumer.consume(5_000, timeout=1) if not message.error()]
        found += [(message.offset(), message.key(), message.value()) for message in messages]
        empty = 0 if messages else empty + 1
    consumer.close()
    del consumer
    return found
