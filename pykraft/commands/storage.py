"""``storage``: make a node's directories, as kafka-storage.sh does.

::

    storage random-uuid
    storage format -t CLUSTER_ID -c FILE [--release-version 4.0] [--feature NAME=LEVEL ...]
    storage version-mapping [--release-version 4.0]
    storage feature-dependencies --feature NAME=LEVEL ...

The last two say which levels a release has, and what a level depends on, as ``features`` does, without a cluster.
"""

import argparse
import time
from pathlib import Path
from random import Random

from pykraft.commands import features
from pykraft.commands.common import CommandError, say
from pykraft.commands.node_config import read_config
from pykraft.common.types import Uuid
from pykraft.controller.features import parse_levels
from pykraft.server.storage_format import AlreadyFormattedError, format_directories, parse_initial_controllers
from pykraft.storage.checkpoint import DamagedFileError
from pykraft.storage.filesystem import OsFileSystem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    form = commands.add_parser("format", help="make the directories that a properties file names")
    form.add_argument("-t", "--cluster-id", required=True, help="the cluster's id, the same for all its nodes")
    form.add_argument("-c", "--config", required=True, type=Path, help="server.properties")
    form.add_argument("-g", "--ignore-formatted", action="store_true", help="leave what is formatted already as it is")
    form.add_argument(
        "-I",
        "--initial-controllers",
        help="the first voters: id@host:port:directory-id,... (default: as the file says)",
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
    form.set_defaults(storage=_format)
    commands.add_parser("random-uuid", help="print a new cluster id").set_defaults(storage=_random_uuid)
    mapping = commands.add_parser("version-mapping", help="print the levels of new clusters of a release")
    features.add_mapping_arguments(mapping)
    mapping.set_defaults(storage=lambda options: features.say_all(features.mapping_lines(options.release_version)))
    dependencies = commands.add_parser("feature-dependencies", help="print which levels a level depends on")
    features.add_dependencies_arguments(dependencies)
    dependencies.set_defaults(storage=lambda options: features.say_all(features.dependency_lines(options.feature)))


def run(options: argparse.Namespace) -> int:
    """Format, or draw an id."""
    code: int = options.storage(options)
    return code


def _random_uuid(_: argparse.Namespace) -> int:
    say(Uuid.random(Random()))
    return 0


def _format(options: argparse.Namespace) -> int:
    config = read_config(options.config)
    voters = None
    if options.initial_controllers:
        voters = parse_initial_controllers(options.initial_controllers, config.controller_listener)
    elif config.is_controller and not config.voters:
        raise CommandError(
            f"{options.config} has no controller.quorum.voters, so --initial-controllers must name the first voters"
        )
    levels = parse_levels(options.feature, options.release_version)
    now = time.time_ns() // 1_000_000
    filesystem, leave = OsFileSystem(), options.ignore_formatted
    try:
        made = format_directories(config, options.cluster_id, filesystem, Random(), now, voters, leave, levels)
    except AlreadyFormattedError as error:
        raise CommandError(f"{error}. --ignore-formatted leaves it as it is") from None
    except DamagedFileError as error:
        raise CommandError(str(error)) from None
    for directory in made:
        say(f"formatted {directory} for node {config.node_id} of cluster {options.cluster_id}")
    return 0
