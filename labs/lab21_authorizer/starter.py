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
    raise NotImplementedError("Task 21.1: the type first, then the name, as the pattern says")


# --- end of task 21.1 ---


# --- task 21.2: whom and what a rule means ---
def is_of(rule: Rule, principal: str, host: str) -> bool:
    """Whether the rule is about this principal from this host."""
    raise NotImplementedError("Task 21.2: two texts, and each may be for everyone")


def decides(rule: Rule, operation: str) -> bool:
    """Whether the rule says something about this operation, directly or because one brings another."""
    raise NotImplementedError("Task 21.2: which operations does an ALLOW bring with it?")


# --- end of task 21.2 ---


# --- task 21.3: the answer ---
def is_allowed(
    rules: Sequence[Rule],
    asked: Question,
    super_users: Collection[str],
    default: bool,
) -> bool:
    """The answer. `default` is `allow.everyone.if.no.acl.found`."""
    raise NotImplementedError("Task 21.3: super users, the default, and then DENY before ALLOW")


# --- end of task 21.3 ---
