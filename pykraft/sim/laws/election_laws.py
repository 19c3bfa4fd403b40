"""The laws of elections: what an eligible replica has, and when committed records may be lost.

* **A member of the ELR holds everything that is committed** (KIP-966). The high watermark has not advanced since it
  left the ISR, and it has lost nothing: a broker that came back without having stopped in order is no member any more.
  Of a broker that has lost its power, and has not registered since, the controller cannot know; there is no law for it.
* **Committed records are lost only by an unclean election.** Such an election is seen in the committed metadata: the
  partition is RECOVERING (KIP-704). From then on its history is another one, and what was acknowledged before may be
  gone or replaced. No law says any more what that partition holds; those of all other partitions go on.
* **The last known leader loses nothing but what its disk has lost.** Kafka elects it uncleanly when the ISR and the ELR
  are empty, because it cannot know of the disk. If the broker has kept its power, all laws go on.

An unclean election is noted as soon as a node has it in its image, before anything comes of it.
"""

from collections.abc import Callable, Collection, Mapping

from pykraft.common.types import TopicIdPartition
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.protocol.messages.brokers import RECOVERING
from pykraft.protocol.messages.records import NO_LEADER
from pykraft.sim.laws.invariants import PartitionHistory, ReplicaLog, require


class ElectionLaws:
    """Notes what was elected, and checks what is eligible."""

    def __init__(self, history: Callable[[TopicIdPartition], PartitionHistory], lossy: Collection[int] = ()) -> None:
        """`lossy` are the brokers that have lost power, and are not in sync again; it changes as time goes by."""
        self._history = history
        self._lossy = lossy
        self._has_everything: dict[tuple[TopicIdPartition, int], bool] = {}
        """By partition and leader epoch: whether the leader of a recovering partition has all that was committed."""
        self._noted: dict[int, MetadataImage] = {}
        self._newest: Mapping[TopicIdPartition, PartitionRegistration] = {}
        self._offset = -1
        self.preferred = self.unclean = self.last_known = self.eligible = 0
        """So many leaders were elected in each way."""

    def note(self, node_id: int, image: MetadataImage) -> None:
        """A node has this image now."""
        if self._noted.get(node_id) is image:
            return
        self._noted[node_id] = image
        partitions = {
            TopicIdPartition(topic.topic_id, topic.name, number): partition
            for topic in image.topics.values()
            for number, partition in topic.partitions.items()
        }
        is_news = image.provenance.offset > self._offset
        for key, partition in partitions.items():
            if partition.leader_recovery_state == RECOVERING and not self._loses_nothing(key, partition, is_news):
                self._history(key).is_lost = True
        if is_news:
            for key, partition in partitions.items():
                if (before := self._newest.get(key)) is not None and before.leader != partition.leader:
                    self._count(before, partition)
            self._offset, self._newest = image.provenance.offset, partitions

    def _loses_nothing(self, key: TopicIdPartition, partition: PartitionRegistration, is_news: bool) -> bool:
        """Seen when a recovering partition gets this leader epoch: by the state before it."""
        epoch = (key, partition.leader_epoch)
        before = self._newest.get(key)
        if epoch not in self._has_everything and is_news and before is not None:
            found = before.last_known_leader == (partition.leader,) and partition.leader not in self._lossy
            if before.leader_recovery_state == RECOVERING:
                had_all = self._has_everything.get((key, before.leader_epoch), False)
                valid = {NO_LEADER, *before.isr, *before.eligible_leader_replicas}
                found = had_all and (found or partition.leader in valid)
            self._has_everything[epoch] = found
        return self._has_everything.get(epoch, False)

    def _count(self, before: PartitionRegistration, after: PartitionRegistration) -> None:
        if not after.has_leader:
            return
        if after.leader_recovery_state == RECOVERING:
            is_last_known = before.last_known_leader == (after.leader,)
            self.last_known += is_last_known
            self.unclean += not is_last_known
        self.eligible += after.leader in before.eligible_leader_replicas
        self.preferred += before.leader in after.isr and after.has_preferred_leader


def check_elr(
    image: MetadataImage,
    histories: Mapping[TopicIdPartition, PartitionHistory],
    log_of: Callable[[int, TopicIdPartition], ReplicaLog | None],
) -> None:
    """`log_of(broker_id, partition)` is the log of a broker whose disk has lost nothing that the controller does not
    know of; None if there is none."""
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            history = histories.get(TopicIdPartition(topic.topic_id, topic.name, number))
            if history is None or history.is_lost:
                continue
            for member in partition.eligible_leader_replicas:
                log = log_of(member, TopicIdPartition(topic.topic_id, topic.name, number))
                require(
                    log is None or history.log.shared(log) == len(history.log.ends),
                    f"{topic.name}-{number}: broker {member} is eligible to lead, and its log ends at "
                    f"{log and log.end}; committed is everything up to {history.log.end}",
                )
