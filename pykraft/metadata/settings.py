"""Which settings hold, and where each comes from.

A setting of a topic may be said in five places. The strongest that says something holds::

    the topic's own settings             ConfigSource.TOPIC
    dynamic settings of this node        DYNAMIC_BROKER           ConfigRecord of broker 1
    dynamic settings of all brokers      DYNAMIC_DEFAULT_BROKER   ConfigRecord of broker ""
    the node's properties file           STATIC_BROKER
    the default                          DEFAULT

Topics have their own names for settings; brokers have others for their topics' defaults (``log.retention.ms`` for
``retention.ms``), several for some. Only the strongest of several can be changed while brokers run, and a description
knows only of that one, too: a topic whose ``segment.ms`` comes from ``log.roll.hours`` in the file is described with
the default, as in Apache Kafka.

A value in the metadata log that makes no sense to this node is left out, as if it had never been set.

Follows kafka.server.{ConfigHelper,DynamicBrokerConfig} and org.apache.kafka.metadata.KafkaConfigSchema.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from pykraft.common.errors import ConfigError, ErrorCode, KafkaError
from pykraft.common.settings.broker_config import DYNAMIC_BROKER_CONFIGS, LIVE_BROKER_CONFIG, REPLICATION_QUOTA_CONFIG
from pykraft.common.settings.client_metrics_config import CLIENT_METRICS_CONFIG
from pykraft.common.settings.config import SECRET, Config, ConfigDef, Key, as_text
from pykraft.common.settings.group_config import BROKER_GROUP_CONFIG, GROUP_CONFIG, group_values
from pykraft.common.settings.tls_config import STORE_KEYS, store_key
from pykraft.common.settings.topic_config import (
    BROKER_DEFAULTS,
    INTERNAL_BROKER_SETTINGS,
    INTERNAL_PREFIX,
    LOG_CONFIG,
    broker_names,
)
from pykraft.common.settings.unserved_config import INTERNAL, listeners_setting
from pykraft.metadata.image import BROKER_RESOURCE, MetadataImage
from pykraft.protocol.messages.configs import ConfigSource, ConfigType

T = TypeVar("T")
ALL_BROKERS = ""
_NUMBER = re.compile(r"[+-]?\d{1,10}")
_END_OF_NUMBERS = 1 << 31

# Settings that Kafka has as text where they are lists here.
_OTHER_TYPES = {"listener.security.protocol.map": ConfigType.STRING, "early.start.listeners": ConfigType.LIST}
_NULL_LISTS = frozenset({"advertised.listeners", "log.dirs"})
_OTHER_DEFAULTS = {
    "listener.security.protocol.map": "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
}
"""What Kafka describes as the default, where ours has more than one text can say."""
_EMPTY_TEXTS = frozenset({"authorizer.class.name", "max.connections.per.ip.overrides"})
"""An empty default is null for Kafka's texts and empty for its lists, but for these."""


def broker_number(name: str) -> int:
    """The number in a broker's name, as Kafka reads it: with a sign, zeros in front and any alphabet's digits. But it
    comes from a peer and may be of any length. KafkaError(INVALID_REQUEST) if it is none."""
    number = int(name) if _NUMBER.fullmatch(name) else _END_OF_NUMBERS
    if not -_END_OF_NUMBERS <= number < _END_OF_NUMBERS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name[:20]!r} is not the number of a broker")
    return number


class NodeLayers(NamedTuple):
    """What one node says of the settings of all its topics, the strongest first."""

    dynamic: Mapping[str, str]
    cluster: Mapping[str, str]
    static: Mapping[str, str]


class Place(NamedTuple):
    """One place that says something of a setting."""

    name: str
    value: str | None
    source: ConfigSource


class Setting(NamedTuple):
    """A setting with its value, the places that say something of it, and what it means. A secret has no value."""

    name: str
    value: str | None
    places: tuple[Place, ...]
    type: ConfigType
    meaning: str | None
    is_read_only: bool = False
    is_sensitive: bool = False

    @property
    def source(self) -> ConfigSource:
        return self.places[0].source if self.places else ConfigSource.DEFAULT


