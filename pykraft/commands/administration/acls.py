"""``acls``: list, add and remove rules of access, as kafka-acls.sh does.

::

    acls --bootstrap-server HOST:PORT --add --allow-principal User:alice --operation Read --topic flights
    acls --bootstrap-server HOST:PORT --add --allow-principal User:bob --producer --topic flights
    acls --bootstrap-server HOST:PORT --list --topic flights
    acls --bootstrap-server HOST:PORT --remove --topic flights --force

The options come to resources, and to *entries*: who, from where, may or must not do what. Each entry holds for each
resource. ``--producer`` and ``--consumer`` stand for the entries that such a client needs. Entries are printed in the
order of the options, rules in the order of the cluster's answer.

Follows org.apache.kafka.tools.AclCommand.
"""

import argparse
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

from pykraft.admin import Admin
from pykraft.client.administration.acls import AclBinding, AclBindingFilter, word
from pykraft.commands.as_json import add_json, check_json, say_json
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, say
from pykraft.common.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)

_RESOURCES = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional_id": AclResourceType.TRANSACTIONAL_ID,
    "delegation_token": AclResourceType.DELEGATION_TOKEN,
    "user_principal": AclResourceType.USER,
}
_CLUSTER = AclBindingFilter(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
_OF_PRODUCERS = {
    AclResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_OF_CONSUMERS = {
    AclResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResourceType.GROUP: (AclOperation.READ,),
}


class Entry(NamedTuple):
    """What a rule says, apart from the resource."""

    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission_type.name})"
        )


