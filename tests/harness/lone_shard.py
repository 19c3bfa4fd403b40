"""A shard of the group coordinator by itself, for records that are replayed into it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pykraft.broker.coordination.group_topics import ImageTopics
from pykraft.common.settings.config import ConfigDef
from pykraft.coordinator.group.config import GROUP_KEYS, ConsumerGroupConfig
from pykraft.coordinator.group.shard import GroupShard
from pykraft.coordinator.result import CoordinatorTimer
from pykraft.metadata.image import EMPTY_IMAGE


class NoTimer(CoordinatorTimer):
    """Nothing becomes due."""

    def schedule(self, *_: object) -> None:
        pass

    def cancel(self, key: str) -> None:
        pass

    def is_scheduled(self, key: str) -> bool:
        return False


def lone_shard(timer: CoordinatorTimer | None = None, time_ms: Callable[[], int] = lambda: 0) -> GroupShard:
    """An empty shard with Kafka's defaults, in a cluster without topics."""
    return GroupShard(
        timer=timer or NoTimer(),
        config=ConfigDef(GROUP_KEYS).resolve({}),
        topics=ImageTopics(EMPTY_IMAGE),
        config_of=lambda _: ConsumerGroupConfig(),
        random=Random(1),
        time_ms=time_ms,
    )
