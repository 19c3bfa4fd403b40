"""What an administrator asks of a cluster's features: their levels, and to change them (KIP-584).

A feature that brokers have but the cluster does not use is at level 0: then it has no finalized level.

Follows org.apache.kafka.clients.admin.{FeatureMetadata,FeatureUpdate,SupportedVersionRange}.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from pykraft.client.api_driver import ADMIN_CHANNEL, ApiDriver, ApiHandler, converted
from pykraft.client.arguments import whole_number
from pykraft.client.lookups import BrokerStrategy
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.messages.features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from pykraft.transport.client_channel import SOFTWARE_NAME, SOFTWARE_VERSION

_LARGEST_INT16 = (1 << 15) - 1
_FIRST_WITH_TYPES = 1
_UNKNOWN_EPOCH = -1


class UpgradeType(IntEnum):
    """Which way a level may go. A safe downgrade loses nothing of the metadata."""

    UPGRADE = UPGRADE
    SAFE_DOWNGRADE = SAFE_DOWNGRADE
    UNSAFE_DOWNGRADE = UNSAFE_DOWNGRADE


class FeatureUpdate(NamedTuple):
    """The level that a feature is to have; 0 disables it."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


def feature_update(wanted: Any) -> FeatureUpdate:
    """What a feature is to have. TypeError unless it is a FeatureUpdate or a level, which then is an upgrade."""
    found = wanted if isinstance(wanted, FeatureUpdate) else FeatureUpdate(wanted)
    whole_number("the level of a feature", found.max_version_level, _LARGEST_INT16)
    return FeatureUpdate(found.max_version_level, UpgradeType(found.upgrade_type))


class SupportedVersionRange(NamedTuple):
    """The levels of a feature that a node can run at."""

    min_version: int
    max_version: int


class FeatureMetadata(NamedTuple):
    """The features of a node and its cluster."""

    finalized_features: Mapping[str, int]
    """The levels that the cluster runs at, by feature."""
    finalized_features_epoch: int | None
    """The offset of the metadata log up to which the node knows them; None if it knows none."""
    supported_features: Mapping[str, SupportedVersionRange]


class FeatureCalls:
    """Each method asks one thing; `deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver

    def describe_features(self, node_id: int | None, deadline: int) -> "Promise[FeatureMetadata | KafkaError]":
        """As this broker knows them, or any."""
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        if node_id is None:
            return self._driver.ask_any("the cluster's features", request, _features, deadline)

        def read(asked: Sequence[int], response: ApiVersionsResponse) -> Iterator[tuple[int, FeatureMetadata]]:
            return ((broker, _features(response)) for broker in asked)

        handler: ApiHandler[int, FeatureMetadata] = ApiHandler(
            what="the features of broker {}",
            lookup=BrokerStrategy(self._driver.metadata, lambda broker: broker),
            request=lambda asked: request,
            read=read,
            channel=ADMIN_CHANNEL,
        )
        return converted(self._driver.ask_all(handler, [node_id], deadline), lambda found: found[node_id])

    def update_features(
        self, updates: Mapping[str, FeatureUpdate], validate_only: bool, timeout_ms: int, deadline: int
    ) -> "Promise[KafkaError | None]":
        """Change all of these levels, or none."""
        update_type = UpdateFeaturesRequest.Update
        request = UpdateFeaturesRequest(
            timeout_ms=timeout_ms,
            feature_updates=[
                update_type(feature=name, max_version_level=level, upgrade_type=kind)
                for name, (level, kind) in updates.items()
            ],
            validate_only=validate_only,
        )
        if validate_only or any(update.upgrade_type is not UpgradeType.UPGRADE for update in updates.values()):
            request.at_least(_FIRST_WITH_TYPES)

        def read(response: UpdateFeaturesResponse) -> None:
            _check(response.error_code, response.error_message)
            for result in response.results:
                _check(result.error_code, result.error_message)

        return self._driver.ask_any("to change the levels of features", request, read, deadline)


def _check(code: int, message: str | None) -> None:
    if code:
        error = ErrorCode.of(code)
        raise KafkaError(error, message or error.text)


def _features(response: ApiVersionsResponse) -> FeatureMetadata:
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code))
    epoch = response.finalized_features_epoch
    return FeatureMetadata(
        {feature.name: feature.max_version_level for feature in response.finalized_features},
        None if epoch == _UNKNOWN_EPOCH else epoch,
        {
            feature.name: SupportedVersionRange(feature.min_version, feature.max_version)
            for feature in response.supported_features
        },
    )
