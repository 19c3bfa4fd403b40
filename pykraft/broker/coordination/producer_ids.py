"""Producer ids: this broker takes them from a block that the controller allotted to it.

No id is used twice in the cluster, so the controller allots blocks of 1000 through the metadata log, and a broker that
dies takes the rest of its block with it. When few are left the next block is asked for; until the first one is there,
producers get a retriable error.

Follows org.apache.kafka.coordinator.transaction.RPCProducerIdManager (KIP-730).
"""

from collections.abc import Callable

from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.brokers import AllocateProducerIdsRequest, AllocateProducerIdsResponse

_PREFETCH_AT = 100


class ProducerIds:
    """The ids that this broker may give away."""

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int], channel: ControllerChannel) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._next = 0
        self._left = 0
        self._following: tuple[int, int] | None = None
        self._in_flight = False

    def take(self, now: int) -> int:
        """A fresh id; KafkaError(COORDINATOR_LOAD_IN_PROGRESS) while there is none."""
        if self._left == 0 and self._following is not None:
            (self._next, self._left), self._following = self._following, None
        if self._left < _PREFETCH_AT and self._following is None:
            self._ask(now)
        if self._left == 0:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a block of producer ids is on its way")
        self._next += 1
        self._left -= 1
        return self._next - 1

    def _ask(self, now: int) -> None:
        if not self._in_flight and self._broker_epoch() >= 0:
            self._in_flight = True
            request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
            self._channel.send(request, self._on_response, now)

    def _on_response(self, response: AllocateProducerIdsResponse | None, _: int) -> None:
        self._in_flight = False
        if response is not None and not response.error_code:
            self._following = (response.producer_id_start, response.producer_id_len)
