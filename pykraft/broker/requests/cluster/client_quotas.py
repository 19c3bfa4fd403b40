"""DescribeClientQuotas and AlterClientQuotas 0 to 1: how much clients may use.

Every broker lists the quotas as its own image has them. Changes are the active controller's; a broker passes them on to
it. DescribeClientQuotas needs DESCRIBE_CONFIGS on the cluster, AlterClientQuotas ALTER_CONFIGS.

Follows the handlers of kafka.server.KafkaApis and kafka.server.ControllerApis.
"""

from collections.abc import Callable

from pykraft.broker.requests.authorizer import Authorizer, check_cluster
from pykraft.broker.requests.cluster.controller import ask
from pykraft.broker.requests.dispatch import Handled, Handlers
from pykraft.broker.requests.long_answers import Long
from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.acl import AclOperation
from pykraft.controller.controller import QuorumController
from pykraft.controller.result import check_size
from pykraft.metadata.client_quotas import QuotaFilter, describe_quotas
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from pykraft.transport.server_channel import RequestContext


class ClientQuotaApis:
    """Lists the quotas of this node's image."""

    def __init__(self, image: Callable[[], MetadataImage], authorizer: Authorizer) -> None:
        self._image = image
        self._authorizer = authorizer

    def describe(self, request: DescribeClientQuotasRequest, context: RequestContext, now: int) -> ItemByItem:
        check_cluster(self._authorizer, context, AclOperation.DESCRIBE_CONFIGS)
        wanted, quotas = QuotaFilter(request.components, request.strict), self._image().client_quotas
        return ItemByItem(
            (wanted,),
            lambda wanted, now: describe_quotas(quotas, wanted),
            lambda found, now: Long(DescribeClientQuotasResponse(entries=found[0])),
        )


HANDLERS: Handlers = {DescribeClientQuotasRequest: ClientQuotaApis.describe}


class ClientQuotaChangeApis:
    """Passes changes to this node's controller."""

    def __init__(self, controller: QuorumController, authorizer: Authorizer) -> None:
        self._controller = controller
        self._authorizer = authorizer

    def alter(self, request: AlterClientQuotasRequest, context: RequestContext, now: int) -> Handled:
        check_size(request)
        check_cluster(self._authorizer, context, AclOperation.ALTER_CONFIGS)
        return ask(self._controller, request, now).map(Long)


CHANGE_HANDLERS: Handlers = {AlterClientQuotasRequest: ClientQuotaChangeApis.alter}
