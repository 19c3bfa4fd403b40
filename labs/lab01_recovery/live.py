"""Lab 01 in a live cluster: after a crash a node recovers its logs with your code.

A node takes some flights into four partitions, and is killed. Then its files are damaged, each in another way: half a
batch at the end; a whole batch that was there before; a bit flipped in the last batch; zeros. When the node starts
again, your code tells where each log ends, and makes its index. A consumer that has never heard of this course reads
what is left.
"""

from itertools import islice

from confluent_kafka import Consumer, TopicPartition

from pykraft import Cluster, NewTopic, Producer
from pykraft.common.errors import CorruptRecordError
from pykraft.course.plug import Outcome, plugged
from pykraft.course.surroundings import pick
from pykraft.datasets import flights
from pykraft.records.batch import HEADER_BYTES, batches
from pykraft.storage.index import OffsetIndex
from pykraft.viz import bars

TOPIC = "flights"
DAMAGES = ("half a batch more", "an old batch more", "a bit flipped", "zeros more")
BATCHES = "pykraft.storage.log_segment.LogSegment._undamaged_batches"
INDEX = "pykraft.storage.index.OffsetIndex.rewrite"
EMPTY_POLLS = 3


def run(work):
    """Recover with the functions of `work`; the outcome agrees if each log ends where it should, is indexed, and can be
    read."""
    events = list(islice(flights(), pick(small=4_000, full=20_000)))
    with Cluster(nodes=1) as cluster:
        (node,) = cluster.node_ids
        with cluster.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, len(DAMAGES), 1)])
        produce(cluster, events)
        cluster.kill(node)
        files = [cluster.partition_directory(node, TOPIC, p) / f"{0:020d}.log" for p in range(len(DAMAGES))]
        written = [file.read_bytes() for file in files]
        good = [damage(file, data, kind) for file, data, kind in zip(files, written, DAMAGES, strict=True)]
        torn = [file.stat().st_size for file in files]
        with plugged(places(work)) as plugs:
            cluster.restart(node)
        left = [file.read_bytes() for file in files]
        indexes = [file.with_suffix(".index").stat().st_size // OffsetIndex.entry.size for file in files]
        wanted = [records_in(data[:size]) for data, size in zip(written, good, strict=True)]
        found = read(cluster, sum(wanted))
    ends = {kind: (len(data), size) for kind, data, size in zip(DAMAGES, left, good, strict=True)}
    wrong = [kind for kind, (is_left, should_be) in ends.items() if is_left != should_be]
    lines = [
        f"{len(events):,} flights lay in {len(DAMAGES)} logs when the node was killed.",
        f"{len(DAMAGES) - len(wrong)} of {len(DAMAGES)} logs end where the good part ends."
        + "".join(f" {kind}: {ends[kind][0]:,} bytes, and {ends[kind][1]:,} are good." for kind in wrong),
        f"A consumer read {found:,} flights of the {sum(wanted):,} that were left whole.",
        f"Their indexes have {', '.join(map(str, indexes))} entries.",
    ]
    figure = bars(
        {kind: size - len(data) for kind, size, data in zip(DAMAGES, torn, left, strict=True)},
        unit="bytes",
        marked=wrong,
        title=f"Your recovery cut {sum(torn) - sum(map(len, left)):,} bytes from the ends of {len(DAMAGES)} logs",
        note="Marked are those that end elsewhere than they should.",
    )
    facts = {"ends": ends, "wrong": wrong, "found": found, "wanted": sum(wanted), "indexes": indexes}
    agrees = not wrong and found == sum(wanted) and all(indexes) and not any(plug.errors for plug in plugs.values())
    return Outcome(agrees, tuple(lines), tuple(plugs.values()), figure, facts)


def places(work):
    """Your functions where a starting node reads a segment through, and where it writes the new index."""
    indexes = {}

    def undamaged(segment):
        read = segment.records._file.read
        size, _ = work.recover(read, segment.size, segment.base_offset)
        interval = segment._index_interval_bytes
        indexes[segment.offset_index] = work.rebuild_index(read, size, segment.base_offset, interval)
        found = []
        try:
            for position, batch in segment.records.batches():
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
        plain(index)

    plain = OffsetIndex.rewrite
    return {BATCHES: undamaged, INDEX: rewrite}


def produce(cluster, events):
    """In small batches, one partition after the other."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=5, batch_size=2_000) as producer:
        for number, event in enumerate(events):
            partition = number % len(DAMAGES)
            producer.send(TOPIC, event.value, event.key, partition=partition, timestamp_ms=event.timestamp_ms)


def damage(file, data, kind):
    """Spoil a log of these bytes; returns how many of them are good still."""
    sizes = [batch.size for batch in batches(memoryview(data))]
    if kind == "a bit flipped":
        torn = bytearray(data)
        torn[-sizes[-1] + HEADER_BYTES] ^= 1
        file.write_bytes(torn)
        return len(data) - sizes[-1]
    more = {
        "half a batch more": data[: sizes[0] // 2],
        "an old batch more": data[: sizes[0]],
        "zeros more": bytes(1_000),
    }[kind]
    file.write_bytes(data + more)
    return len(data)


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
