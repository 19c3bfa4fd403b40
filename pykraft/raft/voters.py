"""Who may vote, and since when.

The voters are written in the metadata log itself (KIP-853): a VotersRecord names each voter's id, the id of its
metadata directory and where it can be reached. A voter set holds from the moment it is *appended*, committed or not, on
every replica that has it; when a follower truncates its log, the set before it holds again. So a replica keeps the
history of the sets in its log, by offset.

A quorum begins from the set that each node's directory was formatted with (offset -1): the first leader writes it into
the log, as the second and third record of the first epoch.

Follows org.apache.kafka.raft.VoterSet and org.apache.kafka.raft.internals.{VoterSetHistory,
KRaftControlRecordStateMachine}.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pykraft.common.types import Endpoint, Node, ReplicaKey
from pykraft.protocol.messages.control import VotersRecord

KRAFT_VERSION = 1
"""The only level spoken here: voters stand in the log, with their directory ids."""
SUPPORTED_KRAFT_VERSIONS = (1, 1)
BOOTSTRAP_OFFSET = -1
"""Where a voter set stands that is not in the log yet."""


@dataclass(frozen=True)
class Voter:
    """One voter: its key, and its endpoint on each controller listener."""

    key: ReplicaKey
    endpoints: Mapping[str, Endpoint]

    def node(self, listener: str) -> Node:
        endpoint = self.endpoints[listener]
        return Node(self.key.id, endpoint.host, endpoint.port)


@dataclass(frozen=True)
class VoterSet:
    """The voters by id."""

    voters: Mapping[int, Voter]

    @property
    def ids(self) -> list[int]:
        return sorted(self.voters)

    @property
    def keys(self) -> list[ReplicaKey]:
        return [self.voters[voter_id].key for voter_id in self.ids]

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.voters) // 2 + 1

    def is_voter(self, key: ReplicaKey) -> bool:
        voter = self.voters.get(key.id)
        return voter is not None and voter.key.directory_id == key.directory_id

    def node(self, voter_id: int, listener: str) -> Node | None:
        """Where this voter is reached; None for one that is no voter or has no such listener."""
        voter = self.voters.get(voter_id)
        return voter.node(listener) if voter is not None and listener in voter.endpoints else None

    def to_record(self) -> VotersRecord:
        low, high = SUPPORTED_KRAFT_VERSIONS
        return VotersRecord(
            voters=[
                VotersRecord.Voter(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[
                        VotersRecord.Voter.Endpoint(name=name, host=endpoint.host, port=endpoint.port)
                        for name, endpoint in sorted(voter.endpoints.items())
                    ],
                    kraft_version_feature=VotersRecord.Voter.KRaftVersionFeature(
                        min_supported_version=low, max_supported_version=high
                    ),
                )
                for voter in (self.voters[voter_id] for voter_id in self.ids)
            ]
        )

    @classmethod
    def from_record(cls, record: VotersRecord) -> "VoterSet":
        voters = [
            Voter(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                {endpoint.name: Endpoint(endpoint.host, endpoint.port) for endpoint in voter.endpoints},
            )
            for voter in record.voters
        ]
        return cls({voter.key.id: voter for voter in voters})


NO_VOTERS = VoterSet({})


class VoterSetAt(NamedTuple):
    """A voter set, and the offset of its record."""

    offset: int
    voters: VoterSet


class VoterSetHistory:
    """The voter sets of a log, oldest first; the first is that of its snapshot, as of the last offset in it."""

    def __init__(self, first: VoterSet, offset: int = BOOTSTRAP_OFFSET) -> None:
        self._history = [VoterSetAt(offset, first)]

    @property
    def latest(self) -> VoterSet:
        """The set that holds now."""
        return self._history[-1].voters

    @property
    def latest_offset(self) -> int:
        return self._history[-1].offset

    def before(self, end_offset: int) -> VoterSet:
        """The set that a log has which ends there."""
        found = [entry.voters for entry in self._history if entry.offset < end_offset]
        return found[-1] if found else self._history[0].voters

    def add(self, offset: int, voters: VoterSet) -> None:
        assert offset > self.latest_offset, f"a voter set at offset {offset} follows one at {self.latest_offset}"
        self._history.append(VoterSetAt(offset, voters))

    def truncate_to(self, end_offset: int) -> None:
        """The log was cut to `end_offset`: the sets that stood behind it hold no more."""
        self._history = [entry for entry in self._history if entry.offset < end_offset]