def node_layers(image: MetadataImage, node_id: int, static: Mapping[str, str]) -> NodeLayers:
    """The layers of a node whose properties file says `static`."""
    return NodeLayers(
        _readable(image.config_of(BROKER_RESOURCE, str(node_id)), stores=True),
        _readable(image.config_of(BROKER_RESOURCE, ALL_BROKERS)),
        {name: value for name, value in static.items() if name in BROKER_DEFAULTS or name.startswith(INTERNAL_PREFIX)},
    )


def _readable(layer: Mapping[str, str], stores: bool = False) -> dict[str, str]:
    """What of it may be dynamic. `stores`: also those of listeners with TLS."""
    return {
        name: value
        for name, value in layer.items()
        if (name in DYNAMIC_BROKER_CONFIGS and _can_read(name, value)) or (stores and store_key(name) is not None)
    }


def _can_read(name: str, value: str) -> bool:
    try:
        for definition in (LOG_CONFIG, LIVE_BROKER_CONFIG, REPLICATION_QUOTA_CONFIG, CLIENT_METRICS_CONFIG):
            definition.resolve({name: value})
    except ConfigError:
        return False
    return True


def live_broker_config(image: MetadataImage, node_id: int, static: Mapping[str, str]) -> Config:
    """The settings of a node that may change while it runs, but for the defaults of its topics; its properties file
    says `static`."""
    dynamic, cluster, _ = node_layers(image, node_id, static)
    live = LIVE_BROKER_CONFIG.resolve(dynamic, cluster, static)
    return Config(live.as_dict() | REPLICATION_QUOTA_CONFIG.resolve(dynamic, cluster).as_dict())


def topic_config(own: Mapping[str, str], layers: NodeLayers) -> Config:
    """What holds for a topic with these settings of its own."""
    try:
        return LOG_CONFIG.resolve(own, *layers)
    except ConfigError:
        return LOG_CONFIG.resolve({name: value for name, value in own.items() if _can_read(name, value)}, *layers)


def topic_setting(key: Key[T], own: Mapping[str, str], layers: NodeLayers) -> T:
    """One setting of a topic: the same as in `topic_config`, without working out the others. `key` must have the same
    name for topics and for brokers."""
    for layer in (own, *layers):
        value = layer.get(key.name)
        if value is not None and _can_read(key.name, value):
            return key.read(value)
    return key.default


# --- descriptions -----------------------------------------------------------------------------------------------------


def describe_topic(own: Mapping[str, str], layers: NodeLayers) -> list[Setting]:
    """All settings of a topic, by name."""
    values = topic_config(own, layers).as_dict()
    return [
        Setting(
            name,
            as_text(values[name]),
            tuple(_places_of_topic(key, as_text(values[name]), own, layers)),
            config_type(key),
            key.meaning,
        )
        for name, key in sorted(LOG_CONFIG.keys.items())
        if name in own or not name.startswith(INTERNAL_PREFIX)
    ]


def settings_of_new_topic(own: Mapping[str, str], layers: NodeLayers) -> list[tuple[str, str, ConfigSource]]:
    """(name, value, source) of all settings of a topic. Here every name of a broker's counts, as in Apache Kafka."""
    values = topic_config(own, layers).as_dict()
    places = [*zip(layers, _SOURCES, strict=False)]
    found = []
    for name, named in _BROKERS_NAMES.items():
        if name in own or not name.startswith(INTERNAL_PREFIX):
            said = [source for layer, source in places if not named.isdisjoint(layer)]
            source = ConfigSource.TOPIC if name in own else said[0] if said else ConfigSource.DEFAULT
            found.append((name, as_text(values[name]), source))
    return found


_BROKERS_NAMES = {
    name: frozenset(synonym.name for synonym in broker_names(key)) for name, key in sorted(LOG_CONFIG.keys.items())
}
"""Under which names a broker has the default of each setting of a topic."""


