"""A broker's life, as the controller sees it: it registers, tells that it lives, and asks to be let go.

::

    NOT_RUNNING --> STARTING --> RUNNING --> CONTROLLED_SHUTDOWN --> SHUTTING_DOWN
                    registers,   heartbeats  its leaderships are      it may stop
                    catches up               moved away

While it starts it is fenced: it must have applied the metadata log up to its own registration before clients are sent
to it. A heartbeat that fails is sent again after a while; a broker whose heartbeats do not arrive is fenced by the
controller, goes on, and is unfenced when they arrive again.

Follows kafka.server.BrokerLifecycleManager (KIP-631).
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.common.core import FOREVER, Poll
from pykraft.common.errors import ErrorCode
from pykraft.common.rooms import Room
from pykraft.common.trace import Tracer
from pykraft.common.types import Endpoint, Uuid
from pykraft.metadata.image import FeatureRange
from pykraft.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    SecuredEndpoint,
    SupportedFeature,
)
from pykraft.protocol.security_protocol import SecurityProtocol

REGISTRATION_BACKOFF_MS = 100
NO_EPOCH = -1
FEATURES_NOT_SERVED = (
    "the cluster runs a feature that this node does not have, as Apache Kafka's do by default with share.version and "
    "streams.version: lower it with kafka-features.sh, or format the cluster with --feature share.version=0 --feature "
    "streams.version=0"
)
"""What to do about UNSUPPORTED_VERSION. A controller of Apache Kafka wants every feature named; ours does not."""


class LifecycleState(Enum):
    NOT_RUNNING = "not running"
    STARTING = "starting"
    RUNNING = "running"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTTING_DOWN = "shutting down"


TRANSITIONS: dict[LifecycleState, dict[LifecycleState, str]] = {
    LifecycleState.NOT_RUNNING: {LifecycleState.STARTING: "the node starts"},
    LifecycleState.STARTING: {
        LifecycleState.RUNNING: "the controller has unfenced the broker",
        LifecycleState.CONTROLLED_SHUTDOWN: "the node is to stop",
        LifecycleState.SHUTTING_DOWN: "the node is to stop, and is not registered",
    },
    LifecycleState.RUNNING: {LifecycleState.CONTROLLED_SHUTDOWN: "the node is to stop"},
    LifecycleState.CONTROLLED_SHUTDOWN: {LifecycleState.SHUTTING_DOWN: "the controller lets the broker go"},
    LifecycleState.SHUTTING_DOWN: {},
}


class BrokerLifecycle:
    """The broker's registration and heartbeats."""

    def __init__(
        self,
        *,
        broker_id: int,
        cluster_id: str,
        incarnation_id: Uuid,
        rack: str | None,
        directories: Callable[[], Sequence[Uuid]],
        previous_broker_epoch: int,
        features: Mapping[str, FeatureRange],
        heartbeat_interval_ms: int,
        session_timeout_ms: int,
        channel: ControllerChannel,
        metadata_offset: Callable[[], int],
        lacks_directories: Callable[[], bool],
        trace: Tracer,
        cordoned: Callable[[], Sequence[Uuid] | None],
        on_epoch: Callable[[], None] = lambda: None,
        offline: Callable[[], Sequence[Uuid]] = lambda: (),
    ) -> None:
        """`metadata_offset()` is the last offset of the metadata log that the broker has applied. `lacks_directories()`
        tells whether the cluster knows nothing of this process's directories, and could. `cordoned()` names the
        directories that take no new replicas; None where the cluster does not know the word. `on_epoch()` hears that
        the broker has an epoch. `directories()` names the log directories that are online, `offline()` those that have
        failed."""
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._incarnation_id = incarnation_id
        self._rack = rack
        self._directories = directories
        self._offline = offline
        self._is_urgent = False
        self._previous_broker_epoch = previous_broker_epoch
        self._features = features
        self._interval_ms = heartbeat_interval_ms
        # An answer is waited for half as long as the session lasts (KAFKA-14392). A controller dies without a word; a
        # broker that waited longer for it would be fenced by the next one.
        self._patience_ms = max(1, session_timeout_ms // 2)
        self._channel = channel
        self._metadata_offset = metadata_offset
        self._lacks_directories = lacks_directories
        self._cordoned = cordoned
        self._on_epoch = on_epoch
        self._is_amended = False
        """Whether the controller has the directories, and only the record is still on its way."""
        self._trace = trace
        self.room = Room("lifecycle")
        self._endpoints: Sequence[tuple[str, Endpoint, SecurityProtocol]] = ()
        self.state = LifecycleState.NOT_RUNNING
        self.epoch = NO_EPOCH
        self.is_fenced = True
        self._next = FOREVER
        self._in_flight = False
        self._is_caught_up = False
        self._refusal = ErrorCode.NONE

    def start(self, endpoints: Sequence[tuple[str, Endpoint, SecurityProtocol]], now: int) -> None:
        """Register with these listeners, which must be open already. It is before the first turn, which visits all
        rooms."""
        self._become(LifecycleState.STARTING)
        self._endpoints = endpoints
        self._next = now

    def begin_shutdown(self, now: int) -> None:
        """Ask the controller to move the leaderships away, and stop when it says so."""
        if self.state in (LifecycleState.CONTROLLED_SHUTDOWN, LifecycleState.SHUTTING_DOWN):
            return
        is_registered = self.epoch != NO_EPOCH
        self._become(LifecycleState.CONTROLLED_SHUTDOWN if is_registered else LifecycleState.SHUTTING_DOWN)
        self._next = now
        self.room.mark("shutdown")

    def note_failed_directory(self, now: int) -> None:
        """Report a failed log directory at once: until the controller knows, no broker leads what was there."""
        self._is_urgent = True
        if self.epoch != NO_EPOCH:
            self._next = min(self._next, now)
        self.room.mark("failed directory")

    @property
    def is_running(self) -> bool:
        """Whether clients may be sent here."""
        return self.state is LifecycleState.RUNNING and not self.is_fenced

    def poll(self, now: int) -> Poll:
        is_waiting = self.is_fenced and self.epoch != NO_EPOCH and not self._is_caught_up
        if is_waiting and self._metadata_offset() >= self.epoch:
            self._is_caught_up = True  # do not wait for the next heartbeat's turn to say so
            self._next = now
        if now >= self._next and not self._in_flight and self.state is not LifecycleState.SHUTTING_DOWN:
            self._in_flight = True
            if self.epoch == NO_EPOCH or self._must_amend():
                self._channel.send(self._registration(), self._on_registration, now)
            else:
                self._channel.send(self._heartbeat(), self._on_heartbeat, now, self._patience_ms)
        return Poll(FOREVER if self._in_flight else self._next)

    def _must_amend(self) -> bool:
        """Whether to register once more, as the same process: it did so at a level that knew no directories, and the
        level has risen."""
        self._is_amended = self._is_amended and self._lacks_directories()
        return not self._is_amended and self._lacks_directories()

    def _registration(self) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self._broker_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                SecuredEndpoint(name=name, host=endpoint.host, port=endpoint.port, security_protocol=protocol)
                for name, endpoint, protocol in self._endpoints
            ],
            features=[
                SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(self._features.items())
            ],
            rack=self._rack,
            log_dirs=list(self._directories()),
            previous_broker_epoch=self._previous_broker_epoch,
        )

    def _on_registration(self, response: BrokerRegistrationResponse | None, now: int) -> None:
        self.room.mark("registration answer")
        self._in_flight = False
        error = ErrorCode.REQUEST_TIMED_OUT if response is None else ErrorCode.of(response.error_code)
        if response is None or error is not ErrorCode.NONE:
            self._next = now + REGISTRATION_BACKOFF_MS
            if error is not self._refusal:  # it is asked ten times a second
                told = {"because": FEATURES_NOT_SERVED} if error is ErrorCode.UNSUPPORTED_VERSION else {}
                self._trace("registration_refused", reason=error.name, **told)
            self._refusal = error
            return
        self._refusal = ErrorCode.NONE
        self._is_amended = True
        self.epoch = response.broker_epoch
        self._on_epoch()
        self._next = now
        self._trace("registered", epoch=self.epoch)

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        self._is_urgent = False
        return BrokerHeartbeatRequest(
            broker_id=self._broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=False,
            want_shut_down=self.state is LifecycleState.CONTROLLED_SHUTDOWN,
            cordoned_log_dirs=self._cordoned() if self._knows_settings else None,
            offline_log_dirs=list(self._offline()),
        )

    @property
    def _knows_settings(self) -> bool:
        """Before a broker has caught up for the first time, it may not have heard how its settings were changed."""
        return self.state is not LifecycleState.STARTING or self._is_caught_up

    def _on_heartbeat(self, response: BrokerHeartbeatResponse | None, now: int) -> None:
        self.room.mark("heartbeat answer")
        self._in_flight = False
        self._next = now if self._is_urgent else now + self._interval_ms
        if response is None or response.error_code:
            return
        was_fenced, self.is_fenced = self.is_fenced, response.is_fenced
        if self.is_fenced and not was_fenced:
            self._is_caught_up = False
        if self.state is LifecycleState.STARTING and not self.is_fenced:
            self._become(LifecycleState.RUNNING)
        if self.state is LifecycleState.CONTROLLED_SHUTDOWN:
            if response.should_shut_down:
                self._become(LifecycleState.SHUTTING_DOWN)
            else:
                self._next = now + min(self._interval_ms, 50)

    def _become(self, state: LifecycleState) -> None:
        assert state in TRANSITIONS[self.state], f"a broker goes from {self.state.value} to {state.value}"
        self.state = state
        self._trace("lifecycle", state=state.value)
