"""SCRAM: the example of RFC 7677, both sides against each other, each lie, and nothing that tells users apart."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pykraft.security import scram
from pykraft.security.mechanism import Salting, SaslAuthenticationError
from pykraft.security.scram import (
    MIN_ITERATIONS,
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    compute,
    keys_of,
    new_credential,
    salted_password,
    secure_text,
    unknown_user,
)

SHA_256, SHA_512 = ScramMechanism
BOTH = pytest.mark.parametrize("mechanism", ScramMechanism, ids=lambda each: each.mechanism_name)
CREDENTIALS = {each: new_credential(each, b"secret", MIN_ITERATIONS, Random(1)) for each in ScramMechanism}
"""Of alice."""
INVALID = ""
"""All that a stranger hears."""


def known(mechanism: ScramMechanism) -> Callable[[str], tuple[ScramCredential, bool]]:
    def of(user: str) -> tuple[ScramCredential, bool]:
        if user == "alice":
            return CREDENTIALS[mechanism], True
        return unknown_user(mechanism, user, b"a secret of the cluster", MIN_ITERATIONS), False

    return of


def server(mechanism: ScramMechanism = SHA_256, seed: int = 7) -> ScramServer:
    return ScramServer(mechanism, known(mechanism), Random(seed))


def login(mechanism: ScramMechanism, user: str, password: str) -> tuple[ScramServer, list[bytes]]:
    """A whole exchange; all tokens, the client's first."""
    client, side = ScramClient(mechanism, user, password, Random(3)), server(mechanism)
    tokens = [client.first()]
    tokens.append(side.evaluate(tokens[-1]))
    work = client.evaluate(tokens[-1])
    assert isinstance(work, Salting)
    tokens.append(client.go_on(compute(work)))
    tokens.append(side.evaluate(tokens[-1]))
    assert client.evaluate(tokens[-1]) is None
    return side, tokens


def refused(side: Any, *tokens: bytes) -> str:
    """The reason for which the last of these tokens is refused."""
    *before, last = tokens
    for token in before:
        side.evaluate(token)
    with pytest.raises(SaslAuthenticationError) as error:
        side.evaluate(last)
    assert side.user is None
    return error.value.reason


