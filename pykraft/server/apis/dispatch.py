"""From a request to its handler.

One table says who handles what, on which kind of listener. Before the handler, the authorizer is asked; after it the
quotas are told. A handler answers with a `Promise`: kept at once, or later, when a high watermark has moved or the
controller has answered.

Follows kafka.server.KafkaApis.handle.
"""

from collections.abc import Generator
from typing import Any

from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.admin import CreateTopicsRequest, DeleteTopicsRequest
from pykraft.protocol.messages.cluster import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    FindCoordinatorRequest,
    MetadataRequest,
)
from pykraft.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from pykraft.protocol.messages.data import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from pykraft.protocol.messages.logs import DeleteRecordsRequest, DescribeLogDirsRequest
from pykraft.protocol.messages.quorum import DescribeQuorumRequest
from pykraft.protocol.messages.transactions import InitProducerIdRequest
from pykraft.protocol.schema import Request
from pykraft.server.apis.cluster import ClusterApis
from pykraft.server.apis.configs import ConfigApis
from pykraft.server.apis.controller import ControllerApis, Handler
from pykraft.server.apis.errors import error_response
from pykraft.server.apis.fetch import FetchApis
from pykraft.server.apis.forwarding import ForwardingApis
from pykraft.server.apis.logs import LogApis
from pykraft.server.apis.offsets import OffsetApis
from pykraft.server.apis.produce import CloseConnection, ProduceApis
from pykraft.server.authorizer import Authorizer
from pykraft.server.config import NodeConfig
from pykraft.server.quotas import Quotas
from pykraft.server.replica_manager import ReplicaManager
from pykraft.server.turns import Steps, Turns
from pykraft.transport.server_channel import InboundRequest
from pykraft.transport.server_connection import Answer


class Dispatcher:
    """The handlers of a node, by listener and request."""

    def __init__(self, authorizer: Authorizer, quotas: Quotas) -> None:
        self._authorizer = authorizer
        self._quotas = quotas
        self.turns = Turns()
        self._handlers: dict[tuple[ListenerKind, type[Request]], Handler] = {}

    def add_broker(
        self,
        config: NodeConfig,
        replicas: ReplicaManager,
        logs: LogApis,
        cluster: ClusterApis,
        configs: ConfigApis,
        forwarding: ForwardingApis,
    ) -> None:
        """Serve clients and followers."""
        handlers: dict[type[Request], Handler] = {
            ProduceRequest: ProduceApis(replicas).produce,
            FetchRequest: FetchApis(config, replicas).fetch,
            ListOffsetsRequest: OffsetApis(replicas).list_offsets,
            OffsetForLeaderEpochRequest: OffsetApis(replicas).offset_for_leader_epoch,
            DeleteRecordsRequest: logs.delete_records,
            DescribeLogDirsRequest: logs.describe_log_dirs,
            ApiVersionsRequest: cluster.api_versions,
            MetadataRequest: cluster.metadata,
            DescribeClusterRequest: cluster.describe_cluster,
            FindCoordinatorRequest: cluster.find_coordinator,
            CreateTopicsRequest: forwarding.forward,
            DeleteTopicsRequest: forwarding.forward,
            DescribeQuorumRequest: forwarding.forward,
            DescribeConfigsRequest: configs.describe_configs,
            IncrementalAlterConfigsRequest: configs.alter,
            AlterConfigsRequest: configs.alter,
            ListConfigResourcesRequest: configs.list_config_resources,
            InitProducerIdRequest: forwarding.init_producer_id,
        }
        self._handlers |= {(ListenerKind.BROKER, request): handler for request, handler in handlers.items()}

    def add_controller(self, controller: ControllerApis, cluster: ClusterApis, configs: ConfigApis) -> None:
        """Serve the quorum, and the brokers that ask the controller."""
        handlers = controller.handlers | {
            ApiVersionsRequest: cluster.api_versions,
            DescribeClusterRequest: cluster.describe_cluster,
            DescribeConfigsRequest: configs.describe_configs,
        }
        self._handlers |= {(ListenerKind.CONTROLLER, request): handler for request, handler in handlers.items()}

    def handle(self, inbound: InboundRequest, now: int) -> Promise[Answer]:
        """Answer a request that the channel has let through. An answer that is abandoned abandons the handler's."""
        context, request = inbound
        throttle_ms = self._quotas.record(context, now)
        if not self._authorizer.authorize(context, type(request).__name__, "*"):
            refused = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return Promise.of(Answer(error_response(request, refused), throttle_ms))
        handler = self._handlers[context.kind, type(request)]
        try:
            handled = handler(request, context, now)
            if isinstance(handled, Generator):
                handled = self.turns.run(self._guarded(handled))
        except CloseConnection:
            return Promise.of(Answer(None, hang_up=True))
        if isinstance(handled, Promise):
            return handled.map(lambda response: _answer(response, throttle_ms))
        return Promise.of(_answer(handled, throttle_ms))

    @staticmethod
    def _guarded(steps: Steps[Any]) -> Steps[Any]:
        """Steps in which the client may turn out to be one to hang up on."""
        try:
            return (yield from steps)
        except CloseConnection as order:
            return order


def _answer(handled: Any, throttle_ms: int) -> Answer:
    if isinstance(handled, CloseConnection):
        return Answer(None, hang_up=True)
    return Answer(handled, throttle_ms)
