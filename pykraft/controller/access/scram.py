"""Users' SCRAM credentials: the plan for changes, with every refusal that a client may meet.

A request names each user once: a second deletion or upsertion of the same user refuses that user, also for another
mechanism. What is refused for one user leaves the others as they are.

A client has salted the password already, which is thousands of hashes. What is left for the controller is four.

Follows org.apache.kafka.controller.ScramControlManager.
"""

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.result import Result, VersionedRecord
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.versions import IV_3_5_2_SCRAM, METADATA_VERSION
from pykraft.protocol.messages.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from pykraft.protocol.messages.sasl import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from pykraft.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, keys_of

_Deletion = AlterUserScramCredentialsRequest.Deletion
_Upsertion = AlterUserScramCredentialsRequest.Upsertion
_Response = AlterUserScramCredentialsResponse


def alter_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> Steps[Result[AlterUserScramCredentialsResponse]]:
    """One record for each user that is not refused."""
    outcomes: dict[str, VersionedRecord | KafkaError] = {}
    changes: list[_Deletion | _Upsertion] = [*request.deletions, *request.upsertions]
    for change in changes:
        if change.name in outcomes:
            if not isinstance(outcomes[change.name], KafkaError):
                twice = "A user credential cannot be altered twice in the same request"
                outcomes[change.name] = KafkaError(ErrorCode.DUPLICATE_RESOURCE, twice)
        else:
            try:
                outcomes[change.name] = _record(image, change), 0
            except KafkaError as error:
                outcomes[change.name] = error
        yield
    records = [outcome for outcome in outcomes.values() if not isinstance(outcome, KafkaError)]
    results = [_result(user, outcome) for user, outcome in outcomes.items()]
    return Result(records, _Response(results=results))


def _record(
    image: MetadataImage, change: _Deletion | _Upsertion
) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    """What changes this credential; KafkaError refuses it."""
    if image.features.get(METADATA_VERSION, 0) < IV_3_5_2_SCRAM:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    if not change.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in tuple(ScramMechanism):
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, _Deletion):
        if (change.name, change.mechanism) not in image.scram_credentials:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    if change.iterations < MIN_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    stored_key, server_key = keys_of(ScramMechanism(change.mechanism), bytes(change.salted_password))
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=bytes(change.salt),
        stored_key=stored_key,
        server_key=server_key,
        iterations=change.iterations,
    )


def _result(user: str, outcome: VersionedRecord | KafkaError) -> AlterUserScramCredentialsResponse.Result:
    if isinstance(outcome, KafkaError):
        return _Response.Result(user=user, error_code=outcome.code, error_message=outcome.detail)
    return _Response.Result(user=user)
