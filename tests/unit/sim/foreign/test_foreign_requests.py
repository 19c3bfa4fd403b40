"""Requests of strangers: each can be sent, each version comes about, and one with rights harms no other client."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from pykraft.metadata.image import MetadataImage
from pykraft.protocol.api import apis
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages.coordinators import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    UnknownRecordTypeError,
    decode_coordinator_record,
)
from pykraft.protocol.schema import Struct
from pykraft.records.batch import RecordBatch
from pykraft.sim.foreign.records import OWN_LOGGED, group_batch, transaction_batch
from pykraft.sim.foreign.requests import RequestDrawer
from pykraft.sim.foreign.words import Words
from pykraft.sim.laws.foreign_names import OWN

REAL, GROUP = "t", "g"
ALTERED = ("CreateTopics", "DeleteTopics", "CreatePartitions", "DeleteRecords", "DeleteGroups", "AlterConfigs")


class _KnowsTopics(Words):
    def topics(self) -> list[str]:
        return [REAL]


def drawer(has_rights: bool, seed: int = 1) -> tuple[RequestDrawer, Words]:
    random = Random(seed)
    words = _KnowsTopics(MetadataImage, list, [GROUP], "cluster", 0.3, random)
    return RequestDrawer(words, has_rights, random, lambda: 1_000), words


def texts(part: Any) -> Iterator[str]:
    """All strings in a request."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, list | tuple):
        for each in part:
            yield from texts(each)
    elif isinstance(part, Struct):
        for field in part.fields:
            yield from texts(getattr(part, field.name))


def test_each_api_is_drawn_and_what_is_drawn_can_be_sent() -> None:
    for has_rights in (True, False):
        made, words = drawer(has_rights)
        for api in apis.values():
            for _ in range(3):
                words.begin(None)
                request, version, _ = made.draw_from([api])
                again = api.request.decode(request.to_bytes(version), version)
                assert again.to_bytes(version) == request.to_bytes(version)


def test_every_version_of_an_api_comes_about() -> None:
    made, _ = drawer(True)
    api = next(api for api in apis.values() if api.name == "OffsetFetch")
    low, high = api.request.versions
    assert {made.draw_from([api]).version for _ in range(200)} == set(range(low, high + 1))


def test_a_stranger_with_rights_alters_only_its_own_and_one_without_asks_for_anything() -> None:
    for has_rights in (True, False):
        made, words = drawer(has_rights)
        named: set[str] = set()
        for api in apis.values():
            for _ in range(40 if api.name in ALTERED else 0):
                words.begin(None)
                named.update(texts(made.draw_from([api]).request))
        assert bool(named & {REAL, GROUP}) is not has_rights
        assert any(name.startswith(OWN) for name in named) is has_rights


def test_a_stranger_with_rights_speaks_to_controllers_as_a_node_of_another_cluster() -> None:
    made, words = drawer(True)
    for name in ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "BrokerRegistration", "AddRaftVoter", "RemoveRaftVoter"):
        api = next(api for api in apis.values() if api.name == name)
        assert ListenerKind.CONTROLLER in api.listeners
        for _ in range(20):
            words.begin(None)
            request: Any = made.draw_from([api]).request
            assert request.cluster_id == "another cluster"


def test_records_of_strangers_are_about_their_own_names_or_of_a_type_that_nothing_knows() -> None:
    random, unknown = Random(1), 0
    for make, types in ((group_batch, GROUP_RECORDS), (transaction_batch, TRANSACTION_RECORDS)):
        for _ in range(200):
            for record in RecordBatch(memoryview(bytearray(make(random, 0)))).records():
                if record.key is None:
                    continue
                try:
                    decoded = decode_coordinator_record(types, record.key, record.value)
                except UnknownRecordTypeError:
                    unknown += 1
                else:
                    assert any(text.startswith(OWN_LOGGED) for text in texts(decoded.key))
    assert unknown > 20
