"""The laws of a group that is deleted and made again under its name, in any of its forms.

Its *state* are its committed offsets. Each record of it in the log makes the next state, so the log is a list of
states. The deletion of the group ends one life of it, and the next commit begins another.

* *Of readers*: what a reader hears is one state of the log, with all its offsets. It is not older than what any
  client heard before the reader asked: a commit that was acknowledged, or a deletion. So what was committed before a
  deletion is never read after it, and what was committed after it is not lost with it.
* *Of deletions*: one that is acknowledged has left no offset at some time since it was asked for.
* *Of members*: an offset that a member sent is in the log while it is a member. Another life of the group begins its
  generations and epochs again, so they alone do not tell a late commit from one that is in time.

No commit without a member is refused, however late it comes: then it begins the group's next life. Kafka has no
guard against that either. So such a commit may come at any time.

Follows what Kafka's DeleteGroupsRequest, OffsetCommitRequest and OffsetFetchRequest promise.
"""

from collections.abc import Iterable, Mapping

from pykraft.common.types import TopicPartition
from pykraft.coordinator.group.consumer_groups.consumer_group_records import MEMBER_METADATA
from pykraft.coordinator.group.shard import GroupShard
from pykraft.protocol.messages.coordinators import (
    CoordinatorRecord,
    GroupMemberKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pykraft.sim.laws.group_laws import LoggedGroupLaws
from pykraft.sim.laws.invariants import require

State = Mapping[TopicPartition, int]
"""The group's offsets. Each request of this simulation commits another number, so an offset says who committed it."""
NO_MEMBER = ""


class RecreatedGroupLaws(LoggedGroupLaws):
    """Holds all lives of one group against its laws."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.deletions = 0
        """Those that were acknowledged."""
        self._states: list[State] = [{}]
        self._written: dict[tuple[TopicPartition, int], int] = {}
        """Which state an offset was first in."""
        self._told = 0
        """No reader may be told an older state than this."""
        self._senders: dict[int, str] = {}
        """By offset, the member that sent it."""
        self._classic: frozenset[str] = frozenset()
        self._modern: set[str] = set()
        """The members by the log, those of a classic group and those of a consumer group."""

    # --- the log ------------------------------------------------------------------------------------------------------

    def on_record(self, decoded: CoordinatorRecord) -> None:
        key, value = decoded.key, decoded.value
        if isinstance(key, OffsetCommitKey):
            self._on_offset(TopicPartition(key.topic, key.partition), value)
        elif isinstance(key, GroupMetadataKey):
            members = value.members if isinstance(value, GroupMetadataValue) else ()
            self._classic = frozenset(member.member_id for member in members)
        elif isinstance(key, GroupMemberKey) and decoded.record_type == MEMBER_METADATA:
            (self._modern.discard if value is None else self._modern.add)(key.member_id)

    def _on_offset(self, place: TopicPartition, value: object) -> None:
        state = {**self._states[-1]}
        state.pop(place, None)
        if isinstance(value, OffsetCommitValue):
            sender = self._senders.get(value.offset)
            require(
                sender is not None, f"{place}: {value.offset} is committed in {self.group_id}, and no member sent it"
            )
            require(
                sender == NO_MEMBER or sender in self._classic or sender in self._modern,
                f"{place}: {value.offset} is committed in {self.group_id} by {sender}, who is no member of it now",
            )
            state[place] = value.offset
            self._written.setdefault((place, value.offset), len(self._states))
        self._states.append(state)

    # --- what clients send and hear -----------------------------------------------------------------------------------

    def send_commit(self, offset: int, member_id: str) -> None:
        """A client is about to commit this offset, now or later."""
        self._senders[offset] = member_id

    def hear_commit(self, offset: int, places: Iterable[TopicPartition]) -> None:
        """The coordinator has acknowledged it for these partitions."""
        for place in places:
            state = self._written.get((place, offset))
            require(state is not None, f"{place}: {offset} of {self.group_id} was acknowledged, and is not committed")
            self._told = max(self._told, state or 0)

    def ask_deletion(self) -> int:
        """A client asks to delete the group; what `hear_deletion` will want."""
        return len(self._states) - 1

    def hear_deletion(self, asked: int) -> None:
        """The coordinator says that the group is deleted."""
        empty = [number for number in range(asked, len(self._states)) if not self._states[number]]
        require(bool(empty), f"{self.group_id} was deleted, and has had {dict(self._states[-1])} all the time")
        self.deletions += 1
        self._told = max(self._told, empty[0])

    def ask_offsets(self) -> int:
        """A reader asks now; what `hear_offsets` will want."""
        return self._told

    def hear_offsets(self, told: int, offsets: State) -> None:
        """These are all offsets of the group, says the coordinator."""
        require(
            any(state == offsets for state in self._states[told:]),
            f"a reader of {self.group_id} hears {dict(offsets)}; since what others knew when it asked, committed was "
            f"{[dict(state) for state in self._states[told:]]}",
        )

    # --- what coordinators know ---------------------------------------------------------------------------------------

    def check_readers(self, where: str, committed: GroupShard) -> None:
        offsets = self._offsets(committed)
        require(
            any(state == offsets for state in reversed(self._states)),
            f"readers of {where} hear {offsets} of {self.group_id}, which was never committed",
        )

    def check_shard(self, live: GroupShard, fresh: GroupShard) -> None:
        for which, shard in (("has", live), ("would load", fresh)):
            offsets = self._offsets(shard)
            is_elsewhere = not offsets and self.group_id not in shard.groups
            require(
                is_elsewhere or offsets == self._states[-1],
                f"the coordinator of {self.group_id} {which} {offsets}; committed is {dict(self._states[-1])}",
            )

    def _offsets(self, shard: GroupShard) -> dict[TopicPartition, int]:
        return {place: committed.offset for place, committed in shard.offsets.of(self.group_id).items()}
