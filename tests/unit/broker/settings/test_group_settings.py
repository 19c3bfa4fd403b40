"""A group's own settings on a whole node in virtual time: they hold from the next heartbeat on."""

from __future__ import annotations

from typing import Any

from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.configs import Operation, ResourceType
from pykraft.protocol.messages.groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from tests.harness.asking import change
from tests.harness.lone_node import LoneNode

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


class Member:
    """Member m of group g."""

    def __init__(self) -> None:
        self.lone = LoneNode(broker_session_timeout_ms="600000")
        self.lone.create(GROUP_TOPIC, cleanup_policy="compact")
        self.lone.create("t")
        self.lone.run(100)
        self.heartbeat(0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[])

    def heartbeat(self, epoch: int, **fields: Any) -> int:
        """The interval that the coordinator asks for."""
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, **fields)
        response = self.lone.ask(request)
        assert not response.error_code
        return int(response.heartbeat_interval_ms)

    def set(self, name: str, value: int | None) -> None:
        operation = Operation.DELETE if value is None else Operation.SET
        text = None if value is None else str(value)
        request = change((ResourceType.GROUP, "g", [(name, operation, text)]))
        assert not self.lone.ask(request, ListenerKind.CONTROLLER).responses[0].error_code
        self.lone.run(10)

    def is_there(self) -> bool:
        return bool(self.lone.ask(ConsumerGroupDescribeRequest(group_ids=["g"])).groups[0].members)


def test_a_groups_heartbeat_interval_holds_from_the_next_heartbeat_on() -> None:
    member = Member()
    assert member.heartbeat(1) == 5000
    member.set(HEARTBEAT, 6000)
    assert member.heartbeat(1) == 6000
    member.set(HEARTBEAT, None)
    assert member.heartbeat(1) == 5000


def test_a_groups_session_timeout_holds_from_the_next_heartbeat_on() -> None:
    member = Member()
    member.set(SESSION, 55_000)
    member.heartbeat(1)
    member.lone.run(54_000)
    assert member.is_there()
    member.lone.run(2_000)
    assert not member.is_there()


def test_settings_may_wait_for_their_group() -> None:
    member = Member()
    member.heartbeat(-1)
    member.set(HEARTBEAT, 7000)
    joins = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    assert member.heartbeat(0, **joins) == 7000
