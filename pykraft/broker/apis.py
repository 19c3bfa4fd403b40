"""Which objects answer the requests of a node: the tables of its dispatcher, by listener and by what the node is."""

from pykraft.broker.broker import Broker
from pykraft.broker.requests import envelope, forwarding
from pykraft.broker.requests.authorizer import Authorizer
from pykraft.broker.requests.cluster import (
    acls,
    admin,
    client_quotas,
    cluster,
    config_changes,
    configs,
    controller,
    quorum,
    scram,
    topic_partitions,
)
from pykraft.broker.requests.dispatch import Dispatcher
from pykraft.broker.requests.quota_managers import ClientQuotas
from pykraft.broker.settings.config import NodeConfig
from pykraft.controller.controller import QuorumController
from pykraft.metadata.loader import MetadataLoader
from pykraft.protocol.api import ListenerKind
from pykraft.raft.client import RaftClient


def add_apis(
    dispatcher: Dispatcher,
    authorizer: Authorizer,
    config: NodeConfig,
    cluster_id: str,
    raft: RaftClient,
    loader: MetadataLoader,
    broker: Broker | None,
    active: QuorumController | None,
    quotas: ClientQuotas,
) -> None:
    """Let the dispatcher serve all that this node serves. `active` is its controller."""
    serve = dispatcher.serve
    forwarding_apis = None
    if broker is not None:
        forwarding_apis = forwarding.ForwardingApis(broker.forwarding, config.properties)
        serve(ListenerKind.BROKER, forwarding_apis, forwarding.HANDLERS)
        change_apis = config_changes.ConfigChangeApis(config, forwarding_apis)
        serve(ListenerKind.BROKER, change_apis, config_changes.HANDLERS)
        serve(ListenerKind.BROKER, acls.AclForwardingApis(forwarding_apis), acls.FORWARDING_HANDLERS)
        broker.add_to(dispatcher, authorizer, quotas)
    if active is not None:
        serve(ListenerKind.CONTROLLER, quorum.QuorumApis(raft.service, authorizer), quorum.HANDLERS)
        serve(ListenerKind.CONTROLLER, controller.ControllerApis(active, authorizer), controller.HANDLERS)
        admin_apis = admin.AdminApis(active, config.values, authorizer, quotas)
        serve(ListenerKind.CONTROLLER, admin_apis, admin.HANDLERS)
        serve(ListenerKind.CONTROLLER, acls.AclChangeApis(active, authorizer), acls.CHANGE_HANDLERS)
        serve(ListenerKind.CONTROLLER, scram.ScramChangeApis(active, authorizer), scram.CHANGE_HANDLERS)
        quota_change_apis = client_quotas.ClientQuotaChangeApis(active, authorizer)
        serve(ListenerKind.CONTROLLER, quota_change_apis, client_quotas.CHANGE_HANDLERS)
        envelopes = envelope.EnvelopeApis(lambda: active.is_active, dispatcher.handle, authorizer)
        serve(ListenerKind.CONTROLLER, envelopes, envelope.HANDLERS)
    cluster_apis = cluster.ClusterApis(
        config,
        cluster_id,
        image=lambda: loader.image,
        kraft_version=lambda: raft.kraft_version,
        controller_id=lambda: raft.leader_and_epoch.leader_id,
        create_topics=forwarding_apis.create_missing if forwarding_apis else lambda *_: None,
        create_internal=forwarding_apis.create_internal if forwarding_apis else lambda *_: None,
        authorizer=authorizer,
    )
    config_apis = configs.ConfigApis(config, lambda: loader.image, authorizer)
    acl_apis = acls.AclApis(lambda: loader.image, authorizer)
    scram_apis = scram.ScramApis(lambda: loader.image, authorizer)
    for kind in ListenerKind:
        serve(kind, cluster_apis, cluster.HANDLERS)
        serve(kind, config_apis, configs.HANDLERS)
        serve(kind, acl_apis, acls.HANDLERS)
        serve(kind, scram_apis, scram.HANDLERS)
    quota_apis = client_quotas.ClientQuotaApis(lambda: loader.image, authorizer)
    serve(ListenerKind.BROKER, quota_apis, client_quotas.HANDLERS)
    partition_apis = topic_partitions.TopicPartitionApis(config, lambda: loader.image, authorizer)
    serve(ListenerKind.BROKER, partition_apis, topic_partitions.HANDLERS)
