"""Changes of settings against a dictionary: whatever is asked, in whatever order, all of a resource's changes are made
or none, what is read back is what was asked, and a replay of the records, or a snapshot's, gives the same.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykraft.common.core import finish
from pykraft.common.settings.config import ConfigDef
from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.common.types import OffsetAndEpoch, Uuid
from pykraft.controller.configs import ConfigControl
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage
from pykraft.metadata.settings import describe_topic, node_layers
from pykraft.protocol.messages.configs import ResourceType
from pykraft.protocol.messages.records import MetadataRecord, TopicRecord
from tests.harness.asking import APPEND, DELETE, SET, SUBTRACT, change, replace_all

TOPICS = ("t", "u")
HERE = OffsetAndEpoch(1, 1)

_VALUES = {
    "retention.ms": ("1", "soon", "-1"),
    "cleanup.policy": ("compact", "delete", "compact,delete", "burn", ""),
    "min.compaction.lag.ms": ("0", "5", "9"),
    "max.compaction.lag.ms": ("4", "7"),
    "no.such": ("1",),
}
_CHANGES = st.dictionaries(
    st.sampled_from(sorted(_VALUES)),
    st.tuples(st.sampled_from([SET, DELETE, APPEND, SUBTRACT]), st.integers(0, 4)),
    min_size=1,
    max_size=3,
).map(
    lambda chosen: [
        (name, operation, _VALUES[name][number % len(_VALUES[name])]) for name, (operation, number) in chosen.items()
    ]
)
_REQUEST = st.tuples(
    st.sampled_from(["some", "all", "validate"]), st.dictionaries(st.sampled_from(TOPICS), _CHANGES, min_size=1)
)


def replayed(image: MetadataImage, records: list[tuple[MetadataRecord, int]]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record, _ in records:
        delta.replay(record)
    return delta.apply(HERE)


def with_topics() -> MetadataImage:
    topics = [(TopicRecord(name=name, topic_id=Uuid(bytes(15) + name.encode())), 0) for name in TOPICS]
    return replayed(EMPTY_IMAGE, list(topics))


def wanted(settings: dict[str, str], name: str, operation: int, value: str) -> str | None:
    """The model: what the setting comes to; ValueError if nothing can be added to it."""
    if operation == SET:
        return value
    if operation == DELETE:
        return None
    if name != "cleanup.policy":
        raise ValueError(name)
    old = [part for part in settings.get(name, "delete").split(",") if part]
    new = value.split(",")
    kept = old + [part for part in new if part not in old] if operation == APPEND else [p for p in old if p not in new]
    return ",".join(kept)


def is_allowed(settings: dict[str, str]) -> bool:
    if any(name == "no.such" or value == "soon" for name, value in settings.items()):
        return False
    policies = settings.get("cleanup.policy", "delete").split(",")
    if policies != [""] and not set(policies) <= {"compact", "delete"}:
        return False
    return int(settings.get("min.compaction.lag.ms", "0")) <= int(settings.get("max.compaction.lag.ms", "99"))


def after(settings: dict[str, str], how: str, changes: list[tuple[str, int, str]]) -> dict[str, str] | None:
    """The model: the settings after these changes, None if they are refused."""
    result: dict[str, str | None] = {} if how == "all" else dict(settings)
    try:
        for name, operation, value in changes:
            result[name] = value if how == "all" else wanted(settings, name, operation, value)
    except ValueError:
        return None
    found = {name: value for name, value in result.items() if value is not None}
    return found if is_allowed(found) else None


@given(st.lists(_REQUEST, max_size=5))
def test_settings_are_what_was_asked_for(requests: list[tuple[str, dict[str, Any]]]) -> None:
    control = ConfigControl(1, {})
    image = with_topics()
    model: dict[str, dict[str, str]] = {name: {} for name in TOPICS}
    everything: list[tuple[MetadataRecord, int]] = []
    for how, asked in requests:
        if how == "all":
            parts = [(ResourceType.TOPIC, topic, [each[::2] for each in changes]) for topic, changes in asked.items()]
            steps: Any = control.alter_configs(image, replace_all(*parts))
        else:
            resources = [(ResourceType.TOPIC, topic, changes) for topic, changes in asked.items()]
            steps = control.incremental_alter_configs(image, change(*resources, validate_only=how == "validate"))
        result: Any = finish(steps)
        codes = {each.resource_name: each.error_code for each in result.response.responses}
        for topic, changes in asked.items():
            expected = after(model[topic], how, changes)
            assert (codes[topic] == 0) == (expected is not None), (how, changes, model[topic])
            if expected is not None and how != "validate":
                model[topic] = expected
        everything += result.records
        image = replayed(image, result.records)
        assert {name: dict(image.config_of(ResourceType.TOPIC, name)) for name in TOPICS} == model
    assert replayed(with_topics(), everything).configs == image.configs
    assert replayed(EMPTY_IMAGE, list(image.to_records())).configs == image.configs
    assert all(ConfigResource(ResourceType.TOPIC, name) in image.configs or not model[name] for name in TOPICS)
    layers = node_layers(image, 1, {})
    for name in TOPICS:
        told = {setting.name: setting.value for setting in describe_topic(model[name], layers)}
        assert {key: told[key] for key in model[name]} == model[name]
        assert set(told) == {key for key in ConfigDef(LOG_CONFIG.keys.values()).keys if not key.startswith("internal.")}
