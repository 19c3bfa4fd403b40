"""The client's side of a login on one connection: SaslHandshake, then tokens, before any other request.

Follows org.apache.kafka.common.security.authenticator.SaslClientAuthenticator.
"""

from collections.abc import Mapping
from random import Random

from pykraft.common.errors import ErrorCode
from pykraft.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from pykraft.protocol.schema import Request, Response
from pykraft.security.login import SaslLogin
from pykraft.security.mechanism import Salting, SaslAuthenticationError

_NO_SASL = "this listener does not log clients in by SASL: connect to one that does, or leave security.protocol out"


class LoginFailed(Exception):  # noqa: N818 (it is an answer, not a fault)
    """The connection is of no use: one sentence says why."""


class LoginExchange:
    """A login under way."""

    def __init__(self, login: SaslLogin, random: Random) -> None:
        self._login = login
        self._client = login.begin(random)

    def begin(self, api_versions: Mapping[int, tuple[int, int]]) -> Request:
        """The first request, to a server that speaks these versions. LoginFailed: there is none."""
        if SaslAuthenticateRequest.api not in api_versions or SaslHandshakeRequest.api not in api_versions:
            raise LoginFailed(_NO_SASL)
        return SaslHandshakeRequest(mechanism=self._login.mechanism)

    def heed(self, response: Response) -> Request | Salting | None:
        """What follows from a response: a request, what must be computed first (`go_on`), or nothing, once the client
        is logged in. LoginFailed: it never will be."""
        try:
            if isinstance(response, SaslHandshakeResponse):
                self._check_handshake(response)
                return SaslAuthenticateRequest(auth_bytes=self._client.first())
            assert isinstance(response, SaslAuthenticateResponse)
            if response.error_code:
                reason = response.error_message or ErrorCode.of(response.error_code).text
                raise LoginFailed(f"the server does not let {self._who} in: {reason}")
            found = self._client.evaluate(bytes(response.auth_bytes))
        except SaslAuthenticationError as error:
            raise LoginFailed(f"{self._who} cannot log in: {error.reason}") from None
        return SaslAuthenticateRequest(auth_bytes=found) if isinstance(found, bytes) else found

    def go_on(self, salted: bytes) -> Request:
        """The next request, with the result of the `Salting`."""
        return SaslAuthenticateRequest(auth_bytes=self._client.go_on(salted))

    def _check_handshake(self, response: SaslHandshakeResponse) -> None:
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise LoginFailed(_NO_SASL)
        if response.error_code:
            offered = ", ".join(response.mechanisms) or "none"
            raise LoginFailed(f"the server does not offer sasl.mechanism {self._login.mechanism}; it offers {offered}")

    @property
    def _who(self) -> str:
        return f"{self._login.user!r} ({self._login.mechanism})"
