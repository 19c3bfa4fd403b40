"""A broker tells in which log directory its replicas are, where the metadata say another one (KIP-858).

A broker of pykraft has one log directory, and the controller notes its id when it places a replica there. The id
changes when the disk was replaced and formatted again. Then the controller lets the broker lead none of the replicas
that it had on the old disk: the new one may have nothing of them. So the broker tells (AssignReplicasToDirs) which of
them it has again: those that are in the ISR of a leader, and those of which there is no other replica. A replica that
was the last one in sync is neither; an administrator may let another one lead by an unclean election.

(Apache Kafka tells of all at once, when it opens the logs; with the next election such a replica leads, empty.)

Follows org.apache.kafka.server.AssignmentsManager.
"""

from collections.abc import Callable
from itertools import groupby

from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.common.core import Poll, Steps
from pykraft.common.rooms import Room
from pykraft.common.types import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, Uuid
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.metadata.versions import IV_3_7_2_DIRECTORIES, METADATA_VERSION
from pykraft.protocol.messages.brokers import AssignReplicasToDirsRequest

RETRY_BACKOFF_MS = 500
"""How long an answer may take to come back as metadata before the same is reported again."""
MAX_ASSIGNMENTS = 2000


class DirectoryAssignments:
    """The replicas of this broker whose directory the metadata do not know. It is a RequestManager."""

    def __init__(
        self, broker_id: int, directory_id: Uuid, broker_epoch: Callable[[], int], channel: ControllerChannel
    ) -> None:
        self._broker_id = broker_id
        self._directory_id = directory_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self.room = Room("directories")
        self._untold: set[tuple[Uuid, int]] = set()
        """(topic id, partition)"""
        self._next = 0
        self._in_flight = False

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> Steps[None]:
        """Look at the partitions that have changed. Pauses after each."""
        if image.features.get(METADATA_VERSION, 0) < IV_3_7_2_DIRECTORIES:
            return
        if any(key[0] in delta.removed_topics for key in self._untold):
            self._untold = {key for key in self._untold if key[0] not in delta.removed_topics}
            self.room.mark("partition")
        for topic_id in sorted(delta.touched_topics):
            topic = image.topics[topic_id]
            for number in delta.touched_partitions(topic):
                is_wrong = self._is_to_be_told(topic.partitions[number])
                if is_wrong is not ((topic_id, number) in self._untold):
                    (self._untold.add if is_wrong else self._untold.discard)((topic_id, number))
                    self.room.mark("partition")
                yield

    def _is_to_be_told(self, partition: PartitionRegistration) -> bool:
        replicas = partition.replicas
        known = partition.directory_of(self._broker_id)
        if self._broker_id not in replicas or known in (self._directory_id, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY):
            return False
        return len(replicas) == 1 or (partition.has_leader and self._broker_id in partition.isr)

    def poll(self, now: int) -> Poll:
        if self._untold and not self._in_flight:
            if now < self._next:
                return Poll(self._next)
            self._in_flight = True
            self._channel.send(self._request(), self._on_answer, now)
        return Poll()

    def _request(self) -> AssignReplicasToDirsRequest:
        directory = AssignReplicasToDirsRequest.Directory
        told = sorted(self._untold)[:MAX_ASSIGNMENTS]
        topics = [
            directory.Topic(
                topic_id=topic_id,
                partitions=[directory.Topic.Partition(partition_index=number) for _, number in group],
            )
            for topic_id, group in groupby(told, key=lambda key: key[0])
        ]
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            directories=[directory(id=self._directory_id, topics=topics)],
        )

    def _on_answer(self, response: object, now: int) -> None:
        """Whatever it says: what is noted comes back as metadata, and the rest is reported again."""
        self._in_flight = False
        self._next = now + RETRY_BACKOFF_MS
        self.room.mark("answer")
