"""What an administrator asks of features, and how the answers read."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.client.administration.features import (
    FeatureCalls,
    FeatureMetadata,
    FeatureUpdate,
    UpgradeType,
    feature_update,
)
from pykraft.client.api_driver import ApiDriver
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.messages.features import UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.harness.scripted import Script, knowing, settings


def asking() -> tuple[FeatureCalls, Script]:
    config = settings("admin")
    driver = ApiDriver(config, knowing(config, {}), Random(1))
    return FeatureCalls(driver), Script(driver)


@pytest.mark.parametrize("node_id", [None, 1])
def test_levels_are_described_with_the_ranges_of_the_node(node_id: int | None) -> None:
    ask, script = asking()
    promise = ask.describe_features(node_id, 60_000)
    script.poll()
    response = ApiVersionsResponse(
        api_keys=[],
        supported_features=[ApiVersionsResponse.SupportedFeature(name="f", min_version=0, max_version=3)],
        finalized_features_epoch=7,
        finalized_features=[ApiVersionsResponse.FinalizedFeature(name="f", max_version_level=2, min_version_level=2)],
    )
    script.answer(ApiVersionsRequest, response)
    assert promise.value == FeatureMetadata({"f": 2}, 7, {"f": (0, 3)})


def test_a_node_that_knows_no_levels_yet_has_no_epoch() -> None:
    ask, script = asking()
    promise = ask.describe_features(None, 60_000)
    script.poll()
    script.answer(ApiVersionsRequest, ApiVersionsResponse(api_keys=[]))
    assert promise.value == FeatureMetadata({}, None, {})


def test_several_levels_are_changed_in_one_request() -> None:
    ask, script = asking()
    updates = {"f": feature_update(2), "g": FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)}
    promise = ask.update_features(updates, True, 500, 60_000)
    script.poll()
    request = script.asked(UpdateFeaturesRequest)
    assert [(u.feature, u.max_version_level, u.upgrade_type) for u in request.feature_updates] == [
        ("f", 2, 1),
        ("g", 0, 2),
    ]
    assert request.validate_only and request.versions[0] == 1, "version 0 has no field for either"
    script.answer(UpdateFeaturesRequest, UpdateFeaturesResponse())
    assert promise.value is None


@pytest.mark.parametrize("of_one", [False, True])
def test_a_refusal_is_that_of_the_request_or_of_one_feature(of_one: bool) -> None:
    ask, script = asking()
    promise = ask.update_features({"f": feature_update(2)}, False, 500, 60_000)
    script.poll()
    refused = {"error_code": ErrorCode.INVALID_UPDATE_VERSION, "error_message": "because"}
    result = UpdateFeaturesResponse.Result(feature="f", **refused)
    script.answer(UpdateFeaturesRequest, UpdateFeaturesResponse(**({"results": [result]} if of_one else refused)))
    assert isinstance(promise.value, KafkaError) and promise.value.detail == "because"


@pytest.mark.parametrize("wrong", ["1", 1.5, None, 1 << 15, FeatureUpdate(1, 9)])  # type: ignore[arg-type]
def test_a_level_is_a_whole_number(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError, KafkaError)):
        feature_update(wrong)
