"""An administrator who changes settings while the cluster is in trouble, and clients of a topic that has them.

It remembers what it was promised. At the end each setting has the value whose change was acknowledged last, or one that
a request wanted whose outcome is unknown: it was given up, or tried again, and may have arrived later. So have the
levels of features. A refused request has changed nothing.

Once the storm is over the topic gets settings with which it can recover. Where eligible leader replicas are kept, a
change of ``min.insync.replicas`` voids them, in Kafka too, and a partition whose ISR is empty at that moment gets no
leader any more without an unclean election: then the administrator allows one. What else must hold is in
`laws.setting_laws`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from pykraft.broker.broker import Broker
from pykraft.client.administration.admin import NewTopic
from pykraft.client.administration.configs import ConfigCalls, ConfigResource, ConfigResourceType
from pykraft.client.administration.features import FeatureCalls, FeatureUpdate, UpgradeType
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.metadata.image import ConfigResource as Resource
from pykraft.metadata.image import FeatureRange, MetadataImage
from pykraft.metadata.versions import (
    BASE,
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    TRANSACTION_VERSION,
)
from pykraft.sim.laws.invariants import require
from pykraft.sim.laws.setting_laws import (
    BROKERS_NAMES,
    CHANGING,
    HEARTBEAT,
    MIN_ISR,
    RETENTION,
    SESSION,
    SHAPES,
    UNCLEAN,
    Configs,
)
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.trouble.settings import OLD_LEVELS, SettingKnobs
from pykraft.sim.workloads.settling import end_for_readers
from pykraft.sim.workloads.workload import TOPIC, Reader, TopicMaker, Writer, admin_core
from pykraft.sim.world.hosts import SimulatedNode

_PATIENCE_MS = 2_000
_REQUEST_MS = 1_000
"""After this long without an answer the client asks again."""
_AGAIN_MS = 100
_PAUSE_MS = 20
_RECORDS_PER_S = 50
_WEEK_MS = 7 * 24 * 3_600_000
_MIN_ISR, _RETENTION = ("1", "2", "3"), (str(_WEEK_MS), "-1")
_ALLOWED = ("true", "false", "false", None, None, None)
"""Of unclean elections. After one, no law says any more what the partition has."""
_OFTEN = 0.7
"""How often it is how many replicas must be in sync that changes, and not whether elections may be unclean."""
_CALM = {MIN_ISR: "1", UNCLEAN: "false"}
"""With these settings the topic recovers, unless it has lost its eligible replicas."""
_HOPE_MS = 3_000
"""It has this long for that before an unclean election is allowed."""
_TOPIC, _BROKER, _GROUP = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP
_SESSIONS_MS, _HEARTBEATS_MS = (300, 600, 1_500), (40, 100, 200)
_LEVELS = {
    METADATA_VERSION: tuple(each.level for each in METADATA_VERSIONS if each.level >= BASE.level - 3),
    TRANSACTION_VERSION: (0, 1, 2),
    GROUP_VERSION: (0, 1),
    ELR_VERSION: (0, 1),
    KRAFT_VERSION: (1,),
}
_REFUSALS = (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_UPDATE_VERSION)
_UNSAID = object()
Changes = dict[ConfigResource, dict[str, str | None]]


class Promises:
    """What was promised of each setting or level, and what may have become of requests whose outcome is unknown."""

    def __init__(self) -> None:
        self._last: dict[Any, object] = {}
        self._unsure: dict[Any, set[object]] = {}

    def hear(self, wanted: Mapping[Any, object], result: object, took_ms: int) -> bool:
        """The answer to a request for these values; whether it was done."""
        is_refused = isinstance(result, KafkaError) and result.code in _REFUSALS
        is_done = not isinstance(result, KafkaError)
        for key, value in wanted.items():
            if not (is_refused or is_done) or took_ms >= _REQUEST_MS:
                self._unsure.setdefault(key, set()).add(value)
            if is_done:
                self._last[key] = value
        return is_done

    def check(self, value_of: Callable[[Any], object]) -> None:
        """Each has a value that it may have."""
        for key in {**self._last, **self._unsure}:
            value, unsure = value_of(key), self._unsure.get(key, set())
            last = self._last.get(key, _UNSAID)
            require(
                last is _UNSAID or value == last or value in unsure,
                f"{key} is {value!r}; {last!r} was acknowledged last, and {sorted(map(repr, unsure))} were given up",
            )


class SettingAdministrator:
    """An admin client's core that acts of its own accord. It is a RequestManager."""

    def __init__(
        self,
        knobs: SettingKnobs,
        brokers: int,
        servers: str,
        watcher: Watcher,
        time_ms: Callable[[], int],
        random: Random,
    ) -> None:
        self._metadata, self._driver = admin_core(servers, random)
        self._knobs = knobs
        self._brokers = brokers
        self._watcher = watcher
        self._time_ms = time_ms
        self._random = random
        self._act_at = 0
        self._promises, self._levels = Promises(), Promises()
        self._is_waiting = False
        self.is_active, self.is_done = True, False
        self._calm_since = 0

    def poll(self, now: int) -> Poll:
        if not self.is_done and not self._is_waiting and now >= self._act_at:
            self._act_at = now + (self._random.randint(1, 2 * self._knobs.every_ms) if self.is_active else _AGAIN_MS)
            self._act(now)
        deadline = FOREVER if self._is_waiting or self.is_done else self._act_at
        return merge([Poll(max(now, deadline)), self._driver.poll(now), self._metadata.poll(now)])

    def _act(self, now: int) -> None:
        image = self._watcher.newest_image()
        if image is None or CHANGING not in image.topic_ids:
            return
        if not self.is_active:
            self._calm(image, now)
            return
        kinds = sorted(self._knobs.kinds)
        kind = self._random.choices(kinds, [self._knobs.kinds[kind] for kind in kinds])[0]
        if kind == "features":
            self._change_level(image, now)
        else:
            self._alter(dict(self._change(kind, image)), now, lambda: None)

    def _calm(self, image: MetadataImage, now: int) -> None:
        if not self._calm_since:

            def on_done() -> None:
                self._calm_since = self._time_ms()

            self._alter({ConfigResource(_TOPIC, CHANGING): dict(_CALM)}, now, on_done)
            return
        without = [name for name in (CHANGING, TOPIC) if _lacks_leader(image, name)]
        self.is_done = not without
        if without and self._time_ms() > self._calm_since + _HOPE_MS:
            self._alter({ConfigResource(_TOPIC, name): {UNCLEAN: "true"} for name in without}, now, lambda: None)

    # --- settings -----------------------------------------------------------------------------------------------------

    def _change(self, kind: str, image: MetadataImage) -> Iterator[tuple[ConfigResource, dict[str, str | None]]]:
        random = self._random
        if kind == "group":
            session, heartbeat = random.choice(_SESSIONS_MS), random.choice(_HEARTBEATS_MS)
            yield (
                ConfigResource(_GROUP, self._knobs.group_id),
                {HEARTBEAT: random.choice((None, str(heartbeat))), SESSION: random.choice((None, str(session)))},
            )
        elif kind == "topic":
            choices: dict[str, Sequence[str | None]] = {
                MIN_ISR: (*_MIN_ISR, *_MIN_ISR, None),
                UNCLEAN: _ALLOWED,
                RETENTION: (*_RETENTION, None),
                **SHAPES,
            }
            names = {MIN_ISR if random.random() < _OFTEN else UNCLEAN, *random.sample(sorted(choices), 1)}
            yield ConfigResource(_TOPIC, CHANGING), {name: random.choice(choices[name]) for name in sorted(names)}
        else:
            yield self._change_of_brokers(kind == "broker")

    def _change_of_brokers(self, is_of_one: bool) -> tuple[ConfigResource, dict[str, str | None]]:
        """Where eligible leader replicas are kept, ``min.insync.replicas`` of one broker is refused, and that of all
        brokers is not taken away."""
        random = self._random
        choices: dict[str, Sequence[str | None]] = {BROKERS_NAMES[RETENTION]: (*_RETENTION, None)}
        if not self._knobs.group_id:  # else the topic of the group's offsets might need an unclean election
            choices[MIN_ISR] = (*_MIN_ISR, None)
        if self._knobs.allows_default_unclean:
            choices[UNCLEAN] = _ALLOWED
        name = random.choice(sorted(choices))
        broker = str(random.randint(1, self._brokers)) if is_of_one else ""
        return ConfigResource(_BROKER, broker), {name: random.choice(choices[name])}

    def _alter(self, changes: Changes, now: int, on_done: Callable[[], None]) -> None:
        wanted = {
            (Resource(int(each.resource_type), each.name), name): value
            for each, settings in changes.items()
            for name, value in settings.items()
            if not self._may_be_written_by_the_controller(each, name)
        }
        asked_ms = self._time_ms()

        def on_answer(result: object) -> None:
            self._is_waiting = False
            if self._promises.hear(wanted, result, self._time_ms() - asked_ms):
                self._watcher.progress.settings_changed += 1
                assert self._watcher.settings is not None
                self._check_settings(self._watcher.settings.configs)
                on_done()

        self._is_waiting = True
        ConfigCalls(self._driver).incremental_alter_configs(changes, False, now + _PATIENCE_MS).then(on_answer)

    def _may_be_written_by_the_controller(self, resource: ConfigResource, name: str) -> bool:
        """When a cluster begins to keep eligible leader replicas."""
        return resource.resource_type is _BROKER and name == MIN_ISR and ELR_VERSION in self._knobs.features

    # --- levels -------------------------------------------------------------------------------------------------------

    def _change_level(self, image: MetadataImage, now: int) -> None:
        name = self._random.choice(self._knobs.features)
        level = self._random.choice(_LEVELS[name])
        current = image.features.get(name, 0)
        kind = UpgradeType.UPGRADE if level >= current or name == KRAFT_VERSION else UpgradeType.SAFE_DOWNGRADE
        asked_ms = self._time_ms()

        def on_answer(result: object) -> None:
            self._is_waiting = False
            wanted = {} if name == KRAFT_VERSION else {name: level}
            if self._levels.hear(wanted, result, self._time_ms() - asked_ms):
                self._watcher.progress.levels_changed += 1

        self._is_waiting = True
        updates, deadline = {name: FeatureUpdate(level, kind)}, now + _PATIENCE_MS
        FeatureCalls(self._driver).update_features(updates, False, _REQUEST_MS, deadline).then(on_answer)

    def check(self, image: MetadataImage) -> None:
        """What was promised is so in the end. (Of settings also each time that a change is acknowledged.)"""
        self._check_settings(image.configs)
        self._levels.check(lambda name: image.features.get(name, 0))

    def _check_settings(self, configs: Configs) -> None:
        self._promises.check(lambda key: configs.get(key[0], {}).get(key[1]))


