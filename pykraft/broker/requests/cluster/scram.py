"""DescribeUserScramCredentials 0, AlterUserScramCredentials 0, and what is too late: SaslHandshake, SaslAuthenticate.

A broker lists the credentials as its own image has them: mechanisms and iterations, never a salt or a key. Changes are
the active controller's; a broker passes them on to it. Describing needs DESCRIBE on the cluster, changing ALTER.

SaslHandshake 0 to 1 and SaslAuthenticate 0 to 2 belong before all other requests of a connection, where its
authenticator answers them. One that arrives here is out of place: the connection is authenticated, or needs no
authentication.

Follows org.apache.kafka.image.ScramImage, kafka.server.KafkaApis and kafka.server.ControllerApis.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from pykraft.broker.requests.authorizer import Authorizer, check_cluster
from pykraft.broker.requests.cluster.controller import ask
from pykraft.broker.requests.dispatch import Handled, Handlers
from pykraft.broker.requests.long_answers import Long
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation
from pykraft.common.errors import ErrorCode
from pykraft.controller.controller import QuorumController
from pykraft.controller.result import check_size
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.records import UserScramCredentialRecord
from pykraft.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from pykraft.security.scram import ScramMechanism
from pykraft.transport.server_channel import RequestContext

_Result = DescribeUserScramCredentialsResponse.Result


class ScramApis:
    """Lists the credentials of this node's image, and answers what comes too late."""

    def __init__(self, image: Callable[[], MetadataImage], authorizer: Authorizer) -> None:
        self._image = image
        self._authorizer = authorizer

    def describe(self, request: DescribeUserScramCredentialsRequest, context: RequestContext, now: int) -> Handled:
        check_cluster(self._authorizer, context, AclOperation.DESCRIBE)
        credentials = self._image().scram_credentials
        if request.users:
            asked = Counter(user.name for user in request.users)
        else:
            asked = Counter({user: 1 for user, _ in credentials})
        return ItemByItem(
            list(asked),
            lambda user, now: _described(user, asked[user] > 1, credentials),
            lambda results, now: Long(DescribeUserScramCredentialsResponse(results=results)),
        )

    def handshake(self, request: SaslHandshakeRequest, context: RequestContext, now: int) -> Handled:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])

    def authenticate(self, request: SaslAuthenticateRequest, context: RequestContext, now: int) -> Handled:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
            auth_bytes=b"",
        )


HANDLERS: Handlers = {
    DescribeUserScramCredentialsRequest: ScramApis.describe,
    SaslHandshakeRequest: ScramApis.handshake,
    SaslAuthenticateRequest: ScramApis.authenticate,
}


def _described(
    user: str, is_twice: bool, credentials: Mapping[tuple[str, int], UserScramCredentialRecord]
) -> DescribeUserScramCredentialsResponse.Result:
    if is_twice:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return _refused(user, ErrorCode.DUPLICATE_RESOURCE, message)
    found = [record for kind in ScramMechanism if (record := credentials.get((user, kind))) is not None]
    if not found:
        message = f"Attempt to describe a user credential that does not exist: {user}"
        return _refused(user, ErrorCode.RESOURCE_NOT_FOUND, message)
    infos = [_Result.CredentialInfo(mechanism=record.mechanism, iterations=record.iterations) for record in found]
    return _Result(user=user, credential_infos=infos)


def _refused(user: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResponse.Result:
    return _Result(user=user, error_code=code, error_message=message, credential_infos=[])


class ScramChangeApis:
    """Passes changes of credentials to this node's controller."""

    def __init__(self, controller: QuorumController, authorizer: Authorizer) -> None:
        self._controller = controller
        self._authorizer = authorizer

    def alter(self, request: AlterUserScramCredentialsRequest, context: RequestContext, now: int) -> Handled:
        check_size(request)
        check_cluster(self._authorizer, context, AclOperation.ALTER)
        return ask(self._controller, request, now).map(Long)


CHANGE_HANDLERS: Handlers = {AlterUserScramCredentialsRequest: ScramChangeApis.alter}
