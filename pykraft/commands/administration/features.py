"""``features``: the levels of a cluster's features, shown and changed, as kafka-features.sh does.

::

    features --bootstrap-server HOST:PORT describe [--node-id N]
    features --bootstrap-server HOST:PORT upgrade (--feature NAME=LEVEL ... | --release-version 4.2) [--dry-run]
    features --bootstrap-server HOST:PORT downgrade (--feature NAME=LEVEL ... | --release-version 4.1) [--dry-run]
    features --bootstrap-server HOST:PORT disable --feature NAME ... [--dry-run]
    features --bootstrap-server HOST:PORT version-mapping [--release-version 4.0]
    features --bootstrap-server HOST:PORT feature-dependencies --feature NAME=LEVEL ...

``--bootstrap-controller`` in the place of ``--bootstrap-server`` asks the active controller itself.

``--dry-run`` asks whether the change would be made, and changes nothing. A release means the levels that its new
clusters have (``version-mapping`` shows them). Features that the asked cluster does not have at all are left out then;
Kafka's tool asks for them all the same. ``downgrade`` refuses to lose metadata; ``--unsafe`` would allow that, but
neither Kafka 4.2 nor pykraft does it.

Follows org.apache.kafka.tools.FeatureCommand.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence

from pykraft.admin import Admin
from pykraft.client.administration.features import FeatureUpdate, UpgradeType
from pykraft.client.errors import ClientTimeoutError
from pykraft.commands.as_json import add_json, say_json
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, say, tell
from pykraft.common.errors import KafkaError
from pykraft.metadata.versions import (
    BASE,
    FEATURES,
    LATEST,
    LOWEST,
    METADATA_VERSION,
    MetadataVersion,
    default_level,
    feature_level,
    version_named,
    version_of_level,
)

_SMALLEST_LEVEL, _LARGEST_LEVEL = -(1 << 15), (1 << 15) - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser, also_controllers=())
    verbs = parser.add_subparsers(required=True, dest="verb", metavar="VERB")
    describe = verbs.add_parser("describe", help="describe the levels of features")
    describe.add_argument(
        "--node-id", type=int, metavar="N", help="ask this node (default: any broker, or the active controller)"
    )
    add_json(describe)
    for verb, help_text in {"upgrade": "raise levels of features", "downgrade": "lower levels of features"}.items():
        change = verbs.add_parser(verb, help=help_text)
        change.add_argument("--metadata", metavar="RELEASE", help=f"deprecated: the level of {METADATA_VERSION}")
        change.add_argument("--release-version", metavar="RELEASE", help="the levels of that release")
        _add_change_arguments(change, "NAME=LEVEL", "a feature and its level; may be repeated", verb != "upgrade")
    disable = verbs.add_parser("disable", help="lower features to level 0")
    _add_change_arguments(disable, "NAME", "a feature; may be repeated", is_downgrade=True)
    mapping = verbs.add_parser("version-mapping", help="print the levels of new clusters of a release")
    add_mapping_arguments(mapping)
    dependencies = verbs.add_parser("feature-dependencies", help="print which levels a level depends on")
    add_dependencies_arguments(dependencies)


def add_mapping_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = f"from {LOWEST.name} on (default: {BASE.name})"
    parser.add_argument("--release-version", metavar="RELEASE", default=BASE.name, help=help_text)


def add_dependencies_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--feature", action="append", required=True, metavar="NAME=LEVEL", help="a level; may be repeated"
    )


def _add_change_arguments(parser: argparse.ArgumentParser, form: str, help_text: str, is_downgrade: bool) -> None:
    parser.add_argument("--feature", action="append", default=[], metavar=form, help=help_text)
    parser.add_argument("--dry-run", action="store_true", help="ask whether it would be done, and change nothing")
    if is_downgrade:
        parser.add_argument("--unsafe", action="store_true", help="even if metadata are lost")


def run(options: argparse.Namespace) -> int:
    """Do what the verb says."""
    if options.verb == "version-mapping":
        return say_all(mapping_lines(options.release_version))
    if options.verb == "feature-dependencies":
        return say_all(dependency_lines(options.feature))
    verb: Callable[[Admin, argparse.Namespace], None] = _VERBS[options.verb]
    with Admin(**client_settings(options)) as admin, answers(admin):
        verb(admin, options)
    return 0


def say_all(lines: Iterator[str]) -> int:
    for line in lines:
        say(line)
    return 0


# --- what there is ----------------------------------------------------------------------------------------------------


def _describe(admin: Admin, options: argparse.Namespace) -> None:
    if options.node_id is not None and options.node_id < 0:
        raise CommandError(f"--node-id is {options.node_id}, but a node's id is at least 0")
    found = admin.describe_features(options.node_id)
    if options.json:
        say_json(**found._asdict())
        return
    epoch = "-" if found.finalized_features_epoch is None else found.finalized_features_epoch
    for name, (low, high) in sorted(found.supported_features.items()):
        cells = {
            "Feature": name,
            "SupportedMinVersion": _level_text(name, low),
            "SupportedMaxVersion": _level_text(name, high),
            "FinalizedVersionLevel": _level_text(name, found.finalized_features.get(name, 0)),
            "Epoch": epoch,
        }
        say("\t".join(f"{title}: {value}" for title, value in cells.items()))


def _level_text(name: str, level: int) -> str:
    if name != METADATA_VERSION:
        return str(level)
    version = version_of_level(level)
    return f"UNKNOWN {level}" if version is None else version.name


def mapping_lines(release: str) -> Iterator[str]:
    """The levels of a new cluster of that release."""
    version = _release("--release-version", release)
    yield f"{METADATA_VERSION}={version.level} ({release})"
    for name in FEATURES:
        yield f"{name}={default_level(name, version.level)}"


def dependency_lines(settings: Sequence[str]) -> Iterator[str]:
    """What each of these levels depends on."""
    for setting in settings:
        name, number = _parsed(setting)
        if name == METADATA_VERSION:
            version = version_of_level(number)
            if version is None:
                raise CommandError(f"--feature {setting}: {_allowed(name)}")
            yield f"{name}={number} ({version.name}) has no dependencies."
            continue
        level = feature_level(name, number)
        if level is None:
            raise CommandError(f"--feature {setting}: {_allowed(name)}")
        if not level.requires:
            yield f"{name}={number} has no dependencies."
            continue
        yield f"{name}={number} requires:"
        for needed, at_least in level.requires.items():
            shown = f" ({_level_text(needed, at_least)})" if needed == METADATA_VERSION else ""
            yield f"    {needed}={at_least}{shown}"


def _allowed(name: str) -> str:
    if name == METADATA_VERSION:
        return f"{name} must be {LOWEST.level} to {LATEST.level}"
    if name in FEATURES:
        return f"{name} must be {' or '.join(str(level.level) for level in FEATURES[name])}"
    return f"the features are {', '.join([METADATA_VERSION, *FEATURES])}"


# --- changes ----------------------------------------------------------------------------------------------------------


def _upgrade(admin: Admin, options: argparse.Namespace) -> None:
    _update(admin, options, _wanted(admin, options, UpgradeType.UPGRADE))


def _downgrade(admin: Admin, options: argparse.Namespace) -> None:
    _update(admin, options, _wanted(admin, options, _downgrade_type(options)))


def _disable(admin: Admin, options: argparse.Namespace) -> None:
    _check_once(options.feature)
    kind = _downgrade_type(options)
    _update(admin, options, {name: FeatureUpdate(0, kind) for name in options.feature})


def _downgrade_type(options: argparse.Namespace) -> UpgradeType:
    return UpgradeType.UNSAFE_DOWNGRADE if options.unsafe else UpgradeType.SAFE_DOWNGRADE


def _wanted(admin: Admin, options: argparse.Namespace, kind: UpgradeType) -> dict[str, FeatureUpdate]:
    """The changes that the options name."""
    if options.release_version is not None:
        if options.metadata is not None or options.feature:
            raise CommandError("--release-version names all levels, so --metadata and --feature must not be given")
        levels = _levels_of_release(_release("--release-version", options.release_version), admin)
        return {name: FeatureUpdate(level, kind) for name, level in levels if level or kind is not UpgradeType.UPGRADE}
    wanted = {}
    if options.metadata is not None:
        say(" `metadata` flag is deprecated and may be removed in a future release.")
        wanted[METADATA_VERSION] = FeatureUpdate(_release("--metadata", options.metadata).level, kind)
    changes = [_parsed(setting) for setting in options.feature]
    _check_once([*wanted, *(name for name, _ in changes)])
    return wanted | {name: FeatureUpdate(level, kind) for name, level in changes}


def _levels_of_release(version: MetadataVersion, admin: Admin) -> Iterator[tuple[str, int]]:
    yield METADATA_VERSION, version.level
    supported = admin.describe_features().supported_features
    for name in FEATURES:
        level = default_level(name, version.level)
        if name in supported:
            yield name, level
        elif level:
            tell(f"{name} is left out: the cluster does not have it")


def _update(admin: Admin, options: argparse.Namespace, updates: Mapping[str, FeatureUpdate]) -> None:
    """Change the levels, and say of each feature what became of it: they change together, or none does."""
    if not updates:
        raise CommandError(f"{options.verb} needs at least one --feature")
    refusal = None
    try:
        admin.update_features(updates, options.dry_run)
    except ClientTimeoutError:
        raise
    except KafkaError as error:
        refusal = error
    for name, update in sorted(updates.items()):
        level = "" if options.verb == "disable" else f" to {update.max_version_level}"
        if refusal is not None:
            helper = "Can not" if options.dry_run else "Could not"
            say(f"{helper} {options.verb} {name}{level}. {refusal.detail or refusal}")
        else:
            say(f"{name} {'can be' if options.dry_run else 'was'} {options.verb}d{level}.")
    if refusal is not None:
        raise CommandError(f"{len(updates)} out of {len(updates)} operation(s) failed.")


_VERBS = {"describe": _describe, "upgrade": _upgrade, "downgrade": _downgrade, "disable": _disable}


def _parsed(setting: str) -> tuple[str, int]:
    """NAME=LEVEL."""
    name, equals, text = (part.strip() for part in setting.partition("="))
    try:
        level = int(text)
    except ValueError:
        equals = ""
    if not equals or not _SMALLEST_LEVEL <= level <= _LARGEST_LEVEL:
        raise CommandError(f"--feature {setting} must be a feature and its level, like {METADATA_VERSION}=29")
    return name, level


def _check_once(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise CommandError(f"--feature {name} is given twice, but each feature gets one level")


def _release(option: str, text: str) -> MetadataVersion:
    version = version_named(text)
    if version is None:
        raise CommandError(f"{option} {text} must be a release from {LOWEST.name} to {LATEST.name}")
    return version
