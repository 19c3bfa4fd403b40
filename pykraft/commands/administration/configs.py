"""``configs``: show and change settings of topics, groups and brokers, and quotas, as kafka-configs.sh does.

``--describe`` shows what was changed, with ``--all`` everything, and for each setting all places that say something of
it, the strongest first. ``--alter`` takes ``--add-config key=value,...`` (a value with commas in brackets:
``cleanup.policy=[compact,delete]``), ``--add-config-file FILE`` and ``--delete-config key,...``.

Whose settings are meant is said with ``--topic NAME``, ``--group ID``, ``--broker ID`` or ``--broker-defaults``, or in
the older way with ``--entity-type topics|groups|brokers`` and ``--entity-name NAME`` or ``--entity-default``. Without a
name ``--describe`` shows all topics, all groups, or all brokers and their defaults. Users, client ids and addresses
have quotas (`quota_configs`), and users have SCRAM credentials (`scram_configs`).

Follows kafka.admin.ConfigCommand.
"""

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pykraft.admin import Admin
from pykraft.client.administration.configs import (
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    Operation,
)
from pykraft.commands.administration import scram_configs
from pykraft.commands.administration.quota_configs import (
    CLIENTS,
    IPS,
    QUOTA_ENTITIES,
    USERS,
    alter_quotas,
    check_quota_entity,
    describe_quotas,
)
from pykraft.commands.as_json import add_json, check_json, say_json
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, read_text, say, tell
from pykraft.common.settings.broker_config import consequence_here
from pykraft.common.settings.config import as_text, parse_properties

TOPICS, GROUPS, BROKERS = "topics", "groups", "brokers"
DEFAULTS = ""
"""The name under which all brokers have settings."""
_NOT_BUILT = ("broker-loggers", "client-metrics")
_NAMED_BY = {TOPICS: "--topic", GROUPS: "--group", BROKERS: "--broker ID or --broker-defaults"}
_KINDS = "topics, groups, brokers, users, clients or ips"
_NOT_IN_BRACKETS = r"(?=[^\]]*(?:\[|$))"
_LEGAL_KEY = re.compile("[a-zA-Z0-9._-]*")
_TYPES = {TOPICS: ConfigResourceType.TOPIC, GROUPS: ConfigResourceType.GROUP, BROKERS: ConfigResourceType.BROKER}
_CHANGED_HERE = {
    TOPICS: ConfigSource.TOPIC,
    GROUPS: ConfigSource.GROUP,
    BROKERS: ConfigSource.DYNAMIC_BROKER,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser, also_controllers=())
    actions = parser.add_mutually_exclusive_group(required=True)
    actions.add_argument("--describe", dest="action", action="store_const", const=_describe, help="show settings")
    actions.add_argument("--alter", dest="action", action="store_const", const=_alter, help="change settings")
    parser.add_argument("--all", action="store_true", help="--describe: also settings that were never changed")
    add_json(parser, "--describe of topics, groups or brokers: ")
    parser.add_argument("--add-config", metavar="KEY=VALUE,...", help="--alter: new values; [a,b] for a list")
    parser.add_argument("--add-config-file", type=Path, metavar="FILE", help="--alter: a properties file of new values")
    parser.add_argument("--delete-config", metavar="KEY,...", help="--alter: go back to the defaults")
    parser.add_argument("--topic", metavar="NAME", help="the settings of this topic")
    parser.add_argument("--group", metavar="ID", help="the settings of this consumer group")
    parser.add_argument("--broker", metavar="ID", help="the settings of this broker")
    parser.add_argument("--broker-defaults", action="store_true", help="the settings of all brokers")
    parser.add_argument("--user", metavar="NAME", help="the quotas and credentials of this user")
    parser.add_argument("--user-defaults", action="store_true", help="the quotas of users without their own")
    parser.add_argument("--client", metavar="ID", help="the quotas of this client id")
    parser.add_argument("--client-defaults", action="store_true", help="the quotas of client ids without their own")
    parser.add_argument("--ip", metavar="ADDRESS", help="the quotas of this address")
    parser.add_argument("--ip-defaults", action="store_true", help="the quotas of addresses without their own")
    parser.add_argument(
        "--entity-type",
        action="append",
        default=[],
        metavar="topics|groups|brokers|users|clients|ips",
        help="whose settings; users and clients may both be named",
    )
    parser.add_argument(
        "--entity-name",
        dest="entity_names",
        action="append",
        metavar="NAME",
        help="a topic, a group, the id of a broker, a user, a client id or an address",
    )
    parser.add_argument(
        "--entity-default",
        dest="entity_names",
        action="append_const",
        const=None,
        help="all brokers, or all of a kind that have no quotas of their own",
    )