def _places_of_topic(key: Key[Any], value: str, own: Mapping[str, str], layers: NodeLayers) -> Iterator[Place]:
    if key.name in own:
        yield Place(key.name, value, ConfigSource.TOPIC)
    names = broker_names(key)
    if names:
        yield from _places(names[0].name, [synonym.name for synonym in names], layers)


def describe_broker(keys: ConfigDef, properties: Mapping[str, str], layers: NodeLayers) -> list[Setting]:
    """All settings of a node that has these keys and this properties file, by name."""
    numbers = [properties[name] for name in _OWN_NUMBER if name in properties]
    properties = dict(properties) | (dict.fromkeys(_OWN_NUMBER, numbers[0]) if numbers else {})
    layers = layers._replace(static=properties)
    shown = [key for name, key in keys.keys.items() if not name.startswith(INTERNAL_PREFIX)]
    found = [_of_broker(key, layers) for key in shown if key.name not in _INTERNAL - set(properties)]
    found += [_rate(key, layers) for key in _rates_in(layers.dynamic, layers.cluster)]
    found += [_store(name, key, value) for name, value in layers.dynamic.items() if (key := store_key(name))]
    names = {setting.name for setting in found}
    for name, value in properties.items():
        if name not in names and not name.startswith(INTERNAL_PREFIX):
            found.append(_other(name, value, keys))
    return sorted(found)


_OWN_NUMBER = ("node.id", "broker.id")
"""Two names of one setting. Kafka sets both where a file sets one."""
_OF_THE_AUTHORIZER = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
_INTERNAL = INTERNAL_BROKER_SETTINGS | INTERNAL | _OF_THE_AUTHORIZER
"""A client sees these only where the file sets them."""


def _other(name: str, value: str, keys: ConfigDef) -> Setting:
    """What the file says under a name that is no key's: a listener's own setting, or another program's."""
    key = keys.keys.get(listeners_setting(name))
    if key is None or key.kind == SECRET:
        # We do not know what it is: perhaps a password.
        kind = ConfigType.UNKNOWN if key is None else config_type(key)
        place = Place(name, None, ConfigSource.STATIC_BROKER)
        return Setting(name, None, (place,), kind, None, is_read_only=True, is_sensitive=True)
    places = [Place(name, value, ConfigSource.STATIC_BROKER)]
    default = _default(key)
    if default is not None:
        places.append(Place(key.name, default, ConfigSource.DEFAULT))
    return Setting(name, value, tuple(places), config_type(key), key.meaning, is_read_only=True)


def _of_broker(key: Key[Any], layers: NodeLayers) -> Setting:
    places = tuple(_places(key.name, _other_names(key), layers, _default(key)))
    is_read_only = key.name not in DYNAMIC_BROKER_CONFIGS and key.name not in STORE_KEYS
    if key.kind == SECRET:
        places = tuple(place._replace(value=None) for place in places if place.value)
        return Setting(key.name, None, places, config_type(key), key.meaning, is_read_only, is_sensitive=True)
    told = next((place for place in places if place.name == key.name), None)
    value = told.value if told else None
    if told and value is not None and told.source is not ConfigSource.DEFAULT:
        value = as_text(key.read(value))
    return Setting(key.name, value, places, config_type(key), key.meaning, is_read_only)


def _store(name: str, key: Key[Any], value: str) -> Setting:
    """A store of a listener with TLS that was changed while the broker ran."""
    shown = None if key.kind == SECRET else value
    place = Place(name, shown, ConfigSource.DYNAMIC_BROKER)
    return Setting(name, shown, (place,), config_type(key), key.meaning, is_sensitive=key.kind == SECRET)


def _rates_in(*layers: Mapping[str, str]) -> list[Key[Any]]:
    """The limits of replication that are set."""
    return [key for name, key in REPLICATION_QUOTA_CONFIG.keys.items() if any(name in layer for layer in layers)]


