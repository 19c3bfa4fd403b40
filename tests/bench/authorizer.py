"""What rules of access cost a small produce: two whole nodes in this process, one without an authorizer and one with
10,000 rules, are handed the same requests in turn.

The nodes have disks in memory and no sockets, and only processor time counts; so the difference is small beside few
other things. In each round both answer a hundred requests. The cost is the median of the rounds' differences.
"""

from __future__ import annotations

import statistics
import time

from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.common.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from pykraft.common.types import Uuid
from pykraft.controller.features import NEW_CLUSTER, level_records
from pykraft.protocol.messages.data import ProduceRequest
from pykraft.protocol.messages.records import AccessControlEntryRecord
from pykraft.transport.server_channel import InboundRequest
from tests.bench.rows import Row, progress
from tests.harness import asking
from tests.harness.lone_node import LoneNode

RULES = 10_000
ROUNDS, REQUESTS = 301, 100
CLIENT = "User:client-5000"
AIM_US = 3.0


def rules() -> list[AccessControlEntryRecord]:
    """A user each: half may write a topic, half all topics of a prefix; one in ten is denied something besides."""
    found = []
    for number in range(RULES):
        is_prefix, is_denied = number % 2 == 1, number % 10 == 9
        found.append(
            AccessControlEntryRecord(
                id=Uuid(number.to_bytes(16, "big")),
                resource_type=AclResourceType.TOPIC,
                resource_name=f"t{number // 2}-" if is_prefix else f"t{number // 2}",
                pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
                principal=f"User:client-{number}",
                host="*",
                operation=AclOperation.ALTER if is_denied else AclOperation.WRITE,
                permission_type=AclPermissionType.DENY if is_denied else AclPermissionType.ALLOW,
            )
        )
    return found


class Produces:
    """A node, and the produce that it is handed again and again."""

    def __init__(self, node: LoneNode) -> None:
        self._node = node
        topic = ProduceRequest.Topic
        part = topic.Partition(index=0, records=memoryview(bytearray(asking.batch(1, size=100))))
        data = [topic(topic_id=node.create("t2500"), partition_data=[part])]
        request = ProduceRequest(acks=1, timeout_ms=500, topic_data=data)
        self._inbound = InboundRequest(node.context(request, principal=CLIENT), request)
        response = node.ask(request, principal=CLIENT).responses[0].partition_responses[0]
        assert response.error_code == 0, response

    def cpu_us(self) -> float:
        """Processor time of one produce, the mean of a round."""
        node, inbound = self._node.node, self._inbound
        began = time.process_time_ns()
        for _ in range(REQUESTS):
            node.handle(inbound, self._node.now)
        used = time.process_time_ns() - began
        self._node.run()
        return used / 1000 / REQUESTS


def nodes() -> tuple[LoneNode, LoneNode]:
    """One without an authorizer, and one with all rules."""
    guarded = LoneNode(
        bootstrap=[*(record for record, _ in level_records(NEW_CLUSTER)), *rules()],
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:test",
    )
    return LoneNode(), guarded


def measure() -> list[Row]:
    without, with_rules = map(Produces, nodes())
    for produces in (without, with_rules):
        produces.cpu_us()
    pairs = [(without.cpu_us(), with_rules.cpu_us()) for _ in range(ROUNDS)]
    costs = tuple(guarded - free for free, guarded in pairs)
    cost = statistics.median(costs)
    free, guarded = (statistics.median(each) for each in zip(*pairs, strict=True))
    progress(f"a produce of 100 B: {free:.1f} us without an authorizer, {guarded:.1f} us with {RULES:,} rules")
    return [
        Row(
            f"Authorizer with {RULES:,} rules, in a produce of 100 B",
            "CPU us",
            cost,
            "the whole produce without one",
            free,
            f"median of {ROUNDS}",
            f"< {AIM_US:g} us",
            cost < AIM_US,
            costs,
            tuple(each for each, _ in pairs),
        )
    ]
