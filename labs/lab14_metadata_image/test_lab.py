"""What lab 14 asks of an image. Images are compared with those that pykraft's own replay makes of the same records."""

import copy

import pytest

from pykraft.common.types import OffsetAndEpoch, Uuid
from pykraft.course.lessons.metadata_log.plain_metadata import differences, plain_image, real_record, rows
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE

FRAMES = ("BeginTransaction", "EndTransaction", "AbortTransaction", "NoOp")
SETTINGS = ("retention.ms", "segment.bytes", "cleanup.policy")
LEVELS = ("metadata.version", "group.version", "transaction.version")


class Cluster:
    """pykraft's own replay, and a source of records that fit its state."""

    def __init__(self, chance):
        self.chance = chance
        self.image = EMPTY_IMAGE
        self.next = 0

    @property
    def plain(self):
        return plain_image(self.image)

    def replay(self, kind, fields):
        delta = MetadataDelta(self.image)
        delta.replay(real_record(kind, fields))
        self.image = delta.apply(OffsetAndEpoch(self.next, 0))
        self.next += 1

    def number(self):
        self.next += 1
        return self.next

    def some(self):
        """A few records that belong together, replayed already."""
        found = self.chance.choice((self.broker, self.broker, self.topic, self.change, self.change, self.setting))()
        for record in found:
            self.replay(*record)
        return found

    def broker(self):
        known, chance = self.plain["brokers"], self.chance
        if len(known) < 3 or chance.random() < 0.2:
            return [("RegisterBroker", {"id": chance.randrange(1, 6), "epoch": self.number(), "fenced": True})]
        number = chance.choice(sorted(known))
        fields = {"id": number, "epoch": known[number]["epoch"]}
        if chance.random() < 0.15:
            return [("UnregisterBroker", fields)]
        return [("BrokerRegistrationChange", {**fields, "fenced": chance.choice((-1, -1, 0, 1))})]

    def topic(self):
        known, chance = self.plain["topics"], self.chance
        if len(known) > 2 and chance.random() < 0.5:
            return [("RemoveTopic", {"topic_id": chance.choice(sorted(known))})]
        topic_id, name = str(Uuid(chance.randbytes(16))), f"t{self.number()}"
        made = [("Topic", {"topic_id": topic_id, "name": name})]
        if chance.random() < 0.5:
            made.append(("Config", {"resource": ("topic", name), "name": "retention.ms", "value": "7"}))
        return made + [("Partition", self.partition(topic_id, number)) for number in range(chance.randrange(1, 4))]

    def partition(self, topic_id, number):
        replicas = self.chance.sample(range(1, 6), 3)
        state = {"replicas": replicas, "isr": replicas, "leader": replicas[0], "leader_epoch": 0, "partition_epoch": 0}
        return {"topic_id": topic_id, "partition": number, **state}

    def change(self):
        known, chance = self.plain["partitions"], self.chance
        if not known:
            return self.topic()
        topic_id, number = chance.choice(sorted(known))
        isr = chance.sample(known[topic_id, number]["replicas"], 2)
        fields = {"topic_id": topic_id, "partition": number, "replicas": None, "isr": chance.choice((None, isr))}
        return [("PartitionChange", {**fields, "leader": chance.choice((-2, -2, -1, isr[0]))})]

    def setting(self):
        topics, chance = self.plain["topics"], self.chance
        if chance.random() < 0.2:
            return [("FeatureLevel", {"name": chance.choice(LEVELS), "level": chance.randrange(3)})]
        resource = ("topic", chance.choice(sorted(topics.values()))) if topics else ("broker", "")
        value = chance.choice((None, str(self.number()), str(self.number())))
        return [("Config", {"resource": resource, "name": chance.choice(SETTINGS), "value": value})]


def made(impl, records):
    """The learner's image of these records, one after the other."""
    image = impl.new_image()
    for record in records:
        impl.replay(image, impl.Record(*copy.deepcopy(record)))
    return image


def compare(found, wanted, after):
    apart = differences(found, wanted)
    if not apart:
        return
    name, _, _ = apart[0].partition(" ")
    key = next(key for key in {**found[name], **wanted[name]} if f"{name} {key}" == apart[0])
    mine, theirs = found[name].get(key, "no row"), wanted[name].get(key, "no row")
    if isinstance(mine, dict) and isinstance(theirs, dict):
        fields = [field for field in {**mine, **theirs} if mine.get(field) != theirs.get(field)]
        mine, theirs = ({field: row.get(field) for field in fields} for row in (mine, theirs))
    raise AssertionError(f"{after}: {name}, {key!r}: you have {mine}, and the cluster has {theirs}")


