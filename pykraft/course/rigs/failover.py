"""Scenarios of notebook 12 and lab 12: a leader dies or is cut off, and the replicas find out which records stay.

::

    story = acknowledged()              a record is acknowledged, and no follower knows yet that it is committed
    second_failover(story)              the leader dies, then the next one, before it has told the third broker anything
    with before_kip_101(): ...          followers truncate to their high watermark, as Apache Kafka did before 0.11
    story = alone_with_a_record()       the leader has a record that no follower has, and is cut off from everybody
    return_of_the_leader(story)         another leads and writes, then the link is mended

The cluster is that of `replication`: brokers 1 to 3 hold `t-0`, node 101 is the controller.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pykraft.course.rigs.replication import PARTITION, TOPIC, followers_of, leader_of, one_record
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.server.partition import Partition
from pykraft.story.story import Story

CONTROLLER, PRODUCER = 101, "producer-0"


def acknowledged() -> Story:
    """A story whose first record has just been acknowledged. The followers have it, and their high watermark is 0."""
    story = one_record()
    if story.until("receives Produce response") is None:
        raise RuntimeError("this story has no acknowledgement: choose another seed")
    return story


def second_failover(story: Story) -> Story:
    """Kill the leader; when another leads, cut it off from the third broker; when that one knows its new leader, kill
    this one, too. Returns the branch: the third broker leads, or a law is broken on the way."""
    first = leader_of(story)
    branch = story.kill(first)
    if branch.next("election") is None:
        return branch
    second = leader_of(branch)
    (third,) = {1, 2, 3} - {first, second}
    branch = branch.cut(second, third)
    while branch.view.replicas(TOPIC, PARTITION)[third].leader_id != second:
        if branch.next() is None:
            return branch
    branch = branch.kill(second)
    branch.next("election")
    return branch


@contextmanager
def before_kip_101() -> Iterator[None]:
    """Within this block a follower of a new leader first truncates its log to its own high watermark, as Apache Kafka
    did before 0.11, and asks nobody."""
    update = Partition.update

    def as_before(partition: Partition, registration: PartitionRegistration, image: MetadataImage, now: int) -> bool:
        is_new = update(partition, registration, image, now)
        if is_new and not partition.is_leader:
            partition.log.truncate_to(partition.log.high_watermark)
        return is_new

    Partition.update = as_before  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Partition.update = update  # type: ignore[method-assign]


def alone_with_a_record() -> Story:
    """The leader has appended a record that no follower has. It is cut off from the other brokers, the controller and
    the producer."""
    story = one_record()
    leader = leader_of(story)
    others: list[int | str] = [*followers_of(story), CONTROLLER, PRODUCER]
    for other in others:
        story = story.cut(leader, other)
    return story


def return_of_the_leader(story: Story) -> Story:
    """Another broker leads, and the producer's retry is committed there. Then the cut links are mended, but for the
    producer's. The story goes on until the old leader is in sync again, or a law is broken."""
    old = leader_of(story)
    story.next("election")
    story.until("receives Produce response")
    for other in ({1, 2, 3} - {old}) | {CONTROLLER}:
        story = story.heal(old, other)
    story.next("isr")
    return story


def epochs_of(story: Story) -> dict[int, list[tuple[int, int]]]:
    """By broker, the leader epochs of its log, each with the offset at which it began."""
    replicas = story.view.replicas(TOPIC, PARTITION)
    return {node: [(entry.epoch, entry.start_offset) for entry in view.epochs] for node, view in replicas.items()}
