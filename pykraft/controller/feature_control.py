"""Changing the levels of features: the plan, with every refusal that an administrator may meet.

One request may change several features. It is decided as a whole: the first feature that is refused refuses all of
them, and nothing has changed. A level is refused if

* a node could not run at it: this controller, a registered broker, or a registered controller; or a controller of
  ``controller.quorum.voters`` has not registered, so that nothing is known of it;
* it is lower, and the request is an upgrade; or it is higher, and the request is a downgrade;
* it is a lower ``metadata.version``, and a level in between has changed records: they could not be read any more;
* another feature is too low for it, after all updates of the request;
* it is a lower ``kraft.version``: its voters are in the log, and cannot be taken out again; or it is a higher one, and
  not all voters have said that they support it (`raft.voter_updates`).

A change is one FeatureLevelRecord for each feature, in one batch. Each node that replays it runs at the new level from
there on. Before eligible leader replicas begin, ``min.insync.replicas`` becomes the same for all brokers (`elr`).

Follows org.apache.kafka.controller.FeatureControlManager.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.features import SUPPORTED_FEATURES, UNSUPPORTED
from pykraft.controller.partitions.elr import safety_records
from pykraft.controller.result import Result, VersionedRecord
from pykraft.metadata.image import FeatureRange, MetadataImage
from pykraft.metadata.versions import (
    BASE,
    ELR_VERSION,
    IV_3_7_0_CONTROLLER_REGISTRATION,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    feature_level,
    is_lossless,
    why_not,
)
from pykraft.protocol.messages.features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from pykraft.protocol.messages.records import FeatureLevelRecord, NoOpRecord, SupportedFeature

_UPGRADE_TYPES = (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
_LARGEST_CHANGE = 100
"""Features in one request. There are seven."""


class QuorumLevel(NamedTuple):
    """What Raft decides of ``kraft.version``."""

    level: Callable[[], int]
    """The level that holds now."""
    upgrade: Callable[[int, bool], None]
    """``upgrade(level, validate_only)`` raises it; KafkaError says why not."""


class FeatureControl:
    """Plans changes of levels."""

    def __init__(
        self,
        node_id: int,
        static_voters: Collection[int],
        quorum: QuorumLevel,
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`static_voters` are the controllers that must have registered, or may be too old. `properties` is this node's
        file."""
        self._node_id = node_id
        self._static_voters = static_voters
        self._properties = properties
        self._quorum = quorum

    def update_features(self, image: MetadataImage, request: UpdateFeaturesRequest) -> Result[UpdateFeaturesResponse]:
        updates = {update.feature: update for update in request.feature_updates}
        if len(updates) > _LARGEST_CHANGE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{len(updates)} features; {_LARGEST_CHANGE} are allowed")
        after = dict(image.features) | {name: update.max_version_level for name, update in updates.items()}
        records: list[VersionedRecord] = []
        try:
            for update in updates.values():
                records += self._update(image, update, after)
            kraft = updates.get(KRAFT_VERSION)
            if kraft is not None and kraft.upgrade_type == UPGRADE and not request.validate_only:
                self._quorum.upgrade(kraft.max_version_level, False)  # written at once, so after all refusals
        except KafkaError as error:
            said = f"no feature was changed, because {error.detail}"
            return Result([], UpdateFeaturesResponse(error_code=error.code, error_message=said))
        result_type = UpdateFeaturesResponse.Result
        results = [result_type(feature=update.feature) for update in request.feature_updates]
        return Result([] if request.validate_only else records, UpdateFeaturesResponse(results=results))

    def _update(
        self, image: MetadataImage, update: UpdateFeaturesRequest.Update, after: Mapping[str, int]
    ) -> list[VersionedRecord]:
        """The records of one change; `after` are the levels as the whole request wants them."""
        name, level = update.feature, update.max_version_level
        if update.upgrade_type not in _UPGRADE_TYPES:
            raise _refused(
                name, level, f"upgrade type {update.upgrade_type} is not known, only 1 (upgrade), 2 and 3 (downgrades)"
            )
        current = self._quorum.level() if name == KRAFT_VERSION else image.features.get(name, 0)
        if level < 0:
            raise _refused(name, level, "a level is at least 0")
        for reason in self._reasons_not_supported(image, name, level):
            raise _refused(name, level, reason)
        if level < current and update.upgrade_type == UPGRADE:
            raise _refused(name, level, f"it is at {current}, and the request is an upgrade")
        if level > current and update.upgrade_type != UPGRADE:
            raise _refused(name, level, f"it is at {current}, and the request is a downgrade")
        if name == METADATA_VERSION:
            _check_metadata_downgrade(current, level, update.upgrade_type)
        elif name == KRAFT_VERSION:
            return self._update_kraft(level, current, update.upgrade_type)
        else:
            wanted = feature_level(name, level)
            if wanted is None:
                raise _refused(name, level, "there is no such feature")
            lacking = why_not(name, wanted, after)
            if lacking is not None:
                raise _refused(name, level, lacking)
        before = safety_records(image, self._properties) if name == ELR_VERSION and level > 0 else []
        return [*before, (FeatureLevelRecord(name=name, feature_level=level), 0)]

    def _update_kraft(self, level: int, current: int, upgrade_type: int) -> list[VersionedRecord]:
        if upgrade_type == UPGRADE:
            self._quorum.upgrade(level, True)
            return [(NoOpRecord(), 0)]  # Raft writes the level: the answer waits until this record is committed, too
        if level != current:
            raise _refused(KRAFT_VERSION, level, f"it is at {current}, and never goes down: the voters are in the log")
        return []

    def _reasons_not_supported(self, image: MetadataImage, name: str, level: int) -> Iterator[str]:
        """Each node that cannot run at this level, or may not, in words. Controllers register from a level on."""
        nodes: list[tuple[str, Mapping[str, FeatureRange]]] = [
            (f"controller {self._node_id}", SUPPORTED_FEATURES),
            *((f"broker {broker_id}", broker.features) for broker_id, broker in sorted(image.brokers.items())),
        ]
        unheard: set[int] = set()
        if image.features.get(METADATA_VERSION, BASE.level) >= IV_3_7_0_CONTROLLER_REGISTRATION:
            unheard = set(self._static_voters) - image.controllers.keys() - {self._node_id}
            nodes += (
                (f"controller {controller_id}", _ranges(controller.features))
                for controller_id, controller in sorted(image.controllers.items())
                if controller_id != self._node_id
            )
        for node, supported in nodes:
            low, high = supported.get(name, UNSUPPORTED)
            if not low <= level <= high:
                yield f"{node} supports {low} to {high}" if high else f"{node} does not have this feature"
        for controller_id in sorted(unheard):
            yield f"controller {controller_id} has not registered, and may not have it"


def _ranges(features: Iterable[SupportedFeature]) -> dict[str, FeatureRange]:
    return {f.name: FeatureRange(f.min_supported_version, f.max_supported_version) for f in features}


def _check_metadata_downgrade(current: int, level: int, upgrade_type: int) -> None:
    """KafkaError if ``metadata.version`` may not go down from `current` to `level`."""
    if level >= current or is_lossless(current, level):
        return
    lowest = min(version.level for version in METADATA_VERSIONS if is_lossless(current, version.level))
    also = ", not even by an unsafe downgrade" if upgrade_type == UNSAFE_DOWNGRADE else ""
    raise _refused(
        METADATA_VERSION, level, f"records of level {current} could not be read, so it stays at {lowest} or above{also}"
    )


def _refused(name: str, level: int, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"{name} cannot be {level}: {reason}")
