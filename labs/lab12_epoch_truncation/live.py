"""Lab 12 in a story: your rules decide what a leader answers and to where a follower truncates.

A simulated cluster of three brokers. The leader has appended a record that no follower has, and is cut off from all.
Another broker leads and commits records. Then the link is mended, and the old leader follows.
"""

from pykraft.common.types import OffsetAndEpoch
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.course.rigs.failover import alone_with_a_record, return_of_the_leader
from pykraft.course.rigs.replication import PARTITION, TOPIC, leader_of
from pykraft.server import fetching
from pykraft.viz import board

ANSWER = "pykraft.server.fetching.diverging_end"
TRUNCATE = "pykraft.server.replica_fetcher.ReplicaFetcher._truncate"


def run(work):
    """Play the story with the functions of `work`; it agrees if all brokers have one log, and no law is broken."""
    with plugged(places(work)) as plugs:
        story = alone_with_a_record()
        old = leader_of(story)
        story = return_of_the_leader(story)
        view = story.view
    ends = {node: replica.epochs for node, replica in view.replicas(TOPIC, PARTITION).items()}
    new = view.leader(TOPIC, PARTITION)
    broken = story.failure
    same = not broken and len(set(ends.values())) == 1
    cut = sum(mark.kind == "truncation" and mark.node == old for mark in story.marks)
    end = f"A LAW IS BROKEN: {broken}" if broken else f"its log is {'like' if same else 'unlike'} the others."
    lines = (
        f"Broker {old} led in epoch 0 with a record that no other had; broker {new} leads now.",
        f"Broker {old} truncated {'once' if cut == 1 else f'{cut} times'}; {end}",
    )
    figure = board(story, topics=[TOPIC], title="All logs agree" if same else "The logs do not agree")
    errors = any(plug.errors for plug in plugs.values())
    facts = {"same": same, "truncations": cut, "broken": broken}
    return Outcome(same and cut == 1 and not errors, lines, tuple(plugs.values()), figure, facts)


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
