"""FindCoordinator, which pykraft advertises without having coordinators, since clients ask without looking."""

from __future__ import annotations

from pykraft.protocol.messages.cluster import FindCoordinatorRequest
from tests.conformance.dialogue import Dialogue
from tests.harness.asking import versions


def test_kinds_that_are_not_there(talk: Dialogue) -> None:
    for version in versions(FindCoordinatorRequest):
        if version:
            request = FindCoordinatorRequest(key="a", key_type=9, coordinator_keys=["a", "b"])
            talk.to().ask(request, version, "kind 9")


def test_nothing_is_asked_for(talk: Dialogue) -> None:
    for version in (4, 5, 6):
        talk.to().ask(FindCoordinatorRequest(), version)
