"""Voters of a metadata quorum, without a node around them: on disks in memory, at a time that the test sets.

`replica` opens one voter, to be driven by hand (`tests.harness.scripted.Script` polls it and keeps what it asks).
`Quorum` connects several: what one asks is encoded, decoded and answered by the other at the same moment, and time
jumps to the next deadline when no voter has anything to send. Links can be cut, and voters killed and started again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any

from pykraft.common.core import FOREVER, Failure, Outbound, Promise
from pykraft.common.settings.config import ConfigDef
from pykraft.common.settings.topic_config import LOG_CONFIG
from pykraft.common.time_slice import ENDLESS, TimeSlice
from pykraft.common.trace import RingBuffer, Tracer, TraceSink
from pykraft.common.types import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    Endpoint,
    LeaderAndEpoch,
    Node,
    OffsetAndEpoch,
    ReplicaKey,
    TopicPartition,
    Uuid,
)
from pykraft.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.quorum import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from pykraft.protocol.messages.records import FeatureLevelRecord, MetadataRecord, encode_metadata_record
from pykraft.raft.client import RaftClient
from pykraft.raft.config import RAFT_KEYS
from pykraft.raft.election import QuorumStateFile
from pykraft.raft.log.history import SnapshotFolder
from pykraft.raft.log.listener import CommittedBatch
from pykraft.raft.log.replicated_log import ReplicatedLog
from pykraft.raft.log.snapshot import BOOTSTRAP_SNAPSHOT, encode_snapshot, snapshot_name, write_snapshot
from pykraft.raft.log.state_machine import ControlRecords
from pykraft.raft.log.voters import NO_VOTERS, STATIC_VOTERS, VOTERS_IN_LOG, Voter, VoterSet
from pykraft.raft.quorum_state import RoleName
from pykraft.raft.replica import RaftReplica
from pykraft.sim.world.disk import MemoryFileSystem
from pykraft.storage.disk.filesystem import FileSystem
from pykraft.storage.upkeep.log_loader import LogLoader
from tests.harness.storage import Inline, ManualClock

CLUSTER_ID = "quorum-of-the-tests-00"
LISTENER = "CONTROLLER"
HOST = "voter"
FOLDER = f"/metadata/{METADATA_TOPIC}-0"
CONFIG = ConfigDef(RAFT_KEYS)
_MOST_ROUNDS = 1000


def directory_id(node_id: int) -> Uuid:
    return Uuid(node_id.to_bytes(16, "big"))


def key(node_id: int) -> ReplicaKey:
    """The replica with this id, on its first disk."""
    return ReplicaKey(node_id, directory_id(node_id))


def address(node_id: int) -> Node:
    return Node(node_id, HOST, 9000 + node_id)


def voter_set(ids: Iterable[int]) -> VoterSet:
    return VoterSet({n: Voter(key(n), {LISTENER: Endpoint(HOST, 9000 + n)}) for n in ids})


def static_voters(ids: Iterable[int]) -> VoterSet:
    return VoterSet.static((address(n) for n in ids), LISTENER)


def fresh_disk() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory(FOLDER)
    filesystem.sync_all()
    return filesystem


def open_metadata_log(filesystem: FileSystem) -> ReplicatedLog:
    snapshots = SnapshotFolder(filesystem, FOLDER)
    return ReplicatedLog(
        LogLoader(
            filesystem=filesystem,
            directory=FOLDER,
            config=LOG_CONFIG.resolve(),
            clock=ManualClock(),
            background=Inline(),
            topic_partition=TopicPartition(METADATA_TOPIC, 0),
            topic_id=METADATA_TOPIC_ID,
            clean=False,
            snapshot=snapshots.newest_id(),
        ).load(),
        snapshots,
    )


def replica(
    node_id: int,
    voters: Sequence[int] = (1, 2, 3),
    *,
    filesystem: FileSystem | None = None,
    seed: int = 0,
    journal: TraceSink | None = None,
    kraft_version: int = VOTERS_IN_LOG,
    local: ReplicaKey | None = None,
    endpoint: Node | None = None,
    is_blank: bool = False,
    time_slice: TimeSlice = ENDLESS,
    **settings: Any,
) -> RaftClient:
    """One replica, not started yet; a voter if its id is among `voters`. Its disk is formatted with them unless it has
    a snapshot or `is_blank`; at `kraft_version` 0 they are static. `local` is its key, by default that of its first
    disk; `endpoint` is where it is reached. Settings have underscores for dots."""
    filesystem = filesystem or fresh_disk()
    is_static = kraft_version == STATIC_VOTERS
    if not is_static and not is_blank and SnapshotFolder(filesystem, FOLDER).newest() is None:
        first = encode_snapshot(voter_set(voters), [], epoch=0, timestamp=0, last_timestamp=0)
        write_snapshot(filesystem, f"{FOLDER}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}", first)
    log = open_metadata_log(filesystem)
    return RaftClient(
        RaftReplica(
            cluster_id=CLUSTER_ID,
            local=local or key(node_id),
            listener_name=LISTENER,
            local_endpoint=lambda: endpoint or address(node_id),
            log=log,
            control_records=ControlRecords(log, static_voters(voters) if is_static else NO_VOTERS),
            quorum_file=QuorumStateFile(filesystem, FOLDER),
            bootstrap=[Node(-2 - n, HOST, 9000 + voter) for n, voter in enumerate(voters) if voter != node_id],
            config=CONFIG.resolve().with_values(**{"metadata_max_retention_ms": -1, **settings}),
            random=Random(f"{seed} {node_id}"),
            clock=ManualClock(),
            trace=Tracer(node_id, journal or RingBuffer()),
            can_become_voter=True,
        ),
        time_slice,
    )


def level(number: int) -> bytes:
    """A metadata record that can be told from others."""
    return encode_metadata_record(FeatureLevelRecord(name="test", feature_level=number), 0)


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.batches: list[CommittedBatch] = []
        """Since the last snapshot, and what was in it."""
        self.snapshots: list[OffsetAndEpoch] = []
        self.leaders: list[LeaderAndEpoch] = []

    @property
    def records(self) -> list[MetadataRecord]:
        return [record for batch in self.batches for record in batch.records]

    @property
    def levels(self) -> list[int]:
        return [record.feature_level for record in self.records if isinstance(record, FeatureLevelRecord)]

    def handle_commit(self, batch: CommittedBatch) -> None:
        self.batches.append(batch)

    def handle_load_snapshot(self, snapshot: OffsetAndEpoch, batches: Sequence[CommittedBatch]) -> None:
        self.snapshots.append(snapshot)
        self.batches = list(batches)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.leaders.append(leader)


class Quorum:
    """Some replicas, connected. Ids in `voters` vote; those in `observers` only follow."""

    def __init__(
        self, voters: Sequence[int] = (1, 2, 3), observers: Sequence[int] = (), seed: int = 0, **settings: Any
    ) -> None:
        self.voters = list(voters)
        self.now = 0
        self.disks = {n: fresh_disk() for n in (*voters, *observers)}
        self.rafts: dict[int, RaftClient] = {}
        self.heard: dict[int, Heard] = {}
        self.journal = RingBuffer()
        self.keys: dict[int, ReplicaKey] = {}
        """Of the replicas that are not on their first disk."""
        self.endpoints: dict[int, Node] = {}
        """Of the replicas that are not where their voter set says."""
        self.blank: set[int] = set()
        """The replicas whose disks were formatted without voters."""
        self.cut: set[frozenset[int]] = set()
        self.asked: list[tuple[int, int, Any]] = []
        """(from, to, request) of all that was delivered."""
        self._settings = settings
        self._seed = seed
        self._due: deque[Callable[[], None]] = deque()
        for n in self.disks:
            self.start(n)

    # --- the life of a replica ----------------------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        """Start on the disk as it is."""
        self.rafts[node_id] = replica(
            node_id,
            self.voters,
            filesystem=self.disks[node_id],
            seed=self._seed,
            journal=self.journal,
            local=self.keys.get(node_id),
            endpoint=self.endpoints.get(node_id),
            is_blank=node_id in self.blank,
            **self._settings,
        )
        self.heard[node_id] = Heard()
        self.rafts[node_id].register(self.heard[node_id])
        self.rafts[node_id].start(self.now)

    def kill(self, node_id: int, power: bool = False) -> None:
        """It stops at once; with `power`, and all that it had not synced is gone."""
        del self.rafts[node_id]
        if power:
            self.disks[node_id].crash_power(Random(self.now))
        else:
            self.disks[node_id].crash_process()

    def isolate(self, node_id: int) -> None:
        self.cut |= {frozenset((node_id, other)) for other in self.disks if other != node_id}

    def heal(self) -> None:
        self.cut.clear()

    # --- what holds ---------------------------------------------------------------------------------------------------

    def role(self, node_id: int) -> RoleName:
        return self.rafts[node_id].replica.quorum.role.name

    def epoch(self, node_id: int) -> int:
        return self.rafts[node_id].replica.epoch

    @property
    def leaders(self) -> list[int]:
        return [n for n in sorted(self.rafts) if self.role(n) is RoleName.LEADER]

    @property
    def leader(self) -> int:
        """The one leader."""
        (leader,) = self.leaders
        return leader

    def end(self, node_id: int) -> OffsetAndEpoch:
        return self.rafts[node_id].replica.log.end

    def contents(self, node_id: int) -> bytes:
        """The bytes of the log."""
        log = self.rafts[node_id].replica.log
        data = log.read(0, 1 << 20)
        return data if isinstance(data, bytes) else data.read(0, len(data))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _settle(self) -> int:
        """Let all voters act at this moment until none has more to send; the next deadline."""
        for _ in range(_MOST_ROUNDS):
            polls = [(n, self.rafts[n].poll(self.now)) for n in sorted(self.rafts)]
            for n, poll in polls:
                for outbound in poll.requests:
                    self._due.append(partial(self._deliver, n, outbound))
            if not self._due:
                return max(self.now + 1, min((poll.deadline for _, poll in polls), default=FOREVER))
            while self._due:
                self._due.popleft()()
        raise AssertionError(f"at {self.now} ms they ask each other the same things for ever")

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        end = self.now + duration_ms
        while self.now < end:
            self.now = min(self._settle(), end)
        self._settle()

    def run_until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> None:
        """Let time pass until something holds."""
        end = self.now + limit_ms
        while True:
            deadline = self._settle()
            if condition():
                return
            assert self.now < end, f"after {limit_ms} ms it does not hold"
            self.now = min(deadline, end)

    def elect(self) -> int:
        """Wait for a leader that all voters follow, and until they all know that what it proposed is committed."""
        self.run_until(self._agrees)
        return self.leader

    def _agrees(self) -> bool:
        if len(self.leaders) != 1:
            return False
        known = {self.rafts[n].leader_and_epoch for n in self.rafts}
        marks = {self.rafts[n].high_watermark for n in self.rafts}
        written = self.end(self.leader).offset
        proposed = self.rafts[self.leader].next_append_offset
        return len(known) == 1 and marks == {written} and proposed == written

    def snapshot(self, node_id: int) -> OffsetAndEpoch:
        """A replica writes a snapshot of what is decided and its listener has heard: one record for each level."""
        replica, heard = self.rafts[node_id].replica, self.heard[node_id]
        last = heard.batches[-1]
        made = OffsetAndEpoch(last.last_offset + 1, last.epoch)
        voters = replica.control_records.voters_in_log(made.offset)
        values = [level(number) for number in heard.levels]
        time_ms = replica.clock.time_ms()
        data = encode_snapshot(voters, values, epoch=made.epoch, timestamp=time_ms, last_timestamp=time_ms)
        assert replica.log.sync_before_snapshot()()
        write_snapshot(replica.log.snapshots.filesystem, replica.log.snapshots.path(made), data)
        replica.snapshot_written(made)
        return made

    def clean(self, node_id: int) -> bool:
        """A replica lets all go but its newest snapshot."""
        return self.rafts[node_id].replica.log.clean(self.now, retention_bytes=0, retention_ms=-1)

    def append(self, *numbers: int) -> int:
        """The leader proposes; returns the offset of the last record."""
        raft = self.rafts[self.leader]
        return raft.append(raft.leader_and_epoch.epoch, [level(n) for n in numbers], self.now)

    # --- the network --------------------------------------------------------------------------------------------------

    def _deliver(self, sender: int, outbound: Outbound) -> None:
        receiver = outbound.destination.port - 9000
        origin = self.rafts.get(sender)
        if receiver not in self.rafts or frozenset((sender, receiver)) in self.cut:
            self._answer(sender, origin, outbound, Failure.DISCONNECTED)
            return
        version = outbound.request.versions[1]
        request = type(outbound.request).decode(outbound.request.to_bytes(version), version)
        self.asked.append((sender, receiver, request))

        def on_response(response: Any) -> None:
            def arrive() -> None:
                is_cut = frozenset((sender, receiver)) in self.cut
                self._answer(sender, origin, outbound, Failure.DISCONNECTED if is_cut else decoded)

            decoded = type(response).decode(flat(response, version), version)
            self._due.append(arrive)

        serve(self.rafts[receiver], request, self.now).then(on_response)

    def _answer(self, sender: int, origin: RaftClient | None, outbound: Outbound, result: Any) -> None:
        if origin is not None and self.rafts.get(sender) is origin:
            outbound.on_response(result, self.now)


def serve(raft: RaftClient, request: Any, now: int) -> Promise[Any]:
    """Let a replica answer."""
    match request:
        case VoteRequest():
            return Promise.of(raft.service.vote(request, now))
        case BeginQuorumEpochRequest():
            return Promise.of(raft.service.begin_quorum_epoch(request, now))
        case EndQuorumEpochRequest():
            return Promise.of(raft.service.end_quorum_epoch(request, now))
        case UpdateRaftVoterRequest():
            return Promise.of(raft.service.update_raft_voter(request, now))
        case AddRaftVoterRequest():
            return raft.service.add_raft_voter(request, now)
        case RemoveRaftVoterRequest():
            return raft.service.remove_raft_voter(request, now)
        case ApiVersionsRequest():
            return Promise.of(versions())
        case FetchSnapshotRequest():
            return Promise.of(raft.service.fetch_snapshot(request, now))
        case FetchRequest():
            return raft.service.fetch(request, now)
    raise AssertionError(request)


def versions(low: int = STATIC_VOTERS, high: int = VOTERS_IN_LOG) -> ApiVersionsResponse:
    """What a node answers that supports these levels of kraft.version."""
    feature = ApiVersionsResponse.SupportedFeature(name="kraft.version", min_version=low, max_version=high)
    return ApiVersionsResponse(api_keys=[], supported_features=[feature])


def flat(message: Any, version: int) -> bytes:
    """The bytes of a message, pieces of files among them read."""
    parts = message.encode(version)
    return b"".join(part.read(0, len(part)) if hasattr(part, "send_to") else bytes(part) for part in parts)
