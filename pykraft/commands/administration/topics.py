"""``topics``: list, describe, create, alter and delete topics, as kafka-topics.sh does.

Exactly one of ``--list``, ``--describe``, ``--create``, ``--alter``, ``--delete`` says what is done. ``--topic`` is the
name of the topic to create, and for the others a regular expression that must fit the whole name. ``--alter`` gives
topics more partitions, ``--partitions`` in all; ``--replica-assignment`` names the brokers of each, those of the
partitions that are there included, which stay where they are.

A description is what DescribeTopicPartitions tells, with the settings that are not the default. ``Elr`` are the
eligible leader replicas: outside the ISR, and yet with everything committed. Older brokers do not know them: ``N/A``.

Follows org.apache.kafka.tools.TopicCommand.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping

from pykraft.admin import Admin
from pykraft.client.administration.admin import (
    PARTITIONS_PER_RESPONSE,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
)
from pykraft.client.administration.configs import ConfigEntry, ConfigResource, ConfigResourceType
from pykraft.client.administration.reassignments import PartitionReassignment
from pykraft.client.arguments import LARGEST_INT32
from pykraft.commands.as_json import add_json, plain, say_json
from pykraft.commands.common import (
    INTERNAL_TOPICS,
    CommandError,
    add_client_arguments,
    answers,
    client_settings,
    pairs,
    say,
    tell,
    topic_filter,
)
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition

_ACTIONS_OF = {
    "json": ("list", "describe"),
    "exclude_internal": ("list", "describe"),
    "if_exists": ("describe", "alter", "delete"),
    "if_not_exists": ("create",),
    "partitions": ("create", "alter"),
    "replication_factor": ("create",),
    "replica_assignment": ("create", "alter"),
    "config": ("create",),
    "partition_size_limit_per_response": ("describe",),
    "under_replicated_partitions": ("describe",),
    "unavailable_partitions": ("describe",),
    "under_min_isr_partitions": ("describe",),
    "at_min_isr_partitions": ("describe",),
    "topic_id": ("describe",),
    "topics_with_overrides": ("describe",),
}
"""Options that not every action has."""
_LARGEST_REPLICATION_FACTOR = 32767
_NO_LEADER = -1
_TOPICS_AT_ONCE = 500
"""Of this many topics the settings are asked for in one request."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    actions = parser.add_mutually_exclusive_group(required=True)
    actions.add_argument("--list", dest="action", action="store_const", const=_list, help="print the names")
    actions.add_argument(
        "--describe", dest="action", action="store_const", const=_describe, help="print the partitions"
    )
    actions.add_argument("--create", dest="action", action="store_const", const=_create, help="make a topic")
    actions.add_argument("--alter", dest="action", action="store_const", const=_alter, help="add partitions")
    actions.add_argument("--delete", dest="action", action="store_const", const=_delete, help="delete topics")
    add_json(parser, "--list, --describe: ")
    parser.add_argument("--topic", metavar="NAME", help="a regular expression; for --create the name")
    parser.add_argument("--exclude-internal", action="store_true", help="without Kafka's own topics")
    parser.add_argument("--if-exists", action="store_true", help="no topic is no mistake")
    parser.add_argument("--if-not-exists", action="store_true", help="--create: that it exists is no mistake")
    parser.add_argument("--partitions", type=int, metavar="N", help="--create, --alter: how many in all")
    parser.add_argument("--replication-factor", type=int, metavar="N", help="--create: replicas of each partition")
    parser.add_argument(
        "--replica-assignment",
        metavar="ID:ID,...",
        help="--create, --alter: for each partition its brokers, the leader first",
    )
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="--create: a setting; may be repeated"
    )
    parser.add_argument(
        "--under-replicated-partitions", action="store_true", help="--describe: only those with replicas out of sync"
    )
    parser.add_argument("--unavailable-partitions", action="store_true", help="--describe: only those without a leader")
    parser.add_argument(
        "--under-min-isr-partitions", action="store_true", help="--describe: only those that acks=all cannot write to"
    )
    parser.add_argument(
        "--at-min-isr-partitions", action="store_true", help="--describe: only those that cannot lose another replica"
    )
    parser.add_argument(
        "--partition-size-limit-per-response",
        type=int,
        metavar="N",
        help=f"--describe: ask for this many partitions at once, by default {PARTITIONS_PER_RESPONSE}",
    )
    parser.add_argument("--topic-id", metavar="ID", help="--describe: the topic with this id")
    parser.add_argument(
        "--topics-with-overrides", action="store_true", help="--describe: only topics whose settings were changed"
    )


