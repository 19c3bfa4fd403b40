"""A broker tells in which log directory its replicas are, where the metadata say another one (KIP-858).

With one log directory there is little to tell: the controller notes its id when it places a replica there. A broker
with several chooses a directory when it makes the log, and tells then. It also tells of a replica whose directory has
failed before the controller knew where it was: the controller sees that the broker does not have that directory, and
takes the replica out of the ISR.

The id of a directory changes when the disk was replaced and formatted again. Then the controller lets the broker lead
none of the replicas that it had on the old disk: the new one may have nothing of them. So the broker tells which of
them it has again: those that are in the ISR of a leader, and those of which there is no other replica. Once it has
caught up, it has what it needs while it stays in the ISR, also when the leader is gone before the controller knows. A
replica that was the last one in sync when its broker began is neither; an administrator may let another one lead by an
unclean election.

(Apache Kafka tells of all at once, when it opens the logs; with the next election such a replica leads, empty.)

Follows org.apache.kafka.server.AssignmentsManager.
"""

from collections.abc import Callable
from itertools import groupby

from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.common.core import Poll, Steps
from pykraft.common.rooms import Room
from pykraft.common.types import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, TopicIdPartition, TopicPartition, Uuid
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionRegistration, TopicImage
from pykraft.metadata.versions import IV_3_7_2_DIRECTORIES, METADATA_VERSION
from pykraft.protocol.messages.brokers import AssignReplicasToDirsRequest
from pykraft.storage.upkeep.log_directories import LogDirectories

RETRY_BACKOFF_MS = 500
"""How long an answer may take to come back as metadata before the same is reported again."""
MAX_ASSIGNMENTS = 2000


class DirectoryAssignments:
    """The replicas of this broker whose directory the metadata do not know. It is a RequestManager."""

    def __init__(
        self, broker_id: int, logs: LogDirectories, broker_epoch: Callable[[], int], channel: ControllerChannel
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._own = frozenset(logs.ids.values())
        self._has_one = len(logs.paths) == 1
        """Not if others have failed before the start: what was in them is not in the one that is left."""
        self._image: MetadataImage = EMPTY_IMAGE
        self._broker_epoch = broker_epoch
        self._channel = channel
        self.room = Room("directories")
        self._untold: dict[tuple[Uuid, int], Uuid] = {}
        """By (topic id, partition): where it is."""
        self._next = 0
        self._in_flight = False

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> Steps[None]:
        """Look at the partitions that have changed. Pauses after each."""
        if image.features.get(METADATA_VERSION, 0) < IV_3_7_2_DIRECTORIES:
            return
        self._image = image
        if any(key[0] in delta.removed_topics for key in self._untold):
            self._untold = {key: place for key, place in self._untold.items() if key[0] not in delta.removed_topics}
            self.room.mark("partition")
        for topic_id in sorted(delta.touched_topics):
            topic = image.topics[topic_id]
            for number in delta.touched_partitions(topic):
                self._look_at(topic, number)
                yield

    def on_placed(self, key: TopicIdPartition) -> None:
        """The log is there."""
        topic = self._image.topics.get(key.topic_id)
        if topic is not None and key.partition in topic.partitions and not self._has_one:
            self._look_at(topic, key.partition)

    def _look_at(self, topic: TopicImage, number: int) -> None:
        key, partition = (topic.topic_id, number), topic.partitions[number]
        stays_in_sync = key in self._untold and self._broker_id in partition.isr
        has_it = stays_in_sync or self._is_caught_up(partition)
        place = self._to_tell(TopicPartition(topic.name, number), partition, has_it)
        if place != self._untold.get(key):
            if place is None:
                del self._untold[key]
            else:
                self._untold[key] = place
            self.room.mark("partition")

    def _to_tell(self, topic_partition: TopicPartition, partition: PartitionRegistration, has_it: bool) -> Uuid | None:
        """The directory of this replica, if the controller is to hear of it now. `has_it` says whether the replica has
        what it had in a directory that is gone."""
        replicas, known = partition.replicas, partition.directory_of(self._broker_id)
        if self._broker_id not in replicas:
            return None
        if self._has_one:
            (place,) = self._own
            is_known = known in (place, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY)
            return place if not is_known and has_it else None
        found = self._logs.id_of(topic_partition)
        if found is None or found == known:
            return None
        is_told_at_once = known in self._own or known in (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY)
        return found if is_told_at_once or has_it else None

    def _is_caught_up(self, partition: PartitionRegistration) -> bool:
        """Whether a leader says that the replica has everything, or there is no other replica."""
        return len(partition.replicas) == 1 or (partition.has_leader and self._broker_id in partition.isr)

    def poll(self, now: int) -> Poll:
        if self._untold and not self._in_flight:
            if now < self._next:
                return Poll(self._next)
            self._in_flight = True
            self._channel.send(self._request(), self._on_answer, now)
        return Poll()

    def _request(self) -> AssignReplicasToDirsRequest:
        directory = AssignReplicasToDirsRequest.Directory
        told = sorted((place, key) for key, place in sorted(self._untold.items())[:MAX_ASSIGNMENTS])
        directories = []
        for place, of_place in groupby(told, key=lambda each: each[0]):
            topics = [
                directory.Topic(
                    topic_id=topic_id,
                    partitions=[directory.Topic.Partition(partition_index=number) for _, (_, number) in group],
                )
                for topic_id, group in groupby(of_place, key=lambda each: each[1][0])
            ]
            directories.append(directory(id=place, topics=topics))
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), directories=directories
        )

    def _on_answer(self, response: object, now: int) -> None:
        """Whatever it says: what is noted comes back as metadata, and the rest is reported again."""
        self._in_flight = False
        self._next = now + RETRY_BACKOFF_MS
        self.room.mark("answer")
