"""``storage``: make a node's directories, and look at them, as kafka-storage.sh does.

::

    storage random-uuid
    storage format -t CLUSTER_ID -c FILE [--release-version 4.0] [--feature NAME=LEVEL ...]
                   [--standalone | --initial-controllers VOTERS | --no-initial-controllers]
    storage format ... --add-scram 'SCRAM-SHA-256=[name=alice,password=secret]'
    storage info -c FILE [--json]
    storage version-mapping [--release-version 4.0]
    storage feature-dependencies --feature NAME=LEVEL ...

With ``controller.quorum.voters`` in the file the quorum is one of kraft.version 0. Without it the quorum is one of
kraft.version 1, and ``--initial-controllers`` names its first voters, or ``--standalone`` makes this node the only one
(`broker.startup.storage_format`). A controller that comes to a quorum which is there already is formatted with
``--no-initial-controllers``: it follows until ``metadata-quorum add-controller`` makes it a voter.

``info`` prints which of the file's directories are there, whose they are, and what is wrong with them; its exit status
is 1 if something is. Text shows the metadata of the first directory, JSON that of each.

The last two say which levels a release has, and what a level depends on, as ``features`` does, without a cluster.
"""

import argparse
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random, SystemRandom

from pykraft.broker.settings.config import NodeConfig
from pykraft.broker.startup.first_credentials import parse_add_scram
from pykraft.broker.startup.storage_format import (
    AlreadyFormattedError,
    format_directories,
    parse_initial_controllers,
    standalone_voter,
)
from pykraft.broker.startup.storage_info import look_at_directories
from pykraft.commands.administration import features
from pykraft.commands.as_json import add_json, say_json
from pykraft.commands.common import CommandError, say
from pykraft.commands.nodes.node_config import read_config
from pykraft.common.types import Uuid
from pykraft.controller.features import KRAFT_VERSION, parse_levels
from pykraft.metadata.versions import IV_3_5_2_SCRAM, METADATA_VERSION
from pykraft.protocol.messages.records import UserScramCredentialRecord
from pykraft.raft.log.voters import NO_VOTERS, STATIC_VOTERS, VOTERS_IN_LOG
from pykraft.storage.disk.checkpoint import DamagedFileError
from pykraft.storage.disk.filesystem import OsFileSystem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    form = commands.add_parser("format", help="make the directories that a properties file names")
    form.add_argument("-t", "--cluster-id", required=True, help="the cluster's id, the same for all its nodes")
    form.add_argument("-c", "--config", required=True, type=Path, help="server.properties")
    form.add_argument("-g", "--ignore-formatted", action="store_true", help="leave what is formatted already as it is")
    first = form.add_mutually_exclusive_group()
    first.add_argument("-s", "--standalone", action="store_true", help="this controller is the only first voter")
    first.add_argument(
        "-I",
        "--initial-controllers",
        help="the first voters, at kraft.version 1: id@host:port:directory-id,... (default: as the file says)",
    )
    first.add_argument(
        "-N",
        "--no-initial-controllers",
        action="store_true",
        help="this controller has no first voters: it comes to a quorum that is there already",
    )
    form.add_argument(
        "-f",
        "--feature",
        action="append",
        default=[],
        metavar="FEATURE=LEVEL",
        help="the level of a feature in the new cluster (default: that of the release)",
    )
    form.add_argument(
        "-r", "--release-version", metavar="RELEASE", help="the levels of that release (default: those of Kafka 4.2)"
    )
    form.add_argument(
        "-S",
        "--add-scram",
        action="append",
        default=[],
        metavar="MECHANISM=[name=USER,password=PASSWORD]",
        help="a SCRAM credential that the cluster begins with; may be repeated",
    )
    form.set_defaults(storage=_format)
    info = commands.add_parser("info", help="print what the directories that a properties file names are")
    info.add_argument("-c", "--config", required=True, type=Path, help="server.properties")
    add_json(info)
    info.set_defaults(storage=_info)
    commands.add_parser("random-uuid", help="print a new cluster id").set_defaults(storage=_random_uuid)
    mapping = commands.add_parser("version-mapping", help="print the levels of new clusters of a release")
    features.add_mapping_arguments(mapping)
    mapping.set_defaults(storage=lambda options: features.say_all(features.mapping_lines(options.release_version)))
    dependencies = commands.add_parser("feature-dependencies", help="print which levels a level depends on")
    features.add_dependencies_arguments(dependencies)
    dependencies.set_defaults(storage=lambda options: features.say_all(features.dependency_lines(options.feature)))


