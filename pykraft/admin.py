"""The administrator's client: topics, settings, logs, groups, transactions, quorum. Each call waits for its answer.

::

    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topic("flights", partitions=3, replication_factor=3, configs={"min.insync.replicas": 2})
        print(admin.describe_topics(["flights"]))
        topic = ConfigResource(ConfigResourceType.TOPIC, "flights")
        admin.incremental_alter_configs({topic: {"retention.ms": 60_000}})
        print(admin.describe_configs([topic])[topic]["retention.ms"].value)

``Admin(bootstrap_controllers=...)`` asks the active controller without a broker in between (KIP-919): about the quorum,
features, settings, reassignments and rules of access. It is of use while no broker runs.

The work is done by `pykraft.client.administration.admin`, which has no thread; this file gives it one.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import SystemRandom
from typing import TypeVar, Unpack

from pykraft.client import config as keys
from pykraft.client.administration.acls import (
    AclBinding,
    AclBindingFilter,
    acl_binding,
    acl_filter,
    without_errors,
)
from pykraft.client.administration.admin import (
    PARTITIONS_PER_RESPONSE,
    ApiVersions,
    ClusterDescription,
    NewPartitions,
    NewTopic,
    QuorumDescription,
    TopicDescription,
    new_partitions,
    new_topic,
)
from pykraft.client.administration.configs import (
    ConfigChanges,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    config_resource,
    new_configs,
)
from pykraft.client.administration.core import AdminCore, all_or_first_error, endpoint, uuid
from pykraft.client.administration.elections import Elected, ElectionType, election_type
from pykraft.client.administration.features import FeatureMetadata, FeatureUpdate, feature_update
from pykraft.client.administration.group_offsets import CommittedOffsets, PartitionErrors
from pykraft.client.administration.groups import (
    ConsumerGroupDescription,
    GroupListing,
    GroupState,
    GroupType,
)
from pykraft.client.administration.logs import LogDirDescription
from pykraft.client.administration.quotas import (
    ClientQuotaEntity,
    ClientQuotaFilter,
    Quotas,
    quota_changes,
    quota_filter,
)
from pykraft.client.administration.reassignments import PartitionReassignment, target_replicas
from pykraft.client.administration.scram import (
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    alteration,
)
from pykraft.client.administration.transaction_admin import (
    AbortTransactionSpec,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from pykraft.client.api_driver import Answers
from pykraft.client.arguments import (
    LARGEST_INT32,
    by_name,
    committed_offset,
    flag,
    topic_names,
    topic_partition,
    whole_number,
)
from pykraft.client.config import public_settings
from pykraft.client.consuming.commits import OffsetAndMetadata
from pykraft.client.consuming.offsets import OffsetAndTimestamp
from pykraft.client.habits import OF_ADMIN, ByName, with_habits
from pykraft.client.producing.numbering import ProducerIdAndEpoch
from pykraft.client.settings import AdminSettings
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Endpoint, TopicPartition, Uuid
from pykraft.protocol.messages.quorum import AddRaftVoterRequest, ListenerEndpoint, RemoveRaftVoterRequest
from pykraft.runtime.client_thread import ClosesOnExit, client_random, start_client

T = TypeVar("T")
_numbers = itertools.count(1)


@with_habits(OF_ADMIN)
class Admin(ClosesOnExit):
    """Asks and orders. It may be used by several threads."""

    def __init__(self, *misplaced: object, **settings: Unpack[AdminSettings]) -> None:
        """ConfigError names a setting that is not allowed, and what is. Nothing is connected yet."""
        by_name("Admin", misplaced)
        random = client_random()
        self._core = AdminCore(settings, random)
        config = self._core.config
        self.config = public_settings(config)
        self._timeout_ms: int = config[keys.DEFAULT_API_TIMEOUT_MS]
        self._request_timeout_ms: int = config[keys.REQUEST_TIMEOUT_MS]
        client_id = config[keys.CLIENT_ID] or f"pykraft-admin-{next(_numbers)}"
        self._thread = start_client(self._core, client_id, random)

    # --- topics -------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, object] | None = None,
    ) -> Uuid:
        """Make one topic; its id. KafkaError says why not."""
        return self.create_topics([NewTopic(name, partitions, replication_factor, {}, configs or {})])[name]

    def create_topics(
        self, topics: Iterable[NewTopic], validate_only: bool = False, timeout_ms: int | None = None
    ) -> dict[str, Uuid]:
        """Make topics; their ids. KafkaError says why the first of those that failed did; the others are made."""
        wanted = list(map(new_topic, topics))
        only, limit_ms = flag("validate_only", validate_only), self._limit_ms(timeout_ms)
        return self._ask(lambda end: self._core.ask.create_topics(wanted, only, limit_ms, end), timeout_ms)

    def create_partitions(
        self, topics: Mapping[str, NewPartitions | int], validate_only: bool = False, timeout_ms: int | None = None
    ) -> None:
        """Give topics more partitions: name -> how many in all. Keys go on in other partitions than before. KafkaError
        says why the first of those that failed did; the others have grown."""
        wanted = {name: new_partitions(count) for name, count in topics.items()}
        topic_names(wanted)
        only, limit_ms = flag("validate_only", validate_only), self._limit_ms(timeout_ms)
        self._ask(lambda end: self._core.ask.create_partitions(wanted, only, limit_ms, end), timeout_ms)

    def delete_topics(self, names: Iterable[str], timeout_ms: int | None = None) -> None:
        """Delete topics and all that is in them."""
        wanted = topic_names(names)
        limit_ms = self._limit_ms(timeout_ms)
        self._ask(lambda end: self._core.ask.delete_topics(wanted, limit_ms, end), timeout_ms)

    def list_topics(self) -> list[str]:
        """The names of all topics."""
        return self._ask(self._core.ask.list_topics)

    def describe_topics(
        self, names: Iterable[str] | None = None, partition_size_limit_per_response: int = PARTITIONS_PER_RESPONSE
    ) -> dict[str, TopicDescription]:
        """Partitions, leaders, replicas, in-sync and eligible leader replicas of these topics, or of all. A response
        has at most this many partitions, and at most ``max.request.partition.size.limit`` of the broker."""
        wanted = None if names is None else topic_names(names)
        limit = whole_number("partition_size_limit_per_response", partition_size_limit_per_response, LARGEST_INT32)
        found = self._ask(lambda deadline: self._core.ask.describe_topics(wanted, deadline, limit))
        return ByName(found)

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int = 0
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """For each partition the offset at a timestamp: -1 is the end, -2 the start, -3 the youngest record."""
        wanted = {topic_partition(key): timestamp for key, timestamp in timestamps.items()}
        found = self._ask(lambda deadline: self._core.lookups.find(wanted, isolation_level, deadline))
        return dict(found)

    def elect_leaders(
        self,
        kind: ElectionType | str,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: int | None = None,
    ) -> Elected:
        """Elect leaders of these partitions, or of all: "preferred" is the first replica of the assignment, if it is in
        sync; "unclean" is any replica that is alive, if there is no leader, and may cost acknowledged records. Returns
        for each partition None, or the KafkaError that says why no leader was elected. Of all partitions, those that
        have the right leader already are left out."""
        wanted = None if partitions is None else [topic_partition(key) for key in partitions]
        which = election_type(kind)
        limit_ms = self._limit_ms(timeout_ms)
        return self._ask(lambda end: self._core.elections.elect_leaders(which, wanted, limit_ms, end), timeout_ms)

    # --- replicas -----------------------------------------------------------------------------------------------------

    def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> None:
        """Move partitions: each to these brokers, the preferred leader first; None cancels a reassignment. Returns when
        the reassignments have begun; they have ended when `list_partition_reassignments` is empty. KafkaError says why
        the first of those that failed did; the others go on."""
        all_or_first_error(self.try_alter_partition_reassignments(targets, allow_replication_factor_change, timeout_ms))

    def try_alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> PartitionErrors:
        """As `alter_partition_reassignments`; returns each partition's error, or None."""
        wanted = {topic_partition(key): target_replicas(brokers) for key, brokers in targets.items()}
        ask, limit_ms = self._core.reassignments.alter_partition_reassignments, self._limit_ms(timeout_ms)
        return self._ask(lambda end: ask(wanted, allow_replication_factor_change, limit_ms, end), timeout_ms)

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, timeout_ms: int | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Those of these partitions, or of all, that are being reassigned: their replicas at the moment, and which of
        them are added and removed."""
        wanted = None if partitions is None else list(map(topic_partition, partitions))
        ask, limit_ms = self._core.reassignments.list_partition_reassignments, self._limit_ms(timeout_ms)
        return self._ask(lambda end: ask(wanted, limit_ms, end), timeout_ms)

    # --- logs ---------------------------------------------------------------------------------------------------------

    def delete_records(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before these offsets; -1 means the high watermark. Returns the new log start offset of
        each partition, which all its live replicas have. KafkaError says why the first of those that failed did; the
        others are done."""
        return all_or_first_error(self.try_delete_records(offsets, timeout_ms))

    def try_delete_records(
        self, offsets: Mapping[TopicPartition, int], timeout_ms: int | None = None
    ) -> Answers[TopicPartition, int]:
        """As `delete_records`, with the error in the place of the offset where there was one."""
        wanted = {topic_partition(key): offset for key, offset in offsets.items()}
        limit_ms = self._limit_ms(timeout_ms)
        return self._ask(lambda end: self._core.logs.delete_records(wanted, limit_ms, end), timeout_ms)

    def describe_log_dirs(self, brokers: Iterable[int]) -> dict[int, dict[str, LogDirDescription]]:
        """Of each of these brokers the log directories by path: their replicas' sizes, and the space on the disk."""
        wanted = list(brokers)
        return self._ask(lambda deadline: self._core.logs.describe_log_dirs(wanted, deadline))

    def alter_replica_log_dirs(self, replica_assignments: Mapping[tuple[TopicPartition, int], str]) -> None:
        """Let each replica, named by its partition and broker, be in this log directory of the broker (KIP-113). The
        moves have begun when it returns; `describe_log_dirs` shows the copies until they are over. KafkaError says why
        the first of those that failed did; the others are done."""
        for error in self.try_alter_replica_log_dirs(replica_assignments).values():
            if error is not ErrorCode.NONE:
                raise KafkaError(error)

    def try_alter_replica_log_dirs(
        self, replica_assignments: Mapping[tuple[TopicPartition, int], str]
    ) -> dict[tuple[TopicPartition, int], ErrorCode]:
        """As `alter_replica_log_dirs`, with what became of each. A broker that has no replica yet answers
        REPLICA_NOT_AVAILABLE, and will make it in that directory."""
        wanted: dict[int, dict[TopicPartition, str]] = {}
        for (key, broker), path in replica_assignments.items():
            wanted.setdefault(broker, {})[topic_partition(key)] = path
        found = self._ask(lambda deadline: self._core.logs.alter_replica_log_dirs(wanted, deadline))
        return {(key, broker): error for broker, errors in found.items() for key, error in errors.items()}

    # --- settings -----------------------------------------------------------------------------------------------------

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of topics, groups and brokers, by name. KafkaError says why the first that failed did."""
        wanted = list(map(config_resource, resources))
        ask = self._core.configs.describe_configs
        found = self._ask(lambda deadline: ask(wanted, include_synonyms, include_documentation, deadline))
        return ByName(found)

    def list_config_resources(self, types: Iterable[ConfigResourceType] = ()) -> list[ConfigResource]:
        """The resources of these types, or of all types. Of groups only those with settings of their own."""
        wanted = list(map(ConfigResourceType, types))
        return self._ask(lambda deadline: self._core.configs.list_config_resources(wanted, deadline))

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, ConfigChanges], validate_only: bool = False
    ) -> None:
        """Change settings: new values by name, None for the default; or a list of AlterConfigOp. Of a resource all is
        changed or nothing; KafkaError says why the first that failed did."""
        wanted = {config_resource(resource): some for resource, some in changes.items()}
        self._ask(lambda deadline: self._core.configs.incremental_alter_configs(wanted, validate_only, deadline))

    def alter_configs(self, resources: Iterable[ConfigResource], validate_only: bool = False) -> None:
        """The same for resources that bring their new settings: ``ConfigResource("TOPIC", "flights", {...})``."""
        self.incremental_alter_configs({each: new_configs(each) for each in resources}, validate_only)

    # --- groups -------------------------------------------------------------------------------------------------------

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """The groups of all brokers, by their ids: those in one of these states ("Stable", "Empty", ...) and of one of
        these types ("Classic", "Consumer"); no filter lets all through."""
        wanted_states, wanted_types = list(map(GroupState, states)), list(map(GroupType, types))
        return self._ask(lambda deadline: self._core.groups.list_groups(wanted_states, wanted_types, deadline))

    def list_consumer_groups(self) -> list[tuple[str, str]]:
        """Group id and protocol type of each group of consumers, as kafka-python has it; `list_groups` says more."""
        return [(group.group_id, group.protocol_type) for group in self.list_groups() if group.is_of_consumers]

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> dict[str, ConsumerGroupDescription]:
        """State, coordinator, members and their partitions of each of these groups. KafkaError says why the first that
        failed did: GROUP_ID_NOT_FOUND, or INCONSISTENT_GROUP_PROTOCOL if its members are not consumers."""
        return ByName(all_or_first_error(self.try_describe_consumer_groups(group_ids)))

    def try_describe_consumer_groups(self, group_ids: Iterable[str]) -> Answers[str, ConsumerGroupDescription]:
        """As `describe_consumer_groups`, with the error in the place of the description where there was one."""
        wanted = list(group_ids)
        return self._ask(lambda deadline: self._core.groups.describe_consumer_groups(wanted, deadline))

    def delete_consumer_groups(self, group_ids: Iterable[str]) -> None:
        """Forget these groups with their offsets. KafkaError says why the first of those that failed did
        (NON_EMPTY_GROUP: it has active members); the others are deleted."""
        all_or_first_error(self.try_delete_consumer_groups(group_ids))

    def try_delete_consumer_groups(self, group_ids: Iterable[str]) -> Answers[str, None]:
        """As `delete_consumer_groups`; returns each group's error, or None."""
        wanted = list(group_ids)
        return self._ask(lambda deadline: self._core.groups.delete_consumer_groups(wanted, deadline))

    def remove_members_from_consumer_group(
        self, group_id: str, group_instance_ids: Iterable[str] | None = None, reason: str = ""
    ) -> None:
        """Let these static members leave the group, or all members. KafkaError says why the first of those that failed
        did; the others have left."""
        wanted = None if group_instance_ids is None else list(group_instance_ids)
        ask = self._core.groups.remove_members_from_consumer_group
        all_or_first_error(self._ask(lambda deadline: ask(group_id, wanted, reason, deadline)))

    def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, require_stable: bool = False
    ) -> CommittedOffsets:
        """The group's committed offsets in these partitions, or in all where it has any; None for a partition without
        one. A group that does not exist has none. `require_stable` waits for open transactions that change them."""
        return self.list_consumer_groups_offsets({group_id: partitions}, require_stable)[group_id]

    def list_consumer_groups_offsets(
        self, groups: Mapping[str, Iterable[TopicPartition] | None], require_stable: bool = False
    ) -> dict[str, CommittedOffsets]:
        """The same for several groups, in one request to each coordinator. KafkaError says why the first that failed
        did."""
        wanted = {
            group: None if partitions is None else list(map(topic_partition, partitions))
            for group, partitions in groups.items()
        }
        ask = self._core.group_offsets.list_consumer_group_offsets
        return all_or_first_error(self._ask(lambda deadline: ask(wanted, require_stable, deadline)))

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """Commit these offsets for a group without active members; a group that does not exist is made. KafkaError says
        why the first partition that failed did (UNKNOWN_MEMBER_ID: the group has active members); the others are
        committed."""
        wanted = {topic_partition(key): OffsetAndMetadata(*committed_offset(place)) for key, place in offsets.items()}
        all_or_first_error(
            self._ask(
                lambda deadline: self._core.group_offsets.alter_consumer_group_offsets(group_id, wanted, deadline)
            )
        )

    def delete_consumer_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget the group's offsets in these partitions. KafkaError says why the first that failed did
        (GROUP_SUBSCRIBED_TO_TOPIC: its members read the topic); the others are forgotten."""
        all_or_first_error(self.try_delete_consumer_group_offsets(group_id, partitions))

    def try_delete_consumer_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> PartitionErrors:
        """As `delete_consumer_group_offsets`; returns each partition's error, or None. KafkaError: the whole group is
        refused."""
        wanted = list(map(topic_partition, partitions))
        ask = self._core.group_offsets.delete_consumer_group_offsets
        return self._ask(lambda deadline: ask(group_id, wanted, deadline))

    # --- transactions -------------------------------------------------------------------------------------------------

    def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all coordinators, in order: those in one of these states ("Ongoing", ...), of one of
        these producer ids, with a transaction that has been open for longer than `duration_ms`, and whose id fits the
        regular expression as a whole. A filter that is left out lets all through."""
        wanted_states, wanted_ids = list(map(TransactionState, states)), list(producer_ids)
        ask = self._core.transactions.list_transactions
        return self._ask(lambda until: ask(wanted_states, wanted_ids, duration_ms, transactional_id_pattern, until))

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """State, producer, timeout and partitions of each transactional id. KafkaError says why the first that failed
        did: TRANSACTIONAL_ID_NOT_FOUND."""
        return all_or_first_error(self.try_describe_transactions(transactional_ids))

    def try_describe_transactions(self, transactional_ids: Iterable[str]) -> Answers[str, TransactionDescription]:
        """As `describe_transactions`, with the error in the place of the description where there was one."""
        wanted = list(transactional_ids)
        return self._ask(lambda deadline: self._core.transactions.describe_transactions(wanted, deadline))

    def describe_producers(
        self, partitions: Iterable[TopicPartition], broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """The producers that the leader of each partition knows, or this broker as one of its replicas. KafkaError says
        why the first that failed did."""
        wanted = list(map(topic_partition, partitions))
        ask = self._core.transactions.describe_producers
        return all_or_first_error(self._ask(lambda deadline: ask(wanted, broker_id, deadline)))

    def abort_transaction(self, spec: AbortTransactionSpec) -> None:
        """Write an abort marker into one partition, whatever the transaction's coordinator knows: for a transaction
        that hangs there because no coordinator will end it."""
        self._ask(lambda deadline: self._core.transactions.abort_transaction(spec, deadline))

    def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, ProducerIdAndEpoch]:
        """Let no producer with one of these transactional ids go on; an open transaction is aborted. Returns each id's
        producer id and new epoch. KafkaError says why the first that failed did; the others are fenced."""
        wanted, timeout_ms = list(transactional_ids), self._request_timeout_ms
        ask = self._core.transactions.fence_producers
        return all_or_first_error(self._ask(lambda deadline: ask(wanted, timeout_ms, deadline)))

    # --- rules of access ----------------------------------------------------------------------------------------------

    def describe_acls(self, wanted: AclBindingFilter | None = None) -> list[AclBinding]:
        """The rules that this filter finds, or all. KafkaError: SECURITY_DISABLED if the cluster has no authorizer."""
        found = AclBindingFilter() if wanted is None else acl_filter(wanted)
        return self._ask(lambda deadline: self._core.acls.describe_acls(found, deadline))

    def create_acls(self, rules: Iterable[AclBinding]) -> None:
        """Let these rules hold; those that do already stay as they are. KafkaError says why the first that failed did;
        the others hold. Each broker takes them up a moment later."""
        wanted = list(dict.fromkeys(map(acl_binding, rules)))
        without_errors(self._ask(lambda deadline: self._core.acls.create_acls(wanted, deadline)))

    def delete_acls(self, filters: Iterable[AclBindingFilter | AclBinding]) -> dict[AclBindingFilter, list[AclBinding]]:
        """Remove the rules that these filters find; which each has removed. KafkaError says why the first that failed
        did; the others have removed theirs."""
        wanted = list(dict.fromkeys(map(acl_filter, filters)))
        return without_errors(self._ask(lambda deadline: self._core.acls.delete_acls(wanted, deadline)))

    # --- SCRAM credentials --------------------------------------------------------------------------------------------

    def describe_user_scram_credentials(self, users: Iterable[str] = ()) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        """The mechanisms that these users have credentials for, or all users. A user without any is left out."""
        wanted = list(users)
        found = self._ask(lambda deadline: self._core.scram.describe(wanted, deadline))
        is_missing = ErrorCode.RESOURCE_NOT_FOUND
        return without_errors(
            {user: each for user, each in found.items() if getattr(each, "code", None) is not is_missing}
        )

    def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion]
    ) -> None:
        """Set and delete credentials; one change a user. Passwords are salted here, on this thread. KafkaError says why
        the first that failed did; the others are changed. Each broker takes them up a moment later."""
        request = alteration(alterations, SystemRandom())
        without_errors(self._ask(lambda deadline: self._core.scram.alter(request, deadline)))

    # --- quotas -------------------------------------------------------------------------------------------------------

    def describe_client_quotas(self, wanted: ClientQuotaFilter | ClientQuotaEntity | None = None) -> Quotas:
        """The quotas of the entities that the filter means, or of all."""
        found = ClientQuotaFilter() if wanted is None else quota_filter(wanted)
        return self._ask(lambda deadline: self._core.quotas.describe(found, deadline))

    def alter_client_quotas(
        self, changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]], validate_only: bool = False
    ) -> None:
        """Set quotas, or take them away (None). KafkaError says why the first entity that failed did; the others have
        changed. Each broker takes them up a moment later."""
        wanted = quota_changes(changes)
        without_errors(self._ask(lambda deadline: self._core.quotas.alter(wanted, validate_only, deadline)))

    # --- cluster ------------------------------------------------------------------------------------------------------

    def describe_cluster(self, include_fenced_brokers: bool = False) -> ClusterDescription:
        """The brokers: those that are not fenced, or all. With `bootstrap_controllers` the controllers."""
        return self._ask(lambda deadline: self._core.ask.describe_cluster(deadline, include_fenced_brokers))

    def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that will not come back. Its replicas stay assigned to it. A broker that is alive leads
        nothing from then on, and takes part again when it is restarted. KafkaError: BROKER_ID_NOT_REGISTERED."""
        number = whole_number("a broker's id", broker_id, LARGEST_INT32)
        self._ask(lambda deadline: self._core.ask.unregister_broker(number, deadline))

    def unregister_controller(self, controller_id: int) -> None:
        """Forget a controller that will not come back: it keeps no feature down any more. Whether it is a voter does
        not change. KafkaError: CONTROLLER_ID_NOT_REGISTERED."""
        number = whole_number("a controller's id", controller_id, LARGEST_INT32)
        self._ask(lambda deadline: self._core.ask.unregister_controller(number, deadline))

    def describe_api_versions(self, brokers: Iterable[int]) -> Answers[int, ApiVersions]:
        """Which APIs each of these brokers serves, in which versions; the error in their place if it does not say."""
        wanted = list(brokers)
        return self._ask(lambda deadline: self._core.ask.describe_api_versions(wanted, deadline))

    def describe_features(self, node_id: int | None = None) -> FeatureMetadata:
        """The levels that the cluster's features have, as this broker knows them, or any; and those that it could
        run at."""
        return self._ask(lambda deadline: self._core.features.describe_features(node_id, deadline))

    def update_features(
        self, updates: Mapping[str, FeatureUpdate | int], validate_only: bool = False, timeout_ms: int | None = None
    ) -> None:
        """Give features these levels: a number is an upgrade, a FeatureUpdate says which way it may go. All of them
        change or none; KafkaError says why none did."""
        wanted = {name: feature_update(update) for name, update in updates.items()}
        only, limit_ms = flag("validate_only", validate_only), self._limit_ms(timeout_ms)
        self._ask(lambda end: self._core.features.update_features(wanted, only, limit_ms, end), timeout_ms)

    def describe_quorum(self) -> QuorumDescription:
        """The leader of the metadata quorum, its epoch, and how far each voter and observer is."""
        return self._ask(self._core.ask.describe_quorum)

    def add_raft_voter(
        self,
        voter_id: int,
        directory_id: Uuid | str,
        endpoints: Mapping[str, Endpoint | str],
        cluster_id: str | None = None,
    ) -> None:
        """Make a controller that is an observer a voter (KIP-853). `directory_id` is that of its metadata directory;
        `endpoints` says for each of its controller listeners where it is reached, as ``{"CONTROLLER": "host:9093"}``.
        With a `cluster_id` another cluster refuses. KafkaError: DUPLICATE_VOTER, or REQUEST_TIMED_OUT if another change
        is under way, the controller has not caught up, or a majority did not take part in time."""
        request = AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=self._request_timeout_ms,
            voter_id=whole_number("a voter's id", voter_id, LARGEST_INT32),
            voter_directory_id=uuid(directory_id),
            listeners=[
                ListenerEndpoint(name=name, host=place.host, port=place.port)
                for name, place in ((name, endpoint(given)) for name, given in sorted(endpoints.items()))
            ],
        )
        self._ask(lambda deadline: self._core.ask.change_voters(request, deadline))

    def remove_raft_voter(self, voter_id: int, directory_id: Uuid | str, cluster_id: str | None = None) -> None:
        """Take a voter out of the quorum. It follows as an observer then. If it leads, it resigns. KafkaError:
        VOTER_NOT_FOUND, also for the last voter; REQUEST_TIMED_OUT as in `add_raft_voter`."""
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id,
            voter_id=whole_number("a voter's id", voter_id, LARGEST_INT32),
            voter_directory_id=uuid(directory_id),
        )
        self._ask(lambda deadline: self._core.ask.change_voters(request, deadline))

    def _ask(self, question: Callable[[int], Promise[T | KafkaError]], timeout_ms: int | None = None) -> T:
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return self._thread.ask(lambda now: question(now + limit_ms))

    def _limit_ms(self, timeout_ms: int | None) -> int:
        """How long the brokers may take: what a call says, else ``request.timeout.ms``."""
        if timeout_ms is None:
            return self._request_timeout_ms
        return whole_number("timeout_ms", timeout_ms, LARGEST_INT32)

    def close(self) -> None:
        """Stop."""
        self._thread.close()
