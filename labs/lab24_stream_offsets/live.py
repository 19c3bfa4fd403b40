"""Lab 24 in a live cluster: your planner decides what a stream of pykraft's Spark source reads.

There is no Spark here: a loop does what Spark's driver does. It asks the source's `StreamPlanner` for the end of the
next batch and for its ranges, reads them with a consumer, and goes on from there. Meanwhile records arrive, a second
topic appears, the driver dies after it has planned a batch, and a topic is deleted and created again. In the end each
record must have been read once.
"""

from collections import Counter
from weakref import WeakKeyDictionary

from pykraft import Cluster, Consumer, NewTopic, Producer
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.spark.options import EARLIEST, stream_options
from pykraft.spark.reading.stream import StreamOffset, StreamPlanner
from pykraft.surroundings import pick
from pykraft.viz import read_by_tasks

LATEST = "pykraft.spark.reading.stream.StreamPlanner.latest_offset"
RANGES = "pykraft.spark.reading.stream.StreamPlanner.ranges"
MOST_BATCHES = 60


def run(work):
    """Read a changing set of topics with the planner of `work`; it agrees if each record was read once."""
    count = pick(small=600, full=6_000)
    with Cluster(nodes=1, timeouts="kafka") as cluster, plugged(places(work)) as plugs:
        stream = Stream(cluster, count // 5)
        create(cluster, "log-a", 3)
        send(cluster, "log-a", 3, count)
        stream.read(batches=2)
        create(cluster, "log-b", 2)
        send(cluster, "log-b", 2, count // 2)
        stream.crash_after_planning(lambda: send(cluster, "log-a", 3, count // 4))
        stream.read()
        with cluster.admin() as admin:
            admin.delete_topics(["log-a"])
        create(cluster, "log-a", 2)
        send(cluster, "log-a", 2, 2 * count)  # longer than the old one: only its id is another one
        stream.read()
        there = stream.there()
    read = Counter(stream.found)
    missing = sum(one not in read for one in there)
    again = sum(times > 1 for times in read.values())
    lines = (
        f"{len(there):,} records are in the topics; your planner made {stream.batches} batches.",
        f"{missing:,} records were left out, {again:,} were read more than once.",
    )
    figure = read_by_tasks(
        stream.pieces,
        title=f"{stream.batches} batches: {missing:,} records left out, {again:,} read more than once",
        note="A piece is what one batch reads, with its number. In the end log-a is a new topic.",
        reader="batch",
    )
    compared = {"records left out": (missing, 0), "records read again": (again, 0)}
    facts = {"missing": missing, "again": again, "batches": stream.batches}
    return Outcome(compared, lines, tuple(plugs.values()), figure, facts)


def places(work):
    """Your planner in the place of pykraft's: one of yours for each of them."""
    yours = WeakKeyDictionary()

    def of(planner):
        if planner not in yours:
            options = planner._options
            yours[planner] = work.StreamPlanner(options.max_offsets_per_trigger or None, options.fail_on_data_loss)
        return yours[planner]

    def look(planner):
        ends = planner._look()
        return work.Look(ends.topic_ids, planner._brokers.offsets(dict.fromkeys(ends.offsets, EARLIEST)), ends.offsets)

    def latest(planner, start, _):
        end = of(planner).latest(work.Position(start.topic_ids, start.offsets), look(planner))
        return StreamOffset(dict(end.offsets), dict(end.topic_ids))

    def ranges(planner, start, end):
        positions = (work.Position(one.topic_ids, one.offsets) for one in (start, end))
        return of(planner).ranges(*positions, look(planner))

    return {LATEST: latest, RANGES: ranges}


class Stream:
    """What Spark's driver does with a planner."""

    def __init__(self, cluster, limit):
        self._servers = cluster.bootstrap_servers
        self._limit = limit
        self._planner = self._new_planner()
        self._at = None
        self._known = {}
        self.batches = 0
        self.found = []
        """Topic id, partition and offset of each record, as often as it was read."""
        self.pieces = {}

    def _new_planner(self):
        asked = {"kafka.bootstrap.servers": self._servers, "subscribePattern": "log-.*", "failOnDataLoss": "false"}
        limited = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(self._limit)}
        return StreamPlanner(stream_options({**asked, **limited}))

    def read(self, batches=MOST_BATCHES):
        """Read until nothing is left, or so many batches."""
        self._at = self._at or self._planner.initial_offset()
        for _ in range(batches):
            end = self._planner.latest_offset(self._at, self._limit)
            if end.offsets == self._at.offsets:
                return
            self._take(end, self._planner.ranges(self._at, end))

    def crash_after_planning(self, meanwhile):
        """A batch was planned, and its end is in the checkpoint; then the driver dies, and another one goes on."""
        end = self._planner.latest_offset(self._at, self._limit)
        meanwhile()
        self._planner.close()
        self._planner = self._new_planner()
        self._take(end, self._planner.ranges(self._at, end))

    def _take(self, end, ranges):
        with Consumer(bootstrap_servers=self._servers) as consumer:
            for partition, (first, last) in dict(ranges).items():
                consumer.assign([partition])
                consumer.seek(partition, first)
                while consumer.position(partition) < last:
                    for records in consumer.poll(500).values():
                        name = end.topic_ids[partition.topic], partition.partition
                        self.found += [(*name, record.offset) for record in records if record.offset < last]
                self.pieces.setdefault(self._name(partition, end), []).append((first, last, self.batches))
        self.batches += 1
        self._at = end

    def _name(self, partition, end):
        """A partition's name in the picture; a topic that was created again is another one."""
        topic_id = end.topic_ids[partition.topic]
        return f"{partition}{'' if self._known.setdefault(partition.topic, topic_id) == topic_id else ' (new)'}"

    def there(self):
        """All records that are there now; afterwards the planner is closed."""
        look = self._planner._look()
        self._planner.close()
        return {(look.topic_ids[one.topic], one.partition, n) for one, end in look.offsets.items() for n in range(end)}


def create(cluster, topic, partitions):
    with cluster.admin() as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])


def send(cluster, topic, partitions, count):
    """Records for the partitions in turn, the first one getting more than the others."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % (partitions + 1) % partitions)