def run(options: argparse.Namespace) -> int:
    """Format, look, or draw an id."""
    code: int = options.storage(options)
    return code


def _random_uuid(_: argparse.Namespace) -> int:
    say(Uuid.random(Random()))
    return 0


def _format(options: argparse.Namespace) -> int:
    config = read_config(options.config)
    levels = parse_levels(options.feature, options.release_version)
    level = levels.setdefault(KRAFT_VERSION, STATIC_VOTERS if config.voters else VOTERS_IN_LOG)
    _check_quorum(options, config, level)
    voters = NO_VOTERS if options.no_initial_controllers else None
    if options.standalone:
        voters = standalone_voter(config, Random())
    elif options.initial_controllers:
        voters = parse_initial_controllers(options.initial_controllers, config.controller_listener)
    now = time.time_ns() // 1_000_000
    filesystem, leave = OsFileSystem(), options.ignore_formatted
    credentials = _credentials(options.add_scram, levels)
    try:
        made = format_directories(
            config, options.cluster_id, filesystem, Random(), now, voters, leave, levels, credentials
        )
    except AlreadyFormattedError as error:
        raise CommandError(f"{error}. --ignore-formatted leaves it as it is") from None
    except DamagedFileError as error:
        raise CommandError(str(error)) from None
    for directory in made:
        say(f"formatted {directory} for node {config.node_id} of cluster {options.cluster_id}")
    return 0


def _info(options: argparse.Namespace) -> int:
    found = look_at_directories(OsFileSystem(), read_config(options.config).directories)
    if options.json:
        say_json(directories=found.directories, metadata=found.metadata, problems=found.problems)
        return 1 if found.problems else 0
    if found.directories:
        _say_lines(f"Found log {'directory' if len(found.directories) == 1 else 'directories'}:", found.directories)
    if found.metadata is not None:
        listed = ", ".join(f"{name}={value}" for name, value in found.metadata.items())
        say(f"Found metadata: {{{listed}}}")
        say("")
    if found.problems:
        _say_lines(f"Found {'problem' if len(found.problems) == 1 else 'problems'}:", found.problems)
        return 1
    return 0


def _say_lines(headline: str, lines: Iterable[str]) -> None:
    say(headline)
    for line in lines:
        say(f"  {line}")
    say("")


def _credentials(texts: list[str], levels: Mapping[str, int]) -> list[UserScramCredentialRecord]:
    """What --add-scram asks for."""
    if texts and levels[METADATA_VERSION] < IV_3_5_2_SCRAM:
        raise CommandError(f"--add-scram needs metadata.version {IV_3_5_2_SCRAM} (3.5-IV2) or a later one")
    return parse_add_scram(texts, SystemRandom())


def _check_quorum(options: argparse.Namespace, config: NodeConfig, level: int) -> None:
    """CommandError unless file, options and the level of ``kraft.version`` mean the same kind of quorum."""
    names_voters = options.standalone or options.initial_controllers or options.no_initial_controllers
    if options.standalone and not config.is_controller:
        raise CommandError(f"--standalone makes this node the only voter, but {options.config} is of no controller")
    if config.voters and names_voters:
        raise CommandError(
            f"{options.config} names the voters with controller.quorum.voters, which is a quorum of kraft.version 0: "
            "for one of kraft.version 1 put controller.quorum.bootstrap.servers in its place, else leave out "
            "--standalone, --initial-controllers and --no-initial-controllers"
        )
    if config.voters and level != STATIC_VOTERS:
        raise CommandError(
            f"--feature {KRAFT_VERSION}={level} needs a file without controller.quorum.voters: put "
            "controller.quorum.bootstrap.servers in its place, and name the first voters with --standalone or "
            "--initial-controllers"
        )
    if not config.voters and level == STATIC_VOTERS:
        raise CommandError(
            f"--feature {KRAFT_VERSION}={level} needs controller.quorum.voters in {options.config}: the voters are "
            "nowhere else"
        )
    if config.is_controller and not config.voters and not names_voters:
        raise CommandError(
            f"{options.config} has no controller.quorum.voters, so --initial-controllers must name the first voters, "
            "--standalone make this node the only one, or --no-initial-controllers let it come to one that is there"
        )