def run(options: argparse.Namespace) -> int:
    """Do what was asked for."""
    kinds, names = _entities(options)
    is_shown = options.action is _describe and not set(QUOTA_ENTITIES).intersection(kinds)
    check_json(options, is_shown, "--describe of topics, groups or brokers")
    if kinds and kinds[0] in QUOTA_ENTITIES:
        return _run_quotas(options, kinds, names)
    kind, name = _entity(kinds, names)
    if options.action is _alter:
        changes = _changes(options, kind, name)
        with Admin(**client_settings(options)) as admin, answers(admin):
            _alter(admin, kind, name or DEFAULTS, changes)
        return 0
    _check_describes(options)
    with Admin(**client_settings(options)) as admin, answers(admin):
        _describe(admin, kind, name, options)
    return 0


def _check_describes(options: argparse.Namespace) -> None:
    if options.add_config or options.add_config_file or options.delete_config:
        raise CommandError("--describe changes nothing: leave out --add-config, --add-config-file, --delete-config")


def _run_quotas(options: argparse.Namespace, kinds: list[str], names: list[str]) -> int:
    """Do what was asked for of users, client ids or addresses."""
    check_quota_entity(kinds)
    if options.action is _describe:
        _check_describes(options)
        with Admin(**client_settings(options)) as admin, answers(admin):
            describe_quotas(admin, kinds, names)
            if kinds == [USERS] and DEFAULTS not in names:
                scram_configs.describe(admin, names[0] if names else None)
        return 0
    if len(names) != len(kinds):
        raise CommandError("--alter needs a name for each kind: --entity-name NAME or --entity-default")
    added, deleted = _added_and_deleted(options)
    if any(map(scram_configs.is_scram, (*added, *deleted))):
        if kinds != [USERS]:
            raise CommandError("SCRAM credentials are those of users alone: leave out the other kinds")
        credentials = scram_configs.alterations(names[0], added, deleted)
        with Admin(**client_settings(options)) as admin, answers(admin):
            scram_configs.alter(admin, names[0], credentials)
        return 0
    with Admin(**client_settings(options)) as admin, answers(admin):
        alter_quotas(admin, kinds, names, added, deleted)
    return 0


