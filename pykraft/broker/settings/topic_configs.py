"""The settings of the topics that a broker holds, as of its image.

Many topics have the same settings, most of them none of their own: they share one `Config`. A Config is a value, so a
change makes another, and each holder of a log gets the new one (`ReplicaManager.apply`).

Follows kafka.server.metadata.DynamicConfigPublisher and kafka.server.TopicConfigHandler.
"""

from collections.abc import Callable, Mapping

from pykraft.common.settings.config import Config
from pykraft.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigResource, MetadataImage
from pykraft.metadata.settings import ALL_BROKERS, NodeLayers, node_layers, topic_config

_SHARED = 1000
"""As many different Configs are remembered at most."""


class TopicConfigs:
    """Topics' settings by name."""

    def __init__(self, node_id: int, properties: Mapping[str, str], image: Callable[[], MetadataImage]) -> None:
        self._node_id = node_id
        self._properties = properties
        self._image = image
        self._layers: NodeLayers | None = None
        self._known: dict[tuple[tuple[str, str], ...], Config] = {}

    def config_of(self, topic: str) -> Config:
        """What holds for this topic, whether it is there or not."""
        own = self._image().config_of(TOPIC_RESOURCE, topic)
        if self._layers is None:
            self._layers = node_layers(self._image(), self._node_id, self._properties)
        if len(self._known) >= _SHARED:
            self._known.clear()
        key = tuple(sorted(own.items()))
        if key not in self._known:
            self._known[key] = topic_config(own, self._layers)
        return self._known[key]

    def is_of_all_topics(self, resource: ConfigResource) -> bool:
        """Whether a change of this resource's settings may be one for every topic."""
        return resource.kind == BROKER_RESOURCE and resource.name in (ALL_BROKERS, str(self._node_id))

    def forget(self) -> None:
        """The node's own settings have changed."""
        self._layers = None
        self._known.clear()