def _rate(key: Key[Any], layers: NodeLayers) -> Setting:
    """A limit of replication, which has no default and no place in a properties file."""
    said = zip((layers.dynamic, layers.cluster), _SOURCES, strict=False)
    places = tuple(Place(key.name, layer[key.name], source) for layer, source in said if key.name in layer)
    return Setting(key.name, places[0].value, places, config_type(key), key.meaning)


def describe_all_brokers(layers: NodeLayers) -> list[Setting]:
    """The dynamic settings of all brokers, by name."""
    found = [_rate(key, NodeLayers({}, layers.cluster, {})) for key in _rates_in(layers.cluster)]
    for name, value in sorted(layers.cluster.items()):
        if name in REPLICATION_QUOTA_CONFIG.keys:
            continue
        key = BROKER_DEFAULTS.get(name) or LIVE_BROKER_CONFIG.keys[name]
        place = Place(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        found.append(Setting(name, value, (place,), config_type(key), key.meaning))
    return sorted(found)


def describe_group(own: Mapping[str, str], properties: Mapping[str, str]) -> list[Setting]:
    """All settings of a group on a node with this properties file, by name. What the file says counts as the default,
    as in Apache Kafka."""
    of_broker = BROKER_GROUP_CONFIG.resolve(properties)
    values, defaults = group_values(of_broker, own), of_broker.as_dict()
    found = []
    for name, key in sorted(GROUP_CONFIG.keys.items()):
        value, brokers_name = as_text(values[name]), f"group.{name}"
        places = [Place(brokers_name, as_text(defaults[brokers_name]), ConfigSource.DEFAULT)]
        if name in own:
            places.insert(0, Place(name, value, ConfigSource.GROUP))
        found.append(Setting(name, value, tuple(places), config_type(key), key.meaning))
    return found


def describe_client_metrics(own: Mapping[str, str]) -> list[Setting]:
    """All settings of a subscription to clients' metrics, by name. Apache Kafka names no place for a default here."""
    own = {name: value for name, value in own.items() if _can_read(name, value)}
    values = CLIENT_METRICS_CONFIG.resolve(own).as_dict()
    found = []
    for name, key in sorted(CLIENT_METRICS_CONFIG.keys.items()):
        value = as_text(values[name])
        places = (Place(name, value, ConfigSource.CLIENT_METRICS),) if name in own else ()
        found.append(Setting(name, value, places, config_type(key), key.meaning))
    return found


def _places(name: str, names: Iterable[str], layers: NodeLayers, default: str | None = None) -> Iterator[Place]:
    """The places that say something under one of `names`, from the first that uses `name` itself on."""
    names = list(names)
    defaults = {other: BROKER_DEFAULTS[other].default for other in names if other in BROKER_DEFAULTS}
    is_found = False
    for layer, source in zip((*layers, defaults or {name: default}), _SOURCES, strict=True):
        for other in names:
            value = layer.get(other)
            is_found = is_found or (value is not None and other == name)
            if is_found and value is not None:
                yield Place(other, value, source)


_SOURCES = (
    ConfigSource.DYNAMIC_BROKER,
    ConfigSource.DYNAMIC_DEFAULT_BROKER,
    ConfigSource.STATIC_BROKER,
    ConfigSource.DEFAULT,
)


def _other_names(key: Key[Any]) -> list[str]:
    """All names of a broker for what this key says."""
    for topic_key in LOG_CONFIG.keys.values():
        names = [synonym.name for synonym in broker_names(topic_key)]
        if key.name in names:
            return names
    return [key.name]


def _default(key: Key[Any]) -> str | None:
    if key.required or key.default is None or key.name in _NULL_LISTS:
        return None
    if key.default == "" and key.name not in _EMPTY_TEXTS:
        return None
    return _OTHER_DEFAULTS.get(key.name, as_text(key.default))


def config_type(key: Key[Any]) -> ConfigType:
    """What the values of a key are, in the protocol's words."""
    return _OTHER_TYPES.get(key.name) or ConfigType[key.kind.upper()]
