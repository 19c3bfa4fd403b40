"""Lab 19 in a live cluster: your code decides what a broker lists and what a consumer shows.

Three producers write transactions in turn into one partition. Some commit, some abort, and one stays open. The broker
looks up aborted transactions with your `overlapping`, and pykraft's consumer drops batches with your `CommittedReader`.
Your `last_stable_offset` and `aborted_transactions` go over the leader's log file, and must find what the broker says.
"""

from random import Random
from weakref import WeakKeyDictionary

from pykraft import Cluster, Consumer, Producer, TopicPartition
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.course.surroundings import pick
from pykraft.records.batch import batches
from pykraft.records.markers import read_marker
from pykraft.storage.transaction_index import AbortedTransaction
from pykraft.viz import tally

TOPIC = "transfers"
LISTED = "pykraft.storage.transaction_index.TransactionIndex.collect"
SHOWN = "pykraft.records.visibility.Visibility.shows"
PRODUCERS, DRAWN, LIMIT_S = 3, 14, 30


def run(work):
    """Read committed data with the functions of `work`; it agrees if exactly what was committed is shown."""
    with Cluster(nodes=1, timeouts="kafka") as cluster, plugged(places(work)) as plugs:
        cluster.create_topic(TOPIC)
        committed, aborted, hanging = write(cluster, pick(small=40, full=200))
        shown = read(cluster, len(committed))
        log = log_of(cluster)
        view = cluster.describe().replicas(TOPIC, 0)[1]
        stable = work.last_stable_offset(iter(log), view.high_watermark)
        index = work.aborted_transactions(iter(log))
        for producer in hanging:
            producer.close()
    missing, wrong = set(committed) - set(shown), set(shown) - set(committed)
    lines = (
        f"{len(committed)} records were committed, {len(aborted)} aborted, and a transaction is open.",
        f"{len(missing)} committed records are not shown, {len(wrong)} are shown that were not committed.",
        f"Your last stable offset is {stable}, the broker's is {view.last_stable_offset}.",
        f"Your index has {len(index)} aborted transactions.",
    )
    first = sorted([*committed, *aborted])[:DRAWN]
    figure = tally(
        {"committed": [committed.count(value) for value in first], "shown": [shown.count(value) for value in first]},
        title=f"{len(missing)} committed records are hidden, {len(wrong)} others are shown",
        note=f"The first {len(first)} records: whether they were committed, and how often your reader shows them",
    )
    agrees = not missing and not wrong and stable == view.last_stable_offset
    errors = any(plug.errors for plug in plugs.values())
    facts = {"missing": len(missing), "wrong": len(wrong), "stable": stable, "index": len(index)}
    return Outcome(agrees and not errors, lines, tuple(plugs.values()), figure, facts)


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
    """Transactions of three producers in turn; the values committed, those aborted, and the producers."""
    random, committed, aborted = Random(19), [], []
    producers = [
        Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=f"teller {n}", linger_ms=0)
        for n in range(PRODUCERS)
    ]
    for producer in producers:
        producer.init_transactions()
    open_now, number = {}, 0
    for _ in range(3 * transactions):
        producer = random.choice(producers)
        if producer in open_now and random.random() < 0.4:
            values = open_now.pop(producer)
            if random.random() < 0.5:
                producer.commit_transaction()
                committed += values
            else:
                producer.abort_transaction()
                aborted += values
            continue
        if producer not in open_now:
            producer.begin_transaction()
        value = b"%05d" % number
        producer.send(TOPIC, value).result(LIMIT_S)
        open_now.setdefault(producer, []).append(value)
        number += 1
    for producer, values in list(open_now.items())[1:]:  # all but one end: its transaction stays open
        producer.commit_transaction()
        committed += values
    return committed, aborted, producers


def read(cluster, wanted):
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
