"""When each broker was heard from last: soft state of the active controller.

Heartbeats come several times a second and mean nothing to other nodes, so they are not written to the log. A new
controller therefore knows nothing of them: it gives every broker that is not fenced a full session time from its own
election on.

What follows from silence, or from what a broker asks in its heartbeat, is a row of this table::

    broker is            broker wants       and                                     it becomes
    -------------------  -----------------  --------------------------------------  -------------------
    FENCED               nothing            it has applied its own registration     UNFENCED
    FENCED               to shut down                                               SHUTDOWN_NOW
    UNFENCED             to be fenced                                               FENCED
    UNFENCED             to shut down       it leads nothing                        SHUTDOWN_NOW
    UNFENCED             to shut down       it leads partitions                     CONTROLLED_SHUTDOWN
    UNFENCED             both                                                       SHUTDOWN_NOW
    CONTROLLED_SHUTDOWN                     it leads nothing, and every other       SHUTDOWN_NOW
                                            broker knows that
    UNFENCED             (is silent)        its session is over                     FENCED

Follows org.apache.kafka.controller.BrokerHeartbeatManager.
"""

from dataclasses import dataclass
from enum import Enum

from pykraft.common.core import FOREVER
from pykraft.metadata.image import BrokerRegistration
from pykraft.protocol.messages.brokers import BrokerHeartbeatRequest


class BrokerState(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown"


@dataclass(slots=True)
class BrokerContact:
    """What was heard of one broker."""

    last_contact: int
    metadata_offset: int = -1
    shutdown_offset: int = -1
    """The offset that every other broker must have applied before this one may stop."""


def state_of(broker: BrokerRegistration) -> BrokerState:
    """The state that the log knows of."""
    if broker.in_controlled_shutdown:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.FENCED if broker.fenced else BrokerState.UNFENCED


class BrokerHeartbeats:
    """The contacts of all registered brokers."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.contacts: dict[int, BrokerContact] = {}

    def begin(self, unfenced: list[int], now: int) -> None:
        """This node became the controller: a broker that is not fenced has a full session time from now on. A fenced
        broker has no session with it, so another process may take its id at once. (With the controller that has heard
        of it, it has: also a broker that may stop is waited for until its session is over.)"""
        self.contacts = {broker_id: BrokerContact(now) for broker_id in unfenced}

    def touch(self, broker_id: int, now: int, metadata_offset: int) -> None:
        """The broker was heard from."""
        contact = self.contacts.setdefault(broker_id, BrokerContact(now))
        contact.last_contact = now
        contact.metadata_offset = metadata_offset

    def register(self, broker_id: int, now: int) -> None:
        """Another process has this id now."""
        self.contacts[broker_id] = BrokerContact(now)

    def forget(self, broker_id: int) -> None:
        """No broker of this id is registered any more."""
        self.contacts.pop(broker_id, None)

    def has_valid_session(self, broker_id: int, now: int) -> bool:
        contact = self.contacts.get(broker_id)
        return contact is not None and now < contact.last_contact + self.session_timeout_ms

    def begin_shutdown(self, broker_id: int, offset: int) -> None:
        """The records that move the broker's leaderships away end at `offset`."""
        contact = self.contacts.get(broker_id)
        if contact is not None and contact.shutdown_offset < 0:
            contact.shutdown_offset = offset

    def next_expiry(self, unfenced: list[int]) -> int:
        """When the first session of these brokers ends."""
        known = [self.contacts[broker_id] for broker_id in unfenced if broker_id in self.contacts]
        return min((contact.last_contact + self.session_timeout_ms for contact in known), default=FOREVER)

    def stale(self, unfenced: list[int], now: int) -> list[int]:
        """The brokers among these whose session is over."""
        return [broker_id for broker_id in unfenced if not self.has_valid_session(broker_id, now)]

    def next_state(
        self,
        broker: BrokerRegistration,
        request: BrokerHeartbeatRequest,
        leads_partitions: bool,
        active: list[int],
    ) -> BrokerState:
        """The row of the table that applies to this heartbeat."""
        match state_of(broker):
            case BrokerState.FENCED:
                if request.want_shut_down:
                    return BrokerState.SHUTDOWN_NOW
                caught_up = request.current_metadata_offset >= broker.epoch
                return BrokerState.UNFENCED if caught_up and not request.want_fence else BrokerState.FENCED
            case BrokerState.UNFENCED:
                if request.want_shut_down:
                    hands_over = leads_partitions and not request.want_fence
                    return BrokerState.CONTROLLED_SHUTDOWN if hands_over else BrokerState.SHUTDOWN_NOW
                return BrokerState.FENCED if request.want_fence else BrokerState.UNFENCED
            case _:
                if leads_partitions or not self._all_know(broker.broker_id, active):
                    return BrokerState.CONTROLLED_SHUTDOWN
                return BrokerState.SHUTDOWN_NOW

    def _all_know(self, broker_id: int, active: list[int]) -> bool:
        """Whether every active broker has applied the records that moved this one's leaderships."""
        leaving = self.contacts.get(broker_id)
        offset = leaving.shutdown_offset if leaving is not None else -1
        others = [self.contacts[other] for other in active if other in self.contacts and other != broker_id]
        return all(contact.metadata_offset >= offset for contact in others)
