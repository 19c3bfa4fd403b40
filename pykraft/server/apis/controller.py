"""What is asked of the active controller: by brokers about themselves, and for clients about topics and settings.

Versions: BrokerRegistration 0 to 4, BrokerHeartbeat 0 to 1, AlterPartition 2 to 3, AllocateProducerIds 0, CreateTopics
2 to 7, DeleteTopics 1 to 6, IncrementalAlterConfigs 0 to 1, AlterConfigs 0 to 2. Only the active controller does what
is asked; the others answer NOT_CONTROLLER.

Follows kafka.server.ControllerApis.
"""

from typing import Any

from pykraft.common.core import Promise
from pykraft.controller.controller import QuorumController
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.brokers import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
)
from pykraft.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from pykraft.protocol.schema import Request
from pykraft.server.apis.dispatch import Handled, Handlers
from pykraft.transport.server_channel import RequestContext


class ControllerApis:
    """Passes requests to this node's controller."""

    def __init__(self, controller: QuorumController) -> None:
        self._controller = controller

    def ask(self, request: Request, context: RequestContext, now: int) -> Promise[Any]:
        """Answer what comes of the request at the controller."""
        outcome = self._controller.answer(request, now)
        return outcome.map(lambda done: done.response if done.error is None else request.refusal(done.error))

    def alter_partition(self, request: AlterPartitionRequest, context: RequestContext, now: int) -> Handled:
        """Nothing is wanted of a request without topics, so any controller answers it."""
        return self.ask(request, context, now) if request.topics else AlterPartitionResponse(topics=[])


HANDLERS: Handlers = {
    BrokerRegistrationRequest: ControllerApis.ask,
    BrokerHeartbeatRequest: ControllerApis.ask,
    AlterPartitionRequest: ControllerApis.alter_partition,
    AllocateProducerIdsRequest: ControllerApis.ask,
    CreateTopicsRequest: ControllerApis.ask,
    DeleteTopicsRequest: ControllerApis.ask,
    IncrementalAlterConfigsRequest: ControllerApis.ask,
    AlterConfigsRequest: ControllerApis.ask,
}
