"""The law of the rules of access: every node allows what a look at each rule allows.

A node does not look at each rule: it has an index, which follows the rules as they come and go, and it remembers its
answers (`pykraft.metadata.acls`). So the index is held against the plain reading of the same rules.
"""

from collections.abc import Collection, Iterable, Mapping

from pykraft.broker.node import Node
from pykraft.common.acl import (
    ANY_PRINCIPAL,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pykraft.common.errors import KafkaError
from pykraft.metadata.acls import binding
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.sim.laws.invariants import require
from pykraft.transport.server_channel import RequestContext

_IMPLIES = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
_ADDRESS = "127.0.0.1"
_UNUSED = ".a-name-that-no-rule-has"


def plainly(rules: Iterable[AclBinding], who: str, host: str, operation: AclOperation, kind: int, name: str) -> bool:
    """Whether it is allowed, by a look at each rule."""
    about = [each for each in rules if each.resource_type == kind and _means(each, name)]
    mine = [each for each in about if each.principal in (who, ANY_PRINCIPAL) and each.host in (host, WILDCARD)]
    exactly = [each for each in mine if each.operation in (operation, AclOperation.ALL)]
    if any(each.permission_type is AclPermissionType.DENY for each in exactly):
        return False
    implied = [each for each in mine if each.operation in _IMPLIES.get(operation, ())]
    return any(each.permission_type is AclPermissionType.ALLOW for each in exactly + implied)


def _means(each: AclBinding, name: str) -> bool:
    if each.pattern_type is PatternType.PREFIXED:
        return name.startswith(each.resource_name)
    return each.resource_name in (name, WILDCARD)


def some_plainly(rules: Collection[AclBinding], who: str, host: str, operation: AclOperation, kind: int) -> bool:
    """Whether it is allowed for any name that there is, or might be. A rule can only be about its own name, about the
    names that begin with it, or about all of them: so one name of each kind will do."""
    names = [each.resource_name for each in rules if each.pattern_type is not PatternType.PREFIXED]
    prefixes = ["", *(each.resource_name for each in rules if each.pattern_type is PatternType.PREFIXED)]
    tried = {*names, *(prefix + _UNUSED for prefix in prefixes)} - {WILDCARD}
    return any(plainly(rules, who, host, operation, kind, name) for name in sorted(tried))


def check_same_rules(nodes: Mapping[int, Node]) -> None:
    """When the trouble has ended, the nodes have the same rules."""
    known: frozenset[AclBinding] | None = None
    for node_id, node in nodes.items():
        rules = frozenset(map(binding, node.loader.image.acls.values()))
        require(known is None or known == rules, f"node {node_id} has other rules of access than the nodes before")
        known = rules


def check_rules(node_id: int, node: Node, principals: Iterable[str], topics: Iterable[str]) -> None:
    """At any time a node allows these principals on these topics what the rules of its own image allow."""
    rules = frozenset(map(binding, node.loader.image.acls.values()))
    request = MetadataRequest(topics=None)
    version = request.versions[1]
    for who in principals:
        context = RequestContext(
            "law", "PLAINTEXT", ListenerKind.BROKER, who, "law", _ADDRESS, request.api, version, 0, 0
        )
        try:
            may_write = node.authorizer.allows_some(context, AclOperation.WRITE, AclResourceType.TOPIC)
        except KafkaError:  # it does not know the rules yet
            return
        expected = some_plainly(rules, who, _ADDRESS, AclOperation.WRITE, AclResourceType.TOPIC)
        require(
            may_write is expected,
            f"node {node_id} says {'yes' if may_write else 'no'} to {who}, WRITE of any topic; its {len(rules)} rules "
            f"say {'yes' if expected else 'no'}",
        )
        for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE):
            for name in topics:
                try:
                    allowed = node.authorizer.allows(context, operation, AclResourceType.TOPIC, name)
                except KafkaError:  # it does not know the rules yet
                    return
                expected = plainly(rules, who, _ADDRESS, operation, AclResourceType.TOPIC, name)
                require(
                    allowed is expected,
                    f"node {node_id} says {'yes' if allowed else 'no'} to {who}, {operation.name} of topic {name}; "
                    f"its {len(rules)} rules say {'yes' if expected else 'no'}",
                )
