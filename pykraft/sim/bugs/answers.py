"""Bugs that lose nothing by themselves: a wrong answer to a question, a fence that is missing, a replay that forgets.

A history may go by them a hundred times, for no client of it asks, or comes late. They are found when it has ended:
then the nodes are asked, the fences are tried, and the metadata log is read a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pykraft.broker.replication.partition import Partition
from pykraft.broker.requests.data import offsets
from pykraft.common.core import Steps
from pykraft.coordinator.group.consumer_groups.consumer_group import ConsumerGroup
from pykraft.coordinator.transaction import ending
from pykraft.coordinator.transaction.ending import Decision
from pykraft.coordinator.transaction.state import TransactionState
from pykraft.metadata import delta
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import TOPIC_RESOURCE, ConfigResource
from pykraft.protocol.messages.data import ListOffsetsRequest
from pykraft.protocol.messages.records import RemoveTopicRecord
from pykraft.sim.bugs.planting import bug, put
from pykraft.storage.answers import TimestampedOffset
from pykraft.storage.leader_epoch_cache import EpochEntry, LeaderEpochCache
from pykraft.storage.producer_state import ProducerEntry
from pykraft.storage.time_lookup import offset_for_timestamp


@bug
def a_timestamp_that_is_looked_for_behind_itself() -> None:
    """A lookup by a timestamp finds the first record that is younger, not the first that is as young."""

    def find_later(log: Any, timestamp: int) -> Steps[TimestampedOffset | None]:
        return offset_for_timestamp(log, timestamp + 1)

    put(offsets, "offset_for_timestamp", find_later)


@bug
def an_end_that_open_transactions_do_not_hold_back() -> None:
    """ListOffsets tells a reader of committed data the high watermark, though a transaction is open before it."""
    end = offsets._end

    def end_for_all(partition: Partition, request: ListOffsetsRequest) -> tuple[int, bool]:
        found, is_behind = end(partition, request)
        return max(found, partition.log.high_watermark), is_behind

    put(offsets, "_end", end_for_all)


@bug
def offsets_that_are_deleted_while_members_read_on() -> None:
    """A consumer group's offsets in any topic may be deleted, read by its members or not."""
    put(ConsumerGroup, "is_subscribed_to", lambda self, topic: False)


@bug
def a_commit_acknowledged_after_an_abort() -> None:
    """A coordinator answers a repeated commit as done, though the transaction was aborted."""
    found = ending.WITH_EPOCH_BUMP[TransactionState.COMPLETE_ABORT]
    wrong = {**ending.WITH_EPOCH_BUMP, TransactionState.COMPLETE_ABORT: (Decision.IS_DECIDED, *found[1:])}
    put(ending, "WITH_EPOCH_BUMP", wrong)


@bug
def a_marker_of_the_coordinator_before() -> None:
    """A partition takes markers of a transaction coordinator that was replaced."""
    after_marker = ProducerEntry.after_marker

    def after_any(self: ProducerEntry, *about: Any) -> Any:
        return after_marker(replace(self, coordinator_epoch=-1), *about)

    put(ProducerEntry, "after_marker", after_any)


@bug
def settings_that_outlive_their_topic() -> None:
    """A topic is deleted, and its settings wait for the next topic of its name."""
    remove = MetadataDelta._remove_topic

    def remove_but_settings(self: MetadataDelta, record: RemoveTopicRecord) -> None:
        name = self._changed.get("topics", self.image.topics)[record.topic_id].name
        resource = ConfigResource(TOPIC_RESOURCE, name)
        kept = self._mapping("configs").get(resource)
        remove(self, record)
        if kept is not None:
            self._mapping("configs")[resource] = kept

    put(delta, "_REPLAY", {**delta._REPLAY, RemoveTopicRecord: remove_but_settings})


@bug
def an_epoch_that_outlives_its_records() -> None:
    """A log that is truncated to where an epoch begins goes on to name that epoch as its last one."""

    def of_records_and_one_more(self: LeaderEpochCache, log_end_offset: int) -> Sequence[EpochEntry]:
        return [entry for entry in self.entries if entry.start_offset <= log_end_offset]

    put(LeaderEpochCache, "_of_records", of_records_and_one_more)
