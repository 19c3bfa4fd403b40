"""Lab 12 in a story: your rules decide what a leader answers and to where a follower truncates.

A simulated cluster of three brokers, whose logs share some records. They part twice. First a broker leads while the
others have a record that it lacks, and appends another one at the same offset, of its own epoch. Then a leader appends
a record that no follower has. Both are cut off, another broker leads, the links are mended, and they follow.
"""

from pykraft.broker.replication import fetching
from pykraft.common.types import OffsetAndEpoch
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.course.lessons.failover.failover import Partings, epochs_of
from pykraft.course.rigs.replication import PARTITION, TOPIC
from pykraft.viz import board

ANSWER = "pykraft.broker.replication.fetching.diverging_end"
TRUNCATE = "pykraft.broker.replication.replica_fetcher.ReplicaFetcher._truncate"


def run(work):
    """Play the story with the functions of `work`; it agrees if each broker that must has truncated once, all logs are
    the same in the end, and no law is broken."""
    with plugged(places(work)) as plugs:
        partings = Partings()
        parted = [partings.of_epochs()]
        if partings.story.failure is None:
            parted.append(partings.of_lengths())
        story = partings.story
        epochs, truncated = epochs_of(story), [mark.node for mark in story.marks if mark.kind == "truncation"]
    broken = story.failure
    ends = {view.log_end_offset for view in story.view.replicas(TOPIC, PARTITION).values()}
    is_same = not broken and len(ends) == len({str(known) for known in epochs.values()}) == 1
    lines = [
        f"All had {partings.shared} records. Then broker {parted[0]} led alone, and has a record of its own epoch.",
        f"Brokers that had to truncate: {listed(parted)}; brokers that did, in their order: {listed(truncated)}.",
        f"A LAW IS BROKEN: {broken}" if broken else f"In the end the logs are {'alike' if is_same else 'not alike'}.",
    ]
    figure = board(story, topics=[TOPIC], title="All logs agree" if is_same else "The logs do not agree")
    facts = {"same": is_same, "truncated": truncated, "parted": parted, "broken": broken}
    compared = {
        "broken laws": (int(bool(broken)), 0),
        "brokers that truncated": (listed(truncated), listed(parted)),
        "the logs are alike": (is_same, True),
    }
    return Outcome(compared, tuple(lines), tuple(plugs.values()), figure, facts)


def listed(brokers):
    return ", ".join(map(str, brokers)) or "none"


def places(work):
    """Your functions where a leader compares, and where a follower truncates."""
    original = fetching.diverging_end

    def answered(partition, place):
        if place.last_fetched_epoch < 0 or place.offset < partition.log.log_start_offset:
            return original(partition, place)
        entries = [tuple(entry) for entry in partition.log.epochs.entries]
        found = work.diverging(entries, partition.log.log_end_offset, place.offset, place.last_fetched_epoch)
        return None if found is None else OffsetAndEpoch(found[1], found[0])

    def truncate(fetcher, partition, leaders_end):
        log = partition.log
        entries = [tuple(entry) for entry in log.epochs.entries]
        before, answer = log.log_end_offset, (leaders_end.epoch, leaders_end.end_offset)
        log.truncate_to(work.truncation_offset(entries, before, answer))
        fetcher._trace("truncate", partition=str(partition.key.topic_partition), before=before, end=log.log_end_offset)

    return {ANSWER: answered, TRUNCATE: truncate}
