"""What a consumer in a consumer group (KIP-848) does with an assignment: it reconciles its partitions with it.

The coordinator never assigns a partition before its last owner has given it up. So a member carries out an assignment
in one go, on the user's thread::

    commit --> on_partitions_revoked --> take over --> on_partitions_assigned --> acknowledge

The next heartbeat acknowledges by the partitions that the member owns. An assignment that comes meanwhile waits until
then. Assignments name topics by id, and the client's metadata say which names these are; partitions of a topic that the
metadata do not have yet come later, in a reconciliation of their own.

A member that was fenced, or that left because its user did not poll, cannot commit any more: its partitions are *lost*.
When the user knows, it joins again.

Follows org.apache.kafka.clients.consumer.internals.AbstractMembershipManager. One difference: Kafka's background thread
reconciles without the user as long as there is no listener to call; here it always waits for the user's `poll()`.
"""

from random import Random

from pykraft.client.api_driver import ApiDriver
from pykraft.client.consuming.group_part import ASSIGNED, LOST, REVOKED, GroupPart, ListenerCall, Script
from pykraft.client.consuming.heartbeats import ConsumerMembership, LocalAssignment, MembershipState
from pykraft.client.consuming.subscription import Mode, SubscriptionState
from pykraft.common.core import Poll
from pykraft.common.settings.config import Config
from pykraft.common.types import TopicPartition, Uuid


class Reconciliation(GroupPart):
    """A consumer's part in its consumer group. It is a RequestManager."""

    membership: ConsumerMembership

    def __init__(self, config: Config, subscription: SubscriptionState, driver: ApiDriver, random: Random) -> None:
        super().__init__(config, subscription, driver, ConsumerMembership(config, subscription, driver, random))
        self._names: dict[Uuid, str] = {}
        """The topics of the assignment: the metadata may lose one that was deleted."""

    def poll(self, now: int) -> Poll:
        poll = super().poll(now)
        if self.membership.state is MembershipState.RECONCILING and not self._is_resolved:
            self._metadata.request_update()
        return poll

    # --- on the user's thread -----------------------------------------------------------------------------------------

    @property
    def _has_work(self) -> bool:
        if not self._subscription.mode.is_automatic:
            return False
        match self.membership.state:
            case MembershipState.UNSUBSCRIBED:
                # Until the topics are known, it is not known which of them match.
                return self._subscription.mode is not Mode.PATTERN or self._metadata.knows_all_topics
            case MembershipState.FENCED | MembershipState.STALE:
                return True
            case MembershipState.FATAL:
                return bool(self._subscription.partitions)
            case MembershipState.RECONCILING:
                return self._resolved() != self.membership.current
        return False

    def _next_script(self) -> Script | None:
        if not self._has_work:
            return None
        match self.membership.state:
            case MembershipState.UNSUBSCRIBED:
                self.membership.join()
                return None
            case MembershipState.RECONCILING:
                return self._reconcile()
        return self._lose()

    def _reconcile(self) -> Script:
        now = yield None
        subscription, membership = self._subscription, self.membership
        resolved = self._resolved()
        if membership.current.epoch >= 0 and resolved.partitions == membership.current.partitions:
            membership.acknowledge(resolved)  # nothing has changed but the count
            return
        assigned = {
            TopicPartition(self._names[topic_id], number)
            for topic_id, numbers in resolved.partitions.items()
            for number in numbers
        }
        owned = set(subscription.partitions)
        revoked = tuple(sorted(owned - assigned))
        added = tuple(sorted(assigned - owned))
        yield from self._commit_before_revocation(revoked, now)
        if membership.state is not MembershipState.RECONCILING:
            return  # the member was removed meanwhile: what it owned is lost
        if revoked:
            yield ListenerCall(REVOKED, revoked)
            subscription.assign_from_subscription(owned & assigned)
        if membership.state is not MembershipState.RECONCILING:
            return
        self._commit_at = None
        subscription.assign_from_subscription(assigned)
        yield ListenerCall(ASSIGNED, added)
        if membership.state is MembershipState.RECONCILING:
            membership.acknowledge(resolved)

    def _resolved(self) -> LocalAssignment:
        """The part of the assignment whose topics have names."""
        target = self.membership.target
        by_id = {topic.topic_id: name for name, topic in self._metadata.topics.items()}
        self._names = {
            topic_id: name
            for topic_id in target.partitions
            if (name := by_id.get(topic_id) or self._names.get(topic_id)) is not None
        }
        return LocalAssignment(target.epoch, {key: target.partitions[key] for key in self._names})

    @property
    def _is_resolved(self) -> bool:
        return self._resolved().partitions.keys() == self.membership.target.partitions.keys()

    def _lose(self) -> Script:
        """The membership has ended: its partitions are lost. Join again, unless the error was fatal."""
        yield None
        owned = tuple(self._subscription.partitions)
        if owned:
            yield ListenerCall(LOST, owned)
        self._subscription.assign_from_subscription(())
        if self.membership.state in (MembershipState.FENCED, MembershipState.STALE):
            self.membership.join()