def run(options: argparse.Namespace) -> int:
    """Do what was asked for."""
    action = options.action.__name__.strip("_")
    for name, actions in _ACTIONS_OF.items():
        if getattr(options, name) and action not in actions:
            raise CommandError(f"--{name.replace('_', '-')} is for --{' and --'.join(actions)}, not for --{action}")
    limit = options.partition_size_limit_per_response
    if limit is not None and not 1 <= limit <= LARGEST_INT32:
        raise CommandError(f"--partition-size-limit-per-response is {limit}, but must be 1 to {LARGEST_INT32}")
    if options.partitions is not None and options.partitions < 1:
        raise CommandError(f"--partitions is {options.partitions}, but must be at least 1")
    new_topic = _new_topic(options) if options.action is _create else None
    if options.action in (_alter, _delete) and not options.topic:
        raise CommandError(f"--{action} needs --topic")
    if options.action is _alter and options.partitions is None:
        raise CommandError("--alter needs --partitions: how many there are to be in all")
    if options.topics_with_overrides and _shows_partitions_only(options):
        raise CommandError("--topics-with-overrides is about topics, not partitions: leave out the other one")
    with Admin(**client_settings(options)) as admin, answers(admin):
        if new_topic is not None:
            _create(admin, new_topic, options.if_not_exists)
        else:
            options.action(admin, options, _chosen(admin, options))
    return 0


def _chosen(admin: Admin, options: argparse.Namespace) -> list[TopicDescription]:
    """The topics that are meant, by name. CommandError if one is asked for and there is none."""
    if options.topic_id is not None and options.topic is not None:
        raise CommandError("--topic and --topic-id both say which topics are meant: leave one out")
    is_meant = topic_filter(options.topic)
    hidden = INTERNAL_TOPICS if options.exclude_internal else frozenset()
    topics = admin.describe_topics(
        partition_size_limit_per_response=options.partition_size_limit_per_response or PARTITIONS_PER_RESPONSE
    )
    found = [topics[name] for name in sorted(topics) if is_meant(name) and name not in hidden]
    if options.topic_id is not None:
        found = [topic for topic in found if str(topic.topic_id) == options.topic_id]
        if not found and not options.if_exists:
            raise CommandError(f"there is no topic with the id {options.topic_id}")
    if options.topic is not None and not found and options.action is not _list and not options.if_exists:
        raise CommandError(f"there is no topic {options.topic}")
    return found


def _list(_: Admin, options: argparse.Namespace, topics: Iterable[TopicDescription]) -> None:
    if options.json:
        say_json(topics=[topic.name for topic in topics])
        return
    for topic in topics:
        say(topic.name)


def _delete(admin: Admin, _: argparse.Namespace, topics: Iterable[TopicDescription]) -> None:
    admin.delete_topics([topic.name for topic in topics])


def _alter(admin: Admin, options: argparse.Namespace, topics: Iterable[TopicDescription]) -> None:
    assigned = list(_assignment(options.replica_assignment).values()) if options.replica_assignment else None
    grown = {
        topic.name: NewPartitions(options.partitions, None if assigned is None else assigned[len(topic.partitions) :])
        for topic in topics
    }
    if grown:
        admin.create_partitions(grown)


# --- create -----------------------------------------------------------------------------------------------------------


def _create(admin: Admin, topic: NewTopic, if_not_exists: bool) -> None:
    if "." in topic.name or "_" in topic.name:
        tell("pykraft: names of metrics have _ for a period, so names of topics with both may collide: use only one")
    try:
        admin.create_topics([topic])
    except KafkaError as error:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
            return
        raise
    say(f"Created topic {topic.name}.")


def _new_topic(options: argparse.Namespace) -> NewTopic:
    if not options.topic:
        raise CommandError("--create needs --topic")
    assignment = _assignment(options.replica_assignment) if options.replica_assignment else {}
    if assignment and (options.partitions is not None or options.replication_factor is not None):
        raise CommandError("--replica-assignment says it all: leave out --partitions and --replication-factor")
    factor = options.replication_factor
    if factor is not None and not 1 <= factor <= _LARGEST_REPLICATION_FACTOR:
        raise CommandError(f"--replication-factor is {factor}, but must be 1 to {_LARGEST_REPLICATION_FACTOR}")
    return NewTopic(
        options.topic,
        num_partitions=-1 if options.partitions is None else options.partitions,
        replication_factor=-1 if factor is None else factor,
        replica_assignments=assignment,
        topic_configs=pairs("--config", options.config),
    )


def _assignment(text: str) -> dict[int, list[int]]:
    try:
        found = {
            partition: [int(broker) for broker in brokers.split(":")]
            for partition, brokers in enumerate(text.split(","))
        }
    except ValueError:
        raise CommandError(f"--replica-assignment {text} is no list of broker ids, as in 1:2,2:3,3:1") from None
    for partition, brokers in found.items():
        if len(set(brokers)) < len(brokers):
            raise CommandError(f"--replica-assignment names a broker twice for partition {partition}")
        if len(brokers) != len(found[0]):
            raise CommandError(
                f"--replica-assignment has {len(brokers)} replicas for partition {partition}, not as many "
                "as for partition 0"
            )
    return found


# --- describe ---------------------------------------------------------------------------------------------------------


