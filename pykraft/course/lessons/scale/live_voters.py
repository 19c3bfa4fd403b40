"""A live quorum whose voters come and go, and which is broken on purpose: one removal too many.

::

    voters(cluster)                    the ids of the voters, as a controller that runs knows them
    remove(cluster, 103)               RemoveRaftVoter: what came of it, "removed" or the name of the error
    add(cluster, 103)                  AddRaftVoter
    broken = remove_one_too_many(cluster)
    mend(cluster)                      the way back

A voter is known by its id and the id of its disk. That is in meta.properties, and an administrator must name both.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pykraft.admin import Admin
from pykraft.common.errors import KafkaError
from pykraft.common.settings.config import parse_properties
from pykraft.common.types import Uuid
from pykraft.storage.disk.checkpoint import read_meta_properties
from pykraft.storage.disk.filesystem import OsFileSystem

if TYPE_CHECKING:
    from pykraft.broker.describe import QuorumView
    from pykraft.cluster import Cluster
    from pykraft.cluster_view import ClusterView

_PATIENCE_S, _LOOK_S = 15.0, 0.05
_REMOVED = "removed"
_TIMEOUT_MS = 2_000
"""How long an administrator waits here for what cannot come."""


class Broken(NamedTuple):
    """A quorum after one removal too many."""

    dead: int
    removed: int
    alive: list[int]
    """The controllers that run."""
    voters: list[int]
    """The voters of the newest voter set, committed or not."""
    answer: str
    """What the administrator heard of the removal."""


def directory_id(cluster: "Cluster", node_id: int) -> Uuid:
    """The id of a controller's disk."""
    found = read_meta_properties(OsFileSystem(), str(cluster.node_directory(node_id)))
    assert found is not None and found.directory_id is not None
    return found.directory_id


def endpoints(cluster: "Cluster", node_id: int) -> dict[str, str]:
    """Where a controller is reached, by the name of its listener."""
    listener = parse_properties(cluster.properties_file(node_id).read_text())["listeners"]
    name, _, address = listener.partition("://")
    return {name: address}


def quorum(cluster: "Cluster") -> dict[int, "QuorumView"]:
    """The quorum, as each controller that runs sees it."""
    nodes = cluster.describe(0).nodes
    return {node: nodes[node].quorum for node in cluster.controller_ids if node in cluster.alive}


def roles(cluster: "Cluster") -> dict[int, str]:
    """Each controller that runs in a few words."""
    return {
        node: f"{view.role}, voters {', '.join(map(str, view.voters))}, committed up to {view.high_watermark}"
        for node, view in quorum(cluster).items()
    }


def voters(cluster: "Cluster") -> list[int]:
    """The newest voter set that a running controller has in its log."""
    newest = max(quorum(cluster).values(), key=lambda view: view.log_end_offset)
    return sorted(newest.voters)


def followers(cluster: "Cluster") -> list[int]:
    """The voters that follow the active controller; waits until there is one."""
    view = cluster.wait_until(_is_led, what="a controller is active")
    return [node for node in voters(cluster) if node != view.active_controller]


def _is_led(view: "ClusterView") -> bool:
    active = view.active_controller
    return active is not None and view.nodes[active].quorum.role == "leader"


def remove(cluster: "Cluster", node_id: int) -> str:
    """Take a voter out of the quorum; "removed", also if it was none, or the name of the error."""
    with _admin(cluster) as admin:
        return _outcome(lambda: admin.remove_raft_voter(node_id, directory_id(cluster, node_id)), _REMOVED)


def add(cluster: "Cluster", node_id: int) -> str:
    """Make an observer a voter; "added", also if it was one, or the name of the error."""
    with _admin(cluster) as admin:
        where = endpoints(cluster, node_id)
        return _outcome(lambda: admin.add_raft_voter(node_id, directory_id(cluster, node_id), where), "added")


def create(cluster: "Cluster", topic: str) -> str:
    """Create a topic of one partition; "created", also if it is there, or the name of the error."""
    with _admin(cluster) as admin:
        return _outcome(lambda: admin.create_topic(topic, 1, 1), "created")


_MADE = {"VOTER_NOT_FOUND", "DUPLICATE_VOTER", "TOPIC_ALREADY_EXISTS"}
"""It was so before: a cell that runs again asks twice."""


def _outcome(change: Callable[[], object], done: str) -> str:
    try:
        change()
    except KafkaError as error:
        return done if error.code.name in _MADE else error.code.name
    return done


def _admin(cluster: "Cluster") -> Admin:
    return Admin(**cluster.client_settings(), default_api_timeout_ms=_TIMEOUT_MS)


def remove_one_too_many(cluster: "Cluster") -> Broken:
    """Of three voters kill one that follows, and remove the other one that follows. Waits until no controller leads."""
    mend(cluster)
    dead, removed = followers(cluster)
    cluster.kill(dead)
    answer = remove(cluster, removed)
    if answer != _REMOVED:
        cluster.wait_until(
            lambda view: not any(_leads(view, node) for node in cluster.controller_ids), what="none leads"
        )
        time.sleep(1.0)  # several elections that cannot be won
    alive = [node for node in cluster.controller_ids if node in cluster.alive]
    return Broken(dead, removed, alive, voters(cluster), answer)


def _leads(view: "ClusterView", node: int) -> bool:
    return view.nodes[node].is_alive and view.nodes[node].quorum.role == "leader"


def mend(cluster: "Cluster") -> list[int]:
    """Start the controllers that are dead, wait until one leads and has committed what it has, and make every
    controller a voter again; the voters before that last step."""
    for node in cluster.controller_ids:
        if node not in cluster.alive:
            cluster.restart(node, wait=False)
    cluster.wait_until(_is_settled, what="the quorum has committed its voters")
    found = voters(cluster)
    for node in set(cluster.controller_ids) - set(found):
        deadline = time.monotonic() + _PATIENCE_S
        while add(cluster, node) != "added" and time.monotonic() < deadline:  # a new leader may have to wait a moment
            time.sleep(_LOOK_S)
        cluster.wait_until(_is_settled, what="the quorum has committed its voters")
    return found


def _is_settled(view: "ClusterView") -> bool:
    """Whether a controller leads, has committed all that it has, and all controllers go by its voters."""
    active = view.active_controller
    if active is None or not _leads(view, active):
        return False
    led = view.nodes[active].quorum
    known = [node.quorum.voters for node in view.alive if "controller" in node.roles]
    return led.high_watermark == led.log_end_offset and all(each == led.voters for each in known)
