"""What a voter must never forget: ``quorum-state``.

::

    {"leaderId":1,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}

At kraft.version 0 it has an older form, with the static voters, and without the directory that was voted for::

    {"clusterId":"","leaderId":1,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],
     "data_version":0}

(in one line). Which form is written follows from the level when it is written, and both are read at both levels.

The file has the last epoch that the node knows, its leader, and the candidate that got the node's vote. It is written,
synced and renamed into place *before* the node acts on it. A vote that is answered before it is on the disk can be
given twice, to two candidates of one epoch, by a node that crashed in between, and then the epoch has two leaders.

Follows org.apache.kafka.raft.{ElectionState,FileQuorumStateStore}.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from pykraft.common.settings.config import LARGEST
from pykraft.common.types import ZERO_UUID, ReplicaKey, Uuid
from pykraft.storage.disk.checkpoint import DamagedFileError
from pykraft.storage.disk.filesystem import FileSystem, replace_file

QUORUM_STATE = "quorum-state"
NO_ONE = -1


class ElectionState(NamedTuple):
    """Epoch, leader and vote; None for no one."""

    epoch: int
    leader_id: int | None = None
    voted: ReplicaKey | None = None


class QuorumStateFile:
    """The file, in the folder of the metadata log."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._path = f"{directory}/{QUORUM_STATE}"

    def read(self) -> ElectionState:
        """What was written last; epoch 0 and nothing else before the first election."""
        if not self._filesystem.exists(self._path):
            return ElectionState(0)
        try:
            state = json.loads(self._filesystem.read(self._path))
            epoch, leader_id, voted_id = (int(state[name]) for name in ("leaderEpoch", "leaderId", "votedId"))
            if not (0 <= epoch <= LARGEST["int"] and min(leader_id, voted_id) >= NO_ONE):
                raise ValueError(f"epoch {epoch}, leader {leader_id}, voted {voted_id}")
            directory_id = Uuid.parse(state.get("votedDirectoryId", str(ZERO_UUID)))
            return ElectionState(
                epoch,
                None if leader_id == NO_ONE else leader_id,
                None if voted_id == NO_ONE else ReplicaKey(voted_id, directory_id),
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise DamagedFileError(f"{self._path} is damaged: {error}") from error

    def write(self, state: ElectionState, static_voters: Sequence[int] | None = None) -> None:
        """Return when the state is on the disk, in version 0 of the form if there are `static_voters`."""
        content: dict[str, object] = {
            "leaderId": NO_ONE if state.leader_id is None else state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": NO_ONE if state.voted is None else state.voted.id,
        }
        if static_voters is None:
            voted_in = str(ZERO_UUID if state.voted is None else state.voted.directory_id)
            content |= {"votedDirectoryId": voted_in, "data_version": 1}
        else:
            voters = [{"voterId": voter_id} for voter_id in static_voters]
            content = {"clusterId": "", **content, "appliedOffset": 0, "currentVoters": voters, "data_version": 0}
        replace_file(self._filesystem, self._path, json.dumps(content, separators=(",", ":")).encode())