def _describe(admin: Admin, options: argparse.Namespace, topics: Iterable[TopicDescription]) -> None:
    topics = list(topics)
    only_some = _shows_partitions_only(options)
    names = [topic.name for topic in topics]
    configs = {} if only_some else _changed_configs(admin, names)
    min_isr = _min_isr(admin, names) if _asks_min_isr(options) else {}
    ongoing = _ongoing(admin)

    def shown(topic: TopicDescription) -> list[PartitionDescription]:
        if options.topics_with_overrides:
            return []
        least, moving = min_isr.get(topic.name, 0), ongoing.get
        return [
            each
            for each in topic.partitions
            if not only_some or any(_problems(each, options, least, moving(TopicPartition(topic.name, each.partition))))
        ]

    if options.json:
        wanted = [each for each in topics if only_some or configs[each.name] or not options.topics_with_overrides]
        say_json(topics=list(_in_json(wanted, configs, ongoing, shown)))
        return
    for topic in topics:
        if not only_some and (configs[topic.name] or not options.topics_with_overrides):
            first = topic.partitions[0] if topic.partitions else None
            factor = 0 if first is None else _replication_factor(first, ongoing.get(TopicPartition(topic.name, 0)))
            say(_topic_line(topic, factor, configs[topic.name]))
        for partition in shown(topic):
            moving = ongoing.get(TopicPartition(topic.name, partition.partition))
            say(_partition_line(topic.name, partition, moving))


def _in_json(
    topics: Iterable[TopicDescription],
    configs: Mapping[str, Mapping[str, str | None]],
    ongoing: Mapping[TopicPartition, PartitionReassignment],
    shown: Callable[[TopicDescription], list[PartitionDescription]],
) -> Iterator[dict[str, object]]:
    """The topics with the partitions that are shown of them. Without `configs` only partitions are asked for, and a
    topic that has none of those is left out."""
    for topic in topics:
        partitions = [
            plain(each) | {"reassignment": plain(ongoing.get(TopicPartition(topic.name, each.partition)))}
            for each in shown(topic)
        ]
        if configs:
            yield plain(topic) | {"partitions": partitions, "configs": plain(configs[topic.name])}
        elif partitions:
            yield plain(topic) | {"partitions": partitions}


def _ongoing(admin: Admin) -> dict[TopicPartition, PartitionReassignment]:
    """The reassignments that are in progress; none if this client may not know, or the brokers do not."""
    try:
        return admin.list_partition_reassignments()
    except KafkaError as error:
        if error.code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION):
            return {}
        raise


def _replication_factor(partition: PartitionDescription, moving: PartitionReassignment | None) -> int:
    """How many replicas the partition has without those that are being added."""
    if moving is None or not {*moving.adding_replicas, *moving.removing_replicas}.intersection(partition.replicas):
        return len(partition.replicas)
    return len(moving.replicas) - len(moving.adding_replicas)


def _shows_partitions_only(options: argparse.Namespace) -> bool:
    return bool(options.under_replicated_partitions or options.unavailable_partitions or _asks_min_isr(options))


def _asks_min_isr(options: argparse.Namespace) -> bool:
    return bool(options.under_min_isr_partitions or options.at_min_isr_partitions)


def _problems(
    partition: PartitionDescription, options: argparse.Namespace, min_isr: int, moving: PartitionReassignment | None
) -> Iterator[bool]:
    yield options.under_replicated_partitions and len(partition.isr) < _replication_factor(partition, moving)
    yield options.unavailable_partitions and partition.leader == _NO_LEADER
    yield options.under_min_isr_partitions and (partition.leader == _NO_LEADER or len(partition.isr) < min_isr)
    yield options.at_min_isr_partitions and len(partition.isr) == min_isr


def _min_isr(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """The setting min.insync.replicas of each topic."""
    return {
        topic: int(entries["min.insync.replicas"].value or 1) for topic, entries in _described(admin, topics).items()
    }


def _changed_configs(admin: Admin, topics: Iterable[str]) -> dict[str, dict[str, str | None]]:
    """For each topic its settings that are not the default."""
    return {
        topic: {entry.name: entry.value for entry in entries.values() if not entry.is_default}
        for topic, entries in _described(admin, topics).items()
    }


def _described(admin: Admin, topics: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
    """For each topic its settings by name."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    found: dict[str, dict[str, ConfigEntry]] = {}
    for start in range(0, len(resources), _TOPICS_AT_ONCE):
        some = admin.describe_configs(resources[start : start + _TOPICS_AT_ONCE])
        found |= {resource.name: entries for resource, entries in some.items()}
    return found


def _topic_line(topic: TopicDescription, factor: int, configs: Mapping[str, str | None]) -> str:
    changed = ",".join(f"{name}={value}" for name, value in configs.items())
    return (
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {factor}\tConfigs: {changed}"
    )


def _partition_line(topic: str, partition: PartitionDescription, moving: PartitionReassignment | None) -> str:
    changes = ""
    if moving is not None:
        changes = f"\tAdding Replicas: {_ids(moving.adding_replicas)}"
        changes += f"\tRemoving Replicas: {_ids(moving.removing_replicas)}"
    leader = "none" if partition.leader == _NO_LEADER else partition.leader
    return (
        f"\tTopic: {topic}\tPartition: {partition.partition}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}{changes}"
        f"\tElr: {_ids(partition.eligible_leader_replicas)}\tLastKnownElr: {_ids(partition.last_known_elr)}"
    )


def _ids(brokers: Iterable[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))
