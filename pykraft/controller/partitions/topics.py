"""Making topics, giving them more partitions, deleting them: the plans, with every refusal that a client may meet.

One request may name many topics; each is judged alone, and those that are in order are made even if others are not. A
topic that is named twice is refused, and answered once. A topic never loses partitions: their records would be lost.

Follows org.apache.kafka.controller.ReplicationControlManager and org.apache.kafka.common.internals.Topic.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from pykraft.common.core import Steps
from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.settings.topic_config import check_topic_settings
from pykraft.common.types import METADATA_TOPIC, ZERO_UUID, Uuid
from pykraft.controller.config import DEFAULT_REPLICATION_FACTOR, DELETE_TOPIC_ENABLE, NUM_PARTITIONS
from pykraft.controller.partitions.placement import UsableBroker, place
from pykraft.controller.result import MAX_RECORDS_PER_REQUEST, Charge, Result, VersionedRecord, free
from pykraft.metadata.image import TOPIC_RESOURCE, MetadataImage, PartitionRegistration, TopicImage
from pykraft.metadata.settings import node_layers, settings_of_new_topic
from pykraft.protocol.messages.admin import (
    CLUSTER_DEFAULT,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from pykraft.protocol.messages.records import ConfigRecord, RemoveTopicRecord, TopicRecord

PARTITION_RECORD_VERSION = 2
MAX_NAME_LENGTH = 249

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """KafkaError(INVALID_TOPIC_EXCEPTION) unless a topic may be called so: the name is also that of a folder."""
    if not name or name in (".", ".."):
        problem = "a topic is called neither nothing nor . nor .."
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"the name has {len(name)} characters; {MAX_NAME_LENGTH} are allowed"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = f"{name!r} has other characters than letters, digits, dot, underscore and dash"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


class TopicControl:
    """Plans the making and deleting of topics."""

    def __init__(self, config: Config, random: Random, node_id: int, properties: Mapping[str, str]) -> None:
        """`properties` is the node's file, with the defaults of topics' settings."""
        self._config = config
        self._random = random
        self._node_id = node_id
        self._properties = properties
        self._last_described: (
            tuple[MetadataImage, Mapping[str, str | None], list[CreateTopicsResponse.Topic.Config]] | None
        ) = None
        """The settings that were asked for last, and all that they came to."""

    # --- making -------------------------------------------------------------------------------------------------------

    def create_topics(
        self, image: MetadataImage, request: CreateTopicsRequest, charge: Charge = free
    ) -> Steps[Result[CreateTopicsResponse]]:
        times_named = Counter(topic.name for topic in request.topics)
        total = sum(max(self._partition_count(topic), 0) + 1 + len(topic.configs) for topic in request.topics)
        records: list[VersionedRecord] = []
        taken = {_collision_key(name): name for name in image.topic_ids}
        results = []
        for topic in {topic.name: topic for topic in request.topics}.values():
            try:
                if times_named[topic.name] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request names topic {topic.name} twice")
                if total > MAX_RECORDS_PER_REQUEST:
                    raise KafkaError(
                        ErrorCode.POLICY_VIOLATION,
                        f"{total} topics, partitions and settings at once; {MAX_RECORDS_PER_REQUEST} are allowed",
                    )
                self._check_name(topic.name, image, taken)
                created, some = yield from self._create_topic(image, topic, charge)
                taken[_collision_key(topic.name)] = topic.name
                records += some
                results.append(created)
            except KafkaError as error:
                results.append(
                    CreateTopicsResponse.Topic(name=topic.name, error_code=error.code, error_message=str(error.detail))
                )
            yield
        return Result([] if request.validate_only else records, CreateTopicsResponse(topics=results))

    def _partition_count(self, topic: CreateTopicsRequest.Topic) -> int:
        if topic.assignments:
            return len(topic.assignments)
        return self._config[NUM_PARTITIONS] if topic.num_partitions == CLUSTER_DEFAULT else topic.num_partitions

    def _check_name(self, name: str, image: MetadataImage, taken: Mapping[str, str]) -> None:
        check_topic_name(name)
        if name == METADATA_TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is the quorum's own log")
        if name in image.topic_ids:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
        if _collision_key(name) in taken:
            # Metrics write dots as underscores, so the two could not be told apart there.
            other = taken[_collision_key(name)]
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name} collides with {other}")

    def _create_topic(
        self, image: MetadataImage, topic: CreateTopicsRequest.Topic, charge: Charge
    ) -> Steps[tuple[CreateTopicsResponse.Topic, list[VersionedRecord]]]:
        settings = {config.name: config.value for config in topic.configs}
        described = self._described(image, settings)
        replicas = self._assigned(image, topic) if topic.assignments else self._placed(image, topic)
        charge(len(replicas))
        topic_id = Uuid.random(self._random)
        records: list[VersionedRecord] = [(TopicRecord(name=topic.name, topic_id=topic_id), 0)]
        for name, value in settings.items():
            config = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
            records.append((config, 0))
        for number, assigned in enumerate(replicas):
            registration = self._registration(image, number, assigned)
            records.append((registration.to_record(topic_id, number), PARTITION_RECORD_VERSION))
            yield
        created = CreateTopicsResponse.Topic(
            name=topic.name,
            topic_id=topic_id,
            num_partitions=len(replicas),
            replication_factor=len(replicas[0]),
            configs=described,
        )
        return created, records

    def _described(
        self, image: MetadataImage, settings: Mapping[str, str | None]
    ) -> list[CreateTopicsResponse.Topic.Config]:
        """All settings of a new topic, and where each comes from; KafkaError if it cannot have these. A thousand topics
        that one request makes mostly have the same."""
        known = self._last_described
        if known is not None and known[0] is image and known[1] == settings:
            return known[2]
        layers = node_layers(image, self._node_id, self._properties)
        try:
            check_topic_settings(settings, *layers)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        own = {name: value for name, value in settings.items() if value is not None}
        described = [
            CreateTopicsResponse.Topic.Config(name=name, value=own.get(name, value), config_source=source)
            for name, value, source in settings_of_new_topic(own, layers)
        ]
        self._last_described = image, settings, described
        return described

    def _placed(self, image: MetadataImage, topic: CreateTopicsRequest.Topic) -> list[tuple[int, ...]]:
        """Replicas as the controller chooses them."""
        factor = topic.replication_factor
        if factor == CLUSTER_DEFAULT:
            factor = self._config[DEFAULT_REPLICATION_FACTOR]
        if factor < 1:
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, f"{factor} replicas are wanted: at least 1")
        partitions = self._partition_count(topic)
        if partitions < 1:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions are wanted: at least 1")
        return place(_usable(image), partitions, factor, self._random)

    def _assigned(self, image: MetadataImage, topic: CreateTopicsRequest.Topic) -> list[tuple[int, ...]]:
        """Replicas as the client wants them."""
        if topic.replication_factor != CLUSTER_DEFAULT or topic.num_partitions != CLUSTER_DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "with an assignment, partitions and replication factor must be -1"
            )
        chosen = {assignment.partition_index: tuple(assignment.broker_ids) for assignment in topic.assignments}
        if len(chosen) < len(topic.assignments) or sorted(chosen) != list(range(len(chosen))):
            raise _bad_assignment("partitions are to be numbered 0, 1, 2, ..., each once")
        for number, replicas in sorted(chosen.items()):
            _check_assignment(image, number, replicas, len(chosen[0]))
        return [chosen[number] for number in range(len(chosen))]

    def _registration(self, image: MetadataImage, number: int, replicas: Sequence[int]) -> PartitionRegistration:
        """A new partition: its active replicas are in sync, since there is nothing to have."""
        in_sync = tuple(replica for replica in replicas if image.is_active(replica))
        if not in_sync:
            raise _bad_assignment(f"all brokers of partition {number} are fenced: {tuple(replicas)}")
        return PartitionRegistration(
            replicas=tuple(replicas),
            directories=tuple(image.brokers[replica].default_directory for replica in replicas),
            isr=in_sync,
            leader=in_sync[0],
            leader_epoch=0,
            partition_epoch=0,
        )

    # --- more partitions ----------------------------------------------------------------------------------------------

    def create_partitions(
        self, image: MetadataImage, request: CreatePartitionsRequest, charge: Charge = free
    ) -> Steps[Result[CreatePartitionsResponse]]:
        times_named = Counter(topic.name for topic in request.topics)
        records: list[VersionedRecord] = []
        results = []
        for topic in {topic.name: topic for topic in request.topics}.values():
            result = CreatePartitionsResponse.Topic(name=topic.name)
            try:
                if times_named[topic.name] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"the request names topic {topic.name} twice")
                records += yield from self._grow(image, topic, MAX_RECORDS_PER_REQUEST - len(records), charge)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.detail
            results.append(result)
            yield
        return Result([] if request.validate_only else records, CreatePartitionsResponse(results=results))

    def _grow(
        self, image: MetadataImage, topic: CreatePartitionsRequest.Topic, most_records: int, charge: Charge
    ) -> Steps[list[VersionedRecord]]:
        """The records of the new partitions. They get as many replicas as partition 0 has."""
        found = _find(image, topic.name, ZERO_UUID)
        there = len(found.partitions)
        more, factor = topic.count - there, len(found.partitions[0].replicas)
        if more < 1:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"topic {topic.name} has {there} partitions: {topic.count} are not more"
            )
        if more > most_records:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"{more} partitions more; {MAX_RECORDS_PER_REQUEST} at once are allowed"
            )
        if topic.assignments is None:
            replicas = place(_usable(image), more, factor, self._random)
        elif len(topic.assignments) != more:
            raise _bad_assignment(f"{more} partitions are to be added, {len(topic.assignments)} are assigned")
        else:
            replicas = [tuple(assignment.broker_ids) for assignment in topic.assignments]
        charge(more)
        records: list[VersionedRecord] = []
        for number, assigned in enumerate(replicas, there):
            _check_assignment(image, number, assigned, factor)
            registration = self._registration(image, number, assigned)
            records.append((registration.to_record(found.topic_id, number), PARTITION_RECORD_VERSION))
            yield
        return records

    # --- deleting -----------------------------------------------------------------------------------------------------

    def delete_topics(
        self, image: MetadataImage, request: DeleteTopicsRequest, charge: Charge = free
    ) -> Steps[Result[DeleteTopicsResponse]]:
        wanted = [*request.topics, *(DeleteTopicsRequest.Topic(name=name) for name in request.topic_names)]
        times_named = Counter((topic.name, topic.topic_id) for topic in wanted)
        times_found: Counter[Uuid | None] = Counter()
        for name, topic_id in times_named:
            times_found[_found_id(image, name, topic_id)] += 1
            yield
        records: list[VersionedRecord] = []
        results: dict[object, DeleteTopicsResponse.Topic] = {}
        for name, topic_id in times_named:
            result = DeleteTopicsResponse.Topic(name=name, topic_id=topic_id)
            try:
                if not self._config[DELETE_TOPIC_ENABLE]:
                    raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
                if times_named[name, topic_id] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
                found = _find(image, name, topic_id)
                result.name, result.topic_id = found.name, found.topic_id
                if times_found[found.topic_id] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the request names this topic by its name and its id")
                charge(len(found.partitions))
                records.append((RemoveTopicRecord(topic_id=found.topic_id), 0))
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.detail
            results[result.name, result.topic_id] = result
            yield
        return Result(records, DeleteTopicsResponse(responses=list(results.values())))


def _found_id(image: MetadataImage, name: str | None, topic_id: Uuid) -> Uuid | None:
    """The id of the topic that is meant, if there is one."""
    try:
        return _find(image, name, topic_id).topic_id
    except KafkaError:
        return None


def _find(image: MetadataImage, name: str | None, topic_id: Uuid) -> TopicImage:
    if (name is None) == (topic_id == ZERO_UUID):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id")
    found = image.topics.get(topic_id) if name is None else image.topic_named(name)
    if found is None and name is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {topic_id}")
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    return found


def _usable(image: MetadataImage) -> list[UsableBroker]:
    """The brokers that may get new replicas."""
    return [
        UsableBroker(broker_id, broker.rack or "", broker.fenced)
        for broker_id, broker in sorted(image.brokers.items())
        # A broker that is about to stop gets nothing new.
        if not broker.is_cordoned and (broker.fenced or not broker.in_controlled_shutdown)
    ]


def _check_assignment(image: MetadataImage, number: int, replicas: Sequence[int], factor: int) -> None:
    """KafkaError unless these brokers may hold the partition."""
    if not replicas or len(set(replicas)) < len(replicas):
        raise _bad_assignment(f"partition {number} names no replica, or one twice: {tuple(replicas)}")
    if len(replicas) != factor:
        raise _bad_assignment(f"partition {number} has {len(replicas)} replicas, partition 0 {factor}")
    for broker_id in replicas:
        check_takes_replicas(image, broker_id)


def check_takes_replicas(image: MetadataImage, broker_id: int) -> None:
    """KafkaError unless this broker may be named as one that holds a partition."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise _bad_assignment(f"broker {broker_id} is not registered")
    if broker.is_cordoned:
        raise _bad_assignment(f"broker {broker_id} takes no new replicas: its log directories are cordoned")


def _bad_assignment(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)


def _collision_key(name: str) -> str:
    return name.replace(".", "_")