Rules = dict[AclBindingFilter, list[Entry]]
"""The entries of each resource."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser, also_controllers=())
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--add", action="store_true", help="add rules")
    what.add_argument("--remove", action="store_true", help="remove rules; without principals all of the resources")
    what.add_argument("--list", action="store_true", help="list rules: of the resources that are named, or all")
    for option, meaning in (
        ("--topic", "a topic; * means every topic"),
        ("--group", "a group; * means every group"),
        ("--transactional-id", "a transactional id; * means every one"),
        ("--delegation-token", "a delegation token; * means every one"),
        ("--user-principal", "a principal as a resource: who may make tokens for it"),
        ("--allow-principal", "whom the rules allow: User:NAME; User:* means everyone"),
        ("--deny-principal", "whom the rules deny; that goes before what is allowed"),
        ("--allow-host", "the address from which it is allowed; by default every address"),
        ("--deny-host", "the address from which it is denied; by default every address"),
        ("--operation", "what is allowed or denied, such as Read or DescribeConfigs; by default All"),
        ("--principal", "with --list: only the rules about this principal"),
    ):
        parser.add_argument(option, action="append", default=[], metavar="NAME", help=f"{meaning}; may be repeated")
    parser.add_argument("--cluster", action="store_true", help="the cluster itself")
    parser.add_argument(
        "--resource-pattern-type",
        type=str.upper,
        choices=[kind.name for kind in PatternType if kind],
        default=PatternType.LITERAL.name,
        help="literal: the name itself; prefixed: every name that begins so; to list or remove also any (both kinds, "
        "with this very name) and match (every rule that applies to a resource of this name)",
    )
    parser.add_argument("--producer", action="store_true", help="what a producer to --topic needs")
    parser.add_argument("--consumer", action="store_true", help="what a consumer of --topic in --group needs")
    parser.add_argument("--idempotent", action="store_true", help="with --producer: IdempotentWrite on the cluster")
    add_json(parser, "--list: ")
    parser.add_argument("--force", action="store_true", help="remove without a question")


def run(options: argparse.Namespace) -> int:
    """Do what is asked, and print it as kafka-acls does."""
    _check(options)
    check_json(options, options.list, "--list")
    if options.list:
        return _list(options)
    rules = _rules(options)
    with Admin(**client_settings(options)) as admin, answers(admin):
        for pattern, entries in rules.items():
            if options.add:
                lines = "\n".join(f"\t{entry}" for entry in entries)
                say(f"Adding ACLs for resource `{_shown(pattern)}`: \n {lines}\n")
                admin.create_acls([_binding(pattern, entry) for entry in entries])
            elif options.force or _is_confirmed(pattern, entries):
                admin.delete_acls([pattern._replace(**entry._asdict()) for entry in entries] or [pattern])
    return 0


def _list(options: argparse.Namespace) -> int:
    filters = list(_patterns(options)) or [AclBindingFilter()]
    principals: list[str | None] = [_principal(text) for text in options.principal]
    with Admin(**client_settings(options)) as admin, answers(admin):
        found = dict.fromkeys(rule for wanted in filters for rule in admin.describe_acls(wanted))
    if options.json:
        say_json(acls=[rule for rule in found if not principals or rule.principal in principals])
        return 0
    for principal in principals or [None]:
        if principal is not None:
            say(f"ACLs for principal `{principal}`")
        _print(rule for rule in found if principal in (None, rule.principal))
    return 0


def _print(rules: Iterable[AclBinding]) -> None:
    by_pattern: Rules = {}
    for rule in rules:
        by_pattern.setdefault(rule.pattern, []).append(Entry(*rule[3:]))
    for pattern, entries in by_pattern.items():
        lines = "\n".join(f"\t{entry}" for entry in entries)
        say(f"Current ACLs for resource `{_shown(pattern)}`:\n{lines}\n")


def _shown(pattern: AclBindingFilter) -> str:
    name = "<any>" if pattern.resource_name is None else pattern.resource_name
    kinds = pattern.resource_type.name, pattern.pattern_type.name
    return f"ResourcePattern(resourceType={kinds[0]}, name={name}, patternType={kinds[1]})"


def _binding(pattern: AclBindingFilter, entry: Entry) -> AclBinding:
    return AclBinding(pattern.resource_type, pattern.resource_name or "", pattern.pattern_type, *entry)


def _is_confirmed(pattern: AclBindingFilter, entries: Sequence[Entry]) -> bool:
    """Whether the user wants these removed."""
    if entries:
        lines = "\n".join(f"\t{entry}" for entry in entries)
        say(f"Are you sure you want to remove ACLs: \n {lines}\n from resource filter `{_shown(pattern)}`? (y/n)")
    else:
        say(f"Are you sure you want to delete all ACLs for resource filter `{_shown(pattern)}`? (y/n)")
    try:
        return input().strip().lower() == "y"
    except EOFError:
        raise CommandError("there is no answer to read; --force removes without a question") from None


# --- what the options come to -----------------------------------------------------------------------------------------


def _check(options: argparse.Namespace) -> None:
    """CommandError if the options do not go together."""
    of_clients = ("producer", "consumer")
    about_entries = ("allow_principal", "allow_host", "deny_principal", "deny_host")
    for option, others in (
        ("list", (*of_clients, *about_entries)),
        *((option, ("operation", "deny_principal", "deny_host")) for option in of_clients),
    ):
        wrong = [_option(other) for other in others if getattr(options, other)]
        if getattr(options, option) and wrong:
            raise CommandError(f"{_option(option)} does not go with {wrong[0]}")
    if options.principal and not options.list:
        raise CommandError("--principal is only available with --list")
    if options.producer and not options.topic:
        raise CommandError("--producer needs --topic")
    if options.idempotent and not options.producer:
        raise CommandError("--idempotent is only available with --producer")
    if options.consumer:
        is_more = options.cluster or options.transactional_id
        if not options.topic or not options.group or (is_more and not options.producer):
            raise CommandError("--consumer needs --topic and --group, and no --cluster or --transactional-id")
    if options.add and PatternType[options.resource_pattern_type] not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise CommandError(
            f"--resource-pattern-type {options.resource_pattern_type} does not go with --add: it is literal or prefixed"
        )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _rules(options: argparse.Namespace) -> Rules:
    """The entries of each resource that is named. CommandError if there is none, or it cannot have them."""
    patterns = list(_patterns(options))
    if not patterns:
        raise CommandError("no resource is named: --topic, --group, --transactional-id, --cluster, ...")
    rules: Rules = {}
    if options.producer:
        _add_entries(rules, patterns, _OF_PRODUCERS, options)
        if options.idempotent:
            rules[_CLUSTER] = _entries(options, [AclOperation.IDEMPOTENT_WRITE])
    if options.consumer:
        _add_entries(rules, patterns, _OF_CONSUMERS, options)
    if not options.producer and not options.consumer:
        operations = [_operation(text) for text in options.operation] or [AclOperation.ALL]
        rules = {pattern: _entries(options, operations) for pattern in patterns}
    if options.add and not all(rules.values()):
        raise CommandError("--add needs --allow-principal or --deny-principal")
    for pattern, entries in rules.items():
        possible = (*SUPPORTED_OPERATIONS[pattern.resource_type], AclOperation.ALL)
        if not {entry.operation for entry in entries} <= set(possible):
            names = ", ".join(_operation_name(operation) for operation in possible)
            raise CommandError(f"a resource of type {pattern.resource_type.name} only has the operations {names}")
    return rules


def _add_entries(
    rules: Rules,
    patterns: Sequence[AclBindingFilter],
    needed: dict[AclResourceType, tuple[AclOperation, ...]],
    options: argparse.Namespace,
) -> None:
    for pattern in patterns:
        if pattern.resource_type in needed:
            known = rules.get(pattern, [])
            rules[pattern] = list(dict.fromkeys([*known, *_entries(options, needed[pattern.resource_type])]))


def _patterns(options: argparse.Namespace) -> Iterable[AclBindingFilter]:
    """The resources that the options name."""
    pattern_type = PatternType[options.resource_pattern_type]
    for option, kind in _RESOURCES.items():
        for name in dict.fromkeys(text.strip() for text in getattr(options, option)):
            yield AclBindingFilter(kind, name, pattern_type)
    if options.cluster and pattern_type is PatternType.LITERAL:
        yield _CLUSTER


def _entries(options: argparse.Namespace, operations: Sequence[AclOperation]) -> list[Entry]:
    """Every principal with every operation from every host, what is allowed first."""
    found = []
    for permission, principals, hosts in (
        (AclPermissionType.ALLOW, options.allow_principal, options.allow_host),
        (AclPermissionType.DENY, options.deny_principal, options.deny_host),
    ):
        whose = [_principal(text) for text in principals]
        where = [host.strip() for host in hosts] or [WILDCARD]
        found += [Entry(who, host, what, permission) for who, what, host in product(whose, operations, where)]
    return list(dict.fromkeys(found))


def _principal(text: str) -> str:
    if ":" not in text:
        raise CommandError(f"{text} is no principal: it has a type and a name, as User:alice")
    return text.strip()


def _operation(text: str) -> AclOperation:
    try:
        return word(AclOperation, text.strip())
    except ValueError as error:
        raise CommandError(f"--operation {error}") from None


def _operation_name(operation: AclOperation) -> str:
    return operation.name.title().replace("_", "")
