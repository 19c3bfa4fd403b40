"""The voters, and since when.

There are two kinds of quorums, and ``kraft.version`` says which:

* at level 0 the voters are *static*: each node reads them from ``controller.quorum.voters``, by id and address. None of
  them is in the log, and no node knows the directory ids of the others;
* at level 1 they are written in the metadata log itself (KIP-853): a VotersRecord names each voter's id, the id of its
  metadata directory, where it can be reached, and which levels of ``kraft.version`` it supports.

A voter set holds from the moment it is *appended*, committed or not, on every replica that has it; when a follower
truncates its log, the set before it holds again. The level is a record, too, and comes and goes in the same way. So a
replica keeps the history of both in its log, by offset.

A quorum of level 1 begins from the set that each node's directory was formatted with (offset -1): the first leader
writes it into the log, as the second and third record of the first epoch. One of level 0 begins from its static voters
(offset -2), and keeps them until an administrator raises the level (`voter_updates`).

Follows org.apache.kafka.raft.VoterSet and org.apache.kafka.raft.internals.{VoterSetHistory,TreeMapLogHistory,
KRaftControlRecordStateMachine}.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from pykraft.common.types import Endpoint, Node, ReplicaKey
from pykraft.protocol.messages.control import VotersRecord

T = TypeVar("T")


class VersionRange(NamedTuple):
    """The levels of ``kraft.version`` that a voter supports."""

    minimum: int
    maximum: int


STATIC_VOTERS = 0
"""The level of ``kraft.version`` at which the voters are those of ``controller.quorum.voters``."""
VOTERS_IN_LOG = 1
"""The level at which the voters are in the log, with their directory ids."""
SUPPORTED_KRAFT_VERSIONS = VersionRange(STATIC_VOTERS, VOTERS_IN_LOG)
BOOTSTRAP_OFFSET = -1
"""The offset of a voter set that is not in the log yet, but in the snapshot of an empty log."""
STATIC_OFFSET = -2
"""The offset of the static voters: before all that a log may have."""
_UNHEARD = VersionRange(STATIC_VOTERS, STATIC_VOTERS)
"""What a static voter supports, as far as is known before it has said so."""


@dataclass(frozen=True)
class Voter:
    """One voter: its key, its endpoint on each controller listener, and the levels of ``kraft.version`` it supports."""

    key: ReplicaKey
    endpoints: Mapping[str, Endpoint]
    kraft_versions: VersionRange = SUPPORTED_KRAFT_VERSIONS

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
        return voter is not None and voter.key.matches(key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self.voters) == 1 and self.is_voter(key)

    def needs_update(self, voter: Voter) -> bool:
        """Whether this is one of the voters, and the set says something else of it."""
        return self.is_voter(voter.key) and self.voters[voter.key.id] != voter

    def with_voter(self, voter: Voter) -> "VoterSet":
        """The set in which this is what is known of the voter with its id."""
        return VoterSet({**self.voters, voter.key.id: voter})

    def without_voter(self, key: ReplicaKey) -> "VoterSet":
        """The set without the voter with this id."""
        return VoterSet({voter_id: voter for voter_id, voter in self.voters.items() if voter_id != key.id})

    def node(self, voter_id: int, listener: str) -> Node | None:
        """Where this voter is reached; None for one that is no voter or has no such listener."""
        voter = self.voters.get(voter_id)
        return voter.node(listener) if voter is not None and listener in voter.endpoints else None

    def to_record(self) -> VotersRecord:
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
                        min_supported_version=voter.kraft_versions.minimum,
                        max_supported_version=voter.kraft_versions.maximum,
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
                VersionRange(
                    voter.kraft_version_feature.min_supported_version,
                    voter.kraft_version_feature.max_supported_version,
                ),
            )
            for voter in record.voters
        ]
        return cls({voter.key.id: voter for voter in voters})

    @classmethod
    def static(cls, nodes: Iterable[Node], listener: str) -> "VoterSet":
        """The voters that ``controller.quorum.voters`` names: their directory ids are unknown."""
        return cls({node.id: Voter(ReplicaKey(node.id), {listener: node.endpoint}, _UNHEARD) for node in nodes})


NO_VOTERS = VoterSet({})


class LogHistory(Generic[T]):
    """The values that records of a log have set, by their offsets, oldest first. The first value is not the log's."""

    def __init__(self, first: T, offset: int = BOOTSTRAP_OFFSET) -> None:
        self._history = [(offset, first)]

    @property
    def latest(self) -> T:
        """The value that holds now."""
        return self._history[-1][1]

    @property
    def latest_offset(self) -> int:
        return self._history[-1][0]

    def before(self, end_offset: int) -> T:
        """The value that a log has which ends there."""
        found = [value for offset, value in self._history if offset < end_offset]
        return found[-1] if found else self._history[0][1]

    def add(self, offset: int, value: T) -> None:
        assert offset > self.latest_offset, f"what is at offset {offset} follows what is at {self.latest_offset}"
        self._history.append((offset, value))

    def truncate_to(self, end_offset: int) -> None:
        """The log was cut to `end_offset`: the values after it hold no more."""
        self._history = [(offset, value) for offset, value in self._history if offset < end_offset]


class VoterSetHistory(LogHistory[VoterSet]):
    """The voter sets of a log; the first is that of its snapshot, as of the last offset in it."""


class KRaftVersionHistory(LogHistory[int]):
    """The levels of ``kraft.version``; the first is that of the log's snapshot."""
