"""Bugs in settings that change: what is taken from another place, too late, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pykraft.broker.coordination.coordinators import GroupCoordinator
from pykraft.broker.replication.partition import Partition
from pykraft.broker.replication.replica_manager import ReplicaManager
from pykraft.broker.settings.topic_configs import TopicConfigs
from pykraft.common.errors import ErrorCode
from pykraft.common.settings.topic_config import UNCLEAN_LEADER_ELECTION_ENABLE
from pykraft.controller import configs as controller_configs
from pykraft.controller.configs import ConfigControl
from pykraft.controller.feature_control import FeatureControl
from pykraft.controller.partitions.replication_control import ReplicationControl
from pykraft.controller.result import VersionedRecord
from pykraft.coordinator.group.config import ConsumerGroupConfig
from pykraft.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigResource, MetadataImage
from pykraft.sim.bugs.planting import bug, put

_UNCLEAN = UNCLEAN_LEADER_ELECTION_ENABLE.name


@bug
def a_setting_that_a_leader_sees_after_a_restart() -> None:
    """A broker takes up changed settings of topics when it opens their logs, and not while it leads them."""
    apply_configs = ReplicaManager._apply_configs

    def apply(self: ReplicaManager, touched: Collection[ConfigResource]) -> list[Partition]:
        return apply_configs(self, [each for each in touched if each.kind != TOPIC_RESOURCE])

    put(ReplicaManager, "_apply_configs", apply)


@bug
def a_min_isr_judged_when_the_isr_changes_alone() -> None:
    """A leader judges whether enough replicas are in sync when its ISR changes, not when the setting does."""

    def set_config(self: Partition, config: Any) -> None:
        self.log.config = config

    put(Partition, "set_config", set_config)


@bug
def a_default_of_all_brokers_that_is_remembered() -> None:
    """A broker works out the defaults of all brokers once, and takes up only what changes for a topic."""
    put(TopicConfigs, "forget", lambda self: None)


@bug
def an_unclean_flag_whose_default_is_inverted() -> None:
    """Where no place says whether unclean elections are allowed, the controller allows them."""
    allows = ReplicationControl.allows_unclean_election

    def allows_unless_denied(self: ReplicationControl, image: MetadataImage, topic: str) -> bool:
        places = ((TOPIC_RESOURCE, topic), (BROKER_RESOURCE, str(self._node_id)), (BROKER_RESOURCE, ""))
        is_said = any(_UNCLEAN in image.config_of(*place) for place in places)
        return allows(self, image, topic) if is_said else True

    put(ReplicationControl, "allows_unclean_election", allows_unless_denied)


@bug
def a_level_that_a_registered_broker_does_not_support() -> None:
    """A controller asks itself and the other controllers whether they support a level, and no broker."""
    reasons = FeatureControl._reasons_not_supported

    def of_controllers(self: FeatureControl, image: MetadataImage, name: str, level: int) -> Iterator[str]:
        return (reason for reason in reasons(self, image, name, level) if not reason.startswith("broker"))

    put(FeatureControl, "_reasons_not_supported", of_controllers)


@bug
def an_elr_that_outlives_a_smaller_min_isr() -> None:
    """A smaller min.insync.replicas leaves the eligible replicas as they are, though the high watermark goes on."""
    put(controller_configs, "clearing_records", lambda records: [])


@bug
def an_append_refused_after_it_was_made() -> None:
    """A leader appends what it then refuses for lack of replicas, and the producer takes it for not written."""
    put(Partition, "check_may_append", _check_leader)
    replicated_up_to = Partition.replicated_up_to

    def refused(self: Partition, offset: int) -> ErrorCode | None:
        if self.is_leader and self.is_under_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return replicated_up_to(self, offset)

    put(Partition, "replicated_up_to", refused)


def _check_leader(self: Partition, needs_all: bool) -> None:
    if not self.is_leader:
        raise self._not_led_here()


@bug
def a_setting_that_is_taken_away_and_stays() -> None:
    """A change that takes a setting away is acknowledged, and writes no record."""
    plan = ConfigControl._plan

    def plan_new_values(self: ConfigControl, *arguments: Any) -> list[VersionedRecord]:
        return [each for each in plan(self, *arguments) if getattr(each[0], "value", None) is not None]

    put(ConfigControl, "_plan", plan_new_values)


@bug
def a_group_that_keeps_its_first_settings() -> None:
    """A coordinator looks up the settings of a group when it first hears of it, and keeps them."""
    config_of = GroupCoordinator._config_of

    def first_config_of(self: GroupCoordinator, group_id: str) -> ConsumerGroupConfig:
        known: dict[str, ConsumerGroupConfig] = self.__dict__.setdefault("first_configs", {})
        return known.setdefault(group_id, config_of(self, group_id))

    put(GroupCoordinator, "_config_of", first_config_of)