class Drawn:
    """A client's or server's nonce, as an RFC prints it."""

    def __init__(self, nonce: str) -> None:
        self.nonce = nonce

    def getrandbits(self, bits: int) -> Any:
        return self


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram, "secure_text", lambda random: random.nonce)
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    keys = keys_of(SHA_256, salted_password(SHA_256, b"pencil", salt, 4096))
    random: Any = Drawn("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    side = ScramServer(SHA_256, lambda user: (ScramCredential(salt, *keys, 4096), user == "user"), random)
    first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    asked = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert side.evaluate(first) == asked
    assert side.evaluate(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert side.user == "user"


@BOTH
def test_both_sides_agree_on_the_right_password(mechanism: ScramMechanism) -> None:
    side, tokens = login(mechanism, "alice", "secret")
    assert side.user == "alice"
    assert not any(b"secret" in token for token in tokens)


def test_a_name_and_a_password_may_have_any_character_that_kafka_lets_through() -> None:
    name, password = "a=b,c", "pässword,=\x01"
    credential = new_credential(SHA_512, password.encode(), MIN_ITERATIONS, Random(1))
    side = ScramServer(SHA_512, lambda user: (credential, user == name), Random(2))
    client = ScramClient(SHA_512, name, password, Random(3))
    work = client.evaluate(side.evaluate(client.first()))
    assert isinstance(work, Salting)
    side.evaluate(client.go_on(compute(work)))
    assert side.user == name


@BOTH
def test_an_unknown_user_and_a_wrong_password_look_the_same(mechanism: ScramMechanism) -> None:
    """The same number of messages, of the same form and length, and the same reason: none."""
    seen = []
    for user, password in (("alice", "wrong!"), ("nobody", "secret")):
        client, side = ScramClient(mechanism, user, password, Random(3)), server(mechanism)
        asked = side.evaluate(client.first())
        work = client.evaluate(asked)
        assert isinstance(work, Salting)
        reason = refused(side, client.go_on(compute(work)))
        seen.append((reason, re.sub(rb"s=[^,]{32,36},", b"s=SALT,", asked), work.iterations))
    assert seen[0] == seen[1]
    assert seen[0][0] == INVALID
    again = [server(mechanism, seed).evaluate(b"n,,n=nobody,r=x").split(b",")[1] for seed in (1, 2)]
    assert again[0] == again[1], "an unknown user's salt is always the same, as a real one is"


def test_a_replayed_proof_is_of_no_use() -> None:
    """The server's nonce is another one: neither the old message nor the old proof with the new nonce gets in."""
    _, (first, asked, final, _) = login(SHA_256, "alice", "secret")
    assert refused(server(seed=8), first, final) == INVALID
    other = server(seed=8)
    fresh = other.evaluate(first)
    assert fresh != asked
    nonce = fresh.split(b",")[0]
    assert refused(other, re.sub(rb"r=[^,]+", lambda _: nonce, final)) == INVALID


def flipped(final: bytes) -> bytes:
    head, _, proof = final.partition(b",p=")
    octets = bytearray(base64.b64decode(proof))
    octets[-1] ^= 1
    return head + b",p=" + base64.b64encode(octets)


LIES = [
    ("another nonce", lambda final: final.replace(b",r=", b",r=x")),
    ("the server's nonce alone", lambda final: re.sub(rb",r=[^,]+", b",r=abc", final)),
    ("another channel", lambda final: final.replace(b"c=biws", b"c=eSws")),
    ("a proof with one bit changed", flipped),
    ("a proof that is too short", lambda final: re.sub(rb",p=.*", b",p=AAAA", final)),
    ("no proof", lambda final: re.sub(rb",p=.*", b"", final)),
    ("an empty proof", lambda final: re.sub(rb",p=.*", b",p=", final)),
    ("an extension that the proof does not know", lambda final: final.replace(b",p=", b",x=y,p=")),
    ("nothing", lambda final: b""),
    ("what is no text", lambda final: b"\xff" * 50),
]


@pytest.mark.parametrize("lie", [lie for _, lie in LIES], ids=[name for name, _ in LIES])
def test_a_changed_last_message_is_refused(lie: Callable[[bytes], bytes]) -> None:
    _, (first, _, final, _) = login(SHA_256, "alice", "secret")
    same = server()
    same.evaluate(first)
    assert same.evaluate(final).startswith(b"v="), "the same seed draws the same nonce, so the message itself is good"
    assert refused(server(), first, lie(final)) == INVALID


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=x",
        b"n,,n=alice,r=x,",
        b"n,,n=alice,r=x,tokenauth=true",
        b"n,,n=alice,r=x,tokenAuth=TRUE",
        "n,,n=älice,r=x".encode(),
        b"\x00alice\x00secret",
        b"n,,n=alice,r=" + b"x" * 1000 + b"\x00",
    ],
)
def test_a_first_message_of_another_form_is_refused(first: bytes) -> None:
    assert refused(server(), first) == INVALID


