"""Lab 01 in a live cluster: after a crash a node recovers its logs with your code.

A node takes some flights into five partitions, each a log of several segments, and is killed. Then each log is damaged
in another way. Its last segment gets half a batch more, a whole batch that was there before, a flipped bit in the last
batch, or zeros; or a segment in the middle loses its last batch, so cleanly that no checksum fails. When the node
starts again, your code tells which segments stay and how much of each, and makes their indexes. A consumer that has
never heard of this course reads what is left.
"""

from itertools import islice

from confluent_kafka import Consumer, TopicPartition

from pykraft import Cluster, NewTopic, Producer
from pykraft.common.errors import CorruptRecordError
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.datasets import flights
from pykraft.records.batch import HEADER_BYTES, batches
from pykraft.storage.index import OffsetIndex
from pykraft.storage.upkeep.log_loader import LogLoader
from pykraft.surroundings import pick
from pykraft.viz import bars

TOPIC = "flights"
DAMAGES = ("half a batch more", "an old batch more", "a bit flipped", "zeros more", "a batch less in the middle")
SETTINGS = {"retention.ms": "-1", "segment.ms": str(12 * 3600 * 1000)}
"""A segment for each half day, by the flights' own time."""
HOUSEKEEPING = {"replica.high.watermark.checkpoint.interval.ms": "3600000"}
"""A killed node finds no recent recovery point, however long it took to write the flights: every segment is read."""
LOG = "pykraft.storage.upkeep.log_loader.LogLoader._recover"
BATCHES = "pykraft.storage.log_segment.LogSegment._undamaged_batches"
INDEX = "pykraft.storage.index.OffsetIndex.rewrite"
EMPTY_POLLS = 6


