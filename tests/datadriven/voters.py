"""Bare voters: replicas of the metadata log with nothing around them, for the rules of Raft.

::

    voters 1 2 3 [fetch-bytes=1]   voters with empty logs start; `fetch-bytes=1` lets a fetch bring one batch at a time
    append 1: 7 8                  voter 1, which leads, writes two records with these values, in one batch
    state                          per voter: role, log, high watermark, and the values that its listener was handed

The voters are real `RaftClient`s on disks in memory, with Kafka's timeouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from pykraft.common.core import Poll, Promise
from pykraft.raft.client import RaftClient
from pykraft.raft.quorum_state import Follower
from pykraft.sim.disk import MemoryFileSystem
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
        self.disks = {node_id: fresh_disk() for node_id in numbers(ids)}
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
