"""Messages about authentication: SaslHandshake, SaslAuthenticate, and users' SCRAM credentials.

A client names its mechanism (SaslHandshake), then sends and receives tokens (SaslAuthenticate), all before any other
request. The connection's authenticator answers these; a node answers them only where nothing is to be authenticated.

A credential is a salted password: the client computes it, and neither the request nor the record has the password.
Any broker lists the credentials. Changes go by it to the active controller. Where nothing is wrong, SaslAuthenticate
and DescribeUserScramCredentials have an empty error message, and AlterUserScramCredentials has none, as in Kafka.
"""

from pykraft.common.errors import KafkaError
from pykraft.protocol.listeners import BOTH, BROKER
from pykraft.protocol.schema import Array, Request, Response, Struct, field, int8, int16, int32, int64, octets, string


class SaslHandshakeRequest(Request, api=17, versions=(0, 1), listeners=BOTH):
    """This is the mechanism that I use. After version 0 the tokens follow without requests around them."""

    mechanism: string

    def refusal(self, error: KafkaError) -> "SaslHandshakeResponse":
        return SaslHandshakeResponse(error_code=error.code, mechanisms=[])


class SaslHandshakeResponse(Response, to=SaslHandshakeRequest):
    """Whether it may be used, and those that may."""

    error_code: int16 = field(default=0)
    mechanisms: Array[string]


class SaslAuthenticateRequest(Request, api=36, versions=(0, 2), flexible=2, listeners=BOTH):
    """A token of the client's."""

    auth_bytes: octets

    def __repr__(self) -> str:
        return f"SaslAuthenticateRequest({len(self.auth_bytes)} bytes)"

    def refusal(self, error: KafkaError) -> "SaslAuthenticateResponse":
        return SaslAuthenticateResponse(error_code=error.code, error_message=error.detail or None, auth_bytes=b"")


class SaslAuthenticateResponse(Response, to=SaslAuthenticateRequest):
    """A token of the server's."""

    error_code: int16 = field(default=0)
    error_message: string | None = field(default="")
    auth_bytes: octets
    session_lifetime_ms: int64 = field(default=0, since=1)

    def __repr__(self) -> str:
        return f"SaslAuthenticateResponse({self.error_code}, {len(self.auth_bytes)} bytes)"


class DescribeUserScramCredentialsRequest(Request, api=50, versions=(0, 0), flexible=0, listeners=BROKER):
    """Which users have SCRAM credentials? Null, and none, are all."""

    class UserName(Struct):
        name: string

    users: Array[UserName] | None

    def refusal(self, error: KafkaError) -> "DescribeUserScramCredentialsResponse":
        return DescribeUserScramCredentialsResponse(
            error_code=error.code, error_message=error.detail or None, results=[]
        )


class DescribeUserScramCredentialsResponse(Response, to=DescribeUserScramCredentialsRequest):
    """The mechanisms of each user."""

    class Result(Struct):
        class CredentialInfo(Struct):
            mechanism: int8
            iterations: int32

        user: string
        error_code: int16 = field(default=0)
        error_message: string | None = field(default="")
        credential_infos: Array[CredentialInfo]

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default="")
    results: Array[Result]


class AlterUserScramCredentialsRequest(Request, api=51, versions=(0, 0), flexible=0, listeners=BOTH, forwardable=True):
    """Remove these credentials, and set those."""

    class Deletion(Struct):
        name: string
        mechanism: int8

    class Upsertion(Struct):
        name: string
        mechanism: int8
        iterations: int32
        salt: octets
        salted_password: octets

        def __repr__(self) -> str:
            return f"Upsertion({self.name!r}, {self.mechanism}, {self.iterations})"

    deletions: Array[Deletion]
    upsertions: Array[Upsertion]

    def refusal(self, error: KafkaError) -> "AlterUserScramCredentialsResponse":
        """The error for each user."""
        users = dict.fromkeys(part.name for parts in (self.deletions, self.upsertions) for part in parts)
        result = AlterUserScramCredentialsResponse.Result
        return AlterUserScramCredentialsResponse(
            results=[result(user=user, error_code=error.code, error_message=error.detail or None) for user in users]
        )


class AlterUserScramCredentialsResponse(Response, to=AlterUserScramCredentialsRequest):
    """What became of each user's credentials."""

    class Result(Struct):
        user: string
        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None)

    throttle_time_ms: int32 = field(default=0)
    results: Array[Result]
