"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): both sides prove that they know the password; neither sends it.

::

    client first    n,,n=alice,r=CLIENT                                          who I am, and my nonce
    server first    r=CLIENT+SERVER,s=SALT,i=4096                                both nonces, and how to salt
    client final    c=biws,r=CLIENT+SERVER,p=PROOF                               I know the password
    server final    v=SIGNATURE                                                  so do I

What the server keeps of a password is enough to check a proof, and not enough to make one::

    salted password    the password and the salt, hashed `iterations` times: slow, and the client's work alone
    client key         HMAC(salted password, "Client Key")
    stored key         H(client key)                                             kept
    server key         HMAC(salted password, "Server Key")                       kept
    proof              client key XOR HMAC(stored key, all messages so far)

The messages so far contain both nonces, so a proof that an eavesdropper repeats is wrong for the server's next nonce.

An unknown user is asked for a proof like any other, with a salt that follows from the name (`unknown_user`), and no
proof is right. Apache Kafka ends the exchange at once there, and so tells which users it has. A text is hashed as its
bytes in UTF-8, without the preparation of RFC 4013, as in Kafka. Extensions are read over, but for ``tokenauth``:
delegation tokens are not built, and no client that sends one gets in.

Follows org.apache.kafka.common.security.scram.internals.{ScramSaslServer,ScramSaslClient,ScramFormatter,ScramMessages}.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from enum import IntEnum
from random import Random
from typing import NamedTuple

from pykraft.security.mechanism import Salting, SaslAuthenticationError

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16_384
MOST_ITERATIONS_OF_A_SERVER = 1_000_000
"""A client computes no more than this for a server: half a second."""

_VALUE = rb"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = rb"[\x21-\x2b\x2d-\x7e]+"
_SASL_NAME = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64 = rb"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED = rb"(?:m=" + _VALUE + rb",)?"
_EXTENSIONS = rb"(?:,[A-Za-z]+=" + _VALUE + rb")*"
_CLIENT_FIRST = re.compile(
    rb"(?P<header>n,(?:a=(?P<authorization_id>%s))?,)(?P<bare>%sn=(?P<name>%s),r=(?P<nonce>%s)(?P<extensions>%s))"
    % (_SASL_NAME, _RESERVED, _SASL_NAME, _PRINTABLE, _EXTENSIONS)
)
_SERVER_FIRST = re.compile(
    rb"%sr=(?P<nonce>%s),s=(?P<salt>%s),i=(?P<iterations>[0-9]{1,10})%s" % (_RESERVED, _PRINTABLE, _BASE64, _EXTENSIONS)
)
_CLIENT_FINAL = re.compile(
    rb"(?P<unproved>c=(?P<channel>%s),r=(?P<nonce>%s)%s),p=(?P<proof>%s)" % (_BASE64, _PRINTABLE, _EXTENSIONS, _BASE64)
)
_SERVER_FINAL = re.compile(rb"(?:e=(?P<error>%s)|v=(?P<signature>%s))%s" % (_VALUE, _BASE64, _EXTENSIONS))
_NO_CHANNEL_BINDING = b"n,,"
_NONCE_BITS = 130
_TEXT_LENGTH = 26
"""130 bits have at most so many digits."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(IntEnum):
    """The value is the code in requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()

    @classmethod
    def named(cls, name: str) -> "ScramMechanism | None":
        """The mechanism of this name; None if there is none."""
        return next((each for each in cls if each.mechanism_name == name), None)


class ScramCredential(NamedTuple):
    """What a server keeps of a user's password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def salted_password(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """The slow step: milliseconds."""
    return compute(Salting(mechanism.hash_name, password, salt, iterations))


def compute(work: Salting) -> bytes:
    """The slow step, for a client that is in the middle of an exchange."""
    return hashlib.pbkdf2_hmac(work.hash_name, work.password, work.salt, work.iterations)


def keys_of(mechanism: ScramMechanism, salted: bytes) -> tuple[bytes, bytes]:
    """(stored key, server key) of a salted password."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    return hashlib.new(mechanism.hash_name, client_key).digest(), _hmac(mechanism, salted, b"Server Key")


def new_credential(mechanism: ScramMechanism, password: bytes, iterations: int, random: Random) -> ScramCredential:
    """A credential with a new salt."""
    salt = secure_text(random).encode()
    return ScramCredential(
        salt, *keys_of(mechanism, salted_password(mechanism, password, salt, iterations)), iterations
    )


def secure_text(random: Random) -> str:
    """130 random bits as letters and digits: a nonce, or a salt, as Kafka makes them."""
    return _text_of(random.getrandbits(_NONCE_BITS))


def unknown_user(mechanism: ScramMechanism, user: str, secret: bytes, iterations: int) -> ScramCredential:
    """What an unknown user is asked with: always the same salt, which looks like any other, and keys that no password
    has. Without the `secret` the salt looks like a real one."""
    drawn = hmac.digest(secret, f"{mechanism.value} {user}".encode("utf-8", "surrogatepass"), "sha512")
    salt = _text_of(int.from_bytes(drawn[:17], "big") & ((1 << _NONCE_BITS) - 1)).encode()
    keys = hmac.digest(secret, drawn, "sha512")
    size_bytes = hashlib.new(mechanism.hash_name).digest_size
    return ScramCredential(salt, keys[:size_bytes], keys[-size_bytes:], iterations)


