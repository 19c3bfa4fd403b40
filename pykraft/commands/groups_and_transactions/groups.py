"""``groups``: list the groups of a cluster, of all types, as kafka-groups.sh does.

``--consumer`` keeps consumer groups of both protocols, and groups without members that only hold offsets. ``--share``
and ``--streams`` keep groups that pykraft does not serve; Apache Kafka may have some. ``--json`` is ours.

Follows org.apache.kafka.tools.GroupsCommand.
"""

import argparse

from pykraft.admin import Admin
from pykraft.client.administration.groups import GroupListing, GroupType
from pykraft.commands.as_json import add_json, say_json
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, say

_TYPES = {each.value.lower(): each for each in GroupType if each is not GroupType.UNKNOWN}
_NARROWEST = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    parser.add_argument("--list", action="store_true", required=True, help="what there is to do")
    parser.add_argument("--group-type", metavar="TYPE", help=f"only groups of this type: {', '.join(_TYPES)}")
    parser.add_argument("--protocol", metavar="PROTOCOL", help="only groups whose members speak this protocol type")
    parser.add_argument("--consumer", action="store_true", help="only consumer groups, of both protocols")
    parser.add_argument("--share", action="store_true", help="only share groups")
    parser.add_argument("--streams", action="store_true", help="only streams groups")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the groups."""
    _check(options)
    with Admin(**client_settings(options)) as admin, answers(admin):
        groups = [group for group in admin.list_groups() if _is_wanted(group, options)]
    if options.json:
        rows = [dict(zip(("group", "type", "protocol"), _cells(group), strict=True)) for group in groups]
        say_json(groups=rows)
        return 0
    cells = [_cells(group) for group in groups]
    width = max([_NARROWEST, *(len(cell) for row in cells for cell in row)])
    say(" ".join(f"{title:<{width}}" for title in ("GROUP", "TYPE", "PROTOCOL")))
    for row in cells:
        say("".join(f"{cell:<{width}} " for cell in row))
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.group_type is not None and options.group_type.lower() not in _TYPES:
        raise CommandError(f"--group-type is {options.group_type}, but must be one of {', '.join(_TYPES)}")
    alone = [name for name in ("consumer", "share", "streams") if getattr(options, name)]
    others = [name for name in ("group_type", "protocol") if getattr(options, name) is not None]
    if alone and len(alone) + len(others) > 1:
        told = ", ".join(f"--{name.replace('_', '-')}" for name in (*alone, *others))
        raise CommandError(f"{told} cannot be said together: --{alone[0]} stands alone")


def _is_wanted(group: GroupListing, options: argparse.Namespace) -> bool:
    if options.group_type is not None or options.protocol is not None:
        is_of_type = options.group_type is None or group.group_type is _TYPES[options.group_type.lower()]
        return is_of_type and options.protocol in (None, group.protocol_type)
    if options.consumer:
        return group.protocol_type in ("", "consumer") or group.group_type is GroupType.CONSUMER
    wanted = {name for name in ("share", "streams") if getattr(options, name)}
    return not wanted or group.group_type.value.lower() in wanted


def _cells(group: GroupListing) -> tuple[str, str, str]:
    kind = "" if group.group_type is GroupType.UNKNOWN else group.group_type.value
    return group.group_id, kind, group.protocol_type
