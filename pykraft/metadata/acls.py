"""What each principal may do, by the rules (ACLs) of the metadata: the rules of Kafka's StandardAuthorizer.

A rule counts for a question if its resource is meant, and its principal and host are the client's. Then::

    a rule denies the operation         no, whatever else is allowed
    a rule allows it                    yes
    there are rules for the resource,
      but none about this               no
    there is no rule for the resource   the default (`allow.everyone.if.no.acl.found`)

A rule means one name (LITERAL), every name (LITERAL ``*``), or every name that begins with its own (PREFIXED). Its
principal may be ``User:*``, its host ``*``, its operation ALL. A rule that allows READ, WRITE, DELETE or ALTER allows
DESCRIBE, too, and ALTER_CONFIGS allows DESCRIBE_CONFIGS. A rule that denies READ denies READ alone.

What a principal may do to a resource is one number, bit n for operation n: the bits that its rules allow, without those
that they deny. `AclIndex` finds the rules for a resource without looking at the others. One table holds all patterns,
by type, kind and name. A question looks there for the name itself, for ``*``, and for the beginnings of the name that
are as long as some prefix. The number is remembered until a rule changes.

Follows org.apache.kafka.metadata.authorizer.StandardAuthorizerData and
org.apache.kafka.server.authorizer.Authorizer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

from pykraft.common.acl import (
    ANY_PRINCIPAL,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
)
from pykraft.common.types import Uuid
from pykraft.metadata.address_range import parse_address_range
from pykraft.protocol.acl_fields import rule_in
from pykraft.protocol.messages.records import AccessControlEntryRecord

EVERYTHING = (1 << 32) - 1
"""Every operation is allowed."""
_ALLOWS_DESCRIBE = (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
_MOST_REMEMBERED = 10_000
_LONGEST_REMEMBERED = 256
"""Questions about longer names are not remembered: no topic has such a name, and they would fill the memory."""
_SOME_NAME = "hardcode"
"""Kafka asks for this name first when it wants to know whether anything is allowed at all."""

Acls = Mapping[Uuid, AccessControlEntryRecord]
_Pattern = tuple[int, int, str]
"""Resource type, pattern type, name."""
_Rights = dict[tuple[str, str], tuple[int, int]]
"""By principal and host: the bits that are allowed, and those that are denied."""


def binding(record: AccessControlEntryRecord) -> AclBinding:
    """The rule that a record sets."""
    return rule_in(record, record)


def changes(before: Acls, after: Acls) -> tuple[list[AccessControlEntryRecord], list[AccessControlEntryRecord]]:
    """The rules that are gone, and those that have come. Records are compared as objects: an image keeps those that do
    not change."""
    gone = [record for key, record in before.items() if after.get(key) is not record]
    come = [record for key, record in after.items() if before.get(key) is not record]
    return gone, come


class AclIndex:
    """The rules of one image, arranged for questions. `follow` takes it to another image's."""

    def __init__(self, default: int = 0) -> None:
        """`default` is what is allowed on a resource without rules."""
        self.acls: Acls = {}
        """What it has taken up."""
        self.has_ranges = False
        """Whether the host of a rule may be a range of addresses: in Kafka from metadata.version 32 on (KIP-1276)."""
        self._default = default
        self._rules: dict[_Pattern, dict[Uuid, AccessControlEntryRecord]] = {}
        self._rights: dict[_Pattern, _Rights] = {}
        """Of the patterns that were asked for since they changed."""
        self._prefix_lengths: dict[int, Counter[int]] = {}
        """Of each resource type: how many patterns have a prefix of which length."""
        self._known: dict[int, dict[tuple[str, str, str], int]] = {}
        """Answers, by resource type; and by principal, host and name."""
        self._known_some: dict[tuple[str, str, int, int], bool] = {}

    def follow(self, acls: Acls, has_ranges: bool = False) -> None:
        """Take up the rules of another image. That costs what has changed, and a look at each rule."""
        self.has_ranges = has_ranges
        gone, come = changes(self.acls, acls)
        for record in gone:
            self._remove(record)
        for record in come:
            self._add(record)
        self.acls = acls
        self._known, self._known_some = {}, {}

    def _add(self, record: AccessControlEntryRecord) -> None:
        pattern = record.resource_type, record.pattern_type, record.resource_name
        rules = self._rules.get(pattern)
        if rules is None:
            rules = self._rules[pattern] = {}
            self._count_prefix(pattern, 1)
        rules[record.id] = record
        self._rights.pop(pattern, None)

    def _remove(self, record: AccessControlEntryRecord) -> None:
        pattern = record.resource_type, record.pattern_type, record.resource_name
        rules = self._rules[pattern]
        del rules[record.id]
        self._rights.pop(pattern, None)
        if not rules:
            del self._rules[pattern]
            self._count_prefix(pattern, -1)

    def _count_prefix(self, pattern: _Pattern, more: int) -> None:
        resource_type, pattern_type, name = pattern
        if pattern_type == PatternType.PREFIXED:
            lengths = self._prefix_lengths.setdefault(resource_type, Counter())
            lengths[len(name)] += more
            if not lengths[len(name)]:
                del lengths[len(name)]

    # --- questions ----------------------------------------------------------------------------------------------------

    def rights(self, principal: str, host: str, resource_type: int, name: str) -> int:
        """What this principal may do to this resource, from the address `host`: bit n for operation n."""
        known = self._known.get(resource_type)
        if known is None:
            known = self._known[resource_type] = {}
        key = principal, host, name
        found = known.get(key)
        if found is None:
            found = self._find(principal, java_address(host), resource_type, name)
            if len(name) <= _LONGEST_REMEMBERED:
                if len(known) >= _MOST_REMEMBERED:
                    known.clear()
                known[key] = found
        return found

    def allows_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether there may be a resource of this type that the principal may do this to (KIP-679)."""
        key = principal, host, operation, resource_type
        found = self._known_some.get(key)
        if found is None:
            found = self._find_some(principal, java_address(host), operation, resource_type)
            if len(self._known_some) >= _MOST_REMEMBERED:
                self._known_some.clear()
            self._known_some[key] = found
        return found

    def _find(self, principal: str, host: str, resource_type: int, name: str) -> int:
        allowed = denied = 0
        has_rules = False
        for pattern in self._patterns_of(resource_type, name):
            if pattern in self._rules:
                has_rules = True
                more, less = self._of(pattern, principal, host)
                allowed |= more
                denied |= less
        return allowed & ~denied if has_rules else self._default

    def _patterns_of(self, resource_type: int, name: str) -> Iterator[_Pattern]:
        """The patterns that mean this name, whether there are rules with them or not."""
        yield resource_type, PatternType.LITERAL, name
        yield resource_type, PatternType.LITERAL, WILDCARD
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                yield resource_type, PatternType.PREFIXED, name[:length]

    def _of(self, pattern: _Pattern, principal: str, host: str) -> tuple[int, int]:
        """What the rules of one pattern allow and deny this principal from there."""
        rights = self._rights.get(pattern)
        if rights is None:
            rights = self._rights[pattern] = _rights(self._rules[pattern])
        allowed = denied = 0
        for who in (
            (principal, host),
            (principal, WILDCARD),
            (ANY_PRINCIPAL, host),
            (ANY_PRINCIPAL, WILDCARD),
        ):
            more, less = rights.get(who, (0, 0))
            allowed |= more
            denied |= less
        if self.has_ranges:
            for (name, where), (more, less) in rights.items():
                if "/" in where and name in (principal, ANY_PRINCIPAL) and _is_in(host, where):
                    allowed |= more
                    denied |= less
        return allowed, denied

    def _find_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """A rule that allows it counts unless another one takes away all that it allows: the same name, or a prefix."""
        bit = 1 << operation
        if self._find(principal, host, resource_type, _SOME_NAME) & bit:
            return True
        allowed: set[tuple[int, str]] = set()
        denied: set[tuple[int, str]] = set()
        for pattern in self._rules:
            if pattern[0] == resource_type:
                more, less = self._of(pattern, principal, host)
                if more & bit:
                    allowed.add(pattern[1:])
                if less & bit:
                    denied.add(pattern[1:])
        everything = PatternType.LITERAL, WILDCARD
        if everything in denied:
            return False
        return everything in allowed or any(not _is_taken_away(kind, name, denied) for kind, name in allowed)


def _is_taken_away(kind: int, name: str, denied: set[tuple[int, str]]) -> bool:
    """Whether everything that such a rule allows is denied."""
    if kind == PatternType.LITERAL and (kind, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


def _rights(rules: Mapping[Uuid, AccessControlEntryRecord]) -> _Rights:
    """The rules of one pattern, by whom they are about."""
    rights: _Rights = {}
    for rule in rules.values():
        allowed, denied = rights.get((rule.principal, rule.host), (0, 0))
        if rule.permission_type == AclPermissionType.ALLOW:
            allowed |= _ALLOWED.get(rule.operation, 0)
        elif rule.permission_type == AclPermissionType.DENY:
            denied |= _DENIED.get(rule.operation, 0)
        rights[rule.principal, rule.host] = allowed, denied
    return rights


def _with_implied(operation: AclOperation) -> int:
    bits = 1 << operation
    if operation in _ALLOWS_DESCRIBE:
        bits |= 1 << AclOperation.DESCRIBE
    if operation is AclOperation.ALTER_CONFIGS:
        bits |= 1 << AclOperation.DESCRIBE_CONFIGS
    return bits


_ALLOWED: dict[int, int] = {operation: _with_implied(operation) for operation in AclOperation}
_ALLOWED[AclOperation.ALL] = EVERYTHING
_DENIED: dict[int, int] = {operation: 1 << operation for operation in AclOperation}
_DENIED[AclOperation.ALL] = EVERYTHING


def _is_in(host: str, addresses: str) -> bool:
    """Whether this address is one of a range like ``10.1.0.0/16``."""
    network = _network(addresses)
    try:
        return network is not None and ip_address(host) in network
    except ValueError:  # a network that is not the Internet
        return False


@lru_cache(maxsize=1000)
def _network(addresses: str) -> IPv4Network | IPv6Network | None:
    try:
        return parse_address_range(addresses)
    except ValueError:  # a rule of a cluster that did not check it
        return None


@lru_cache(maxsize=1000)
def java_address(host: str) -> str:
    """An address as Java writes it, for rules have it so: IPv6 with all its eight parts, and without a zone."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:  # a network that is not the Internet
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(format(int(part, 16), "x") for part in address.exploded.split(":"))
