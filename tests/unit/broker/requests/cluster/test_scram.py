"""SCRAM credentials of a node: changed and listed on each listener, and what is out of place after authentication."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from tests.harness.lone_node import LoneNode
from tests.unit.controller.access.test_scram import asked, drop, put

Describe = DescribeUserScramCredentialsRequest


def described(response: Any) -> dict[str, Any]:
    return {
        result.user: result.error_code or [(each.mechanism, each.iterations) for each in result.credential_infos]
        for result in response.results
    }


def of(*users: str) -> DescribeUserScramCredentialsRequest:
    return Describe(users=[Describe.UserName(name=user) for user in users])


@pytest.mark.parametrize("kind", ListenerKind, ids=lambda kind: kind.value)
def test_credentials_are_changed_on_each_listener_and_listed_by_the_broker(kind: ListenerKind) -> None:
    lone = LoneNode()
    made = lone.ask(asked(put("alice", 1), put("bob", 2, 8192)), kind)
    assert [result.error_code for result in made.results] == [0, 0]
    lone.ask(asked(put("alice", 2, 5000)), kind)
    everyone = {"alice": [(1, 4096), (2, 5000)], "bob": [(2, 8192)]}
    assert described(lone.ask(Describe(users=None))) == described(lone.ask(of())) == everyone
    missing, twice = ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.DUPLICATE_RESOURCE
    some = {"bob": [(2, 8192)], "carol": missing, "alice": twice}
    assert described(lone.ask(of("bob", "carol", "alice", "alice"))) == some
    lone.ask(asked(drop("bob", 2)), kind)
    assert described(lone.ask(of())) == {"alice": everyone["alice"]}


def test_more_changes_than_a_request_may_have_are_refused_before_any_is_looked_at() -> None:
    lone = LoneNode()
    answer = lone.ask(asked(*(put(str(number)) for number in range(5001))))
    assert {result.error_code for result in answer.results} == {ErrorCode.POLICY_VIOLATION}
    assert not lone.node.loader.image.scram_credentials


@pytest.mark.parametrize("kind", ListenerKind, ids=lambda kind: kind.value)
def test_sasl_is_out_of_place_where_nothing_is_to_be_authenticated(kind: ListenerKind) -> None:
    lone = LoneNode()
    for version in (0, 1):
        shaken = lone.ask(SaslHandshakeRequest(mechanism="PLAIN"), kind, version)
        assert (shaken.error_code, shaken.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    said = lone.ask(SaslAuthenticateRequest(auth_bytes=b"\0a\0secret"), kind)
    assert said.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert said.error_message == "SaslAuthenticate request received after successful authentication"


def test_no_request_shows_what_it_carries() -> None:
    shown = repr(SaslAuthenticateRequest(auth_bytes=b"\0a\0secret")) + repr(asked(put("alice")))
    assert "secret" not in shown
    assert "salt" not in shown
    assert isinstance(asked(put("alice")), AlterUserScramCredentialsRequest)
