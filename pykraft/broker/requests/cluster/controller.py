"""What brokers and the other controllers ask of the active controller about themselves.

Versions: BrokerRegistration 0 to 4, BrokerHeartbeat 0 to 1, AlterPartition 2 to 3, AllocateProducerIds 0,
AssignReplicasToDirs 0, ControllerRegistration 0. Only the active controller does what is asked; the others answer
NOT_CONTROLLER. Each needs CLUSTER_ACTION on the cluster.

Follows kafka.server.ControllerApis.
"""

from typing import Any

from pykraft.broker.requests.authorizer import Authorizer, check_cluster
from pykraft.broker.requests.dispatch import Handled, Handlers
from pykraft.broker.requests.long_answers import Long
from pykraft.broker.requests.quota_managers import MutationQuota
from pykraft.common.acl import AclOperation
from pykraft.common.core import Promise
from pykraft.controller.controller import Outcome, QuorumController
from pykraft.protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
from pykraft.protocol.schema import Request
from pykraft.transport.server_channel import RequestContext


def ask(controller: QuorumController, request: Request, now: int, quota: MutationQuota | None = None) -> Promise[Any]:
    """The response to what comes of a request at the controller. `quota` is what its client may change."""
    outcome = controller.answer(request, now, None if quota is None else quota.charge)

    def responded(done: Outcome) -> Any:
        response: Any = done.response if done.error is None else request.refusal(done.error)
        if quota is not None:
            response.throttle_time_ms = quota.throttle_time_ms()
        return response

    return outcome.map(responded)


class ControllerApis:
    """Passes the requests of brokers and controllers to this node's controller."""

    def __init__(self, controller: QuorumController, authorizer: Authorizer) -> None:
        self._controller = controller
        self._authorizer = authorizer

    def of_a_node(self, request: Request, context: RequestContext, now: int) -> Handled:
        check_cluster(self._authorizer, context, AclOperation.CLUSTER_ACTION)
        if isinstance(request, AlterPartitionRequest) and not request.topics:
            return AlterPartitionResponse(topics=[])  # nothing is wanted, so any controller can say so
        return ask(self._controller, request, now).map(Long)


HANDLERS: Handlers = dict.fromkeys(
    (
        BrokerRegistrationRequest,
        BrokerHeartbeatRequest,
        AlterPartitionRequest,
        AllocateProducerIdsRequest,
        AssignReplicasToDirsRequest,
        ControllerRegistrationRequest,
    ),
    ControllerApis.of_a_node,
)
