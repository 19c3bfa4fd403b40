"""An administrator who makes topics, deletes them, moves their partitions and changes the level of the metadata while
the cluster is in trouble, and remembers what was promised.

Each topic has a name of its own, so what must be there in the end is plain:

* a topic whose creation was acknowledged is there, unless a deletion was requested;
* a topic whose deletion was acknowledged is gone, also from a node that has only read a snapshot. A request to make it
  that was given up may still arrive: then there is another topic of that name, with an id of its own;
* a topic whose request failed may be there or not;
* where a partition may end that was moved, `reassignment_workload` says;
* ``metadata.version`` is what was acknowledged last, or what a request wanted that was given up and arrived later. A
  request that only asked whether a level would do has changed nothing.

Follows Jepsen's set workload: what was acknowledged stays.
"""

from collections.abc import Callable
from random import Random

from pykraft.client.administration.admin import AdminCalls, NewTopic
from pykraft.client.administration.features import FeatureCalls, FeatureUpdate, UpgradeType
from pykraft.client.administration.reassignments import ReassignmentCalls
from pykraft.common.core import FOREVER, Poll, merge
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.versions import METADATA_VERSION, METADATA_VERSIONS
from pykraft.sim.laws.invariants import require
from pykraft.sim.workloads.reassignment_workload import MADE, Reassignments
from pykraft.sim.workloads.workload import admin_core

_PATIENCE_MS = 3_000
_DELETES = 0.4
_DRY_RUNS = 0.3


class Administrator:
    """An admin client's core that acts of its own accord. It is a RequestManager."""

    def __init__(
        self,
        bootstrap_servers: str,
        brokers: int,
        every_ms: int,
        moves: float,
        level_changes: float,
        level: int,
        newest_image: Callable[[], MetadataImage | None],
        random: Random,
    ) -> None:
        """`moves` is how often it moves a partition, `level_changes` how often it changes the level of the metadata,
        instead of making or deleting a topic; the cluster begins at this `level`. `newest_image` gives the newest one
        that a node has."""
        self._metadata, self._driver = admin_core(bootstrap_servers, random)
        self._brokers = brokers
        self._every_ms = every_ms
        self._moves = moves
        self._level_changes = level_changes
        self._newest_image = newest_image
        self._reassignments = Reassignments(brokers, random)
        self._random = random
        self._act_at = every_ms
        self._begun = 0
        self.is_active = True
        self.is_waiting = False
        self.made: set[str] = set()
        self.deleted: set[Uuid] = set()
        self._level = level
        self._given_up: set[int] = set()
        """Levels of requests whose outcome is unknown."""

    def poll(self, now: int) -> Poll:
        if self.is_active and not self.is_waiting and now >= self._act_at:
            self._act_at = now + self._every_ms
            self._act(now)
        deadline = self._act_at if self.is_active and not self.is_waiting else FOREVER
        return merge([Poll(max(now, deadline)), self._driver.poll(now), self._metadata.poll(now)])

    def _act(self, now: int) -> None:
        calls, deadline = AdminCalls(self._driver), now + _PATIENCE_MS
        self.is_waiting = True
        image = self._newest_image()
        if self._level_changes and self._random.random() < self._level_changes:
            self._change_level(deadline)
            return
        if self._moves and image is not None and self._random.random() < self._moves:
            self._reassignments.act(image, ReassignmentCalls(self._driver), deadline, self._on_moved)
            return
        if self.made and self._random.random() < _DELETES:
            name = self._random.choice(sorted(self.made))
            self.made.remove(name)
            topic_id = None if image is None else image.topic_ids.get(name)
            calls.delete_topics([name], 1000, deadline).then(lambda result: self._on_deleted(topic_id, result))
            return
        self._begun += 1
        name = f"{MADE}{self._begun}"
        replicas = self._random.randint(1, min(3, self._brokers))
        topic = NewTopic(name, self._random.randint(1, 2), replicas)
        calls.create_topics([topic], False, 1000, deadline).then(lambda result: self._on_made(name, result))

    def _on_moved(self) -> None:
        self.is_waiting = False

    def _change_level(self, deadline: int) -> None:
        level, is_dry_run = self._random.choice(METADATA_VERSIONS).level, self._random.random() < _DRY_RUNS
        kind = UpgradeType.UPGRADE if level >= self._level else UpgradeType.SAFE_DOWNGRADE
        updates = {METADATA_VERSION: FeatureUpdate(level, kind)}
        asked = FeatureCalls(self._driver).update_features(updates, is_dry_run, 1000, deadline)
        asked.then(lambda result: self._on_level(None if is_dry_run else level, result))

    def _on_level(self, level: int | None, result: object) -> None:
        self.is_waiting = False
        if level is None or (isinstance(result, KafkaError) and result.code is ErrorCode.INVALID_UPDATE_VERSION):
            return
        if isinstance(result, KafkaError):
            self._given_up.add(level)
        else:
            self._level = level

    def _on_made(self, name: str, result: object) -> None:
        self.is_waiting = False
        # It asks again after an answer that was lost: then the topic is there.
        if not isinstance(result, KafkaError) or result.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            self.made.add(name)

    def _on_deleted(self, topic_id: Uuid | None, result: object) -> None:
        self.is_waiting = False
        is_done = not isinstance(result, KafkaError) or result.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic_id is not None and is_done:
            self.deleted.add(topic_id)

    def check(self, image: MetadataImage) -> None:
        """What was acknowledged is so in the newest image."""
        level, known = image.features[METADATA_VERSION], {self._level} | self._given_up
        require(level in known, f"{METADATA_VERSION} is {level}; acknowledged was {self._level}, asked for {known}")
        lost, back = self.made - image.topic_ids.keys(), self.deleted & image.topics.keys()
        require(not lost, f"topics whose creation was acknowledged are not there: {sorted(lost)}")
        require(not back, f"topics are there whose deletion was acknowledged: {[image.topics[x].name for x in back]}")
        self._reassignments.check(image)
