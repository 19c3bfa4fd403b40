"""One replica of a partition on this broker: as leader it decides what is committed, as follower it only keeps a log.

The **high watermark** is the smallest end offset among the replicas that must have a record before it counts. Those are
the *maximal* ISR: the ISR that the controller knows, and a replica that this leader has asked to take in. As soon as it
has asked, the controller may have agreed, and the new replica might be elected; so it must already be waited for. A
replica that the leader has asked to leave out, on the other hand, is waited for until the controller has agreed.

The **ISR** changes in two directions. A follower joins when its log reaches the high watermark and the beginning of the
leader's epoch; it leaves when it has not been caught up for ``replica.lag.time.max.ms``. Either is asked of the
controller (AlterPartition), one change at a time; what comes back, or comes later in the metadata log, is what holds.

::

    COMMITTED   the ISR is as the controller knows it
    EXPANDING   asked to take one in:   maximal ISR = ISR + that one
    SHRINKING   asked to leave some out: maximal ISR = ISR

The **low watermark** is the smallest log start offset among the replicas whose brokers are alive: the records before it
are gone everywhere. A leader deletes records by moving its log start offset; a follower's fetch says where its own log
begins, the answer where the leader's does, and the follower moves after it (KIP-107).

With fewer replicas in sync than ``min.insync.replicas`` the leader refuses records with acks=all before it appends, and
the high watermark does not advance: nothing new becomes visible that one crash could take away.

Follows kafka.cluster.Partition (KIP-497, KIP-841, KIP-966 part 1).
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from pykraft.broker.replication.follower_state import UNKNOWN, FollowerState
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.settings.topic_config import CLEANUP_POLICY
from pykraft.common.trace import Tracer
from pykraft.common.types import TopicIdPartition
from pykraft.metadata.image import MetadataImage, PartitionRegistration
from pykraft.protocol.messages.logs import HIGH_WATERMARK
from pykraft.records.batch import RecordBatch, batches
from pykraft.storage.answers import AppendInfo
from pykraft.storage.log import UnifiedLog
from pykraft.storage.producer_state import AppendOrigin
from pykraft.storage.verification_state import NO_CHECK, AppendCheck

NO_EPOCH = -1


class IsrChange(Enum):
    COMMITTED = "committed"
    EXPANDING = "expanding"
    SHRINKING = "shrinking"


@dataclass(frozen=True, slots=True)
class IsrState:
    """The ISR that the controller knows, and the change that was asked for."""

    isr: frozenset[int]
    change: IsrChange = IsrChange.COMMITTED
    wanted: frozenset[int] = frozenset()

    @property
    def maximal(self) -> frozenset[int]:
        """All replicas that may be in sync for all the controller knows."""
        return self.isr | self.wanted if self.change is IsrChange.EXPANDING else self.isr

    @property
    def is_in_flight(self) -> bool:
        return self.change is not IsrChange.COMMITTED


class IsrProposal(NamedTuple):
    """A change of the ISR to ask the controller for.

    `isr` holds each member with its broker epoch, which names the process that was in sync when the leader proposed it.
    A proposal never changes. A follower that loses its power and returns has a new epoch, and may lack records that the
    old process had; if the leader sent the new epoch with the old decision, the controller would believe it (KIP-903).
    """

    partition: "Partition"
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


class Partition:
    """A partition that this broker holds a replica of."""

    def __init__(self, broker_id: int, key: TopicIdPartition, log: UnifiedLog, max_lag_ms: int, trace: Tracer) -> None:
        self._broker_id = broker_id
        self.key = key
        self.topic_partition = key.topic_partition
        self.name = str(self.topic_partition)
        """What the journal calls it."""
        self.log = log
        self._max_lag_ms = max_lag_ms
        self._trace = trace
        self.leader_id = -1
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.isr_state = IsrState(frozenset())
        self.is_under_min_isr = True
        """Fewer replicas are in sync than the topic demands. Each append asks, so it is judged once: when the ISR, the
        replicas or the topic's settings change."""
        self.leader_epoch_start = 0
        self.followers: dict[int, FollowerState] = {}
        self._replicas: tuple[int, ...] = ()
        self.adding: frozenset[int] = frozenset()
        """Replicas that a reassignment adds; like the others they fetch, and may join the ISR."""
        self.is_reassigning = False
        self._image: MetadataImage | None = None

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else "follower"
        return f"Partition({self.name}, {role}, epoch {self.leader_epoch})"

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._broker_id

    @property
    def min_insync_replicas(self) -> int:
        """What the topic demands, but no more than it has replicas."""
        return min(self.log.rules.min_insync_replicas, max(1, len(self._replicas)))

    def _judge_isr(self) -> None:
        self.is_under_min_isr = len(self.isr_state.isr) < self.min_insync_replicas

    # --- metadata -----------------------------------------------------------------------------------------------------

    def update(self, registration: PartitionRegistration, image: MetadataImage, now: int) -> bool:
        """Take over what the controller decided; whether leader or leader epoch changed."""
        self._image = image
        self.end_quiet()
        if registration.partition_epoch < self.partition_epoch:
            return False  # an answer of the controller was newer
        self._replicas = registration.replicas
        self._judge_isr()
        self.adding = frozenset(registration.adding_replicas)
        self.is_reassigning = bool(registration.adding_replicas or registration.removing_replicas)
        if registration.partition_epoch == self.partition_epoch:
            return False  # known; but the answer to an ISR change does not say that it ended a reassignment
        is_new = registration.leader_epoch > self.leader_epoch or registration.leader != self.leader_id
        self.partition_epoch = registration.partition_epoch
        self.leader_id = registration.leader
        self.leader_epoch = registration.leader_epoch
        self._set_isr(IsrState(frozenset(registration.isr)))
        if self.is_leader:
            self._lead(is_new, now)
        else:
            self.followers = {}
        if is_new:
            self._trace(
                "leadership",
                partition=self.name,
                leader=self.leader_id,
                epoch=self.leader_epoch,
                end=self.log.log_end_offset,
            )
        return is_new

    def _lead(self, is_new: bool, now: int) -> None:
        others = [replica for replica in self._replicas if replica != self._broker_id]
        if is_new:
            self.leader_epoch_start = self.log.log_end_offset
            self.log.epochs.assign(self.leader_epoch, self.leader_epoch_start)
            # Replicas in sync get the full time to show it; the others begin as lagging.
            self.followers = {
                replica: FollowerState(replica, now if replica in self.isr_state.isr else -(1 << 62))
                for replica in others
            }
        else:
            known = self.followers
            self.followers = {other: known.get(other) or FollowerState(other, -(1 << 62)) for other in others}
        self.advance_high_watermark(now)

    def set_config(self, config: Config) -> None:
        """The topic has these settings from now on."""
        self.log.config = config
        self._judge_isr()

    def set_image(self, image: MetadataImage) -> None:
        """Other brokers came or went."""
        self._image = image
        self.end_quiet()  # a follower's process may be another one

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """KafkaError unless this broker leads, in the epoch that the client believes in."""
        self.check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise self._not_led_here()

    def _not_led_here(self) -> KafkaError:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self.leader_id} leads")

    def check_epoch(self, current_leader_epoch: int) -> None:
        """KafkaError unless the partition is in the leader epoch that the client believes in."""
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")
            if current_leader_epoch > self.leader_epoch:
                raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")

    # --- appending ----------------------------------------------------------------------------------------------------

    def check_may_append(self, needs_all: bool) -> None:
        """KafkaError unless this broker leads, and has enough replicas in sync for what `needs_all` of them."""
        if not self.is_leader:
            raise self._not_led_here()
        if needs_all and self.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr_state.isr)} replicas are in sync, {self.min_insync_replicas} are demanded",
            )

    def append_as_leader(
        self,
        batch: RecordBatch,
        now: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        check: AppendCheck = NO_CHECK,
    ) -> AppendInfo:
        """Append the batch of a coordinator, or of a client, which is valid (`storage.validator`). Ask
        `check_may_append` first, in the same step."""
        info = self.log.append_validated(batch, self.leader_epoch, origin, check)
        self.advance_high_watermark(now)
        return info

    def append_as_follower(self, data: memoryview, leader_high_watermark: int, leader_log_start: int = UNKNOWN) -> int:
        """Append what the leader sent, and take over how much of it is committed; how many batches were appended."""
        self._begin_with(next(batches(data), None), leader_log_start)
        count = self.log.append_as_follower(data, self.leader_epoch)
        if count:
            self._trace_append()
        self.log.update_high_watermark(leader_high_watermark)
        return count

    def _begin_with(self, first: RecordBatch | None, leader_log_start: int) -> None:
        """Where the leader's log begins within a batch, that one comes whole. A log that has nothing begins with it; so
        does one that has only what the leader has deleted, which may be of a leader that no replica followed."""
        log = self.log
        has_nothing = log.is_empty or log.log_end_offset <= leader_log_start
        if first is not None and has_nothing and 0 <= first.base_offset < log.log_end_offset <= first.last_offset:
            log.truncate_fully(first.base_offset)

    def follow_log_start(self, leader_log_start: int) -> bool:
        """Delete what the leader has deleted; whether there was anything."""
        return leader_log_start > self.log.log_start_offset and self.log.increase_log_start(leader_log_start)

    def _trace_append(self) -> None:
        self._trace("append", partition=self.name, end=self.log.log_end_offset)

    # --- deleting records ---------------------------------------------------------------------------------------------

    def delete_records(self, offset: int) -> int:
        """Let the log begin at `offset` (-1: at the high watermark), as its leader; the offset that this meant."""
        self.check_leader()
        if "delete" not in self.log.config[CLEANUP_POLICY]:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{self.name} has no cleanup.policy that deletes records")
        wanted = self.log.high_watermark if offset == HIGH_WATERMARK else offset
        if wanted < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"there is no offset {wanted}")
        self.log.increase_log_start(wanted)
        return wanted

    @property
    def low_watermark(self) -> int:
        """Where the logs of all live replicas begin, or earlier."""
        starts = [each.log_start_offset for each in self.followers.values() if self._is_alive(each.broker_id)]
        return min([self.log.log_start_offset, *starts])

    def _is_alive(self, broker_id: int) -> bool:
        broker = None if self._image is None else self._image.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def replicated_up_to(self, offset: int) -> ErrorCode | None:
        """Whether the records before `offset` are on enough replicas: NONE, an error, or None for not yet."""
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < offset:
            return None
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if self.is_under_min_isr else ErrorCode.NONE

    # --- replication, as the leader -----------------------------------------------------------------------------------

    def record_fetch(
        self, replica: int, fetch_offset: int, broker_epoch: int, now: int, log_start_offset: int = UNKNOWN
    ) -> bool:
        """A follower fetches; whether the high watermark rose."""
        follower = self.followers.get(replica)
        if follower is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica} is no replica of {self.key}")
        registered = None if self._image is None else self._image.brokers.get(replica)
        if registered is not None and UNKNOWN < broker_epoch < registered.epoch:
            # The fetch was under way while its sender was replaced: what that process had may be lost.
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {replica} fetches with epoch {broker_epoch}, {registered.epoch} is registered",
            )
        follower.record_fetch(fetch_offset, log_start_offset, self.log.log_end_offset, broker_epoch, now)
        return self.advance_high_watermark(now)

    def follower_without_news(self, replica: int, offset: int, leader_epoch: int, start: int) -> FollowerState | None:
        """The follower that fetched at `offset`, in this leader epoch, and was last answered that the log begins at
        `start` and is committed up to `offset`; None unless it will hear the same until something happens here.

        It must be in sync, for each fetch of one that is not is a chance to be taken in. And all must be committed: as
        long as something is not, each fetch is a chance to commit it."""
        log, follower = self.log, self.followers.get(replica)
        if follower is None or replica not in self.isr_state.isr or not self._may_join(follower):
            return None
        has_all = follower.end_offset == offset == log.high_watermark == log.log_end_offset
        knows_all = (leader_epoch, start) == (self.leader_epoch, log.log_start_offset)
        return follower if self.is_leader and has_all and knows_all else None

    def end_quiet(self) -> None:
        """Something has changed, or is about to: all fetches of followers look at this partition again."""
        for follower in self.followers.values():
            if follower.quiet is not None:
                follower.end_quiet()

    def advance_high_watermark(self, now: int) -> bool:
        """Move the high watermark to where all that must be waited for have arrived; whether it rose."""
        if self.is_under_min_isr:
            return False
        end_offset = self.log.log_end_offset
        reached = end_offset
        for follower in self.followers.values():
            if follower.end_offset < reached and self._must_wait_for(follower, end_offset, now):
                reached = follower.end_offset
        if reached <= self.log.high_watermark or not self.log.update_high_watermark(reached):
            return False
        self._trace("high_watermark", partition=self.name, offset=reached)
        return True

    def _must_wait_for(self, follower: FollowerState, end_offset: int, now: int) -> bool:
        if follower.broker_id in self.isr_state.maximal:
            return True
        # One that has caught up and is about to be taken in is waited for, so that it does not fall behind again.
        caught_up = follower.end_offset != UNKNOWN and follower.is_caught_up(end_offset, now, self._max_lag_ms)
        return caught_up and self._may_join(follower)

    def _may_join(self, follower: FollowerState) -> bool:
        """Whether the broker may be in an ISR: it is active, and this is the process that the controller knows."""
        broker = None if self._image is None else self._image.brokers.get(follower.broker_id)
        return broker is not None and broker.is_active and follower.broker_epoch in (UNKNOWN, broker.epoch)

    def propose_expansion(self, replica: int) -> IsrProposal | None:
        """Ask for this follower to be taken in, if it has come far enough."""
        follower = self.followers.get(replica)
        if follower is None or self.isr_state.is_in_flight or replica in self.isr_state.isr:
            return None
        has_arrived = follower.end_offset >= max(self.log.high_watermark, self.leader_epoch_start)
        if not has_arrived or not self._may_join(follower):
            return None
        wanted = self.isr_state.isr | {replica}
        return self._propose(replace(self.isr_state, change=IsrChange.EXPANDING, wanted=wanted))

    def propose_shrinking(self, now: int) -> IsrProposal | None:
        """Ask for the followers to be left out that have lagged for too long."""
        if not self.is_leader or self.isr_state.is_in_flight:
            return None
        end_offset = self.log.log_end_offset
        lagging = {
            replica
            for replica, follower in self.followers.items()
            if replica in self.isr_state.isr and not follower.is_caught_up(end_offset, now, self._max_lag_ms)
        }
        if not lagging:
            return None
        wanted = self.isr_state.isr - lagging
        return self._propose(replace(self.isr_state, change=IsrChange.SHRINKING, wanted=wanted))

    def _propose(self, state: IsrState) -> IsrProposal:
        self._set_isr(state)
        epochs = {replica: follower.broker_epoch for replica, follower in self.followers.items()}
        members = tuple((replica, epochs.get(replica, UNKNOWN)) for replica in sorted(state.wanted))
        return IsrProposal(self, self.leader_epoch, self.partition_epoch, members)

    def accept_isr(self, isr: frozenset[int], partition_epoch: int, now: int) -> bool:
        """The controller agreed; whether the high watermark rose."""
        if partition_epoch <= self.partition_epoch:
            return False  # the metadata log was faster
        self.partition_epoch = partition_epoch
        self._set_isr(IsrState(isr))
        return self.advance_high_watermark(now)

    def reject_isr(self) -> None:
        """The controller refused, and has changed nothing."""
        self._set_isr(IsrState(self.isr_state.isr))

    def _set_isr(self, state: IsrState) -> None:
        if state.isr != self.isr_state.isr and self.is_leader:
            self._trace(
                "isr",
                partition=self.name,
                isr=sorted(state.isr),
                epoch=self.leader_epoch,
                end=self.log.log_end_offset,
                high_watermark=self.log.high_watermark,
            )
        self.isr_state = state
        self._judge_isr()
