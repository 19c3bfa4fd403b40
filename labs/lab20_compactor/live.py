"""Lab 20 in a live cluster: a node's cleaner forgets with your code.

The changing states of flights go into two compacted topics; some flights are deleted in the middle, by a tombstone. The
cleaner is kept waiting until all of it is written. Then it comes. For the one topic it asks your code step by step: for
the map, for what stays of each batch and when its tombstones may go, for the segments that are put together. For the
other your `compact` decides the whole pass. librdkafka, which has never heard of this course, reads what is left.
"""

import time
from bisect import bisect_left

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Producer as OtherProducer

from pykraft import Cluster, ConfigResource, ConfigResourceType, NewTopic
from pykraft.common.settings.topic_config import DELETE_RETENTION_MS, SEGMENT_BYTES
from pykraft.course.labs.plug import Outcome, at_most, plugged
from pykraft.datasets import flight_statuses
from pykraft.records.filtering import filtered, outlines, unpacked
from pykraft.storage.upkeep.cleaner import Cleaning
from pykraft.surroundings import pick
from pykraft.viz import bars

STEPS, PASS = TOPICS = ("step-by-step", "in-one-pass")
DELETED = 100
HOUSEKEEPING = {"log.cleaner.backoff.ms": "200"}
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "file.delete.delay.ms": "0",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "3600000",
}
MAP = "pykraft.storage.upkeep.cleaner.OffsetMap.note"
BATCH = "pykraft.storage.upkeep.cleaner.Cleaning._filtered"
GROUPS = "pykraft.storage.upkeep.cleaner.Cleaning._groups"
WHOLE = "pykraft.storage.upkeep.cleaner.Cleaning._make_map"
ITERATOR = "pykraft.storage.upkeep.cleaner.outlines"
"""A list here: where your code raises, pykraft's own has to see the same records once more."""
SMALLER, EMPTY_POLLS, FLUSH_S = 0.8, 6, 120


def run(work):
    """Compact with the functions of `work`; it agrees if both logs have shrunk and readers believe the same."""
    sent = changes(pick(small=20_000, full=60_000))
    with Cluster(nodes=1, properties=HOUSEKEEPING) as cluster, plugged(places(work)) as plugs, cluster.admin() as admin:
        admin.create_topics([NewTopic(topic, 1, 1, topic_configs=SETTINGS) for topic in TOPICS])
        write(cluster, sent)
        before = {topic: log_bytes(cluster, topic) for topic in TOPICS}
        admin.incremental_alter_configs(
            {ConfigResource(ConfigResourceType.TOPIC, topic): {"min.compaction.lag.ms": "0"} for topic in TOPICS}
        )
        after = settled(cluster, before)
        left = {topic: read(cluster, topic, len(sent) - 1) for topic in TOPICS}
    yours = tuple(plugs[place] for place in (MAP, BATCH, GROUPS, WHOLE))
    judged = {topic: judge(sent, left[topic]) for topic in TOPICS}
    lines = []
    for topic in TOPICS:
        wrong, moved, tombstones = judged[topic]
        lines += [
            f"{topic}: {len(sent):,} changes of flights had {before[topic]:,} bytes, and have {after[topic]:,} now.",
            f"{len(left[topic]):,} records are left; {moved} of them are not at the offset that they had.",
            f"A reader who begins now is wrong about {wrong} flights.",
            f"{tombstones} of {DELETED} tombstones are there, for readers who come late.",
        ]
    figure = bars(
        {"before": before[STEPS]} | {f"after, {topic}": after[topic] for topic in TOPICS},
        unit="bytes",
        marked=[f"after, {topic}" for topic in TOPICS],
        title=f"Your compactor has left {after[STEPS] / before[STEPS]:.0%} of the log",
        note="The active segment is never compacted.",
    )
    compared = {}
    for topic, (wrong, moved, tombstones) in judged.items():
        compared |= {
            f"{topic}, wrong flights": (wrong, 0),
            f"{topic}, records that have moved": (moved, 0),
            f"{topic}, tombstones": (tombstones, DELETED),
            f"{topic}, bytes": (after[topic], at_most(SMALLER * before[topic])),
        }
    return Outcome(compared, tuple(lines), yours, figure, {"judged": judged, "before": before, "after": after})


def judge(sent, left):
    """Of how many keys a reader believes something wrong, how many records have moved, and how many tombstones are
    there."""
    believed, wanted = view((key, value) for _, key, value in left), view(sent)
    wrong = sum(believed.get(key) != wanted.get(key) for key in believed.keys() | wanted.keys())
    moved = sum(sent[offset] != (key, value) for offset, key, value in left)
    return wrong, moved, sum(value is None for _, _, value in left)


