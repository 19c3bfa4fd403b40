"""What an administrator asks about users' SCRAM credentials: to list, set and delete them.

A password leaves this process only salted: thousands of hashes, milliseconds of work, which the caller of `upsertion`
does.

Follows org.apache.kafka.clients.admin.{AlterUserScramCredentialsResult,DescribeUserScramCredentialsResult}.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

from pykraft.client.api_driver import ApiDriver
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from pykraft.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, salted_password, secure_text

__all__ = [
    "ScramCalls",
    "ScramCredentialInfo",
    "ScramMechanism",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "scram_mechanism",
]


class ScramCredentialInfo(NamedTuple):
    """What is shown of a credential."""

    mechanism: ScramMechanism
    iterations: int


class UserScramCredentialUpsertion(NamedTuple):
    """A user's new password for one mechanism. Without a salt a random one is drawn."""

    user: str
    mechanism: ScramMechanism | str
    password: str | bytes
    iterations: int = MIN_ITERATIONS
    salt: bytes | None = None

    def __repr__(self) -> str:
        return f"UserScramCredentialUpsertion({self.user!r}, {self.mechanism!r}, iterations={self.iterations})"


class UserScramCredentialDeletion(NamedTuple):
    """A user has no password for this mechanism any more."""

    user: str
    mechanism: ScramMechanism | str


def scram_mechanism(value: Any) -> ScramMechanism:
    """A mechanism, also by its name (SCRAM-SHA-256). ValueError if there is no such mechanism."""
    found = ScramMechanism.named(value) if isinstance(value, str) else ScramMechanism(value)
    if found is None:
        known = ", ".join(each.mechanism_name for each in ScramMechanism)
        raise ValueError(f"{value!r} is no SCRAM mechanism: it is one of {known}")
    return found


def alteration(
    alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion], random: Random
) -> AlterUserScramCredentialsRequest:
    """The request for these changes, with passwords salted. KafkaError(UNACCEPTABLE_CREDENTIAL), TypeError or
    ValueError say why there can be none."""
    request = AlterUserScramCredentialsRequest
    deletions, upsertions = [], []
    for change in alterations:
        mechanism = scram_mechanism(change.mechanism)
        if isinstance(change, UserScramCredentialDeletion):
            deletions.append(request.Deletion(name=change.user, mechanism=int(mechanism)))
        else:
            upsertions.append(_upsertion(change, mechanism, random))
    return request(deletions=deletions, upsertions=upsertions)


def _upsertion(
    change: UserScramCredentialUpsertion, mechanism: ScramMechanism, random: Random
) -> AlterUserScramCredentialsRequest.Upsertion:
    password = change.password.encode() if isinstance(change.password, str) else change.password
    if not password:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Password must not be empty")
    if not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
        raise KafkaError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"iterations is {change.iterations}, but must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}",
        )
    salt = secure_text(random).encode() if change.salt is None else change.salt
    return AlterUserScramCredentialsRequest.Upsertion(
        name=change.user,
        mechanism=int(mechanism),
        iterations=change.iterations,
        salt=salt,
        salted_password=salted_password(mechanism, password, salt, change.iterations),
    )


class ScramCalls:
    """Each method asks one thing; `deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver

    def describe(
        self, users: Sequence[str], deadline: int
    ) -> "Promise[dict[str, tuple[ScramCredentialInfo, ...] | KafkaError] | KafkaError]":
        """The credentials of these users, or of all."""
        kind = DescribeUserScramCredentialsRequest
        request = kind(users=[kind.UserName(name=user) for user in users] or None)
        return self._driver.ask_any("to list SCRAM credentials", request, _described, deadline)

    def alter(
        self, request: AlterUserScramCredentialsRequest, deadline: int
    ) -> "Promise[dict[str, KafkaError | None] | KafkaError]":
        """What became of each user's credentials."""

        def read(response: AlterUserScramCredentialsResponse) -> dict[str, KafkaError | None]:
            return {result.user: _error(result) for result in response.results}

        return self._driver.ask_any("to change SCRAM credentials", request, read, deadline)


def _described(
    response: DescribeUserScramCredentialsResponse,
) -> dict[str, tuple[ScramCredentialInfo, ...] | KafkaError]:
    error = _error(response)
    if error is not None:
        raise error
    return {
        result.user: _error(result)
        or tuple(ScramCredentialInfo(ScramMechanism(i.mechanism), i.iterations) for i in result.credential_infos)
        for result in response.results
    }


def _error(answer: Any) -> KafkaError | None:
    if not answer.error_code:
        return None
    error = ErrorCode.of(answer.error_code)
    return KafkaError(error, answer.error_message or error.text)
