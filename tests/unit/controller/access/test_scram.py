"""SCRAM credentials as the controller plans them: what is written, and what is refused, in Kafka's order and words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pykraft.common.core import finish
from pykraft.common.errors import ErrorCode
from pykraft.controller.access.scram import alter_scram_credentials
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage
from pykraft.protocol.messages.records import UserScramCredentialRecord
from pykraft.protocol.messages.sasl import AlterUserScramCredentialsRequest
from pykraft.security.scram import ScramMechanism, keys_of
from tests.harness.controllers import ControllerScript

Request = AlterUserScramCredentialsRequest
TWICE = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
MISSING = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
NAMELESS = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
UNKNOWN = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
TOO_FEW = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
TOO_MANY = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
DONE = (0, None)


def put(name: str, mechanism: int = 1, iterations: int = 4096) -> Any:
    return Request.Upsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"salted"
    )


def drop(name: str, mechanism: int = 1) -> Any:
    return Request.Deletion(name=name, mechanism=mechanism)


def asked(*changes: Any) -> AlterUserScramCredentialsRequest:
    deletions = [change for change in changes if isinstance(change, Request.Deletion)]
    return Request(deletions=deletions, upsertions=[change for change in changes if change not in deletions])


def codes(response: Any) -> dict[str, tuple[int, str | None]]:
    return {result.user: (result.error_code, result.error_message) for result in response.results}


def having(*changes: Any, level: int = 25) -> MetadataImage:
    """An image with these credentials."""
    image = at(25)
    delta = MetadataDelta(image)
    for record, _ in finish(alter_scram_credentials(image, asked(*changes))).records:
        delta.replay(record)
    return delta.apply(image.provenance)


def at(level: int) -> MetadataImage:
    return MetadataImage(**{**vars(EMPTY_IMAGE), "features": {"metadata.version": level}})


TABLE: list[tuple[str, tuple[Any, ...], Mapping[str, tuple[int, str | None]], int]] = [
    ("a new user", (put("alice"),), {"alice": DONE}, 1),
    ("two users", (put("alice"), put("bob", 2)), {"alice": DONE, "bob": DONE}, 2),
    ("the same user twice", (put("alice", 1), put("alice", 2)), {"alice": TWICE}, 0),
    ("deleted and set", (drop("known"), put("known", 2)), {"known": TWICE}, 0),
    ("deleted twice", (drop("known"), drop("known")), {"known": TWICE}, 0),
    ("deleted", (drop("known"),), {"known": DONE}, 1),
    ("deleted, another mechanism", (drop("known", 2),), {"known": MISSING}, 0),
    ("refused, and named again", (drop("nobody"), put("nobody")), {"nobody": MISSING}, 0),
    ("without a name", (put(""),), {"": NAMELESS}, 0),
    ("deleted without a name", (drop(""),), {"": NAMELESS}, 0),
    ("an unknown mechanism", (put("alice", 0), drop("known", 3)), {"known": UNKNOWN, "alice": UNKNOWN}, 0),
    ("4,095 iterations", (put("alice", iterations=4095),), {"alice": TOO_FEW}, 0),
    ("16,384 iterations", (put("alice", iterations=16_384),), {"alice": DONE}, 1),
    ("16,385 iterations", (put("alice", iterations=16_385),), {"alice": TOO_MANY}, 0),
    ("negative iterations", (put("alice", iterations=-1),), {"alice": TOO_FEW}, 0),
    ("one good, one bad", (put("alice"), put("bob", 9)), {"alice": DONE, "bob": UNKNOWN}, 1),
]


@pytest.mark.parametrize(("changes", "seen", "count"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_each_user_has_its_answer(changes: tuple[Any, ...], seen: Any, count: int) -> None:
    result = finish(alter_scram_credentials(having(put("known")), asked(*changes)))
    assert codes(result.response) == seen
    assert len(result.records) == count


def test_a_cluster_of_an_older_metadata_version_has_no_credentials() -> None:
    result = finish(alter_scram_credentials(at(10), asked(put("alice"))))
    assert codes(result.response)["alice"][0] == ErrorCode.UNSUPPORTED_VERSION
    assert not result.records


def test_the_record_has_keys_and_neither_the_password_nor_the_salted_one() -> None:
    (record,) = having(put("alice", 2, 8192)).scram_credentials.values()
    stored_key, server_key = keys_of(ScramMechanism.SCRAM_SHA_512, b"salted")
    assert record == UserScramCredentialRecord(
        name="alice", mechanism=2, salt=b"salt", stored_key=stored_key, server_key=server_key, iterations=8192
    )
    assert b"salted" not in b"".join((record.stored_key, record.server_key))
    assert repr(record) == "UserScramCredentialRecord('alice', 2, 8192)"


def test_the_active_controller_writes_them_and_a_snapshot_keeps_them() -> None:
    script = ControllerScript()
    assert codes(script.answered(script.controller.answer(asked(put("alice"), put("bob", 2)), script.now))) == {
        "alice": DONE,
        "bob": DONE,
    }
    assert codes(script.answered(script.controller.answer(asked(drop("bob", 2)), script.now))) == {"bob": DONE}
    kept = [record for record, _ in script.image.to_records() if isinstance(record, UserScramCredentialRecord)]
    assert [(record.name, record.mechanism) for record in kept] == [("alice", 1)]