def places(work):
    """Your functions where the cleaner makes its map, filters a batch, puts segments together, and begins a pass."""
    plans = {}  # of a pass that is yours as a whole, by its map: its batches, where its groups end, and its segments

    def note(offset_map, records, first_offset):
        its = tuple(as_record(work, record) for record in records)
        if its:
            batch = work.Batch(its[0].offset, its[-1].offset, its)
            offset_map._offsets.update(work.latest_offsets([batch], first_offset, 1 << 30)[0])
        return True  # there was room for all of them

    def keep(cleaning, batch, is_spent):
        known, now_ms, retention_ms = cleaning.offsets, cleaning.now_ms, cleaning.config[DELETE_RETENTION_MS]
        if known in plans:
            clean = plans[known][0].get(batch.base_offset)
        else:
            mine = as_batch(work, batch)
            clean = work.clean_batch(mine, known._offsets, known.latest_offset + 1, now_ms, retention_ms)
        if clean is None:
            return None
        stay = {record.offset for record in clean.records}
        return filtered(batch, lambda records: [one for one in records if one.offset in stay], clean.horizon_ms or 0)

    def groups(cleaning):
        reached = [segment for segment in cleaning.segments if segment.base_offset <= cleaning.offsets.latest_offset]
        if cleaning.offsets not in plans:
            return work.groups(reached, cleaning.config[SEGMENT_BYTES])
        _, ends, segment_ends = plans[cleaning.offsets]
        found = [[] for _ in ends]
        for segment, end in zip(reached, segment_ends, strict=False):
            found[min(bisect_left(ends, end), len(ends) - 1)].append(segment)
        return [group for group in found if group]

    def begin(cleaning):
        if cleaning.log.topic_partition.topic != PASS:
            return plain(cleaning)
        segments = [
            work.Segment(
                each.base_offset, each.size, tuple(as_batch(work, batch) for _, batch in each.records.batches())
            )
            for each in cleaning.segments
        ]
        first_dirty, retention_ms = cleaning.first_dirty_offset, cleaning.config[DELETE_RETENTION_MS]
        max_bytes = cleaning.config[SEGMENT_BYTES]
        cleaned, end = work.compact(segments, first_dirty, cleaning.now_ms, retention_ms, 1 << 30, max_bytes)
        plans[cleaning.offsets] = (
            {batch.first_offset: batch for group in cleaned for batch in group},
            [group[-1].last_offset for group in cleaned if group],
            [segment.batches[-1].last_offset for segment in segments],
        )
        cleaning.offsets.latest_offset = end - 1
        return iter(())

    plain = Cleaning._make_map
    return {
        MAP: note,
        BATCH: keep,
        GROUPS: groups,
        WHOLE: begin,
        ITERATOR: lambda batch, data: list(outlines(batch, data)),
    }


def as_batch(work, batch):
    """A batch of the log as your code knows it."""
    records = tuple(as_record(work, outline) for outline in outlines(batch, unpacked(batch)))
    return work.Batch(batch.base_offset, batch.last_offset, records, batch.delete_horizon_ms)


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
        for topic in TOPICS:
            produce(producer, topic, key, value)
    producer.flush(FLUSH_S)
    del producer


def produce(producer, topic, key, value):
    """Hand a record over, as soon as librdkafka's queue has room for it."""
    producer.poll(0)
    deadline = time.monotonic() + FLUSH_S
    while True:
        try:
            return producer.produce(topic, value, key, partition=0)
        except BufferError:
            if time.monotonic() > deadline:
                raise
            producer.poll(0.1)


def log_bytes(cluster, topic):
    found = 0
    for file in cluster.partition_directory(cluster.node_ids[0], topic, 0).glob("*.log"):
        try:
            found += file.stat().st_size
        except FileNotFoundError:  # it was replaced meanwhile
            continue
    return found


def settled(cluster, before):
    """The logs' bytes once the cleaner has made them smaller, and has nothing more to do; or when time is up."""
    limit_s = pick(small=15, full=60)
    deadline, last, since = time.monotonic() + limit_s, before, time.monotonic()
    while time.monotonic() < deadline:
        now = {topic: log_bytes(cluster, topic) for topic in TOPICS}
        if now != last:
            last, since = now, time.monotonic()
        if all(now[topic] < SMALLER * before[topic] for topic in TOPICS) and time.monotonic() - since > 1:
            break
        time.sleep(0.1)
    return last


def read(cluster, topic, last_offset):
    """(offset, key, value) of all that is left, by librdkafka."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "lab", "enable.auto.commit": False}
    consumer = Consumer({**settings, "log_level": 0, "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, empty = [], 0
    while empty < EMPTY_POLLS and not (found and found[-1][0] >= last_offset):
        messages = [message for message in consumer.consume(5_000, timeout=1) if not message.error()]
        found += [(message.offset(), message.key(), message.value()) for message in messages]
        empty = 0 if messages else empty + 1
    consumer.close()
    del consumer
    return found
