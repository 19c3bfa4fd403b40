"""A broker's heartbeats when the controller falls silent: they must reach the next one before the session runs out."""

from __future__ import annotations

from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.broker.startup.lifecycle import REGISTRATION_BACKOFF_MS, BrokerLifecycle
from pykraft.common.core import Failure, merge
from pykraft.common.errors import ErrorCode
from pykraft.common.trace import RingBuffer, Silence, Tracer, TraceSink
from pykraft.common.types import Node, Uuid
from pykraft.protocol.messages.brokers import BrokerHeartbeatRequest, BrokerRegistrationResponse

SESSION_MS = 600
INTERVAL_MS = 100
KILLED = Node(1, "127.0.0.1", 9091)
ELECTED = Node(2, "127.0.0.1", 9092)


class Controllers:
    """Who the broker believes to be the active controller."""

    def __init__(self) -> None:
        self.active = KILLED


def starting(controllers: Controllers, trace: TraceSink | None = None) -> tuple[BrokerLifecycle, ControllerChannel]:
    """A broker that begins to register at 0 ms."""
    channel = ControllerChannel("heartbeats", lambda: controllers.active, 30_000)
    broker = BrokerLifecycle(
        broker_id=3,
        cluster_id="cluster",
        incarnation_id=Uuid(bytes(16)),
        rack=None,
        directories=lambda: [Uuid(bytes(16))],
        previous_broker_epoch=-1,
        features={},
        heartbeat_interval_ms=INTERVAL_MS,
        session_timeout_ms=SESSION_MS,
        channel=channel,
        metadata_offset=lambda: 10,
        lacks_directories=lambda: False,
        cordoned=lambda: None,
        trace=Tracer(3, trace or Silence()),
    )
    broker.start([], 0)
    return broker, channel


def registered(controllers: Controllers) -> tuple[BrokerLifecycle, ControllerChannel]:
    """A broker that was registered by the first controller at 0 ms."""
    broker, channel = starting(controllers)
    broker.poll(0)
    (registration,) = channel.poll(0).requests
    registration.on_response(BrokerRegistrationResponse(broker_epoch=5), 0)
    return broker, channel


def test_a_heartbeat_that_nobody_answers_is_given_up_after_half_a_session_and_goes_to_the_next_controller() -> None:
    controllers = Controllers()
    broker, channel = registered(controllers)
    broker.poll(0)
    (lost,) = channel.poll(0).requests
    assert lost.timeout_ms == SESSION_MS // 2

    controllers.active = ELECTED
    given_up = lost.timeout_ms
    lost.on_response(Failure.TIMED_OUT, given_up)
    channel.poll(given_up)  # its time is up: the broker hears of it
    broker.poll(given_up + INTERVAL_MS)
    (again,) = channel.poll(given_up + INTERVAL_MS).requests
    assert isinstance(again.request, BrokerHeartbeatRequest)
    assert again.destination == ELECTED
    assert given_up + INTERVAL_MS < SESSION_MS


def test_after_a_heartbeat_was_given_up_the_node_is_woken_for_the_next_one() -> None:
    """A broker polls its lifecycle first and the channel after it: the lifecycle's new deadline is not lost."""
    broker, channel = registered(Controllers())
    broker.poll(0)
    (lost,) = channel.poll(0).requests
    given_up = lost.timeout_ms
    lost.on_response(Failure.TIMED_OUT, given_up)
    assert merge([broker.poll(given_up), channel.poll(given_up)]).deadline == given_up
    assert merge([broker.poll(given_up), channel.poll(given_up)]).deadline == given_up + INTERVAL_MS


def test_a_refusal_is_told_once_for_each_reason() -> None:
    """After a kill the controller knows the broker's last session until its time is over, and is asked ten times a
    second."""
    journal = RingBuffer()
    broker, channel = starting(Controllers(), journal)
    duplicate, other = ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.INVALID_REGISTRATION
    for number, error in enumerate((duplicate, duplicate, other, other, duplicate, ErrorCode.NONE)):
        now = number * REGISTRATION_BACKOFF_MS
        broker.poll(now)
        (registration,) = channel.poll(now).requests
        registration.on_response(BrokerRegistrationResponse(error_code=error, broker_epoch=5), now)
    told = [event.fields.get("reason", "") for event in journal.events if event.name.startswith("regist")]
    assert told == [duplicate.name, other.name, duplicate.name, ""]


def test_a_cluster_of_apache_kafkas_that_runs_what_we_do_not_have_is_told_with_the_way_out() -> None:
    journal = RingBuffer()
    broker, channel = starting(Controllers(), journal)
    broker.poll(0)
    (registration,) = channel.poll(0).requests
    registration.on_response(BrokerRegistrationResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 0)
    (said,) = [str(event) for event in journal.events if event.name == "registration_refused"]
    assert "share.version" in said and "format the cluster with --feature share.version=0" in said
