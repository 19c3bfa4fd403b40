"""A consumer's part in its group: what both group protocols share.

A rebalance takes partitions away and brings others. Records of a partition may still be on their way through the user's
code when it is taken, so both happen only inside the user's `poll()`, on the user's thread. What must happen there is a
script (a generator): it yields each call of the user's listener, or None while it waits, and is resumed by the next
`poll()`. Each protocol has its scripts: `ConsumerCoordinator` those of classic groups, `Reconciliation` those of
consumer groups (KIP-848). Automatic commits are the same for both.

The split is ours. Follows org.apache.kafka.clients.consumer.internals.{ConsumerCoordinator,AsyncKafkaConsumer}.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator
from typing import Any, NamedTuple

from pykraft.client import config as keys
from pykraft.client.api_driver import ApiDriver
from pykraft.client.consuming.commits import Commits, ConsumerGroupMetadata, Offsets
from pykraft.client.consuming.membership import Membership
from pykraft.client.consuming.subscription import SubscriptionState
from pykraft.common.core import Poll, Promise, merge
from pykraft.common.errors import KafkaError
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition

REVOKED = "on_partitions_revoked"
ASSIGNED = "on_partitions_assigned"
LOST = "on_partitions_lost"


class ListenerCall(NamedTuple):
    """A method of the user's rebalance listener, and the partitions that it is called with."""

    method: str
    partitions: tuple[TopicPartition, ...]


Script = Generator[ListenerCall | None, int, None]


class GroupPart(ABC):
    """One consumer in one group. It is a RequestManager."""

    membership: Membership

    def __init__(
        self, config: Config, subscription: SubscriptionState, driver: ApiDriver, membership: Membership
    ) -> None:
        self.membership = membership
        self.commits = Commits(config, subscription, driver, membership)
        self._subscription = subscription
        self._metadata = driver.metadata
        self._rebalance_timeout_ms: int = config[keys.MAX_POLL_INTERVAL_MS]
        self._retry_backoff_ms: int = config[keys.RETRY_BACKOFF_MS]
        self._commits_automatically: bool = config[keys.ENABLE_AUTO_COMMIT]
        self._commit_interval_ms: int = config[keys.AUTO_COMMIT_INTERVAL_MS]
        self._commit_at: int | None = None
        self._script: Script | None = None
        self._awaited: Promise[KafkaError | None] | None = None
        """The commit that the script waits for."""
        self.held_as = ConsumerGroupMetadata(membership.group_id, group_instance_id=membership.instance_id)
        """As which member this consumer holds what its user has polled. The membership may be lost or renewed at any
        time; what belongs to the old one must be fenced, so this changes only when the user polls again."""

    def poll(self, now: int) -> Poll:
        parts = [self.commits.poll(now)]
        if self._subscription.mode.is_automatic:
            parts.append(self.membership.poll(now))
        return merge(parts)

    # --- what each protocol does --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _has_work(self) -> bool:
        """`_next_script` has something to do."""

    @abstractmethod
    def _next_script(self) -> Script | None:
        """The script that is due, if one is. It first yields for the time."""

    # --- on the user's thread -----------------------------------------------------------------------------------------

    def advance(self, now: int) -> ListenerCall | None:
        """The user has called `poll()`. Returns a call of the user's listener; after it, `advance` is called again.
        None if there is none, for now."""
        self.membership.user_polled(now)
        self._maybe_commit(now)
        while self._script is not None or self._begin_script():
            assert self._script is not None
            try:
                return self._script.send(now)
            except StopIteration:
                self._script = None
        generation = self.membership.generation
        self.held_as = ConsumerGroupMetadata(
            self.membership.group_id, generation.id, generation.member_id, self.membership.instance_id
        )
        return None

    def _begin_script(self) -> bool:
        self._script = self._next_script()
        if self._script is None:
            return False
        next(self._script)  # to its first yield, which waits for the time
        return True

    @property
    def has_news(self) -> bool:
        """There is an error to raise, a callback to make, or something to do for `advance`."""
        if self.membership.has_error or self.commits.has_error or self.commits.has_completed:
            return True
        if self._script is not None:
            return self._awaited is None or self._awaited.kept
        return self._has_work

    def raise_error(self) -> None:
        """Raise what the user must know, each error once."""
        self.membership.raise_error()
        self.commits.raise_error()

    def depart(self) -> ListenerCall | None:
        """The consumer is about to leave its group, or has left it: the call of its listener that comes first."""
        self._script = None
        owned = tuple(self._subscription.partitions)
        is_lost = self.membership.may_have_lost
        self.membership.prepare_leave()
        if not owned or not self._subscription.mode.is_automatic:
            return None
        return ListenerCall(LOST if is_lost else REVOKED, owned)

    def leave(self, reason: str, deadline: int) -> "Promise[Any]":
        """Leave the group, if this consumer is a member; kept when the coordinator has answered."""
        return self.membership.leave(reason, deadline)

    # --- commits ------------------------------------------------------------------------------------------------------

    def _commit_before_revocation(self, given_up: Collection[TopicPartition], now: int) -> Script:
        """Commit and wait for that, at most as long as a rebalance may take; what is given up is not read meanwhile."""
        if not self._commits_automatically or not self._subscription.partitions:
            return
        for key in given_up:
            self._subscription.partitions[key].is_pending_revocation = True
        deadline = now + self._rebalance_timeout_ms
        self._awaited = self.commits.commit(self.commits.consumed(), deadline)
        while not self._awaited.kept and now < deadline:
            now = yield None
        self._awaited = None

    def _maybe_commit(self, now: int) -> None:
        """Commit what earlier polls returned: now that the user polls again, it has been dealt with."""
        if not self._commits_automatically:
            return
        if self._commit_at is None:
            self._commit_at = now + self._commit_interval_ms
        if now >= self._commit_at:
            self._commit_at = now + self._commit_interval_ms

            def on_commit(offsets: Offsets, error: KafkaError | None) -> None:
                if error is not None and error.retriable and self._commit_at is not None:
                    self._commit_at = min(self._commit_at, now + self._retry_backoff_ms)

            self.commits.commit_async(self.commits.consumed(), on_commit, now)

    def commit_at_end(self, deadline: int) -> "Promise[KafkaError | None]":
        """What is left to commit when the consumer closes or leaves."""
        return self.commits.commit(self.commits.consumed() if self._commits_automatically else {}, deadline)