def check(impl, *records):
    """Compare after each record; AssertionError at the first difference."""
    cluster, image = Cluster(None), impl.new_image()
    replayed = [impl.Record(kind, copy.deepcopy(fields)) for kind, fields in records]
    for number, (kind, fields) in enumerate(records):
        cluster.replay(kind, fields)
        impl.replay(image, replayed[number])
        compare(image, cluster.plain, f"after {kind} {fields}")
        for record, before in zip(replayed, records[: number + 1], strict=False):
            assert tuple(record) == tuple(before), (
                f"after {kind} {fields} the record {tuple(before)} has become {tuple(record)}: replay() changes the "
                "image, and never a record"
            )


A, B = (str(Uuid(bytes([number] * 16))) for number in (1, 2))
FIRST = {"topic_id": A, "partition": 0, "replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1}
FIRST |= {"leader_epoch": 4, "partition_epoch": 9}
STAYS = {"topic_id": A, "partition": 0, "replicas": None, "isr": None, "leader": -2}
MADE = (("Topic", {"topic_id": A, "name": "flights"}), ("Partition", FIRST))


# --- task 14.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("14.1", points=2)
def test_a_broker_registers_is_unfenced_and_fenced_and_goes(impl):
    """Three registrations of one broker, fenced and unfenced, changes of each sort, and its removal."""
    broker = {"id": 7, "epoch": 3}
    check(
        impl,
        ("RegisterBroker", {**broker, "fenced": True}),
        ("BrokerRegistrationChange", {**broker, "fenced": -1}),
        ("BrokerRegistrationChange", {**broker, "fenced": 0}),
        ("BrokerRegistrationChange", {**broker, "fenced": 1}),
        ("BrokerRegistrationChange", {**broker, "fenced": 0}),
        ("BrokerRegistrationChange", {**broker, "fenced": -1}),
        ("RegisterBroker", {"id": 7, "epoch": 12, "fenced": True}),
        ("RegisterBroker", {"id": 7, "epoch": 15, "fenced": False}),
        ("BrokerRegistrationChange", {"id": 7, "epoch": 15, "fenced": 0}),
        ("UnregisterBroker", {"id": 7, "epoch": 15}),
    )


@pytest.mark.task("14.1", points=2)
def test_a_change_of_a_partition_changes_what_it_names_and_the_epochs(impl):
    """A new ISR, a new leader, no leader, the same leader again, new replicas, and an ISR without any member."""
    changes = ({"isr": [1, 3]}, {"leader": 3}, {"leader": -1, "isr": [2]}, {"leader": 2}, {"leader": 2}, {})
    changes += ({"replicas": [4, 2], "isr": [2, 4]}, {"isr": [], "leader": -1}, {"isr": [4], "leader": 4})
    check(impl, *MADE, *(("PartitionChange", {**STAYS, **change}) for change in changes))


@pytest.mark.task("14.1", points=2)
def test_a_topic_goes_with_its_partitions_and_its_settings(impl):
    """Two topics with settings, of which one is deleted; a broker's settings stay, also where a topic is called like
    the broker."""
    other = {**FIRST, "topic_id": B, "partition": 1}
    resources = (("topic", "flights"), ("topic", "weather"), ("broker", "1"))
    settings = [("Config", {"resource": resource, "name": "x", "value": "1"}) for resource in resources]
    more = (("Topic", {"topic_id": B, "name": "weather"}), ("Partition", other))
    check(impl, *MADE, *more, *settings, ("RemoveTopic", {"topic_id": A}))
    check(impl, ("Topic", {"topic_id": B, "name": "1"}), *settings, ("RemoveTopic", {"topic_id": B}))


@pytest.mark.task("14.1", points=1)
def test_a_setting_without_a_value_and_a_level_of_zero_are_removed(impl):
    """Settings and levels that come, change and go; the last setting of a resource takes its row with it."""
    config = {"resource": ("broker", "1"), "name": "x"}
    level = {"name": "metadata.version"}
    check(
        impl,
        ("Config", {"resource": ("broker", "2"), "name": "x", "value": None}),
        ("Config", {**config, "value": "1"}),
        ("Config", {**config, "value": ""}),
        ("Config", {**config, "name": "y", "value": "2"}),
        ("Config", {**config, "value": None}),
        ("Config", {**config, "name": "y", "value": None}),
        ("FeatureLevel", {**level, "level": 29}),
        ("FeatureLevel", {**level, "level": 1}),
        ("FeatureLevel", {**level, "level": 0}),
    )


@pytest.mark.task("14.1", points=2)
def test_a_long_history_makes_the_clusters_image(impl, chance):
    """Five histories of 40 decisions of all kinds, compared after each record."""
    for _ in range(5):
        cluster = Cluster(chance)
        history = [record for _ in range(40) for record in cluster.some()]
        check(impl, *history)


# --- task 14.2 --------------------------------------------------------------------------------------------------------


def log_of(impl, records, first=0):
    return [(offset, impl.Record(*copy.deepcopy(record))) for offset, record in enumerate(records, first)]


def level(number):
    return "FeatureLevel", {"name": f"level {number}", "level": number}


def levels_after(impl, kinds, high_watermark=1000):
    """The levels in the image of a log; a number stands for a record that sets this level, "1 for 2" for one that sets
    the level of 2 to 1, a word for a frame."""
    changed = ("FeatureLevel", {"name": "level 2", "level": 1})
    records = [level(kind) if isinstance(kind, int) else changed if " " in kind else (kind, {}) for kind in kinds]
    image = impl.new_image()
    impl.replay_log(image, log_of(impl, records), high_watermark)
    return sorted(image["levels"].values())


BEGIN, END, ABORT = "BeginTransaction", "EndTransaction", "AbortTransaction"


@pytest.mark.task("14.2", points=2)
@pytest.mark.parametrize("high_watermark", range(5))
def test_nothing_counts_from_the_high_watermark_on(impl, high_watermark):
    """A log of four records, and every high watermark that it may have. Then the offset before the last is missing."""
    found = levels_after(impl, [1, 2, 3, 4], high_watermark)
    wanted = [1, 2, 3, 4][:high_watermark]
    assert found == wanted, f"four records, high watermark {high_watermark}: levels {wanted} count, not {found}"
    image = impl.new_image()
    records = [impl.Record(*level(number)) for number in range(1, 5)]
    impl.replay_log(image, list(zip((0, 1, 2, 4), records, strict=True)), high_watermark)
    found, wanted = sorted(image["levels"].values()), [1, 2, 3, 4][: min(high_watermark, 3)]
    assert found == wanted, (
        f"records at offsets 0, 1, 2 and 4, high watermark {high_watermark}: those below it count, levels {wanted}, not"
        f" {found}"
    )


@pytest.mark.task("14.2", points=4)
@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        ([BEGIN, 1, 2, END, 3], [1, 2, 3]),
        ([1, BEGIN, 2, ABORT, 3], [1, 3]),
        ([1, BEGIN, 2, 3], [1]),
        ([BEGIN, 2, "1 for 2", END], [1]),
        (["1 for 2", BEGIN, 2, END], [2]),
        ([BEGIN, 1, ABORT, BEGIN, 2, END], [2]),
        ([BEGIN, END, BEGIN, ABORT, 1], [1]),
        ([BEGIN, 1, END, 2, BEGIN, 3, ABORT, "NoOp", 4], [1, 2, 4]),
    ],
    ids=lambda case: None,
)
def test_the_records_of_a_transaction_count_when_it_ends_or_never(impl, kinds, wanted):
    """Transactions that end, are aborted, or stay open; also one that sets the same level twice."""
    found = levels_after(impl, kinds)
    assert found == wanted, f"of {kinds} the levels {wanted} count, not {found}"


