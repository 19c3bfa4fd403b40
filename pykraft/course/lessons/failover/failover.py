"""Scenarios of notebook 12 and lab 12: a leader dies or is cut off, and the replicas find out which records stay.

::

    story = acknowledged()              a record is acknowledged, and no follower knows yet that it is committed
    second_failover(story)              the leader dies, then the next one, before it has answered the third broker
    with before_kip_101(): ...          followers truncate to their high watermark, as Apache Kafka did before 0.11
    story = alone_with_a_record()       the leader has a record that no follower has, and is cut off from all others
    return_of_the_leader(story)         another leads and writes, then the link is mended
    partings = Partings()               logs that share records and part, in two ways
    partings.of_epochs()                a follower has a record of an epoch that its leader never had
    partings.of_lengths()               a follower has more records of an epoch than its leader

In a live cluster, for elections that lose records and elections that do not::

    send(cluster, "orders", 10)         how many are acknowledged
    die_and_return(cluster, "orders")   the leader dies while the follower is away; who leads when it is back

The simulated cluster is that of `replication`: brokers 1 to 3 hold `t-0`, node 101 is the controller.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykraft.broker.replication.partition import Partition
from pykraft.common.errors import KafkaError
from pykraft.common.types import OffsetAndEpoch
from pykraft.course.rigs.replication import PARTITION, TOPIC, followers_of, leader_of, one_record
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.producer import Producer
from pykraft.storage.disk.filesystem import OsFileSystem
from pykraft.storage.leader_epoch_cache import LeaderEpochCache
from pykraft.story.story import Story

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

_WAIT_S, _ELECTION_S = 30.0, 5.0
_PATIENCE_MS = 5_000
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
        if branch.next() is None or branch.failure is not None:
            return branch
    branch = branch.kill(second)
    branch.next("election")
    return branch


@contextmanager
def before_kip_101() -> Iterator[None]:
    """Within this block a follower of a new leader first truncates its log to its own high watermark, without asking
    the leader, as Apache Kafka did before 0.11."""
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


class Partings:
    """A story in which two logs part after records that all three have. Each of the two methods goes on from where the
    story is, and ends when all brokers are in sync again, or when a law is broken."""

    def __init__(self) -> None:
        self.story = one_record()
        for _ in range(2):
            self.story.until("receives Produce response")
        self._until(lambda: self._isr() == {1, 2, 3})
        self.shared = min(self._ends().values())
        """How many records all three brokers have before anything happens."""

    def of_epochs(self) -> int:
        """The leader sends a record to one follower only, and is cut off. The other follower leads, appends a record of
        its own epoch at the same offset, and is cut off. The third broker leads, whose log has no such epoch. Returns
        the broker whose log has it."""
        first = leader_of(self.story)
        parted, third = followers_of(self.story)
        self._cut(first, parted)
        self._until(lambda: self._ends()[third] == self._ends()[first] > self._ends()[parted])
        self._cut(parted, third)
        self._cut(first, third, CONTROLLER, PRODUCER)
        self.story.next("election")
        self._until(lambda: self._ends()[parted] > self.shared)
        self._cut(parted, CONTROLLER, PRODUCER)
        self.story.next("election")
        self._heal(parted, third, CONTROLLER, PRODUCER)
        self._until(lambda: parted in self._isr())
        self._heal(first, parted, third, CONTROLLER, PRODUCER)
        self._until(lambda: self._isr() == {1, 2, 3})
        return parted

    def of_lengths(self) -> int:
        """The leader appends a record that no other has, and is cut off. Another one leads and commits. Returns the
        broker that has come back with more records of its epoch than the leader."""
        parted = leader_of(self.story)
        others = {1, 2, 3} - {parted}
        before = self._ends()[parted]
        self._until(lambda: min(self._ends().values()) > before)  # all brokers have a record of its epoch
        self._until(lambda: self._ends()[parted] > max(self._ends()[other] for other in others))
        self._cut(parted, *others, CONTROLLER, PRODUCER)
        self.story.next("election")
        self.story.until("receives Produce response")
        self._heal(parted, *others, CONTROLLER)
        self._until(lambda: self._isr() == {1, 2, 3} and len(set(self._ends().values())) == 1)
        return parted

    def _until(self, is_so: Callable[[], bool]) -> None:
        """Go on until this is so, or a law is broken, or the time is up."""
        end_ms = self.story.time_ms + _PATIENCE_MS
        while not is_so() and self.story.failure is None and self.story.time_ms < end_ms:
            if self.story.next() is None:
                return

    def _ends(self) -> dict[int, int]:
        return {node: view.log_end_offset for node, view in self.story.view.replicas(TOPIC, PARTITION).items()}

    def _isr(self) -> set[int]:
        return set(self.story.view.isr(TOPIC, PARTITION))

    def _cut(self, one: int, *others: int | str) -> None:
        for other in others:
            self.story = self.story.cut(one, other)

    def _heal(self, one: int, *others: int | str) -> None:
        for other in others:
            self.story = self.story.heal(one, other)


def epochs_of(story: Story) -> dict[int, list[tuple[int, int]]]:
    """By broker, the leader epochs of its log, each with the offset at which it began."""
    replicas = story.view.replicas(TOPIC, PARTITION)
    return {node: [(entry.epoch, entry.start_offset) for entry in view.epochs] for node, view in replicas.items()}


# --- a live cluster ---------------------------------------------------------------------------------------------------


def leader_and_follower(cluster: "Cluster", topic: str) -> tuple[int, int]:
    """The two brokers that hold a topic with two replicas in sync."""
    view = cluster.wait_until(lambda seen: len(seen.isr(topic, 0)) == 2, what=f"both replicas of {topic} are in sync")
    leader = view.leader(topic, 0)
    assert leader is not None
    return leader, (view.isr(topic, 0) - {leader}).pop()


def wait_for_isr(cluster: "Cluster", topic: str, *brokers: int) -> None:
    """Until the in-sync replicas are these."""
    cluster.wait_until(lambda view: view.isr(topic, 0) == set(brokers), what=f"the ISR of {topic} is {brokers}")


def send(cluster: "Cluster", topic: str, count: int) -> int:
    """Send this many records, one by one with acks=all; how many are acknowledged. It stops at the first refusal."""
    servers = cluster.bootstrap_servers
    with Producer(bootstrap_servers=servers, delivery_timeout_ms=3_000, request_timeout_ms=2_000) as producer:
        for number in range(count):
            try:
                producer.send(topic, b"record %d" % number).result(_WAIT_S)
            except KafkaError:
                return number
    return count


def records_left(cluster: "Cluster", topic: str) -> int:
    """How many records a consumer finds in the topic; 0 if there is no leader."""
    leader = cluster.describe().leader(topic, 0)
    return 0 if leader is None else cluster.describe().replicas(topic, 0)[leader].log_end_offset


def die_and_return(cluster: "Cluster", topic: str) -> int | None:
    """Stop the follower in order, kill the leader for good, and start the follower again. Returns the leader after the
    time in which the controller elects; None if there is none."""
    leader, follower = leader_and_follower(cluster, topic)
    cluster.stop(follower)
    wait_for_isr(cluster, topic, leader)
    cluster.kill(leader)
    cluster.restart(follower)
    try:
        view = cluster.wait_until(lambda seen: seen.leader(topic, 0) == follower, _ELECTION_S, "the follower leads")
    except TimeoutError:
        return None
    return view.leader(topic, 0)


def rounds(leader: Sequence[int], follower: Sequence[int]) -> list[int]:
    """How many records a follower has left after each time it asks, until the logs agree. A log is given as the epoch
    of each record."""
    led, followed = _cache(leader), _cache(follower)
    left = [len(follower)]
    while left[-1] and (ours := followed.latest_epoch) is not None:
        end = led.end_offset_for(ours, len(leader)) or OffsetAndEpoch(0, -1)
        if end.epoch == ours and end.offset >= left[-1]:
            break
        own = followed.end_offset_for(end.epoch, left[-1])
        left.append(min(end.offset, left[-1] if own is None else own.offset))
        followed.entries = [entry for entry in followed.entries if entry.start_offset < left[-1]]
    return left


def _cache(log: Sequence[int]) -> LeaderEpochCache:
    cache = LeaderEpochCache(OsFileSystem(), "no such folder")
    for offset, epoch in enumerate(log):
        cache.assign(epoch, offset)
    return cache
