"""Lab 21: who may do what?"""

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Rule(NamedTuple):
    """A rule (ACL). `permission` is "ALLOW" or "DENY", `pattern` is "LITERAL" or "PREFIXED";
    principals, hosts, operations, resource types and names are texts as in Kafka: "User:alice",
    "10.0.0.7", "READ", "TOPIC", "flights"."""

    permission: str
    principal: str
    host: str
    operation: str
    resource_type: str
    name: str
    pattern: str


class Question(NamedTuple):
    """What a node asks: may this principal, from this host, do this to that resource?"""

    principal: str
    host: str
    operation: str
    resource_type: str
    name: str


# --- task 21.1: which resources a rule means ---
def means(rule: Rule, resource_type: str, name: str) -> bool:
    """Whether the rule is about this resource."""
    if rule.resource_type != resource_type:
        return False
    if rule.pattern == "PREFIXED":
        return name.startswith(rule.name)
    return rule.name in ("*", name)


# --- end of task 21.1 ---


# --- task 21.2: whom and what a rule means ---
def is_of(rule: Rule, principal: str, host: str) -> bool:
    """Whether the rule is about this principal from this host."""
    return rule.principal in ("User:*", principal) and rule.host in ("*", host)


def decides(rule: Rule, operation: str) -> bool:
    """Whether the rule says something about this operation, directly or because one brings another."""
    if rule.operation in ("ALL", operation):
        return True
    if rule.permission == "DENY":
        return False
    if operation == "DESCRIBE":
        return rule.operation in ("READ", "WRITE", "DELETE", "ALTER")
    return operation == "DESCRIBE_CONFIGS" and rule.operation == "ALTER_CONFIGS"


# --- end of task 21.2 ---


# --- task 21.3: the answer ---
def is_allowed(rules: Sequence[Rule], asked: Question, super_users: Collection[str], default: bool) -> bool:
    """The answer. `default` is `allow.everyone.if.no.acl.found`."""
    if asked.principal in super_users:
        return True
    about = [rule for rule in rules if means(rule, asked.resource_type, asked.name)]
    if not about:
        return default
    found = {
        rule.permission for rule in about if is_of(rule, asked.principal, asked.host) and decides(rule, asked.operation)
    }
    return found == {"ALLOW"}


# --- end of task 21.3 ---
