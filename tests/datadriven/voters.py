"""Bare voters: replicas of the metadata log with nothing around them, for the rules of Raft.

::

    voters 1 2 3 [fetch-bytes=1]   voters with empty logs start; `fetch-bytes=1` lets a fetch bring one batch at a time
    static-voters 1 2 3            voters of a quorum at kraft.version 0 start
    append 1: 7 8                  voter 1, which leads, writes two records with these values, in one batch
    upgrade 1                      voter 1, which leads, is asked to raise kraft.version to 1
    state                          per voter: role, log, high watermark, and the values that its listener was handed; of
                                   static voters also the level, and those whose directory ids are known

The voters are real `RaftClient`s on disks in memory, with Kafka's timeouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from pykraft.common.core import Poll, Promise
from pykraft.common.errors import KafkaError
from pykraft.common.types import ZERO_UUID
from pykraft.raft.client import RaftClient
from pykraft.raft.log.voters import STATIC_VOTERS, VOTERS_IN_LOG
from pykraft.raft.quorum_state import Follower
from pykraft.sim.world.disk import MemoryFileSystem
from tests.datadriven.vocabulary import World, command, numbers
from tests.datadriven.wording import listed, runs
from tests.harness.quorum import Heard, fresh_disk, level, replica, serve

_FIRST_PORT = 9000


class Voter:
    """One voter on the stage."""

    def __init__(self, raft: RaftClient) -> None:
        self.raft = raft
        self.heard = Heard()
        raft.register(self.heard)

    def poll(self, now: int) -> Poll:
        return self.raft.poll(now)

    def handle(self, request: Any, port: int, now: int) -> Promise[Any]:
        return serve(self.raft, request, now)


class Voters(World):
    """A quorum of bare voters."""

    def __init__(self) -> None:
        super().__init__()
        self.disks: dict[int, MemoryFileSystem] = {}
        self.voters: dict[int, Voter] = {}
        self.settings: dict[str, Any] = {"controller_quorum_append_linger_ms": 0}

    def locate(self, host: str, port: int) -> int:
        return port - _FIRST_PORT

    def raft(self, node_id: int) -> RaftClient:
        return self.voters[node_id].raft

    @command(r"voters ([\d ]+?)(?: fetch-bytes=(\d+))?")
    def begin(self, ids: str, fetch_bytes: str | None) -> None:
        if fetch_bytes is not None:
            self.settings["internal_metadata_max_fetch_size_in_bytes"] = int(fetch_bytes)
        self._begin(numbers(ids))

    @command(r"static-voters ([\d ]+)")
    def begin_static(self, ids: str) -> None:
        self.settings["kraft_version"] = STATIC_VOTERS
        self._begin(numbers(ids))

    def _begin(self, ids: list[int]) -> None:
        self.disks = {node_id: fresh_disk() for node_id in ids}
        self.stage.is_quiet = True
        for node_id in self.disks:
            self.start_node(node_id)
        self.stage.settle()
        self.stage.is_quiet = False

    def start_node(self, node_id: int) -> None:
        raft = replica(node_id, sorted(self.disks), filesystem=self.disks[node_id], journal=self, **self.settings)
        self.voters[node_id] = Voter(raft)
        self.stage.add(node_id, self.voters[node_id])
        raft.start(self.stage.clock(node_id))

    def crash_node(self, node_id: int, dice: Random | None) -> None:
        del self.voters[node_id]
        if dice is None:
            self.disks[node_id].crash_process()
        else:
            self.disks[node_id].crash_power(dice)

    @command(r"append (\d+): ([\d ]+)")
    def append(self, node: str, values: str) -> None:
        raft = self.raft(int(node))
        epoch, before = raft.leader_and_epoch.epoch, raft.next_append_offset
        last = raft.append(epoch, [level(value) for value in numbers(values)], self.stage.clock(int(node)))
        written = f"{before}@{epoch}" if last == before else f"{before}-{last}@{epoch}"
        self.stage.say(f"{node}  writes {written}")

    @command(r"upgrade (\d+)")
    def upgrade(self, node: str) -> None:
        raft = self.raft(int(node))
        try:
            raft.upgrade_kraft_version(raft.leader_and_epoch.epoch, VOTERS_IN_LOG, False)
        except KafkaError as error:
            self.stage.say(f"{node}  refuses it with {error.code.name}: {error.detail}")

    def described(self) -> Iterator[str]:
        for node_id in sorted(self.disks):
            if node_id not in self.voters:
                yield f"{node_id}  is down"
                continue
            voter = self.voters[node_id]
            quorum, log = voter.raft.replica.quorum, voter.raft.replica.log
            role = quorum.role
            follows = f", leader {role.leader_id}" if isinstance(role, Follower) else ""
            voted = f", voted for {role.voted.id}" if role.voted is not None else ""
            log_text = runs(log.batches_between(0, log.end_offset))
            yield f"{node_id}  {role.name.value} in epoch {role.epoch}{follows}{voted}"
            applied = listed(voter.heard.levels)
            yield f"   log {log_text}, high watermark {log.high_watermark}, applied values {applied}"
            if self.settings.get("kraft_version") == STATIC_VOTERS:
                keys = voter.raft.replica.control_records.voters.keys
                known = listed(key.id for key in keys if key.directory_id != ZERO_UUID)
                yield f"   kraft.version {voter.raft.kraft_version}, voters with directory ids {known}"