@pytest.mark.task("14.2", points=2)
@pytest.mark.parametrize(
    ("kinds", "wrong"),
    [
        ([BEGIN, 1, BEGIN, 2, END], 2),
        ([BEGIN, BEGIN], 1),
        ([1, END], 1),
        ([1, ABORT], 1),
        ([BEGIN, 1, END, END], 3),
        ([BEGIN, 1, ABORT, END], 3),
    ],
    ids=lambda case: None,
)
def test_a_frame_in_the_wrong_place_is_an_error(impl, kinds, wrong):
    """A transaction that begins while one is open; an end and an abort while none is. From the high watermark on they
    are no error yet."""
    try:
        found = levels_after(impl, kinds)
    except ValueError:
        found = None
    assert found is None, f"{kinds}: offset {wrong} is an error in the log, and you go on, with the levels {found}"
    try:
        levels_after(impl, kinds, wrong)
    except ValueError as error:
        raise AssertionError(f"{kinds}, high watermark {wrong}: all is well before it, and you raise {error}") from None


@pytest.mark.task("14.2", points=2)
def test_a_transaction_whose_end_is_not_committed_is_open(impl):
    """The high watermark lies between the last record of a transaction and its end."""
    for high_watermark, wanted in ((3, []), (4, [1, 2])):
        found = levels_after(impl, [BEGIN, 1, 2, END], high_watermark)
        assert found == wanted, f"BEGIN 1 2 END, high watermark {high_watermark}: {wanted} count, not {found}"


