"""What a partition's leader knows of one follower.

A follower's fetch at offset n says that it has everything before n. It is *caught up* while it has everything that the
leader had when it fetched last: a busy leader's log always has grown a little since, and no follower should fall out of
the ISR for that.

A follower that has everything, and knows all that there is to know, is *quiet*: the fetches of its session do not look
at this partition until something changes (`broker.requests.data.fetch_sessions`). Each of them still counts as a fetch
of the partition. So the time that a follower may lag begins with its session's last fetch, not with the last one that
looked here.

Follows kafka.cluster.Replica.
"""

from typing import Protocol

from pykraft.common.errors import ErrorCode, KafkaError

UNKNOWN = -1


class QuietPartition(Protocol):
    """A session whose fetches do not look at the partition. Ours."""

    @property
    def last_fetch(self) -> int:
        """When the session's last fetch came."""
        ...

    def wake(self) -> None:
        """Look at it again."""
        ...


class FollowerState:
    """One follower, since this leader leads."""

    __slots__ = (
        "_last_caught_up",
        "broker_epoch",
        "broker_id",
        "end_offset",
        "last_fetch",
        "last_fetch_end_offset",
        "log_start_offset",
        "quiet",
        "told_high_watermark",
    )

    def __init__(self, broker_id: int, last_caught_up: int) -> None:
        self.broker_id = broker_id
        self.end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self._last_caught_up = last_caught_up
        self.last_fetch = last_caught_up  # its first fetch makes it no younger
        self.last_fetch_end_offset = 0
        """Where the leader's log ended at the last fetch."""
        self.told_high_watermark = UNKNOWN
        """The high watermark in the last answer that it was sent."""
        self.broker_epoch = UNKNOWN
        """Which process of that broker fetches: one that came back is not the one that was in sync."""
        self.quiet: QuietPartition | None = None
        """Set while the follower is quiet."""

    @property
    def last_caught_up(self) -> int:
        """When it had everything that the leader had: while it is quiet, at each fetch of its session."""
        return self._last_caught_up if self.quiet is None else max(self._last_caught_up, self.quiet.last_fetch)

    def begin_quiet(self, quiet: QuietPartition) -> None:
        """From now on the fetches of this session do not look at the partition, and those of another one do."""
        self.end_quiet()
        self.quiet = quiet

    def end_quiet(self) -> None:
        """Fetches look at the partition again. Nothing else happens, so this may come in the middle of a change."""
        quiet = self.quiet
        if quiet is not None:
            self._last_caught_up, self.last_fetch = self.last_caught_up, max(self.last_fetch, quiet.last_fetch)
            self.quiet = None
            quiet.wake()

    def record_fetch(
        self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, broker_epoch: int, now: int
    ) -> None:
        """A fetch came: the follower's log begins at `log_start_offset` and ends at `fetch_offset`. KafkaError if it is
        from a process that is gone."""
        if UNKNOWN < broker_epoch < self.broker_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {self.broker_id} fetches with epoch {broker_epoch}, {self.broker_epoch} is known",
            )
        self.end_quiet()
        if fetch_offset >= leader_end_offset:
            self._last_caught_up = max(self._last_caught_up, now)
        elif fetch_offset >= self.last_fetch_end_offset:
            self._last_caught_up = max(self._last_caught_up, self.last_fetch)
        self.last_fetch = now
        self.last_fetch_end_offset = leader_end_offset
        self.end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: int, now: int, max_lag_ms: int) -> bool:
        """Whether it has everything, or had so not long ago."""
        return self.end_offset == leader_end_offset or now - self.last_caught_up <= max_lag_ms
