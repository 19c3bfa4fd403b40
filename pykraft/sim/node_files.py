"""The properties file of a simulated node, and the voters that its directory is formatted with.

Ids count from 1 for brokers and from 101 for separate controllers. Where voters come and go (`trouble.voter_changes`)
the last of the controllers are formatted without first voters, as ``storage format --no-initial-controllers`` does it,
and no file names voters: only where to look for the quorum.
"""

from collections.abc import Sequence

from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.broker.settings.config import RACK_AWARE_SELECTOR, NodeConfig
from pykraft.broker.startup.storage_format import first_directory_id
from pykraft.common.types import Endpoint, ReplicaKey
from pykraft.raft.log.voters import NO_VOTERS, Voter, VoterSet
from pykraft.sim.trouble.knobs import Knobs

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
_GUARDED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}


def node_properties(knobs: Knobs, node_id: int, brokers: Sequence[int], controllers: Sequence[int]) -> dict[str, str]:
    """What is in the node's file."""
    is_broker, is_controller = node_id in brokers, node_id in controllers
    listeners = [f"PLAINTEXT://node-{node_id}:{BROKER_PORT}"] * is_broker
    listeners += [f"CONTROLLER://node-{node_id}:{CONTROLLER_PORT}"] * is_controller
    found: dict[str, object] = {
        "process.roles": ",".join(["broker"] * is_broker + ["controller"] * is_controller),
        "node.id": node_id,
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        **_quorum(knobs, node_id, controllers),
        **_directories(knobs, is_broker),
        "auto.create.topics.enable": "false",
        **knobs.properties,
        **_rack_of(knobs, node_id),
        **({} if knobs.limits.rules_ms is None and knobs.foreign is None else _GUARDED),
        **{name: value for group in knobs.groups for name, value in group.properties.items()},
        **(knobs.transactions.properties if knobs.transactions is not None else {}),
        **(knobs.security.properties if knobs.security is not None else {}),
    }
    return {key: str(value) for key, value in found.items()}


def _quorum(knobs: Knobs, node_id: int, controllers: Sequence[int]) -> dict[str, object]:
    if knobs.voters is None:
        return {"controller.quorum.voters": ",".join(f"{n}@node-{n}:{CONTROLLER_PORT}" for n in controllers)}
    joins = knobs.voters.joins and node_id in controllers[-knobs.voters.spare :]
    return {
        "controller.quorum.bootstrap.servers": ",".join(f"node-{n}:{CONTROLLER_PORT}" for n in controllers),
        **({"controller.quorum.auto.join.enable": "true"} if joins else {}),
    }


def _directories(knobs: Knobs, is_broker: bool) -> dict[str, object]:
    if knobs.directories is None or not is_broker:
        return {"log.dirs": "/data"}
    metadata_path = knobs.directories.metadata_path
    log_dirs = {"log.dirs": ",".join(knobs.directories.paths)}
    return {**log_dirs, "metadata.log.dir": metadata_path} if metadata_path else {**log_dirs}


def _rack_of(knobs: Knobs, node_id: int) -> dict[str, object]:
    """Where a broker is, and that it sends consumers to the nearest replica."""
    racks = knobs.racks
    if not racks or node_id > len(racks):
        return {}
    return {"broker.rack": racks[node_id - 1], "replica.selector.class": RACK_AWARE_SELECTOR}


def voters_to_begin_with(
    knobs: Knobs, config: NodeConfig, cluster_id: str, controllers: Sequence[int]
) -> VoterSet | None:
    """What the directory of this node is formatted with; None for the voters that its file names."""
    if knobs.voters is None:
        return None
    first = controllers[: -knobs.voters.spare]
    if config.node_id not in first:
        return NO_VOTERS
    listener = config.controller_listener
    return VoterSet(
        {
            n: Voter(
                ReplicaKey(n, first_directory_id(cluster_id, n)), {listener: Endpoint(f"node-{n}", CONTROLLER_PORT)}
            )
            for n in first
        }
    )
