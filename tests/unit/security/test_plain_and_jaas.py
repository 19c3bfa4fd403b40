"""PLAIN, and the JAAS texts that name users and passwords."""

from __future__ import annotations

import pytest

from pykraft.common.errors import ConfigError
from pykraft.security.jaas import PLAIN_MODULE, SCRAM_MODULE, Jaas, as_jaas, parse_jaas
from pykraft.security.mechanism import SaslAuthenticationError
from pykraft.security.plain import PlainClient, PlainServer

USERS = {"alice": "secret", "bob": "ä"}
INVALID = "Authentication failed: Invalid username or password"


def test_the_right_password_gets_in() -> None:
    for user, password in USERS.items():
        side, client = PlainServer(USERS), PlainClient(user, password)
        answer = side.evaluate(client.first())
        assert (answer, side.user) == (b"", user)
        client.evaluate(answer)
    same = PlainServer(USERS)
    same.evaluate(b"alice\0alice\0secret")
    assert same.user == "alice"


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"\0alice\0wrong", INVALID),
        (b"\0nobody\0secret", INVALID),
        (b"\0alice\0secre", INVALID),
        (b"\0alice\0secret ", INVALID),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0nobody\0", "Authentication failed: password not specified"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 500_000, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"bob\0alice\0secret", "Client requested an authorization id that is different from username"),
        (b"bob\0alice\0wrong", INVALID),
        (b"\0\xff\0secret", INVALID),
    ],
)
def test_everything_else_is_refused_in_kafkas_words(token: bytes, reason: str) -> None:
    side = PlainServer(USERS)
    with pytest.raises(SaslAuthenticationError) as error:
        side.evaluate(token)
    assert reason in error.value.reason
    assert side.user is None


def test_a_user_whose_password_is_empty_does_not_get_in() -> None:
    with pytest.raises(SaslAuthenticationError):
        PlainServer({"alice": ""}).evaluate(b"\0alice\0\0".removesuffix(b"\0"))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('M required username="alice" password="a;=b";', {"username": "alice", "password": "a;=b"}),
        ("M REQUIRED username='alice' password='s\"x';", {"username": "alice", "password": 's"x'}),
        (
            'M required\n  user_alice="x" // no more\n  user_b-c.d=plain /* but this */ ;',
            {"user_alice": "x", "user_b-c.d": "plain"},
        ),
        (r'M optional password="a\"b\\c\ttab\101";', {"password": 'a"b\\c\ttabA'}),
        ("M sufficient;", {}),
    ],
)
def test_a_text_is_read_as_java_reads_it(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text, "s") == Jaas("M", options)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "no login module"),
        ("M", "no login module"),
        ("M required", "no login module"),
        ("M maybe a=secret;", "one of required"),
        ("M required a=secret", "semicolon"),
        ("M required secret;", "without a value"),
        ("M required a=;", "without a value"),
        ("M required a=secret; N required;", "more than one"),
        ('M required a="secret', "from character 14 on"),
        ("M required a=secret?;", "from character 20 on"),
    ],
)
def test_what_cannot_be_read_is_said_without_the_password(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as error:
        parse_jaas(text, "listener.name.x.plain.sasl.jaas.config")
    assert "listener.name.x.plain.sasl.jaas.config" in str(error.value)
    assert "secret" not in str(error.value)


def test_users_and_the_nodes_own_name_are_in_one_text() -> None:
    jaas = parse_jaas(f'{PLAIN_MODULE} required username="n" password="hidden" user_n="hidden" user_alice="x";', "s")
    assert jaas.users == {"n": "hidden", "alice": "x"}
    assert jaas.credentials == ("n", "hidden")
    assert parse_jaas(f"{SCRAM_MODULE} required;", "s").credentials is None
    assert "hidden" not in repr(jaas)
    assert parse_jaas(as_jaas("M", 'a"b', "c\\d"), "s").credentials == ('a"b', "c\\d")
