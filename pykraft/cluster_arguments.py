"""What a `Cluster` is handed, looked at before anything starts: numbers, names of modes, racks, ports."""

import socket
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from pykraft.runtime.ports import HOST
from pykraft.runtime.threaded import NetworkMode
from pykraft.timeouts import PROFILES, TimeoutProfile

ClusterMode = Literal["threads", "processes"]
FIRST_CONTROLLER_ID = 101
_LAST_PORT = 65_535
_EVERYWHERE = {"0.0.0.0", "::", ""}
INSTEAD = {
    "listeners": "port=N says the first broker's port",
    "advertised.listeners": "advertise=NAME says where clients are sent",
    "log.dirs": "directory=PATH says where, log_dirs=N how many each node has",
    "node.id": "nodes=N says how many there are",
    "process.roles": "controllers=N says which nodes are controllers",
    "broker.rack": "racks=[...] says which one each broker has",
    "controller.quorum.voters": "controllers=N says which nodes are controllers",
}
"""What to say of a setting that the cluster gives to each of its nodes."""


class Reach(NamedTuple):
    """Where brokers are reached."""

    host: str
    """The address on which they listen."""
    name: str
    """The host to which they send clients."""
    near: str
    """A host by which this machine reaches them."""


def reach_of(host: str, advertise: str | None) -> Reach:
    """Where brokers that listen on `host` are reached; ValueError if nothing here finds them under their name."""
    is_everywhere = host in _EVERYWHERE
    name = advertise or (socket.getfqdn() if is_everywhere else host)
    for said, each in (("host", host or "0.0.0.0"), ("advertise", name)):
        try:
            socket.getaddrinfo(each, None)
        except (OSError, UnicodeError):
            raise ValueError(
                f"{said}={each!r}: this machine must find that host itself, for the brokers reach each other there, too"
            ) from None
    return Reach(host, name, HOST if is_everywhere else host)


def known_port(properties: Mapping[str, str], listener: str) -> int:
    """The port of this listener; 0 if there is none."""
    listeners = properties.get("listeners", "").split(",")
    return next((int(text.rpartition(":")[2]) for text in listeners if text.startswith(f"{listener}:")), 0)


def rack_of_each(racks: Sequence[str] | None, nodes: int) -> dict[int, str]:
    """The rack of each broker by its id; an empty name is none."""
    if racks is None:
        return {}
    if isinstance(racks, str) or not all(isinstance(rack, str) for rack in racks):
        raise ValueError(f'racks={racks!r}: must be a list of names, like ["a", "b", "c"]')
    if len(racks) != nodes:
        raise ValueError(f"racks={racks!r}: {len(racks)} names for {nodes} brokers; each broker needs one")
    return {node_id: rack for node_id, rack in enumerate(racks, 1) if rack}


def check_arguments(
    nodes: int,
    controllers: int | None,
    mode: ClusterMode,
    timeouts: TimeoutProfile,
    port: int | None,
    network: NetworkMode,
    has_filesystem: bool,
    log_dirs: int = 1,
) -> None:
    """ValueError names what is wrong with them."""
    for name, number in (("nodes", nodes), ("controllers", controllers), ("port", port), ("log_dirs", log_dirs)):
        if number is not None and not isinstance(number, int):
            raise ValueError(f"{name}={number!r}: must be a whole number")
    if log_dirs < 1:
        raise ValueError(f"log_dirs={log_dirs}: a node has at least one log directory")
    if nodes < 1:
        raise ValueError(f"nodes={nodes}: a cluster has at least one broker")
    if nodes >= FIRST_CONTROLLER_ID:
        raise ValueError(f"nodes={nodes}: at most {FIRST_CONTROLLER_ID - 1} brokers fit below the controllers' ids")
    if controllers is not None and controllers < 1:
        raise ValueError(f"controllers={controllers}: leave it out for combined nodes, or name at least one")
    if port is not None and not 1 <= port <= _LAST_PORT + 1 - nodes:
        raise ValueError(f"port={port}: the brokers' ports, {nodes} from this one on, lie between 1 and {_LAST_PORT}")
    if mode not in get_args(ClusterMode):
        raise ValueError(f'mode={mode!r}: must be "threads" or "processes"')
    if network not in get_args(NetworkMode):
        raise ValueError(f'network={network!r}: must be "fused" or "staged"')
    if timeouts not in PROFILES:
        raise ValueError(f"timeouts={timeouts!r}: must be {' or '.join(sorted(PROFILES))}")
    if has_filesystem and mode != "threads":
        raise ValueError('a filesystem can be handed to nodes in this process only: mode="threads"')