# --- task 14.3 --------------------------------------------------------------------------------------------------------


def grown(chance, decisions=40):
    cluster = Cluster(chance)
    for _ in range(decisions):
        cluster.some()
    return cluster


@pytest.mark.task("14.3", points=3)
def test_the_records_of_a_snapshot_make_the_same_image(impl, chance):
    """Five images, each replayed by pykraft from your records, in your order."""
    for _ in range(5):
        wanted, again = grown(chance).plain, Cluster(chance)
        for number, (kind, fields) in enumerate(impl.snapshot_of(copy.deepcopy(wanted))):
            topics = again.plain["topics"]
            is_early = kind == "Partition" and fields["topic_id"] not in topics
            assert not is_early, f"record {number} is a partition of a topic that no record before it has made"
            again.replay(kind, fields)
        compare(again.plain, wanted, "replayed from your snapshot")


@pytest.mark.task("14.3", points=2)
def test_a_snapshot_has_one_record_for_each_row(impl, chance):
    """Five images, and the empty one."""
    for image in (impl.new_image(), *(grown(chance).plain for _ in range(5))):
        found, wanted = len(impl.snapshot_of(copy.deepcopy(image))), rows(image)
        assert found == wanted, f"an image of {wanted} rows needs {wanted} records, and you write {found}"


@pytest.mark.task("14.3", points=1)
def test_a_snapshot_is_no_part_of_the_image(impl, chance):
    """Each list and dictionary of the image is changed, then those of the records: the other side stays as it was."""
    image = grown(chance).plain
    image["topics"][A], image["partitions"][A, 0] = "flights", copy.deepcopy({**FIRST})
    del image["partitions"][A, 0]["topic_id"], image["partitions"][A, 0]["partition"]
    before = copy.deepcopy(image)
    records = impl.snapshot_of(image)
    assert image == before, "writing a snapshot has changed the image"
    wanted = copy.deepcopy(records)
    spoil(image)
    shared = [record for record, was in zip(records, wanted, strict=True) if record != was]
    assert not shared, f"a list or a dictionary of the image was changed, and the record {shared[0]} with it"
    image = copy.deepcopy(before)
    spoil([fields for _, fields in impl.snapshot_of(image)])
    assert image == before, "a list or a dictionary in a record was changed, and the image with it"


def spoil(held):
    """Change every list and dictionary in this."""
    if isinstance(held, dict):
        for each in held.values():
            spoil(each)
        held["spoilt"] = True
    elif isinstance(held, list):
        for each in held:
            spoil(each)
        held.append("spoilt")


# --- task 14.4 --------------------------------------------------------------------------------------------------------