def test_an_authorization_id_may_only_be_the_name_and_only_who_knows_the_password_hears_so() -> None:
    cases = (("alice", "secret", None), ("bob", "secret", "authorization id"), ("bob", "x", ""))
    for acts_as, password, reason in cases:
        client, side = ScramClient(SHA_256, "alice", password, Random(3)), server()
        header = f"n,a={acts_as},".encode()
        bare = client.first().removeprefix(b"n,,")
        asked = side.evaluate(header + bare)
        nonce = asked.split(b",")[0]
        unproved = b"c=" + base64.b64encode(header) + b"," + nonce
        said = b",".join((bare, asked, unproved))
        salted = salted_password(SHA_256, password.encode(), CREDENTIALS[SHA_256].salt, MIN_ITERATIONS)
        client_key = scram._hmac(SHA_256, salted, b"Client Key")
        signature = scram._hmac(SHA_256, hashlib.sha256(client_key).digest(), said)
        final = unproved + b",p=" + base64.b64encode(scram._xor(client_key, signature))
        if reason is None:
            side.evaluate(final)
            assert side.user == "alice"
        else:
            told = refused(side, final)
            assert reason in told
            assert bool(told) == bool(reason)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"r=other,s=AAAA,i=4096", "does not begin with the client's"),
        (b"r={nonce}x,s=AAAA,i=4095", "4095 iterations"),
        (b"r={nonce}x,s=AAAA,i=1000001", "1000001 iterations"),
        (b"r={nonce}x,s=AAAA,i=99999999999", "the form"),
        (b"r={nonce}x,s=A,i=4096", "the form"),
        (b"e=other-error", "the form"),
        (b"", "the form"),
    ],
)
def test_a_client_does_not_follow_a_server_that_breaks_the_rules(token: bytes, reason: str) -> None:
    client = ScramClient(SHA_256, "alice", "secret", Random(3))
    nonce = client.first().rpartition(b"r=")[2]
    with pytest.raises(SaslAuthenticationError, match=reason):
        client.evaluate(token.replace(b"{nonce}", nonce))


def test_a_client_does_not_trust_a_server_that_does_not_know_the_password() -> None:
    client, side = ScramClient(SHA_256, "alice", "secret", Random(3)), server()
    work = client.evaluate(side.evaluate(client.first()))
    assert isinstance(work, Salting)
    client.go_on(compute(work))
    for token, reason in ((b"v=AAAA", "signature"), (b"e=invalid-proof", "invalid-proof"), (b"x", "form")):
        with pytest.raises(SaslAuthenticationError, match=reason):
            client.evaluate(token)


def test_a_nonce_has_a_hundred_and_thirty_random_bits() -> None:
    drawn = {secure_text(Random(seed)) for seed in range(200)}
    assert len(drawn) == 200
    assert all(re.fullmatch("[0-9a-z]{20,26}", text) for text in drawn)


def test_no_secret_is_shown() -> None:
    shown = f"{CREDENTIALS[SHA_256]!r} {Salting('sha256', b'secret', b'salt', 1)!r}"
    assert "secret" not in shown
    assert "salt" not in shown
    assert "key" not in shown


# --- planted ----------------------------------------------------------------------------------------------------------


class ForgetsTheNonce(ScramServer):
    """Takes the nonce of the last message for its own."""

    def _final(self, token: bytes, credential: ScramCredential) -> bytes:
        found = scram._CLIENT_FINAL.fullmatch(token)
        if found is not None:
            self._said = self._said.replace(self._nonce, found["nonce"])
            self._nonce = found["nonce"]
        return super()._final(token, credential)


class ForgetsTheProof(ScramServer):
    """Looks at everything but the proof."""

    def _final(self, token: bytes, credential: ScramCredential) -> bytes:
        found = scram._CLIENT_FINAL.fullmatch(token)
        if found is None or found["nonce"] != self._nonce:
            raise SaslAuthenticationError
        self.user = self._name
        return b"v="


def test_a_server_that_does_not_check_its_nonce_lets_a_replay_in() -> None:
    _, (first, _, final, _) = login(SHA_256, "alice", "secret")
    planted = ForgetsTheNonce(SHA_256, known(SHA_256), Random(8))
    planted.evaluate(first)
    planted.evaluate(final)
    assert planted.user == "alice", "so test_a_replayed_proof_is_of_no_use would fail"


def test_a_server_that_does_not_check_the_proof_lets_everyone_in() -> None:
    _, (first, _, final, _) = login(SHA_256, "alice", "secret")
    planted = ForgetsTheProof(SHA_256, known(SHA_256), Random(7))
    planted.evaluate(first)
    planted.evaluate(flipped(final))
    assert planted.user == "alice", "so test_a_changed_last_message_is_refused would fail"
