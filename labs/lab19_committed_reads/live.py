"""Lab 19 in a live cluster: your code decides what a broker lists and what a consumer shows.

Three producers write transactions in turn into one partition. Some commit, some abort, and one stays open. The broker
looks up aborted transactions with your `overlapping`, and pykraft's consumer drops batches with your `CommittedReader`.
Your `last_stable_offset` and `aborted_transactions` go over the leader's log file, and must find what the broker says.
"""

from random import Random
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pykraft import Cluster, Consumer, Producer, TopicPartition
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.records.batch import batches
from pykraft.records.markers import read_marker
from pykraft.storage.transaction_index import AbortedTransaction
from pykraft.surroundings import pick
from pykraft.viz import tally

TOPIC = "transfers"
LISTED = "pykraft.storage.transaction_index.TransactionIndex.collect"
SHOWN = "pykraft.records.visibility.Visibility.shows"
PRODUCERS, DRAWN, LIMIT_S = 3, 14, 30


class Written(NamedTuple):
    """What went into the log: the offset of each committed and of each aborted value, where the aborted transactions
    begin, in the order of their markers, and the producers."""

    committed: dict[bytes, int]
    aborted: dict[bytes, int]
    aborts: list[int]
    producers: list[Producer]


def run(work):
    """Read committed data with the functions of `work`; it agrees if the reader shows all that was committed before the
    open transaction, and nothing else."""
    with Cluster(nodes=1, timeouts="kafka") as cluster, plugged(places(work)) as plugs:
        cluster.create_topic(TOPIC)
        written = write(cluster, pick(small=40, full=200))
        shown = read(cluster)
        log = log_of(cluster)
        view = cluster.describe().replicas(TOPIC, 0)[1]
        stable = work.last_stable_offset(iter(log), view.high_watermark)
        index = work.aborted_transactions(iter(log))
        for producer in written.producers:
            producer.close()
    committed = written.committed
    readable = {value for value, offset in committed.items() if offset < view.last_stable_offset}
    missing, wrong = readable - set(shown), set(shown) - readable
    repeated = len(shown) - len(set(shown))
    is_right_index = [first for _, first, _ in index] == written.aborts
    lines = (
        f"{len(committed)} records were committed, {len(written.aborted)} aborted, and a transaction is open. "
        f"{len(committed) - len(readable)} of the committed records come after its first one: they have to wait.",
        f"{len(missing)} of {len(readable)} committed records before it are not shown, {len(wrong)} others are shown, "
        f"{repeated} are shown again.",
        f"Your last stable offset is {stable}, the broker's is {view.last_stable_offset}.",
        f"Your index has {len(index)} aborted transactions, the producers have aborted {len(written.aborts)}"
        f"{'' if is_right_index else '; they do not begin at the same offsets'}.",
    )
    figure = picture(written, shown, f"{len(missing)} committed records are hidden, {len(wrong)} others are shown")
    compared = {
        "committed records that are hidden": (len(missing), 0),
        "other records that are shown": (len(wrong), 0),
        "records that are shown again": (repeated, 0),
        "last stable offset": (stable, view.last_stable_offset),
        "the index begins where the transactions do": (is_right_index, True),
    }
    facts = {"missing": len(missing), "wrong": len(wrong), "stable": stable, "index": len(index)}
    return Outcome(compared, lines, tuple(plugs.values()), figure, facts)


def picture(written, shown, title):
    """The first records: whether they were committed, and how often they are shown."""
    first = sorted([*written.committed, *written.aborted])[:DRAWN]
    return tally(
        {
            "committed": [int(value in written.committed) for value in first],
            "shown": [shown.count(value) for value in first],
        },
        title=title,
        note=f"The first {len(first)} records: whether they were committed, and how often your reader shows them",
    )


def places(work):
    """Your functions where a broker lists what was aborted, and where a consumer decides what it shows."""
    readers = WeakKeyDictionary()

    def listed(index, fetch_offset, end_offset):
        entries = {(each.producer_id, each.first_offset, each.last_offset): each for each in index.entries}
        found = work.overlapping(list(entries), fetch_offset, end_offset)
        return [entries.get(tuple(each)) or AbortedTransaction(*each, -1) for each in found], False

    def shown(visibility, batch):
        if visibility not in readers:
            aborted = [(producer_id, first, -1) for first, producer_id in visibility._aborted]
            readers[visibility] = work.CommittedReader(aborted)
        return readers[visibility].shows(described(batch))

    return {LISTED: listed, SHOWN: shown}


def described(batch):
    """A batch as the lab has it."""
    kind = "transactional" if batch.is_transactional else "data"
    if batch.is_control:
        kind = "commit" if read_marker(batch).committed else "abort"
    return kind, batch.producer_id, batch.base_offset, batch.last_offset


def write(cluster, transactions):
    """Transactions of three producers in turn, of which one stays open."""
    random = Random(19)
    written = Written({}, {}, [], [])
    for number in range(PRODUCERS):
        settings = {"transactional_id": f"teller {number}", "linger_ms": 0}
        written.producers.append(Producer(bootstrap_servers=cluster.bootstrap_servers, **settings))
        written.producers[-1].init_transactions()
    open_now, number = {}, 0

    def send(producer):
        nonlocal number
        if producer not in open_now:
            producer.begin_transaction()
        value = b"%05d" % number
        offset = producer.send(TOPIC, value).result(LIMIT_S).offset
        open_now.setdefault(producer, {})[value] = offset
        number += 1

    for _ in range(3 * transactions):
        producer = random.choice(written.producers)
        if producer in open_now and random.random() < 0.4:
            finish(producer, open_now.pop(producer), random.random() < 0.5, written)
        else:
            send(producer)
    while open_now:
        finish(*open_now.popitem(), True, written)
    stays_open, late, _ = written.producers
    for producer in (stays_open, late, stays_open, late):
        send(producer)
    finish(late, open_now[late], True, written)  # committed, and after the begin of a transaction that is open
    return written


def finish(producer, values, commits, written):
    """Commit or abort a transaction of these values, and note it."""
    if commits:
        producer.commit_transaction()
        written.committed.update(values)
    else:
        producer.abort_transaction()
        written.aborted.update(values)
        written.aborts.append(min(values.values()))


def read(cluster):
    """The values that pykraft's read_committed consumer shows, up to the last stable offset."""
    partition = TopicPartition(TOPIC, 0)
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, **settings) as consumer:
        consumer.assign([partition])
        values = []
        while consumer.position(partition) < consumer.end_offsets([partition])[partition]:
            values += [record.value for some in consumer.poll(500).values() for record in some]
    return values


def log_of(cluster):
    """The batches in the leader's log file."""
    folder = cluster.partition_directory(1, TOPIC, 0)
    data = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
    return [described(batch) for batch in batches(memoryview(data))]
