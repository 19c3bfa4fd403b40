"""The administrator's client: topics, settings, logs, the cluster, the quorum. Each call waits for its answer.

::

    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topic("flights", partitions=3, replication_factor=3, configs={"min.insync.replicas": 2})
        print(admin.describe_topics(["flights"]))
        topic = ConfigResource(ConfigResourceType.TOPIC, "flights")
        admin.incremental_alter_configs({topic: {"retention.ms": 60_000}})
        print(admin.describe_configs([topic])[topic]["retention.ms"].value)

The work is done by `pykraft.client.admin`, which has no thread; this file gives it one.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, TypeVar

from pykraft.client import config as keys
from pykraft.client.admin import (
    AdminCalls,
    ClusterDescription,
    NewTopic,
    QuorumDescription,
    TopicDescription,
    new_topic,
)
from pykraft.client.api_driver import Answers, ApiDriver
from pykraft.client.arguments import topic_names, topic_partition
from pykraft.client.config import ADMIN_CONFIG, bootstrap_endpoints, client_config
from pykraft.client.configs import ConfigCalls, ConfigChanges, ConfigEntry, ConfigResource, config_resource
from pykraft.client.logs import LogCalls, LogDirDescription
from pykraft.client.metadata import ClusterMetadata
from pykraft.client.offsets import OffsetAndTimestamp, OffsetLookups
from pykraft.common.core import Poll, Promise, merge
from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicPartition, Uuid
from pykraft.runtime.client_thread import ClientThread, ClosesOnExit

T = TypeVar("T")
_numbers = itertools.count(1)


class _AdminCore:
    """An admin client without a thread. It is a RequestManager."""

    def __init__(self, settings: Mapping[str, Any], random: Random) -> None:
        self.config = client_config(ADMIN_CONFIG, settings)
        self.metadata = ClusterMetadata(self.config, bootstrap_endpoints(self.config), random)
        self.metadata.may_create_topics = False
        self.metadata.request_update()
        self._driver = ApiDriver(self.config, self.metadata, random)
        self.lookups = OffsetLookups(self.config, self._driver)
        self.ask = AdminCalls(self._driver)
        self.configs = ConfigCalls(self._driver)
        self.logs = LogCalls(self._driver)

    def poll(self, now: int) -> Poll:
        return merge([self._driver.poll(now), self.metadata.poll(now)])


class Admin(ClosesOnExit):
    """Asks and orders. It may be used by several threads."""

    def __init__(self, **settings: Any) -> None:
        """ConfigError names a setting that is not allowed, and what is. Nothing is connected yet."""
        random = Random()
        self._core = _AdminCore(settings, random)
        config = self._core.config
        self._timeout_ms: int = config[keys.DEFAULT_API_TIMEOUT_MS]
        self._request_timeout_ms: int = config[keys.REQUEST_TIMEOUT_MS]
        client_id = config[keys.CLIENT_ID] or f"pykraft-admin-{next(_numbers)}"
        self._thread = ClientThread(self._core, client_id, random)

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

    def create_topics(self, topics: Iterable[NewTopic], validate_only: bool = False) -> dict[str, Uuid]:
        """Make topics; their ids. KafkaError says why the first of those that failed did; the others are made."""
        wanted = list(map(new_topic, topics))
        timeout_ms = self._request_timeout_ms
        return self._ask(lambda deadline: self._core.ask.create_topics(wanted, validate_only, timeout_ms, deadline))

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics and all that is in them."""
        wanted = topic_names(names)
        self._ask(lambda deadline: self._core.ask.delete_topics(wanted, self._request_timeout_ms, deadline))

    def list_topics(self) -> list[str]:
        """The names of all topics."""
        return sorted(self.describe_topics())

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        """Partitions, leaders, replicas and in-sync replicas of these topics, or of all."""
        wanted = None if names is None else topic_names(names)
        return self._ask(lambda deadline: self._core.ask.describe_topics(wanted, deadline))

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int = 0
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """For each partition the offset at a timestamp: -1 is the end, -2 the start, -3 the youngest record."""
        wanted = {topic_partition(key): timestamp for key, timestamp in timestamps.items()}
        found = self._ask(lambda deadline: self._core.lookups.find(wanted, isolation_level, deadline))
        return dict(found)

    # --- logs ---------------------------------------------------------------------------------------------------------

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies before these offsets; -1 stands for the high watermark. Returns where each log begins now,
        on all its replicas that live. KafkaError says why the first of those that failed did; the others are done."""
        found = self.try_delete_records(offsets)
        for _, answer in sorted(found.items()):
            if isinstance(answer, KafkaError):
                raise answer
        return {key: answer for key, answer in found.items() if not isinstance(answer, KafkaError)}

    def try_delete_records(self, offsets: Mapping[TopicPartition, int]) -> Answers[TopicPartition, int]:
        """As `delete_records`, with the error in the place of the offset where there was one."""
        wanted = {topic_partition(key): offset for key, offset in offsets.items()}
        timeout_ms = self._request_timeout_ms
        return self._ask(lambda deadline: self._core.logs.delete_records(wanted, timeout_ms, deadline))

    def describe_log_dirs(self, brokers: Iterable[int]) -> dict[int, dict[str, LogDirDescription]]:
        """Of each of these brokers the log directories by path: their replicas' sizes, and the space on the disk."""
        wanted = list(brokers)
        return self._ask(lambda deadline: self._core.logs.describe_log_dirs(wanted, deadline))

    # --- settings -----------------------------------------------------------------------------------------------------

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of topics and brokers, by name. KafkaError says why the first that failed did."""
        wanted = list(map(config_resource, resources))
        return self._ask(
            lambda deadline: self._core.configs.describe_configs(
                wanted, include_synonyms, include_documentation, deadline
            )
        )

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, ConfigChanges], validate_only: bool = False
    ) -> None:
        """Change settings: new values by name, None for the default; or a list of AlterConfigOp. Of a resource all is
        changed or nothing; KafkaError says why the first that failed did."""
        wanted = {config_resource(resource): some for resource, some in changes.items()}
        self._ask(lambda deadline: self._core.configs.incremental_alter_configs(wanted, validate_only, deadline))

    # --- cluster ------------------------------------------------------------------------------------------------------

    def describe_cluster(self) -> ClusterDescription:
        """The brokers that are not fenced."""
        return self._ask(self._core.ask.describe_cluster)

    def describe_quorum(self) -> QuorumDescription:
        """The leader of the metadata quorum, its epoch, and how far each voter and observer is."""
        return self._ask(self._core.ask.describe_quorum)

    def _ask(self, question: Callable[[int], Promise[T | KafkaError]]) -> T:
        return self._thread.ask(lambda now: question(now + self._timeout_ms))

    def close(self) -> None:
        """Stop."""
        self._thread.close()