def _text_of(number: int) -> str:
    """The number with 36 digits, always in the same time."""
    text = ""
    for _ in range(_TEXT_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text.lstrip("0")


def _hmac(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.hash_name)


def _xor(first: bytes, second: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(first, second, strict=True))


class ScramServer:
    """The server's side of one exchange."""

    def __init__(
        self, mechanism: ScramMechanism, credential_of: Callable[[str], tuple[ScramCredential, bool]], random: Random
    ) -> None:
        """`credential_of` says what a user is asked with, and whether there is such a user (see `unknown_user`)."""
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._random = random
        self._name = ""
        self._acts_as = ""
        """The authorization id; Kafka lets it be the user's own name, and nothing else."""
        self._is_known = False
        self._credential: ScramCredential | None = None
        self._nonce = self._said = self._header = b""
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        return self._first(token) if self._credential is None else self._final(token, self._credential)

    def _first(self, token: bytes) -> bytes:
        found = _CLIENT_FIRST.fullmatch(token)
        if found is None:
            raise SaslAuthenticationError
        for extension in found["extensions"].split(b","):
            if extension.lower() == b"tokenauth=true":
                raise SaslAuthenticationError
        name = _user_name(found["name"])
        credential, is_known = self._credential_of(name)
        if credential.iterations < MIN_ITERATIONS:
            raise SaslAuthenticationError
        self._name, self._credential, self._is_known = name, credential, is_known
        self._acts_as = name if found["authorization_id"] is None else found["authorization_id"].decode()
        self._nonce = found["nonce"] + secure_text(self._random).encode()
        answer = b"r=%s,s=%s,i=%d" % (self._nonce, base64.b64encode(credential.salt), credential.iterations)
        self._header, self._said = found["header"], found["bare"] + b"," + answer + b","
        return answer

    def _final(self, token: bytes, credential: ScramCredential) -> bytes:
        found = _CLIENT_FINAL.fullmatch(token)
        if found is None or found["nonce"] != self._nonce or base64.b64decode(found["channel"]) != self._header:
            raise SaslAuthenticationError
        said = self._said + found["unproved"]
        signature = _hmac(self._mechanism, credential.stored_key, said)
        proof = base64.b64decode(found["proof"])
        if len(proof) != len(signature):
            raise SaslAuthenticationError
        claimed = hashlib.new(self._mechanism.hash_name, _xor(proof, signature)).digest()
        is_right = hmac.compare_digest(claimed, credential.stored_key)
        answer = b"v=" + base64.b64encode(_hmac(self._mechanism, credential.server_key, said))
        if not is_right or not self._is_known:
            raise SaslAuthenticationError
        if self._acts_as != self._name:  # not sooner: that there is such a user is not for everyone to know
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = self._name
        return answer


class ScramClient:
    """The client's side of one exchange."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, random: Random) -> None:
        self._mechanism = mechanism
        self._password = password.encode()
        self._client_nonce = secure_text(random).encode()
        name = user.replace("=", "=3D").replace(",", "=2C").encode()
        self._bare = b"n=%s,r=%s" % (name, self._client_nonce)
        self._unproved = self._said = b""
        self._expected: bytes | None = None

    def first(self) -> bytes:
        return _NO_CHANNEL_BINDING + self._bare

    def evaluate(self, token: bytes) -> Salting | None:
        if self._expected is not None:
            self._check(token, self._expected)
            return None
        found = _SERVER_FIRST.fullmatch(token)
        if found is None:
            raise SaslAuthenticationError("the server's first SCRAM message has not the form that it must have")
        iterations = int(found["iterations"])
        if not found["nonce"].startswith(self._client_nonce):
            raise SaslAuthenticationError("the server's nonce does not begin with the client's")
        if not MIN_ITERATIONS <= iterations <= MOST_ITERATIONS_OF_A_SERVER:
            raise SaslAuthenticationError(
                f"the server asks for {iterations} iterations, but must ask for {MIN_ITERATIONS} to "
                f"{MOST_ITERATIONS_OF_A_SERVER}"
            )
        self._unproved = b"c=%s,r=%s" % (base64.b64encode(_NO_CHANNEL_BINDING), found["nonce"])
        self._said = b",".join((self._bare, token, self._unproved))
        return Salting(self._mechanism.hash_name, self._password, base64.b64decode(found["salt"]), iterations)

    def go_on(self, salted: bytes) -> bytes:
        mechanism, said = self._mechanism, self._said
        client_key = _hmac(mechanism, salted, b"Client Key")
        stored_key, server_key = keys_of(mechanism, salted)
        self._expected = _hmac(mechanism, server_key, said)
        proof = _xor(client_key, _hmac(mechanism, stored_key, said))
        return self._unproved + b",p=" + base64.b64encode(proof)

    def _check(self, token: bytes, expected: bytes) -> None:
        found = _SERVER_FINAL.fullmatch(token)
        if found is None:
            raise SaslAuthenticationError("the server's last SCRAM message has not the form that it must have")
        if found["error"] is not None:
            raise SaslAuthenticationError(f"the server says: {found['error'].decode()}")
        if not hmac.compare_digest(base64.b64decode(found["signature"]), expected):
            raise SaslAuthenticationError("the server does not know the password: its signature is wrong")


def _user_name(name: bytes) -> str:
    """The name as it was before a comma and an equals sign were written in another way."""
    return name.decode("ascii").replace("=2C", ",").replace("=3D", "=")
