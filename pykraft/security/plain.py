"""PLAIN (RFC 4616): the client sends its name and its password, as they are.

One token: ``[authorization id] NUL name NUL password``. An eavesdropper on the connection reads the password, so PLAIN
belongs on a connection with TLS.

The server compares hashes of equal length, also for a user that it does not know. So neither the answer nor its time
tells whether it was the name or the password that was wrong.

Follows org.apache.kafka.common.security.plain.internals.{PlainSaslServer,PlainServerCallbackHandler}.
"""

import hashlib
import hmac
from collections.abc import Mapping

from pykraft.security.mechanism import SaslAuthenticationError

_SEPARATOR = "\0"
_NO_PASSWORD = bytes(32)
"""No password has this hash."""


class PlainServer:
    """One exchange. `passwords` are those of all users."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        """An empty token, if the password is right."""
        parts = token.decode("utf-8", "replace").split(_SEPARATOR, 3)
        if len(parts) != 3:
            raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        if not self._is_right(user, password):
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""

    def _is_right(self, user: str, password: str) -> bool:
        known = self._passwords.get(user)
        expected = _hash(known or "")
        return hmac.compare_digest(_hash(password), expected if known else _NO_PASSWORD)


class PlainClient:
    """One exchange."""

    def __init__(self, user: str, password: str) -> None:
        self._user, self._password = user, password

    def first(self) -> bytes:
        return f"{_SEPARATOR}{self._user}{_SEPARATOR}{self._password}".encode()

    def evaluate(self, token: bytes) -> None:
        """The server has agreed."""
        if token:
            raise SaslAuthenticationError("the server answers PLAIN with a token, but must answer with an empty one")

    def go_on(self, salted: bytes) -> bytes:
        raise AssertionError("PLAIN computes nothing")


def _hash(password: str) -> bytes:
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()
