"""An administrator who moves replicas between the log directories of their brokers, while directories fail.

At first the brokers copy slowly, by ``replica.alter.log.dirs.io.max.bytes.per.second``, so that a move takes its time;
when the storm is over they may copy as fast as they can. A move that is refused, or whose answer is lost, is forgotten:
what comes of moves the laws say (`directory_laws`).
"""

from collections.abc import Callable, Sequence
from random import Random

from pykraft.broker.broker import Broker
from pykraft.client.administration.configs import ConfigCalls, ConfigResource, ConfigResourceType
from pykraft.client.administration.logs import LogCalls
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.errors import KafkaError
from pykraft.common.settings.broker_config import DIRECTORY_MOVES_RATE
from pykraft.common.types import TopicPartition
from pykraft.metadata.image import MetadataImage
from pykraft.sim.laws.directory_laws import DirectoryLaws
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.trouble.directories import DirectoryKnobs
from pykraft.sim.workloads.workload import TOPIC, admin_core

_PATIENCE_MS = 1_000
_OF_THE_TOPIC = 0.8
_KNOWN_BY_MS = 8_000
"""When all else has settled, the controller hears within this time where each replica is."""
_ALL_BROKERS = ConfigResource(ConfigResourceType.BROKER, "")


class DirectoryMover:
    """An admin client's core that acts of its own accord. It is a RequestManager."""

    def __init__(self, knobs: DirectoryKnobs, servers: str, watcher: Watcher, random: Random) -> None:
        self._metadata, self._driver = admin_core(servers, random)
        self._knobs, self._watcher, self._random = knobs, watcher, random
        self._act_at = 0
        self._rate: int | None = None
        """What was acknowledged last."""
        self._is_waiting = False
        self.wanted_rate = knobs.slice_bytes
        self.is_active = True

    @property
    def is_done(self) -> bool:
        """Whether the brokers copy as fast as they shall, and no answer is waited for."""
        return self._rate == self.wanted_rate and not self._is_waiting

    def poll(self, now: int) -> Poll:
        has_work = self.is_active or self._rate != self.wanted_rate
        if has_work and not self._is_waiting and now >= self._act_at:
            self._act_at = now + self._random.randint(1, 2 * self._knobs.move_every_ms)
            if self._rate != self.wanted_rate:
                self._set_rate(now + _PATIENCE_MS)
            else:
                self._move(now + _PATIENCE_MS)
            has_work = self.is_active or self._rate != self.wanted_rate
        deadline = self._act_at if has_work and not self._is_waiting else FOREVER
        return merge([Poll(max(now, deadline)), self._driver.poll(now), self._metadata.poll(now)])

    def _set_rate(self, deadline: int) -> None:
        rate = self.wanted_rate

        def on_answer(result: object) -> None:
            self._is_waiting = False
            if not isinstance(result, KafkaError):
                self._rate = rate

        self._is_waiting = True
        changes = {_ALL_BROKERS: {DIRECTORY_MOVES_RATE.name: rate}}
        ConfigCalls(self._driver).incremental_alter_configs(changes, False, deadline).then(on_answer)

    def _move(self, deadline: int) -> None:
        image = self._watcher.newest_image()
        places = [] if image is None else self._places(image)
        if not places:
            return

        def on_answer(result: object) -> None:
            self._is_waiting = False

        place, broker = self._random.choice(places)
        wanted = {broker: {place: self._random.choice(self._knobs.paths)}}
        self._is_waiting = True
        LogCalls(self._driver).alter_replica_log_dirs(wanted, deadline).then(on_answer)

    def _places(self, image: MetadataImage) -> list[tuple[TopicPartition, int]]:
        """Replicas to choose from, with their brokers: mostly of the topic that is written all the time."""
        names = sorted(image.topic_ids)
        some = [TOPIC] if TOPIC in names and self._random.random() < _OF_THE_TOPIC else names
        topics = [topic for name in some if (topic := image.topic_named(name)) is not None]
        return [
            (TopicPartition(topic.name, number), broker)
            for topic in topics
            for number, partition in sorted(topic.partitions.items())
            for broker in partition.replicas
        ]


class DirectoryWorkload:
    """The room of these seeds."""

    def __init__(
        self,
        knobs: DirectoryKnobs,
        servers: str,
        watcher: Watcher,
        laws: DirectoryLaws,
        time_ms: Callable[[], int],
        random: Random,
    ) -> None:
        self._mover = DirectoryMover(knobs, servers, watcher, random)
        self._laws, self._watcher, self._time_ms = laws, watcher, time_ms
        self._brokers: dict[int, Broker] = {}
        self._asked_at: int | None = None

    def clients(self) -> list[tuple[str, DirectoryMover]]:
        return [("mover", self._mover)]

    def end(self) -> None:
        """What moves comes to an end soon."""
        self._mover.is_active = False
        self._mover.wanted_rate = DIRECTORY_MOVES_RATE.default

    def pause(self) -> None:
        """It writes nothing."""

    def missing(self, brokers: Sequence[tuple[int, Broker]]) -> str | None:
        if not self._mover.is_done:
            return "the administrator of the moves waits for an answer"
        self._brokers, now = dict(brokers), self._time_ms()
        self._asked_at = now if self._asked_at is None else self._asked_at
        image = self._watcher.newest_image()
        why = None if image is None else self._laws.missing(image, self._brokers)
        return why if now - self._asked_at < _KNOWN_BY_MS else None

    def check(self, image: MetadataImage) -> None:
        self._laws.check_end(image, self._brokers)
