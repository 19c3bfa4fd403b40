"""Lab 18 in a live cluster: your window decides what a leader appends.

An idempotent producer sends numbers while the network eats every third acknowledgement or so. Whatever it sends again
goes through your `SequenceWindow`, on the leader and from there into the log. librdkafka, which has never heard of this
course, reads the topic.
"""

from collections import Counter
from contextlib import ExitStack

from confluent_kafka import Consumer, TopicPartition

from pykraft import Cluster, Producer
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.surroundings import pick
from pykraft.viz import tally

TOPIC = "numbers"
LOST = 12
REPEATED = "pykraft.storage.producer_state.ProducerEntry.duplicate_of"
NEXT = "pykraft.storage.producer_state.ProducerEntry._is_next"
SHOWN = 14
LIMIT_S, EMPTY_POLLS = 30, 3


def run(work):
    """Lose acknowledgements of a leader that asks `work`; it agrees if each number is there once."""
    count = pick(small=200, full=1_000)
    with Cluster(nodes=3, timeouts="kafka") as cluster, plugged(places(work)) as plugs:
        cluster.create_topic(TOPIC)
        requests, given_up, reason = send(cluster, count)
        times = Counter(read(cluster))
    missing, twice = count - len(times), sum(found > 1 for found in times.values())
    wrongly = sum(times[str(number).encode()] > 0 for number in given_up)
    lines = [
        f"{count} numbers were sent in {requests} requests; the acknowledgements of {LOST} of them were lost.",
        f"{missing} numbers are missing, {twice} are there more than once.",
    ]
    if given_up:
        lines.append(
            f"The producer has given up {len(given_up)} numbers, the first of them because of {reason}; {wrongly} of "
            "them are in the log all the same."
        )
    figure = tally(
        {"in the log": [times[str(number).encode()] for number in range(SHOWN)]},
        title=f"{missing} of {count} numbers are missing, {twice} are there more than once",
        note=f"How often each of the first {SHOWN} numbers is in the log of a leader that ran on your code",
        what="number",
    )
    facts = {"missing": missing, "twice": twice, "requests": requests, "given up": len(given_up), "wrongly": wrongly}
    compared = {
        "missing numbers": (missing, 0),
        "repeated numbers": (twice, 0),
        "numbers given up": (len(given_up), 0),
    }
    return Outcome(compared, tuple(lines), tuple(plugs.values()), figure, facts)


def places(work):
    """Your window where the leader looks for a repetition, and where it looks whether a batch comes next."""

    def verdict(entry, batch):
        log = [
            (entry.producer_id, entry.epoch, known.first_sequence, known.offset_delta + 1, known.first_offset)
            for known in entry.batches
        ]
        window = work.windows_of(log).get(entry.producer_id) or work.SequenceWindow()
        return window.check(batch.producer_epoch, batch.base_sequence, batch.last_offset_delta + 1)

    def repeated(entry, batch):
        offset = verdict(entry, batch)
        return next((known for known in entry.batches if known.first_offset == offset), None)

    return {REPEATED: repeated, NEXT: lambda entry, batch: verdict(entry, batch) == "append"}


def send(cluster, count):
    """Send the numbers one by one, by an idempotent producer: how many requests that took, which numbers the producer
    has given up, and why the first one."""
    given_up, reason = [], ""
    with ExitStack() as faults:
        some, seen = [], []
        for _ in range(LOST):  # a fault that loses one answer, and one that lets two pass
            some.append(faults.enter_context(cluster.fault("Produce", topic=TOPIC, drop="answer", count=1)))
            seen.append(faults.enter_context(cluster.fault("Produce", topic=TOPIC, count=2)))
        rest = faults.enter_context(cluster.fault("Produce", topic=TOPIC))
        with Producer(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=10) as producer:
            futures = []
            for number in range(count):
                futures.append(producer.send(TOPIC, str(number).encode()))
                if number < 3 * LOST:
                    futures[-1].exception(LIMIT_S)
            for number, future in enumerate(futures):
                error = future.exception(LIMIT_S)
                if error is not None:
                    reason = reason or getattr(error, "code", error)
                    given_up.append(number)
        requests = sum(len(fault.caught) for fault in (*some, *seen, rest))
    return requests, given_up, getattr(reason, "name", reason)


def read(cluster):
    """All values of the topic, by librdkafka."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "lab", "enable.auto.commit": False}
    consumer = Consumer({**settings, "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values, empty = [], 0
    while empty < EMPTY_POLLS:
        some = [message.value() for message in consumer.consume(1_000, timeout=0.5) if not message.error()]
        values += some
        empty = 0 if some else empty + 1
    consumer.close()
    return values