class Disk:
    """A history, the log of it, and snapshots at some offsets."""

    def __init__(self, impl, chance):
        self.impl, cluster = impl, Cluster(chance)
        self.records, self.images = [], []
        while len(self.records) < 60:
            self.images += [None] * (len(self.records) - len(self.images)) + [cluster.plain]
            self.records += cluster.some()
        self.wanted = cluster.plain
        self.ends = [end for end, image in enumerate(self.images) if image is not None]

    def snapshot(self, end, is_complete=True):
        records = [self.impl.Record(*record) for record in plain_snapshot(self.images[end])]
        return self.impl.Snapshot(end, is_complete, records if is_complete else records[: len(records) // 2])

    def start(self, snapshots, first=0, high_watermark=None, may_refuse=False, missing=()):
        log = [entry for entry in log_of(self.impl, self.records, 0)[first:] if entry[0] not in missing]
        high_watermark = len(self.records) if high_watermark is None else high_watermark
        try:
            return self.impl.start(snapshots, log, high_watermark)
        except KeyError as error:
            ends = [snapshot.end for snapshot in snapshots]
            words = f"snapshots up to {ends}, a log from {first} on{', with gaps' * bool(missing)}"
            words = f"{words}: a record about {error} was replayed"
            raise AssertionError(f"{words}, which is not there yet, or not there any more") from error
        except ValueError as error:
            if may_refuse:
                raise
            ends = [(snapshot.end, "complete" if snapshot.is_complete else "half written") for snapshot in snapshots]
            words = f"snapshots up to {ends}, a log from {first} on: no record is missing, and you refuse to start"
            raise AssertionError(f"{words} ({error})") from error


def plain_snapshot(image):
    """The records of a snapshot, by pykraft's own order."""
    found = [("FeatureLevel", {"name": name, "level": level}) for name, level in sorted(image["levels"].items())]
    found += [("RegisterBroker", {"id": number, **row}) for number, row in sorted(image["brokers"].items())]
    for topic_id, name in sorted(image["topics"].items(), key=lambda topic: topic[1]):
        found.append(("Topic", {"topic_id": topic_id, "name": name}))
        for key, row in sorted(image["partitions"].items()):
            if key[0] == topic_id:
                found.append(("Partition", {"topic_id": topic_id, "partition": key[1], **copy.deepcopy(row)}))
    for resource, settings in sorted(image["configs"].items()):
        found += [("Config", {"resource": resource, "name": k, "value": v}) for k, v in sorted(settings.items())]
    return found


@pytest.mark.task("14.4", points=1)
def test_without_a_snapshot_the_whole_log_is_replayed(impl, chance):
    """A log from offset 0, with all of it committed, and with half of it."""
    disk = Disk(impl, chance)
    compare(disk.start([]), disk.wanted, "no snapshot")
    middle = disk.ends[len(disk.ends) // 2]
    compare(disk.start([], high_watermark=middle), disk.images[middle], f"no snapshot, high watermark {middle}")


@pytest.mark.task("14.4", points=3)
def test_a_start_takes_the_newest_complete_snapshot_and_the_tail(impl, chance):
    """Snapshots in both orders, with a log that begins at 0, between them, or at the end of the newest one; also with
    an end that is not committed. And a log from which offsets are missing before the snapshot's end."""
    for _ in range(3):
        disk = Disk(impl, chance)
        old, new = sorted(chance.sample(disk.ends[3:], 2))
        for ends in ((old, new), (new, old)):
            snapshots = [disk.snapshot(end) for end in ends]
            before = copy.deepcopy(snapshots)
            for first in (0, old, new):
                after = f"snapshots that end at {ends[0]} and {ends[1]}, a log from {first} on"
                compare(disk.start(snapshots, first), disk.wanted, after)
                assert snapshots == before, f"{after}: the start has changed a snapshot, from which others start, too"
            high = disk.ends[-1 - chance.randrange(2)]
            after = f"snapshots that end at {ends[0]} and {ends[1]}, high watermark {high}"
            if high >= new:
                compare(disk.start(snapshots, high_watermark=high), disk.images[high], after)
        after = f"a snapshot that ends at {new}, and a log without offsets 1 and 2, which the snapshot has"
        compare(disk.start([disk.snapshot(new)], missing=(1, 2)), disk.wanted, after)


@pytest.mark.task("14.4", points=2)
def test_a_snapshot_that_is_not_complete_does_not_count(impl, chance):
    """The newest snapshot is half written; the one before it is whole, or there is none."""
    disk = Disk(impl, chance)
    old, new = disk.ends[4], disk.ends[-3]
    half = disk.snapshot(new, is_complete=False)
    compare(disk.start([disk.snapshot(old), half]), disk.wanted, f"{new} is half written, {old} is whole")
    compare(disk.start([half]), disk.wanted, f"{new} is half written, and there is no other")
    after = f"{new} is half written, {old} is whole, and the log begins at {old}"
    compare(disk.start([disk.snapshot(old), half], first=old), disk.wanted, after)


@pytest.mark.task("14.4", points=2)
def test_files_that_do_not_reach_each_other_are_refused(impl, chance):
    """The log begins one record after the newest snapshot's end, and then right there."""
    disk = Disk(impl, chance)
    end = disk.ends[5]
    compare(disk.start([disk.snapshot(end)], first=end), disk.wanted, f"both meet at {end}")
    for snapshots, first in (([disk.snapshot(end)], end + 1), ([], 1)):
        try:
            disk.start(snapshots, first, may_refuse=True)
        except ValueError:
            continue
        found = f"snapshots up to {max((s.end for s in snapshots), default=0)}, a log from {first} on"
        raise AssertionError(f"{found}: a record is missing, and no ValueError says so")


@pytest.mark.task("14.4", points=1)
def test_a_start_with_a_snapshot_alone(impl, chance):
    """The log is empty, as on a node that has just copied a snapshot, and which may not have heard of a high watermark;
    and a node that has no file at all."""
    disk = Disk(impl, chance)
    end = disk.ends[-1]
    for high in (end, 0):
        after = f"a snapshot up to {end}, no log, and high watermark {high}"
        compare(impl.start([disk.snapshot(end)], [], high), disk.images[end], after)
    compare(impl.start([], [], 0), impl.new_image(), "a node that has neither a snapshot nor a log")
