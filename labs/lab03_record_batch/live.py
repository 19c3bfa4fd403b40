"""Lab 03 in a live cluster: your bytes go through brokers, and other clients read them.

pykraft's producer sends flights into the topic `yours`, and every batch is one that your code made; librdkafka reads
it, and checks the checksums. Then librdkafka sends the same flights, packed with gzip, into the topic `librdkafka`, and
pykraft's consumer reads them with your code. Some have no value: null must come as null. The brokers in between look at
every batch that they are given, as always.
"""

from itertools import islice

from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import Producer as OtherProducer
from confluent_kafka import TopicPartition as OtherPartition

from pykraft import Cluster, Consumer, NewTopic, Producer, TopicPartition
from pykraft.course.labs.plug import Outcome, Plug, plugged
from pykraft.datasets import flights
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.builder import RecordBatchBuilder
from pykraft.records.record import Record
from pykraft.surroundings import pick
from pykraft.viz import bars

PRODUCER = "pykraft.client.producing.accumulator.RecordBatchBuilder"
CONSUMER = "pykraft.client.consuming.fetcher.batches"
EMPTY_POLLS, POLL_MS, FLUSH_S = 6, 1_000, 120
DELIVERY_MS, REQUEST_MS = 120_000, 60_000
"""A broker refuses a wrong batch at once; only a busy machine takes long."""
NULL_EVERY = 50


def run(work):
    """Write and read with the functions of `work`; the outcome agrees if both clients get what was sent."""
    events = list(islice(flights(), pick(small=3_000, full=10_000)))
    sent = [(e.key, e.value if number % NULL_EVERY else None, e.timestamp_ms) for number, e in enumerate(events)]
    encoder = Plug("encode_batch, in the producer", lambda builder: encoded(work, builder), RecordBatchBuilder.build)
    decoder = Plug("decode_batch, in the consumer", lambda batch: decoded(work, batch), RecordBatch.records)
    sizes = {}
    # No node is killed here, and Kafka's own timeouts do not take a busy disk for a death.
    with Cluster(nodes=3, timeouts="kafka") as cluster, plugged(places(encoder, decoder, sizes)):
        with cluster.admin() as admin:
            kept = {"retention.ms": "-1"}  # flights of 2013 are past every default
            admin.create_topics([NewTopic(name, 1, 1, topic_configs=kept) for name in ("yours", "librdkafka")])
        refused = send(cluster, sent)
        send_with_librdkafka(cluster, sent)
        theirs = read_with_librdkafka(cluster, len(sent))
        yours = read(cluster, len(sent))
    lines = [
        f"{len(events):,} flights were sent in {encoder.calls} batches that your code made."
        + (f" The brokers refused {refused:,} of the flights." if refused else ""),
        f"librdkafka read {matching(theirs, sent):,} of {len(sent):,} as they were sent.",
        f"Your code read {matching(yours, sent):,} of {len(sent):,} that librdkafka had packed with gzip.",
    ]
    figure = bars(
        sizes,
        unit="bytes",
        marked=["yours"],
        title=f"{len(events):,} flights: {sizes.get('yours', 0):,} bytes in your batches",
        note="The batches as they came from the producers.",
    )
    facts = {"refused": refused, "theirs": len(theirs), "yours": len(yours), "sizes": sizes}
    compared = {
        "flights that librdkafka read as they were sent": (matching(theirs, sent), len(sent)),
        "flights that your code read as they were sent": (matching(yours, sent), len(sent)),
        "records too many": (max(0, len(theirs) - len(sent)) + max(0, len(yours) - len(sent)), 0),
    }
    return Outcome(compared, tuple(lines), (encoder, decoder), figure, facts)


def encoded(work, builder):
    """A batch as your code makes it."""
    producer = (builder.producer_id, builder.producer_epoch, builder.base_sequence)
    records = [work.Record(*record) for record in builder.taken]
    return bytearray(work.encode_batch(records, int(builder.compression), builder.leader_epoch, producer))


def decoded(work, batch):
    """A batch's records as your code reads them."""
    return iter([Record(*record) for record in work.decode_batch(bytes(batch.buffer))])


def places(encoder, decoder, sizes):
    """Your functions behind the classes that producer and consumer know. The controllers' batches stay pykraft's."""

    class YourBuilder(RecordBatchBuilder):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.taken = []

        def append(self, timestamp, key, value, headers=()):
            offset = super().append(timestamp, key, value, headers)
            self.taken.append((offset, timestamp, key, value, tuple(headers)))
            return offset

        def build(self):
            data = encoder(self)
            sizes["yours"] = sizes.get("yours", 0) + len(data)
            return data

    class YourBatch(RecordBatch):
        def records(self):
            sizes["librdkafka, gzip"] = sizes.get("librdkafka, gzip", 0) + self.size
            return decoder(self)

    return {PRODUCER: YourBuilder, CONSUMER: lambda data: (YourBatch(batch.buffer) for batch in batches(data))}


def send(cluster, sent):
    """By pykraft's producer; how many records the brokers did not take."""
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "linger_ms": 5, "batch_size": 8_192}
    with Producer(**settings, retries=0, delivery_timeout_ms=DELIVERY_MS, request_timeout_ms=REQUEST_MS) as producer:
        futures = [producer.send("yours", value, key, timestamp_ms=time) for key, value, time in sent]
    return sum(future.exception() is not None for future in futures)


def send_with_librdkafka(cluster, sent):
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "compression.type": "gzip", "batch.num.messages": 500}
    producer = OtherProducer({**settings, "log_level": 0})
    for key, value, time in sent:
        producer.produce("librdkafka", value, key, timestamp=time)
    producer.flush(FLUSH_S)
    del producer


def read(cluster, wanted):
    """(key, value, time) of what pykraft's consumer gets."""
    partition, found, empty = TopicPartition("librdkafka", 0), [], 0
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        while len(found) < wanted and empty < EMPTY_POLLS:
            records = consumer.poll(POLL_MS).get(partition, [])
            found += [(record.key, record.value, record.timestamp) for record in records]
            empty = 0 if records else empty + 1
    return found


def read_with_librdkafka(cluster, wanted):
    """(key, value, time) of what librdkafka gets."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "lab", "enable.auto.commit": False}
    consumer = OtherConsumer({**settings, "log_level": 0, "check.crcs": True})
    consumer.assign([OtherPartition("yours", 0, 0)])
    found, empty = [], 0
    while len(found) < wanted and empty < EMPTY_POLLS:
        messages = [message for message in consumer.consume(5_000, timeout=POLL_MS / 1000) if not message.error()]
        found += [(message.key(), message.value(), message.timestamp()[1]) for message in messages]
        empty = 0 if messages else empty + 1
    consumer.close()
    del consumer
    return found


def matching(found, sent):
    """How many came as they were sent, at their place."""
    return sum(mine == theirs for mine, theirs in zip(found, sent, strict=False))
