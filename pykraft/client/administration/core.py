"""The administrator's client without its thread: all that it can ask, and what it knows of the cluster."""

from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar

from pykraft.client import config as keys
from pykraft.client.administration.acls import AclCalls
from pykraft.client.administration.admin import AdminCalls
from pykraft.client.administration.configs import ConfigCalls
from pykraft.client.administration.elections import ElectionCalls
from pykraft.client.administration.features import FeatureCalls
from pykraft.client.administration.group_offsets import GroupOffsetCalls
from pykraft.client.administration.groups import GroupCalls
from pykraft.client.administration.logs import LogCalls
from pykraft.client.administration.quotas import QuotaCalls
from pykraft.client.administration.reassignments import ReassignmentCalls
from pykraft.client.administration.scram import ScramCalls
from pykraft.client.administration.transaction_admin import TransactionAdminCalls
from pykraft.client.api_driver import ApiDriver
from pykraft.client.config import admin_config, bootstrap_endpoints
from pykraft.client.consuming.offsets import OffsetLookups
from pykraft.client.metadata import ClusterMetadata
from pykraft.common.core import Poll, merge
from pykraft.common.errors import KafkaError
from pykraft.common.types import Endpoint, TopicPartition, Uuid

K = TypeVar("K", str, TopicPartition)
T = TypeVar("T")


class AdminCore:
    """An admin client without a thread. It is a RequestManager."""

    def __init__(self, settings: Mapping[str, Any], random: Random) -> None:
        self.config = admin_config(settings)
        of_controllers = bool(self.config[keys.BOOTSTRAP_CONTROLLERS])
        given = keys.BOOTSTRAP_CONTROLLERS if of_controllers else keys.BOOTSTRAP_SERVERS
        self.metadata = ClusterMetadata(self.config, bootstrap_endpoints(self.config, given), random, of_controllers)
        self.metadata.may_create_topics = False
        self.metadata.request_update()
        self._driver = ApiDriver(self.config, self.metadata, random)
        self.lookups = OffsetLookups(self.config, self._driver)
        self.ask = AdminCalls(self._driver)
        self.configs = ConfigCalls(self._driver)
        self.elections = ElectionCalls(self._driver)
        self.features = FeatureCalls(self._driver)
        self.logs = LogCalls(self._driver)
        self.reassignments = ReassignmentCalls(self._driver)
        self.groups = GroupCalls(self._driver)
        self.group_offsets = GroupOffsetCalls(self._driver)
        self.transactions = TransactionAdminCalls(self._driver)
        self.acls = AclCalls(self._driver)
        self.scram = ScramCalls(self._driver)
        self.quotas = QuotaCalls(self._driver)

    def poll(self, now: int) -> Poll:
        return merge([self._driver.poll(now), self.metadata.poll(now)])


def uuid(given: Uuid | str) -> Uuid:
    return given if isinstance(given, Uuid) else Uuid.parse(given)


def endpoint(given: Endpoint | str) -> Endpoint:
    return given if isinstance(given, Endpoint) else Endpoint.parse(given)


def all_or_first_error(found: dict[K, T | KafkaError]) -> dict[K, T]:
    """The answers, where none is an error; else the first error, in the order of the keys."""
    for _, answer in sorted(found.items(), key=lambda item: item[0]):
        if isinstance(answer, KafkaError):
            raise answer
    return {key: answer for key, answer in found.items() if not isinstance(answer, KafkaError)}