def _entities(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Whose settings are meant: the kinds that were said, and the names; those of defaults are empty."""
    short = [
        (TOPICS, options.topic),
        (CLIENTS, options.client),
        (USERS, options.user),
        (BROKERS, options.broker),
        (IPS, options.ip),
        (GROUPS, options.group),
    ]
    defaults = [
        (CLIENTS, options.client_defaults),
        (USERS, options.user_defaults),
        (BROKERS, options.broker_defaults),
        (IPS, options.ip_defaults),
    ]
    said = [(kind, name) for kind, name in short if name is not None]
    of_defaults = [kind for kind, is_said in defaults if is_said]
    if not options.entity_type and options.entity_names is None:
        kinds, names = [*(kind for kind, _ in said), *of_defaults], [name for _, name in said]
        _check_named(kinds, names)
        return kinds, names + [DEFAULTS] * len(of_defaults)
    if said or of_defaults:
        raise CommandError("--entity-type, --entity-name and --entity-default say it all: leave out the short ways")
    given: list[str | None] = options.entity_names or []
    for kind in options.entity_type:
        if kind in _NOT_BUILT:
            raise CommandError(f"--entity-type {kind} is not built: only {_KINDS} have settings or quotas")
    if not options.entity_type or not {*_TYPES, *QUOTA_ENTITIES}.issuperset(options.entity_type):
        raise CommandError(f"--entity-type must be {_KINDS}")
    if len(given) > len(options.entity_type):
        raise CommandError("there are more names than kinds: leave out --entity-name or --entity-default")
    _check_named(options.entity_type, given)
    return options.entity_type, [DEFAULTS if name is None else name for name in given]


def _check_named(kinds: list[str], names: Sequence[str | None]) -> None:
    if DEFAULTS in names:
        kind = kinds[names.index(DEFAULTS)]
        hint = "a broker is named by its number" if kind == BROKERS else "--entity-default means all of a kind"
        raise CommandError(f"{kind} have no name '': {hint}")


def _entity(kinds: list[str], names: list[str]) -> tuple[str, str | None]:
    """(topics, groups or brokers, its name): the name is empty for all brokers' defaults, None if there is none."""
    if len(kinds) != 1:
        raise CommandError(
            "say whose settings are meant: --topic NAME, --group ID, --broker ID, --broker-defaults, --user NAME, "
            "--client ID, --ip ADDRESS or their defaults"
        )
    kind, name = kinds[0], names[0] if names else None
    if kind == TOPICS and name == DEFAULTS:
        raise CommandError("topics have no settings in common: change those of the brokers, --broker-defaults")
    if kind == GROUPS and name == DEFAULTS:
        raise CommandError("groups have no settings in common: change those of the brokers' files")
    if kind == BROKERS and name and not name.isdecimal():
        raise CommandError(f"a broker is named by its number, not by {name!r}")
    return kind, name


# --- describe ---------------------------------------------------------------------------------------------------------


def _describe(admin: Admin, kind: str, name: str | None, options: argparse.Namespace) -> None:
    everything = options.all
    if name and not everything and name not in _names(admin, kind):
        say(f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    entities = [name] if name is not None else [*_names(admin, kind), *([DEFAULTS] if kind == BROKERS else [])]
    found = {entity: _entries(admin, kind, entity, everything) for entity in entities}
    if options.json:
        say_json(**{kind: found})
        return
    for entity, entries in found.items():
        if entity:
            say(f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {entity} are:")
        else:
            say(f"Default configs for {kind} in the cluster are:")
        for entry in entries:
            synonyms = ", ".join(f"{_source(s.source)}:{s.name}={_value(s.value)}" for s in entry.synonyms)
            sensitive = as_text(entry.is_sensitive)
            say(f"  {entry.name}={_value(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _names(admin: Admin, kind: str) -> list[str]:
    if kind == TOPICS:
        return admin.list_topics()
    if kind == GROUPS:
        configured = {resource.name for resource in admin.list_config_resources([ConfigResourceType.GROUP])}
        return sorted(configured | {group.group_id for group in admin.list_groups()})
    return [str(broker.id) for broker in sorted(admin.describe_cluster().brokers)]


def _entries(admin: Admin, kind: str, name: str, everything: bool) -> list[ConfigEntry]:
    """The settings by name: all, or those that were changed at this very place."""
    if kind == BROKERS and name and name not in _names(admin, kind):
        raise CommandError(f"there is no broker {name} that lives: only it could say")
    resource = ConfigResource(_TYPES[kind], name)
    found = admin.describe_configs([resource], include_synonyms=True)[resource]
    here = _CHANGED_HERE[kind]
    if kind == BROKERS and name == DEFAULTS:
        here = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [entry for _, entry in sorted(found.items()) if everything or entry.source is here]


def _source(source: ConfigSource) -> str:
    """The name that Kafka's tool has for it."""
    is_short = source in (ConfigSource.TOPIC, ConfigSource.GROUP)
    return f"{'DYNAMIC_' if is_short else ''}{source.name}_CONFIG"


def _value(value: str | None) -> str:
    return "null" if value is None else value


# --- alter ------------------------------------------------------------------------------------------------------------


def _changes(options: argparse.Namespace, kind: str, name: str | None) -> list[AlterConfigOp]:
    if name is None:
        raise CommandError("--alter needs a name: " + _NAMED_BY[kind])
    added, deleted = _added_and_deleted(options)
    return [
        *(AlterConfigOp(key, None, Operation.DELETE) for key in deleted),
        *(AlterConfigOp(key, value, Operation.SET) for key, value in added.items()),
    ]


def _added_and_deleted(options: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    if options.all:
        raise CommandError("--all is for --describe")
    if options.add_config is not None and options.add_config_file is not None:
        raise CommandError("--add-config and --add-config-file exclude each other")
    added = parse_properties(read_text(options.add_config_file)) if options.add_config_file else {}
    added |= _pairs(options.add_config) if options.add_config else {}
    deleted = [key.strip() for key in options.delete_config.rstrip(",").split(",")] if options.delete_config else []
    if not added and not deleted:
        raise CommandError("--alter needs --add-config, --add-config-file or --delete-config")
    for key in added:
        if not _LEGAL_KEY.fullmatch(key):
            raise CommandError(f"{key!r} is not the name of a setting")
    return added, deleted


def _pairs(text: str) -> dict[str, str]:
    found = {}
    for pair in re.split("," + _NOT_IN_BRACKETS, text.rstrip(",")):
        parts = re.split(r"\s*=\s*" + _NOT_IN_BRACKETS, pair)
        if len(parts) != 2:
            name = parts[0].strip()  # alone: the value may be a password
            raise CommandError(f"--add-config cannot read {name!r}: it must have key=value or key=[value,value]")
        found[parts[0].strip()] = parts[1].replace("[", "").replace("]", "").strip()
    return found


def _alter(admin: Admin, kind: str, name: str, changes: Iterable[AlterConfigOp]) -> None:
    changes = list(changes)
    known = {entry.name for entry in _entries(admin, kind, name, everything=False)}
    unknown = [change.name for change in changes if change.operation is Operation.DELETE and change.name not in known]
    if unknown:
        raise CommandError(f"--delete-config names what is not set: {','.join(unknown)}")
    admin.incremental_alter_configs({ConfigResource(_TYPES[kind], name): changes})
    for change in changes if kind == BROKERS else ():
        consequence = consequence_here(change.name, None if change.value is None else str(change.value))
        if consequence:
            tell(f"pykraft: {change.name} is kept and described, and changes nothing: {consequence}")
    if name:
        say(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        say(f"Completed updating default config for {kind} in the cluster.")
