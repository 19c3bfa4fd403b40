"""``metadata-quorum``: the quorum of controllers, as kafka-metadata-quorum.sh shows it.

::

    metadata-quorum --bootstrap-server HOST:PORT describe --status
    metadata-quorum --bootstrap-server HOST:PORT describe --replication [--human-readable]
    metadata-quorum --bootstrap-server HOST:PORT --command-config FILE add-controller [--dry-run]
    metadata-quorum --bootstrap-server HOST:PORT remove-controller --controller-id ID
                                                 --controller-directory-id DIRECTORY_ID [--dry-run]
                                                 [--unregister]

``--status`` is a summary: the leader and its epoch, the high watermark, and how far the last voter is behind.
``--replication`` has a row for each replica of the metadata log. A follower's *lag* is in records. The leader notes
when each replica fetched last, and when it last had everything.

``add-controller`` makes a controller that follows as an observer a voter. FILE is the properties file of that
controller, and its metadata directory must be on this machine: the directory's id is there. ``remove-controller`` takes
a voter out of the quorum; then stop its node, or it goes on following. With ``--unregister`` the cluster also forgets
that the controller was there, so that it keeps no feature down any more. A controller whose disk was replaced has
another directory id: remove the voter with the old one, then add it.

``--bootstrap-controller`` in the place of ``--bootstrap-server`` asks the controllers themselves: a quorum can be
looked at while no broker runs.

Follows org.apache.kafka.tools.MetadataQuorumCommand.
"""

import argparse
from collections.abc import Iterator, Sequence

from pykraft.admin import Admin
from pykraft.broker.settings.config import read_node_config
from pykraft.client.administration.admin import QuorumDescription, QuorumReplica
from pykraft.client.config import ADMIN_CONFIG
from pykraft.commands.as_json import add_json, say_json
from pykraft.commands.common import CommandError, add_client_arguments, answers, client_settings, read_text, say, table
from pykraft.common.settings.config import parse_properties
from pykraft.common.types import ZERO_UUID, Uuid
from pykraft.network.own_host import canonical_host
from pykraft.runtime.client_thread import time_of_day_ms
from pykraft.storage.disk.checkpoint import read_meta_properties
from pykraft.storage.disk.filesystem import OsFileSystem

_COLUMNS = ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
_UNKNOWN = -1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser, also_controllers=())
    verbs = parser.add_subparsers(required=True, dest="verb", metavar="VERB")
    describe = verbs.add_parser("describe", help="describe the quorum")
    describe.add_argument("--status", action="store_true", help="a summary")
    describe.add_argument("--replication", action="store_true", help="how far each replica is")
    describe.add_argument("--human-readable", action="store_true", help="--replication: times as 'N ms ago'")
    add_json(describe)
    add = verbs.add_parser("add-controller", help="make the controller of --command-config a voter")
    remove = verbs.add_parser("remove-controller", help="take a voter out of the quorum")
    remove.add_argument("-i", "--controller-id", required=True, type=int, help="the id of its node")
    remove.add_argument(
        "-d", "--controller-directory-id", required=True, help="the id of its metadata directory, as describe shows it"
    )
    remove.add_argument("--unregister", action="store_true", help="then also forget the controller")
    for verb in (add, remove):
        verb.add_argument("--dry-run", action="store_true", help="only say what would be done")


def run(options: argparse.Namespace) -> int:
    """Describe the quorum, or change its voters."""
    if options.verb == "add-controller":
        return _add(options)
    if options.verb == "remove-controller":
        return _remove(options)
    if options.status == options.replication and not options.json:
        raise CommandError("describe needs --status or --replication, one of the two")
    if options.human_readable and options.status:
        raise CommandError("--human-readable is for --replication")
    with Admin(**client_settings(options)) as admin, answers(admin):
        quorum = admin.describe_quorum()
        if options.json:
            say_json(cluster_id=admin.describe_cluster().cluster_id, **quorum._asdict())
            return 0
        lines = (
            _status(admin.describe_cluster().cluster_id, quorum)
            if options.status
            else _replication(quorum, time_of_day_ms() if options.human_readable else None)
        )
    for line in lines:
        say(line)
    return 0


def _leader(quorum: QuorumDescription) -> QuorumReplica:
    for voter in quorum.voters:
        if voter.replica_id == quorum.leader_id:
            return voter
    raise CommandError(f"the leader of the quorum, {quorum.leader_id}, is no voter any more: ask again")


# --- changes ----------------------------------------------------------------------------------------------------------


