"""Lab 10 as a judge: your code reads the histories of clusters, and says which ones have kept their word.

Five are simulated, so that what is lost in them is known: a leader that crashes under each level of acks, followers
that were cut off before, and a power failure. The sixth is a live cluster whose leader is killed while an idempotent
producer sends to it; librdkafka reads what is left.
"""

import time

from confluent_kafka import Consumer, TopicPartition

from pykraft import Cluster, Producer
from pykraft.course.labs.plug import Outcome
from pykraft.course.lessons.acks.virtual_failover import VirtualFailover
from pykraft.surroundings import pick
from pykraft.viz import bars

TOPIC = "numbers"
LIMIT_S = 60
PLAIN = {"enable_idempotence": False}
UNCLEAN = {"unclean.leader.election.enable": "true"}


def run(work):
    """Judge six histories, each as a whole and half read; it agrees if each list of lost records and each verdict is
    the true one."""
    judged = {name: (history(work, simulated), simulated.lost) for name, simulated in stories().items()}
    judged["live cluster, acks=all"] = (live(work, pick(small=300, full=2_000)), [])
    wrong, counts = [], {}
    for name, (events, gone) in judged.items():
        counts[name] = len(work.lost(events))
        wrong += mistakes(work, name, events, gone, "broken" if gone else "fine")
        half = half_read(work, events)
        certain = passed(work, half, gone)
        wrong += mistakes(work, f"{name}, half read", half, certain, "broken" if certain else "unknown")
    lines = (
        f"Your code judged {2 * len(judged) - len(wrong)} of {2 * len(judged)} histories rightly.",
        *wrong,
        "Of the live cluster, librdkafka read what is left after its leader was killed.",
    )
    figure = bars(
        {name: float(count) for name, count in counts.items()},
        unit="acknowledged and lost",
        title="What each cluster has lost of what it had acknowledged, as your code says",
    )
    compared = {"histories that your code judged wrongly": (len(wrong), 0)}
    return Outcome(compared, lines, (), figure, {"wrong": wrong, "lost": counts})


def mistakes(work, name, events, gone, true):
    """What your code says otherwise: a sentence, or nothing."""
    found, said, twice = work.lost(events), work.verdict(events), work.repeated(events)
    if (found, said, twice) != (gone, true, []):
        yield f"{name}: your verdict is {said!r}, with {len(found)} lost; it is {true!r}, with {len(gone)}."


def half_read(work, events):
    """The same history with a reader that has come half of the way, and does not know where the log ends."""
    read = [event for event in events if isinstance(event, work.Read)]
    return [event for event in events if not isinstance(event, work.Read | work.End)] + read[: len(read) // 2]


def passed(work, events, gone):
    """Those of the lost records whose places the reader has passed."""
    reached = events[-1].offset
    told = {event.number: event.offset for event in events if isinstance(event, work.Acknowledged)}
    return [number for number in gone if 0 <= told[number] <= reached]


def stories():
    """Simulated runs, by what befalls them."""
    crashes = {f"crash, acks={level}": VirtualFailover(linger_ms=0, acks=level, **PLAIN) for level in ("0", "1")}
    crashes["crash, acks=all"] = VirtualFailover(linger_ms=0)
    for each in crashes.values():
        each.crash_leader(49)
    alone = VirtualFailover(linger_ms=0, topic_configs=UNCLEAN, **PLAIN)
    alone.cut_followers_off(10)
    alone.crash_leader(2_500)
    dark = VirtualFailover(linger_ms=0)
    dark.lose_power(95)
    for each in (*crashes.values(), dark):
        each.send(100, records_per_s=1_000)
    alone.send(60, records_per_s=20)
    return {**crashes, "followers cut off, crash, acks=all": alone, "power failure, acks=all": dark}


def history(work, simulated):
    """What a program and a reader have seen of a simulated run."""
    events = [work.Sent(number) for number in sorted(simulated.offsets.keys() | simulated.failed.keys())]
    events += [work.Acknowledged(number, offset) for number, offset in simulated.offsets.items()]
    events += [work.Failed(number) for number in simulated.failed]
    simulated.lost  # noqa: B018 (it waits until nothing is under way)
    read = [work.Read(offset, number) for offset, number in simulated.records]
    return [*events, *read, work.End(read[-1].offset + 1)]


def live(work, count):
    """A leader is killed while a producer sends numbers; what the producer said, and what librdkafka reads."""
    with Cluster(nodes=3) as cluster:
        cluster.create_topic(TOPIC, 1, 3)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
            futures = {}
            for number in range(count):
                futures[number] = producer.send(TOPIC, str(number).encode())
                if number == count // 2:
                    futures[number].result(LIMIT_S)
                    cluster.kill(cluster.describe().leader(TOPIC, 0))
            events = [work.Sent(number) for number in futures]
            for number, future in futures.items():
                error = future.exception(LIMIT_S)
                events.append(work.Failed(number) if error else work.Acknowledged(number, future.result().offset))
        return events + read(work, cluster)


def read(work, cluster):
    """All records from the beginning, and where the log ends, by librdkafka."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "lab", "enable.auto.commit": False}
    consumer = Consumer({**settings, "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=LIMIT_S)
    events, deadline = [], time.monotonic() + LIMIT_S
    while (not events or events[-1].offset < end - 1) and time.monotonic() < deadline:
        some = [message for message in consumer.consume(1_000, timeout=0.2) if not message.error()]
        events += [work.Read(message.offset(), int(message.value())) for message in some]
    consumer.close()
    return [*events, work.End(end)]
