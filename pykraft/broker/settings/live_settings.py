"""The settings of this broker that may be changed while it runs, as of its image.

What a change means is up to each of them: most are read when they are needed. The defaults of topics are not here
(`broker.settings.topic_configs`).

Follows kafka.server.DynamicBrokerConfig.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from pykraft.common.settings.config import Config, Key
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.settings import live_broker_config

T = TypeVar("T")


class LiveSettings:
    """Those settings by key."""

    def __init__(self, node_id: int, properties: Mapping[str, str], image: Callable[[], MetadataImage]) -> None:
        self._node_id = node_id
        self._properties = properties
        self._image = image
        self._known: tuple[MetadataImage, Config] | None = None

    def __getitem__(self, key: Key[T]) -> T:
        image = self._image()
        if self._known is None or self._known[0] is not image:
            self._known = image, live_broker_config(image, self._node_id, self._properties)
        return self._known[1][key]