def _add(options: argparse.Namespace) -> int:
    file = options.command_config
    if file is None:
        raise CommandError("add-controller needs --command-config with the properties file of the controller to add")
    config = read_node_config(parse_properties(read_text(file)), canonical_host)
    if not config.is_controller:
        raise CommandError(f"{file} is of no controller: its process.roles has no 'controller'")
    filesystem = OsFileSystem()
    is_there = filesystem.exists(config.metadata_dir)
    properties = read_meta_properties(filesystem, config.metadata_dir) if is_there else None
    if properties is None:
        raise CommandError(
            f"{config.metadata_dir} is not formatted: run storage format --no-initial-controllers on this machine first"
        )
    node, directory_id = config.node_id, properties.directory_id
    endpoints = {each.name: each.advertised for each in config.listeners if each.name == config.controller_listener}
    if not options.dry_run:
        settings = {name: value for name, value in client_settings(options).items() if name in ADMIN_CONFIG.keys}
        with Admin(**settings) as admin, answers(admin):
            admin.add_raft_voter(node, directory_id, endpoints)
    listed = ", ".join(f"{name}://{endpoint}" for name, endpoint in sorted(endpoints.items()))
    verb = "DRY RUN of adding" if options.dry_run else "Added"
    say(f"{verb} controller {node} with directory id {directory_id} and endpoints: {listed}")
    return 0


def _remove(options: argparse.Namespace) -> int:
    node = options.controller_id
    if node < 0:
        raise CommandError(f"--controller-id is {node}, but must be 0 or more")
    try:
        directory_id = Uuid.parse(options.controller_directory_id)
    except ValueError as error:
        raise CommandError(f"--controller-directory-id {error}") from None
    if not options.dry_run:
        with Admin(**client_settings(options)) as admin, answers(admin):
            admin.remove_raft_voter(node, directory_id)
    verb = "DRY RUN of removing" if options.dry_run else "Removed"
    say(f"{verb} KRaft controller {node} with directory id {directory_id}")
    if options.unregister:
        if not options.dry_run:
            with Admin(**client_settings(options)) as admin, answers(admin):
                admin.unregister_controller(node)
        say(f"{'DRY RUN of unregistering' if options.dry_run else 'Unregistered'} KRaft controller {node}")
    return 0


# --- status -----------------------------------------------------------------------------------------------------------


def _status(cluster_id: str, quorum: QuorumDescription) -> list[str]:
    leader = _leader(quorum)
    last = min(quorum.voters, key=lambda voter: voter.log_end_offset)
    rows = {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": leader.log_end_offset - last.log_end_offset,
        "MaxFollowerLagTimeMs": _lag_ms(leader, last),
        "CurrentVoters": _nodes(quorum, quorum.voters),
        "CurrentObservers": _nodes(quorum, quorum.observers),
    }
    return [f"{name + ':':<24}{value}" for name, value in rows.items()]


def _lag_ms(leader: QuorumReplica, last: QuorumReplica) -> int:
    if leader is last:
        return 0
    times = (leader.last_caught_up_timestamp, last.last_caught_up_timestamp)
    return _UNKNOWN if _UNKNOWN in times else times[0] - times[1]


def _nodes(quorum: QuorumDescription, replicas: Sequence[QuorumReplica]) -> str:
    return f"[{', '.join(_node(replica, quorum.endpoints.get(replica.replica_id, ())) for replica in replicas)}]"


def _node(replica: QuorumReplica, endpoints: Sequence[str]) -> str:
    """One node, in JSON."""
    found = [f'"id": {replica.replica_id}']
    if replica.directory_id != ZERO_UUID:
        found.append(f'"directoryId": "{replica.directory_id}"')
    if endpoints:
        listed = ", ".join(f'"{endpoint}"' for endpoint in endpoints)
        found.append(f'"endpoints": [{listed}]')
    return f"{{{', '.join(found)}}}"


# --- replication ------------------------------------------------------------------------------------------------------


def _replication(quorum: QuorumDescription, now_ms: int | None) -> list[str]:
    """A row for each replica; times as they are, or how long before `now_ms` they were."""
    leader = _leader(quorum)
    followers = [voter for voter in quorum.voters if voter is not leader]
    ranks = {"Leader": [leader], "Follower": followers, "Observer": quorum.observers}

    def rows() -> Iterator[tuple[object, ...]]:
        for rank, replicas in ranks.items():
            for replica in replicas:
                times = (replica.last_fetch_timestamp, replica.last_caught_up_timestamp)
                shown = [_time(milliseconds, now_ms) for milliseconds in times]
                lag = leader.log_end_offset - replica.log_end_offset
                yield (replica.replica_id, replica.directory_id, replica.log_end_offset, lag, *shown, rank)

    return table(_COLUMNS, rows())


def _time(milliseconds: int, now_ms: int | None) -> str:
    if milliseconds == _UNKNOWN or now_ms is None:
        return str(milliseconds)
    return f"{max(0, now_ms - milliseconds)} ms ago"
