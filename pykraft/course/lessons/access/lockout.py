"""The lockout of notebook 21: a cluster whose brokers lose their own rights by one rule, watched from outside.

`open_by_default` has what many clusters begin with: whatever has no rule is allowed to everyone, and only ``admin`` and
the controller are super users. `MetadataWatch` keeps where each node's copy of the metadata log ends, and `tried` says
what clients still get done.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pykraft.admin import Admin
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.client.administration.admin import NewTopic
from pykraft.common.acl import AclBinding
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.producer import Producer
from pykraft.protocol.field_tree import FieldNode
from pykraft.transport.frame_recorder import Exchange

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

CONTROLLER = 101
_BETWEEN_S = 0.1
_PATIENCE_MS = 1500
_CATCH_UP_S = 10.0
_REFUSALS = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
"""A leader answers a replica that may not copy with the second one, as in Kafka."""


def open_by_default() -> dict[str, object]:
    """The settings of access control in every node's file."""
    return {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:admin;User:node-{CONTROLLER}",
        "allow.everyone.if.no.acl.found": "true",
    }


class MetadataWatch:
    """Where the copies of the metadata log end, from the first `look` on."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._began = time.monotonic()
        names = {node_id: f"broker {node_id}" for node_id in cluster.broker_ids}
        self._names = {CONTROLLER: "controller", **names}
        self.curves: dict[str, list[tuple[float, float]]] = {name: [] for name in self._names.values()}
        """By node: seconds, and the log's end."""

    def look(self, seconds: float) -> dict[str, int]:
        """Watch for some seconds; the ends at last."""
        until = time.monotonic() + seconds
        while True:
            nodes = self._cluster.describe().nodes
            now = time.monotonic()
            ends = {name: nodes[node_id].quorum.log_end_offset for node_id, name in self._names.items()}
            for name, end in ends.items():
                self.curves[name].append((now - self._began, end))
            if now >= until:
                return ends
            time.sleep(_BETWEEN_S)

    def behind(self) -> int:
        """How many records the brokers' copies miss now, at least."""
        ends = self.look(0)
        return ends.pop("controller") - max(ends.values())

    def has_caught_up(self) -> bool:
        """Whether every copy gets to the end: the log goes on twice a second, so it may take a moment."""
        until = time.monotonic() + _CATCH_UP_S
        while len(set(self.look(_BETWEEN_S).values())) > 1:
            if time.monotonic() > until:
                return False
        return True


def controller_settings(cluster: "Cluster", name: str = "admin") -> dict[str, Any]:
    """What a client is given that asks the controller, without a broker in between (KIP-919)."""
    settings = cluster.client_settings(name)
    del settings["bootstrap.servers"]
    address = cluster.properties(CONTROLLER)["controller.quorum.voters"].partition("@")[2]
    return {**settings, "bootstrap.controllers": address}


def tried(cluster: "Cluster", rule: AclBinding) -> dict[str, str]:
    """What a super user still gets done through the brokers, in a second and a half each: done, or the error's name."""
    with closing(Admin(**cluster.client_settings(), default_api_timeout_ms=_PATIENCE_MS)) as admin:
        return {
            "describe a topic": _outcome(lambda: admin.describe_topics(["flights"])),
            "create a topic": _outcome(lambda: admin.create_topics([_new_topic(admin, len(cluster.broker_ids))])),
            "produce with acks=all": _outcome(lambda: _produce(cluster.client_settings())),
            "delete the rule": _outcome(lambda: admin.delete_acls([rule])),
        }


def refused(exchanges: Iterable[Exchange]) -> dict[str, int]:
    """How many requests between nodes were refused for want of rights, by API and node."""
    found = Counter(
        f"{each.api}, at node {each.node_id}"
        for each in exchanges
        if each.response is not None and each.is_of_a_node and _is_refusal(each.response.fields().root)
    )
    return dict(sorted(found.items()))


def _is_refusal(node: FieldNode) -> bool:
    return any(leaf.name == "errorCode" and leaf.value in _REFUSALS for leaf in node.leaves())


def _new_topic(admin: Admin, replicas: int) -> NewTopic:
    """One whose name is not taken."""
    return NewTopic(f"late-{len(admin.list_topics())}", 1, replicas)


def _produce(settings: dict[str, Any]) -> None:
    waits: dict[str, Any] = {
        "request_timeout_ms": 500,
        "delivery_timeout_ms": _PATIENCE_MS,
        "enable_idempotence": False,
    }
    with Producer(**settings, **waits) as producer:
        producer.send("flights", value=b"gate B7").result(2 * _PATIENCE_MS / 1000)


def _outcome(ask: Callable[[], object]) -> str:
    try:
        ask()
    except KafkaError as error:
        return error.code.name
    return "done"
