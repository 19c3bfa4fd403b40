"""The two sides of a SASL mechanism, and what a failure may say.

A client and a server send each other *tokens*, the client first, until both are done::

    client.first()           -> token
    server.evaluate(token)   -> token          or SaslAuthenticationError
    client.evaluate(token)   -> token, or None when it is done

A server that refuses says one of two things. A `SaslAuthenticationError` with a reason tells it to the client. One
without a reason tells only that the credentials are invalid: what was wrong with them, the user or the password, is not
for a stranger to know.

Follows javax.security.sasl.{SaslServer,SaslClient} and
org.apache.kafka.common.security.authenticator.SaslServerAuthenticator.
"""

from typing import NamedTuple, Protocol

PLAIN = "PLAIN"


class SaslAuthenticationError(Exception):
    """The exchange has failed. `reason` is for the other side; empty: the credentials are invalid."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Salting(NamedTuple):
    """Thousands of hashes that a client must compute before it can go on: `salted` has the result."""

    hash_name: str
    password: bytes
    salt: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"Salting({self.hash_name}, {self.iterations})"


class SaslServer(Protocol):
    """The server's side of one exchange."""

    user: str | None
    """Who the client is; None until the exchange is complete."""

    def evaluate(self, token: bytes) -> bytes:
        """The answer to a token of the client's. SaslAuthenticationError ends the exchange."""
        ...


class SaslClient(Protocol):
    """The client's side of one exchange."""

    def first(self) -> bytes:
        """The token that begins the exchange."""
        ...

    def evaluate(self, token: bytes) -> bytes | Salting | None:
        """The answer to a token of the server's, or what must be computed for it; None when the exchange is complete.
        SaslAuthenticationError: the server is not the one that knows the password, or speaks something else."""
        ...

    def go_on(self, salted: bytes) -> bytes:
        """The answer, with the result of the `Salting`."""
        ...
