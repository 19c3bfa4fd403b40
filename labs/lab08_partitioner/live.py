"""Lab 08 in a live cluster: your functions decide where pykraft's producer sends each flight.

The same flights go twice: into the topic `yours` by pykraft's producer, which runs on your code, and into the topic
`librdkafka` by confluent_kafka, a client that has never heard of this course. Then both topics are read, and each route
must be in the same partition of both. Besides, records without a key go into the topic `keyless`: your sticky
partitioner decides how many batches they make.
"""

import time
from collections import Counter, defaultdict
from itertools import islice

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Producer as OtherProducer

from pykraft import Cluster, NewTopic, Producer
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.datasets import flights
from pykraft.surroundings import pick
from pykraft.viz import bars

PARTITIONS = 6
LIMIT_S = 30
KEYED = "pykraft.client.producing.producer.partition_of_key"
KEYLESS = "pykraft.client.producing.partitioner.StickyPartitioner.partition"


def run(work):
    """Produce with the functions of `work`; the outcome agrees if both clients put each route into the same place."""
    count = pick(small=2_500, full=30_000)
    events = list(islice(flights(), count))
    # No node is killed here, and Kafka's own timeouts do not take a busy disk for a death.
    with Cluster(nodes=3, timeouts="kafka") as cluster, plugged(places(work)) as plugs:
        with cluster.admin() as admin:
            kept = {"retention.ms": "-1"}  # flights of 2013 are past every default
            names = ("yours", "librdkafka", "keyless")
            admin.create_topics([NewTopic(name, PARTITIONS, 1, topic_configs=kept) for name in names])
        send(cluster, events)
        send_with_librdkafka(cluster, events)
        yours, theirs = (routes(cluster, topic, count) for topic in ("yours", "librdkafka"))
        keyless = sizes(cluster, "keyless", count)
    apart = sorted(route for route in theirs if yours[route] != theirs[route])
    flights_in = Counter()
    for event in events:
        flights_in.update(yours[event.key])
    shares = {f"yours-{p}": flights_in[p] for p in range(PARTITIONS)}
    spread = sum(size > 0 for size in keyless.values())
    lines = [
        f"{count:,} flights on {len(theirs)} routes went into {PARTITIONS} partitions.",
        f"{len(theirs) - len(apart)} of {len(theirs)} routes lie where librdkafka puts them."
        + (f" Apart are {', '.join(route.decode() for route in apart[:5])} and so on." if apart else ""),
        f"{count:,} records without a key were spread over {spread} of {PARTITIONS} partitions.",
    ]
    fullest = max(shares, key=shares.get)
    figure = bars(
        shares,
        unit="flights",
        marked=[fullest],
        title=f"{fullest} holds {shares[fullest] / sum(shares.values()):.0%} of the flights, not {1 / PARTITIONS:.0%}",
        note="Where your code sent them: a hash spreads the keys, but keys are not equally busy.",
    )
    facts = {"routes": len(theirs), "apart": len(apart), "keyless": dict(keyless), "yours": shares}
    compared = {
        "routes that are elsewhere than librdkafka puts them": (len(apart), 0),
        "partitions that hold records without a key": (spread, PARTITIONS),
    }
    return Outcome(compared, tuple(lines), tuple(plugs.values()), figure, facts)


def places(work):
    """Your functions where the producer calls its own. Each of its sticky partitioners gets one of yours."""
    yours = {}

    def keyed(key, partitions):
        return one_of(range(partitions), work.partition_of_key(key, partitions))

    def sticky(its_own, topic, available, size):
        if its_own not in yours:
            yours[its_own] = work.StickyPartitioner(its_own._random, its_own._batch_bytes)
        return one_of(range(PARTITIONS), yours[its_own].partition(topic, available, size))

    return {KEYED: keyed, KEYLESS: sticky}


def one_of(partitions, found):
    """What your code has found. ValueError if there is no such partition: a producer would wait for it for minutes."""
    if not isinstance(found, int) or found not in partitions:
        raise ValueError(f"there is no partition {found!r}, only {', '.join(map(str, partitions))}")
    return found


def send(cluster, events):
    """By pykraft's producer: once with keys, once without."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=20, batch_size=8_192) as producer:
        for event in events:
            producer.send("yours", event.value, event.key, timestamp_ms=event.timestamp_ms)
        for event in events:
            producer.send("keyless", event.value, timestamp_ms=event.timestamp_ms)


def send_with_librdkafka(cluster, events):
    producer = OtherProducer(
        {"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random", "log_level": 0}
    )
    for event in events:
        producer.produce("librdkafka", event.value, event.key, timestamp=event.timestamp_ms)
    producer.flush()
    del producer


def read(cluster, topic, count):
    """All records of a topic, by librdkafka."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "lab", "enable.auto.commit": False}
    consumer = Consumer({**settings, "log_level": 0})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    found, deadline = [], time.monotonic() + LIMIT_S
    while len(found) < count and time.monotonic() < deadline:
        found += [message for message in consumer.consume(5_000, timeout=1) if not message.error()]
    consumer.close()
    del consumer
    return found


def routes(cluster, topic, count):
    """The partitions of each key; there should be one."""
    found = defaultdict(set)
    for message in read(cluster, topic, count):
        found[message.key()].add(message.partition())
    return found


def sizes(cluster, topic, count):
    """How many records each partition holds."""
    return Counter(message.partition() for message in read(cluster, topic, count))