def run(work):
    """Recover with the functions of `work`; the outcome agrees if each log ends where it should, is indexed, and can be
    read."""
    events = list(islice(flights(), pick(small=4_000, full=20_000)))
    with Cluster(nodes=1, properties=HOUSEKEEPING) as cluster:
        (node,) = cluster.node_ids
        with cluster.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, len(DAMAGES), 1, topic_configs=SETTINGS)])
        produce(cluster, events)
        cluster.kill(node)
        folders = [cluster.partition_directory(node, TOPIC, p) for p in range(len(DAMAGES))]
        count = sum(len(files(folder)) for folder in folders)
        good = [damage(folder, kind) for folder, kind in zip(folders, DAMAGES, strict=True)]
        torn = [size_of(folder) for folder in folders]
        with plugged(places(work)) as plugs:
            cluster.restart(node)
        left = [size_of(folder) for folder in folders]
        indexes = [sum(file.stat().st_size for file in folder.glob("*.index")) for folder in folders]
        wanted = sum(records_in(data) for data in good)
        found = read(cluster, wanted)
    ends = {kind: (size, len(data)) for kind, size, data in zip(DAMAGES, left, good, strict=True)}
    wrong = [kind for kind, (is_left, should_be) in ends.items() if is_left != should_be]
    entries = [size // OffsetIndex.entry.size for size in indexes]
    lines = [
        f"{len(events):,} flights were in {len(DAMAGES)} logs of {count} segments in all when the node was killed.",
        f"{len(DAMAGES) - len(wrong)} of {len(DAMAGES)} logs end where the good part ends."
        + "".join(f" {kind}: {ends[kind][0]:,} bytes, and {ends[kind][1]:,} are good." for kind in wrong),
        f"A consumer read {found:,} flights of the {wanted:,} that were left whole.",
        f"Their indexes have {', '.join(map(str, entries))} entries.",
    ]
    figure = bars(
        {kind: before - after for kind, before, after in zip(DAMAGES, torn, left, strict=True)},
        unit="bytes",
        marked=wrong,
        title=f"Your recovery cut {sum(torn) - sum(left):,} bytes from the ends of {len(DAMAGES)} logs",
        note="Marked are those that end elsewhere than they should.",
    )
    facts = {"ends": ends, "wrong": wrong, "found": found, "wanted": wanted, "indexes": entries}
    compared = {
        "logs that end elsewhere": (len(wrong), 0),
        "flights that a consumer read": (found, wanted),
        "indexes without an entry": (entries.count(0), 0),
    }
    return Outcome(compared, tuple(lines), tuple(plugs.values()), figure, facts)


def places(work):
    """Your functions where a starting node recovers a log, reads a segment through, and writes the new index."""
    indexes = {}

    def recover_log(loader, segments, epochs):
        if loader.topic_partition.topic != TOPIC or loader.clean:
            return plain_recovery(loader, segments, epochs)
        mine = [work.Segment(each.base_offset, each.size, each.records._file.read) for each in segments]
        kept, _ = work.recover_log(mine, loader.recovery_point)
        loader._lose(segments, len(kept))
        for segment, (_, size) in zip(segments, kept, strict=True):
            if size < segment.size:
                segment.truncate_file(size)
        state, found = loader._producer_state(), []
        for segment in segments:
            segment.recover(state, found)
        epochs.relearn(segments[0].base_offset, found)
        return state

    def undamaged(segment, start, following):
        read = segment.records._file.read
        size, _ = work.recover(read, segment.size, segment.base_offset)
        interval = segment._index_interval_bytes
        indexes[segment.offset_index] = work.rebuild_index(read, size, segment.base_offset, interval)
        found = []
        try:
            for position, batch in segment.records.batches(start):
                if position + batch.size > size:
                    break
                found.append((position, batch))
        except CorruptRecordError:  # your code let something stay that is no batch
            pass
        return found

    def rewrite(index):
        if index in indexes:
            index.reset()
            for relative, position in index.entry.iter_unpack(indexes.pop(index)):
                index.append(index.base_offset + relative, position)
        plain_rewrite(index)

    plain_recovery, plain_rewrite = LogLoader._recover, OffsetIndex.rewrite
    return {LOG: recover_log, BATCHES: undamaged, INDEX: rewrite}


def produce(cluster, events):
    """In small batches, one partition after the other."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=5, batch_size=2_000) as producer:
        for number, event in enumerate(events):
            partition = number % len(DAMAGES)
            producer.send(TOPIC, event.value, event.key, partition=partition, timestamp_ms=event.timestamp_ms)


def files(folder):
    """The segments of a log, oldest first."""
    return sorted(folder.glob("*.log"))


def size_of(folder):
    return sum(file.stat().st_size for file in files(folder))


def damage(folder, kind):
    """Spoil a log; returns the bytes that are good still."""
    *older, last = files(folder)
    before = [file.read_bytes() for file in older]
    if kind == "a batch less in the middle":
        middle = len(older) // 2
        data = before[middle]
        whole = data[: -sizes_of(data)[-1]]
        older[middle].write_bytes(whole)
        return b"".join([*before[:middle], whole])
    data = last.read_bytes()
    sizes = sizes_of(data)
    if kind == "a bit flipped":
        torn = bytearray(data)
        torn[-sizes[-1] + HEADER_BYTES] ^= 1
        last.write_bytes(torn)
        return b"".join([*before, data[: -sizes[-1]]])
    more = {
        "half a batch more": data[: sizes[0] // 2],
        "an old batch more": data[: sizes[0]],
        "zeros more": bytes(1_000),
    }[kind]
    last.write_bytes(data + more)
    return b"".join([*before, data])


def sizes_of(data):
    return [batch.size for batch in batches(memoryview(data))]


def records_in(data):
    return sum(batch.count for batch in batches(memoryview(data)))


def read(cluster, wanted):
    """How many records librdkafka gets; it checks every batch itself."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "lab", "enable.auto.commit": False}
    consumer = Consumer({**settings, "log_level": 0, "check.crcs": True})
    consumer.assign([TopicPartition(TOPIC, p, 0) for p in range(len(DAMAGES))])
    found = empty = 0
    while found < wanted and empty < EMPTY_POLLS:
        messages = [message for message in consumer.consume(5_000, timeout=1) if not message.error()]
        found += len(messages)
        empty = 0 if messages else empty + 1
    consumer.close()
    del consumer
    return found
