"""Levels of features: what ApiVersions shows, and every way in which UpdateFeatures is refused or heeded.

The servers do not run the same features (share and streams groups are Kafka's alone), so only those are shown that
pykraft has. Each case leaves the levels as it found them.
"""

from __future__ import annotations

from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from pykraft.protocol.messages.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, UpdateFeaturesRequest
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import update, versions

METADATA, GROUP, TRANSACTION, KRAFT = "metadata.version", "group.version", "transaction.version", "kraft.version"
SHOWN = (METADATA, GROUP, TRANSACTION)
TYPES = {UPGRADE: "an upgrade", SAFE_DOWNGRADE: "a safe downgrade", UNSAFE_DOWNGRADE: "an unsafe downgrade"}


def tell_levels(talk: Dialogue, **expected: int) -> None:
    """Write down the levels, once the broker has heard of these."""
    wanted = {name.replace("_", "."): level for name, level in expected.items()}

    def found(answer: Any) -> dict[str, int]:
        return {feature.name: feature.max_version_level for feature in answer.finalized_features}

    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = talk.until(1, request, 4, lambda answer: wanted.items() <= found(answer).items())
    talk.write(*(f"  {name} {found(answer).get(name, 0)}" for name in SHOWN))


def test_each_version_takes_levels_and_refuses_them(talk: Dialogue) -> None:
    for version in versions(UpdateFeaturesRequest):
        talk.to().ask(update((GROUP, 1)), version)
        talk.to().ask(update((GROUP, 1), (TRANSACTION, 2)), version, "two")
        talk.to().ask(update((GROUP, 9)), version, "too high")
        talk.to().ask(update((GROUP, 1), (TRANSACTION, 9)), version, "one of two too high")
        talk.to().ask(update(), version, "none")
        downgrade = update((GROUP, 0))
        downgrade.feature_updates[0].allow_downgrade = True
        talk.to().ask(downgrade, version, "a downgrade in the words of version 0")


def test_levels_that_are_refused(talk: Dialogue) -> None:
    for name, level in (
        (GROUP, 0),
        (GROUP, -1),
        (GROUP, 2),
        (TRANSACTION, 1),
        (KRAFT, 0),
        (KRAFT, -1),
        (KRAFT, 2),
        (METADATA, 0),
        (METADATA, 6),
        (METADATA, 7),
        (METADATA, 22),
        (METADATA, 28),
        (METADATA, 34),
        ("of.tomorrow", 1),
        ("of.tomorrow", 0),
        ("", 1),
    ):
        for kind, says in TYPES.items():
            request = update((name, level, kind), validate_only=True)
            talk.to().ask(request, 2, f"{name or 'no name'} {level}, {says}")


def test_types_that_do_not_exist(talk: Dialogue) -> None:
    for kind in (0, 4, -1):
        talk.to().ask(update((GROUP, 1, kind), validate_only=True), 2, f"type {kind}")


def test_a_feature_named_twice(talk: Dialogue) -> None:
    talk.to().ask(update((GROUP, 9), (GROUP, 1)), 1, "first too high")
    talk.to().ask(update((GROUP, 1), (GROUP, 9)), 1, "then too high")


def test_levels_go_down_and_up_again_and_brokers_tell_so(talk: Dialogue) -> None:
    tell_levels(talk)
    talk.to().ask(update((GROUP, 0, SAFE_DOWNGRADE), validate_only=True), 2, "only validated")
    tell_levels(talk)
    talk.to().ask(update((GROUP, 0, SAFE_DOWNGRADE), (TRANSACTION, 1, SAFE_DOWNGRADE)), 2)
    tell_levels(talk, transaction_version=1)
    talk.to().ask(update((METADATA, 23, SAFE_DOWNGRADE), (GROUP, 1)), 2, "a downgrade and an upgrade")
    tell_levels(talk, metadata_version=23)
    talk.to().ask(update((METADATA, 22, SAFE_DOWNGRADE)), 2, "beneath a level that changed records")
    talk.to().ask(update((METADATA, 29), (TRANSACTION, 2)), 2)
    tell_levels(talk, metadata_version=29)


def test_the_controller_is_asked_itself(talk: Dialogue) -> None:
    for node in (1, 2, 3):
        answer = talk.to_controller(node).connection.ask(update((GROUP, 9)), 2)
        if answer.error_code != ErrorCode.NOT_CONTROLLER:
            talk.write(f"> the active controller: {ErrorCode.of(answer.error_code).name}")
