"""What an administrator asks about SCRAM credentials, and the command that asks it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykraft.client.administration.scram import (
    ScramCalls,
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    alteration,
    scram_mechanism,
)
from pykraft.client.api_driver import ApiDriver
from pykraft.commands.administration import scram_configs
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from pykraft.security.scram import ScramMechanism, salted_password
from tests.harness.scripted import Script, knowing, settings

SHA_256, SHA_512 = ScramMechanism
SECRET = UserScramCredentialUpsertion("alice", "SCRAM-SHA-512", "secret", 8192)


def asking() -> tuple[ScramCalls, Script]:
    config = settings("admin")
    driver = ApiDriver(config, knowing(config, {}), Random(1))
    return ScramCalls(driver), Script(driver)


def test_a_password_leaves_the_client_salted() -> None:
    request = alteration([SECRET, UserScramCredentialDeletion("bob", SHA_256)], Random(1))
    (upsertion,), (deletion,) = request.upsertions, request.deletions
    assert (upsertion.name, upsertion.mechanism, upsertion.iterations) == ("alice", 2, 8192)
    assert upsertion.salted_password == salted_password(SHA_512, b"secret", upsertion.salt, 8192)
    assert (deletion.name, deletion.mechanism) == ("bob", 1)
    assert b"secret" not in request.to_bytes(0)
    again = alteration([SECRET], Random(2)).upsertions[0]
    assert again.salt != upsertion.salt
    salted = alteration([SECRET._replace(salt=b"pepper")], Random(2)).upsertions[0]
    assert salted.salt == b"pepper"


@pytest.mark.parametrize(
    ("change", "error", "wrong"),
    [
        (SECRET._replace(password=""), KafkaError, "Password must not be empty"),
        (SECRET._replace(iterations=4095), KafkaError, "iterations is 4095, but must be from 4096 to 16384"),
        (SECRET._replace(iterations=1 << 30), KafkaError, "iterations is 1073741824"),
        (SECRET._replace(mechanism="PLAIN"), ValueError, "'PLAIN' is no SCRAM mechanism"),
        (SECRET._replace(mechanism=3), ValueError, "3"),
    ],
)
def test_what_the_server_would_refuse_is_not_computed(change: Any, error: type[Exception], wrong: str) -> None:
    with pytest.raises(error, match=wrong):
        alteration([change], Random(1))


def test_no_password_is_shown() -> None:
    assert "secret" not in repr(SECRET)


def test_each_user_has_its_answer() -> None:
    ask, script = asking()
    made = ask.alter(alteration([SECRET], Random(1)), 60_000)
    script.poll()
    result = AlterUserScramCredentialsResponse.Result
    results = [result(user="alice"), result(user="bob", error_code=91, error_message="no")]
    script.answer(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse(results=results))
    assert isinstance(made.value, dict)
    assert made.value["alice"] is None
    assert isinstance(made.value["bob"], KafkaError)
    found = ask.describe(["alice", "bob"], 60_000)
    script.poll()
    wanted = script.asked(DescribeUserScramCredentialsRequest).users
    assert wanted is not None
    assert [user.name for user in wanted] == ["alice", "bob"]
    kind = DescribeUserScramCredentialsResponse.Result
    infos = [kind.CredentialInfo(mechanism=1, iterations=4096), kind.CredentialInfo(mechanism=2, iterations=8192)]
    described = [
        kind(user="alice", credential_infos=infos),
        kind(user="bob", error_code=91, error_message="no", credential_infos=[]),
    ]
    script.answer(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse(results=described))
    assert isinstance(found.value, dict)
    assert found.value["alice"] == (ScramCredentialInfo(SHA_256, 4096), ScramCredentialInfo(SHA_512, 8192))
    assert isinstance(found.value["bob"], KafkaError)
    everyone = ask.describe([], 60_000)
    script.poll()
    assert script.asked(DescribeUserScramCredentialsRequest).users is None
    refused = DescribeUserScramCredentialsResponse(error_code=31, error_message="no", results=[])
    script.answer(DescribeUserScramCredentialsRequest, refused)
    assert isinstance(everyone.value, KafkaError)
    assert everyone.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_the_command_reads_credentials_as_kafkas_tool_does() -> None:
    said = {"SCRAM-SHA-256": "iterations=8192,password=a=b,c", "SCRAM-SHA-512": "iterations=-1,password=x"}
    assert scram_configs.alterations("alice", said, ["SCRAM-SHA-256"]) == [
        UserScramCredentialDeletion("alice", "SCRAM-SHA-256"),
        UserScramCredentialUpsertion("alice", "SCRAM-SHA-256", "a=b,c", 8192),
        UserScramCredentialUpsertion("alice", "SCRAM-SHA-512", "x", 4096),
    ]
    assert scram_mechanism("SCRAM-SHA-256") is SHA_256