def _lacks_leader(image: MetadataImage, topic: str) -> bool:
    found = image.topic_named(topic)
    return found is not None and any(partition.leader < 0 for partition in found.partitions.values())


class SettingWorkload:
    """The topic, its clients, and its administrator."""

    def __init__(
        self,
        knobs: SettingKnobs,
        brokers: int,
        producer: Mapping[str, object],
        consumer: Mapping[str, object],
        servers: str,
        watcher: Watcher,
        time_ms: Callable[[], int],
        dice: Callable[[str], Random],
    ) -> None:
        self._watcher = watcher
        topic = NewTopic(CHANGING, 1, knobs.replicas, {}, {})
        self._maker = TopicMaker(topic, servers, dice(f"maker of {CHANGING}"), _PAUSE_MS)
        settings = {**producer, "enable.idempotence": True}
        self.writer = Writer(
            "s", settings, servers, _RECORDS_PER_S, 1, watcher, time_ms, dice("writer of settings"), topic=CHANGING
        )
        self.reader = Reader(dict(consumer), servers, 1, watcher, dice("reader of settings"), CHANGING)
        self.administrator = SettingAdministrator(knobs, brokers, servers, watcher, time_ms, dice("settings"))

    def clients(self) -> list[tuple[str, Any]]:
        """Each with its name."""
        return [
            (f"maker-{CHANGING}", self._maker),
            ("setting-writer", self.writer),
            ("setting-reader", self.reader),
            ("setting-administrator", self.administrator),
        ]

    def end(self) -> None:
        """From now on no setting is changed, but for the last ones."""
        self.administrator.is_active = False

    def pause(self) -> None:
        """Nothing more is written."""
        self.writer.is_writing = False

    def missing(self, brokers: Sequence[tuple[int, Broker]]) -> str | None:
        """Why it has not settled; None if it has. `brokers` are those that are up, with their node ids."""
        if not self.administrator.is_done:
            return "the administrator of the settings waits for an answer"
        if not self.writer.is_idle:
            return f"a producer of {CHANGING} still waits for acknowledgements"
        for place, position in self.reader.positions.items():
            if position < (end := end_for_readers(self._watcher, brokers, place)):
                return f"a consumer has read {place} up to {position} of {end}"
        return None

    def check(self, image: MetadataImage) -> None:
        """What was promised is so."""
        self.administrator.check(image)


def age(machine: SimulatedNode, lives: int) -> None:
    """This broker is of an older release in this many of its lives: it registers with what that release supports."""

    def on_boot() -> None:
        assert machine.node is not None
        if machine.node.broker is not None and (machine.life + 1) // 2 <= lives:
            machine.node.broker.lifecycle._features = {name: FeatureRange(*each) for name, each in OLD_LEVELS.items()}

    machine.on_boot = on_boot
