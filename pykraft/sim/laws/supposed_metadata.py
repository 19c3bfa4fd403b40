"""What the controller would do with the newest image, were one thing in it another: supposed when a history has ended.

Few histories lose all in-sync replicas of a partition while a snapshot is due, or a directory while a partition moves.
So each of these is supposed of the newest image, and the controller's plan, which changes nothing, is looked at:

* *Snapshots.* All that the image may know of a partition is in the records that a snapshot of it has.
* *Directories.* A log directory of a broker has failed. The broker leads nothing of what was there, and is not in sync
  there any more; another one leads if it is in sync and can.
* *Reassignments.* One is cancelled while only replicas that it adds are in sync. To go back may lose records, so it is
  refused, unless the topic allows unclean elections.

Follows org.apache.kafka.image.MetadataImage and org.apache.kafka.controller.ReplicationControlManager.
"""

from collections.abc import Iterable
from dataclasses import replace

from pykraft.common.core import finish
from pykraft.common.types import Uuid
from pykraft.controller.partitions.reassignment import ReassignmentControl
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.controller.result import VersionedRecord
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionRegistration
from pykraft.metadata.versions import ELR_VERSION, LATEST, METADATA_VERSION
from pykraft.protocol.messages.brokers import RECOVERING
from pykraft.protocol.messages.reassignments import AlterPartitionReassignmentsRequest
from pykraft.sim.laws.invariants import require

_MOST = 4
"""This many partitions are looked at."""
_LEFT = Uuid(b"directory-left-0")
_GONE = Uuid(b"directory-gone-0")

Place = tuple[Uuid, str, int, PartitionRegistration]
"""A partition: the id and the name of its topic, its number, and what is known of it."""


def check_supposed_metadata(image: MetadataImage) -> None:
    """Suppose all of it."""
    places: list[Place] = [
        (topic_id, topic.name, number, partition)
        for topic_id, topic in sorted(image.topics.items())
        for number, partition in sorted(topic.partitions.items())
    ][:_MOST]
    if places:
        _check_kept_in_snapshot(image, places)
    control = ReplicationControl(-1, {})
    for place in places:
        _check_directory_gone(image, place, control)
        _check_cancelled(image, place, control)


def _with(image: MetadataImage, place: Place, partition: PartitionRegistration) -> MetadataImage:
    """The image with this partition instead."""
    topic = image.topics[place[0]]
    partitions = {**topic.partitions, place[2]: partition}
    return replace(image, topics={**image.topics, place[0]: replace(topic, partitions=partitions)})


def _check_kept_in_snapshot(image: MetadataImage, places: Iterable[Place]) -> None:
    whole = replace(image, features={**image.features, METADATA_VERSION: LATEST.level, ELR_VERSION: 1})
    for place in places:
        partition = place[3]
        known = replace(
            partition,
            adding_replicas=partition.replicas[-1:],
            removing_replicas=partition.replicas[:1],
            leader_recovery_state=RECOVERING,
            eligible_leader_replicas=partition.replicas[-1:],
            last_known_leader=partition.replicas[:1],
        )
        whole = _with(whole, place, known)
    read = MetadataDelta(EMPTY_IMAGE)
    for record, _ in whole.to_records():
        read.replay(record)
    found = read.apply(whole.provenance)
    differing = sorted(name for name, value in vars(whole).items() if vars(found)[name] != value)
    wrong = [(place[1], place[2], found.topics[place[0]].partitions[place[2]]) for place in places]
    require(
        not differing,
        f"a snapshot of the newest image, were its partitions reassigned, with ELR and last known leader, would not "
        f"have the same {', '.join(differing)}; it would have {wrong}",
    )


def _after(image: MetadataImage, planned: Iterable[VersionedRecord]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record, _ in planned:
        delta.replay(record)
    return delta.apply(image.provenance)


def _check_directory_gone(image: MetadataImage, place: Place, control: ReplicationControl) -> None:
    topic_id, name, number, partition = place
    broker_id = partition.leader
    if broker_id not in image.brokers:
        return
    directories = tuple(
        _GONE if each == broker_id else known
        for each, known in zip(partition.replicas, partition.directories, strict=True)
    )
    broker = replace(image.brokers[broker_id], directories=(_GONE, _LEFT))
    others = replace(image, brokers={**image.brokers, broker_id: broker})
    for isr in dict.fromkeys((partition.isr, (broker_id,))):
        before = _with(others, place, replace(partition, directories=directories, isr=isr))
        after = _after(before, control.plan_directories_gone(before, broker_id, {_GONE}))
        left = replace(after, brokers={**image.brokers, broker_id: replace(broker, directories=(_LEFT,))})
        able = [each for each in isr if each != broker_id and image.is_active(each)]
        able = [each for each in able if image.is_online(each, partition)]
        for when, now in (("then", after), ("when it is back", _back(left, broker_id, control))):
            found = now.topics[topic_id].partitions[number]
            require(
                found.leader != broker_id and (found.leader in able or not able),
                f"{name}-{number} is led by {found.leader} {when}, were its directory on its leader, broker "
                f"{broker_id}, to fail; of its ISR {able} could lead",
            )


def _back(image: MetadataImage, broker_id: int, control: ReplicationControl) -> MetadataImage:
    """The broker is active again, without that directory: what has no leader may be given one."""
    return _after(image, control.plan_broker_back(image, broker_id))


def _check_cancelled(image: MetadataImage, place: Place, control: ReplicationControl) -> None:
    _, name, number, partition = place
    others = sorted(image.brokers.keys() - set(partition.replicas))
    if control.allows_unclean_election(image, name) or len(partition.replicas) < 2 - len(others[:1]):
        return
    added = others[0] if others else partition.replicas[-1]
    replicas = (*(each for each in partition.replicas if each != added), added)
    moved = replace(
        partition,
        replicas=replicas,
        directories=(_LEFT,) * len(replicas),
        adding_replicas=(added,),
        isr=(added,),
        leader=added,
    )
    topic_type = AlterPartitionReassignmentsRequest.Topic
    request = AlterPartitionReassignmentsRequest(
        topics=[topic_type(name=name, partitions=[topic_type.Partition(partition_index=number, replicas=None)])]
    )
    planned = finish(ReassignmentControl(control).alter(_with(image, place, moved), request))
    require(
        not planned.records,
        f"{name}-{number}, were {added} added and alone in sync, would go back to its other replicas, which may lack "
        f"records: {planned.records}",
    )
