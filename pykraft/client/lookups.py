"""Which broker answers for a key: the three lookup strategies of the `api_driver`.

* `BrokerStrategy`: any broker will do, or the key names the broker. A client that was given controllers asks the active
  one instead of any.
* `PartitionLeaderStrategy`: the key is a partition, and its leader answers. The client's metadata say which broker that
  is.
* `CoordinatorStrategy`: the key is a group or a transactional id, and its coordinator answers. Any broker is asked for
  it (FindCoordinator), and the answer is kept until a broker refuses to coordinate the key or does not answer.

From FindCoordinator 4 on, one request asks for many keys (KIP-699). Before that it has room for one. The client does
not know which version the next broker speaks, so its request has both: all keys, and the first one alone. A broker
answers what it has read, and the driver asks again for the keys that are missing.

Follows org.apache.kafka.clients.admin.internals.{AdminApiLookupStrategy,AllBrokersStrategy,StaticBrokerStrategy,
PartitionLeaderStrategy,CoordinatorStrategy}.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from pykraft.client.metadata import ClusterMetadata
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Node, TopicPartition
from pykraft.protocol.messages.cluster import FindCoordinatorRequest, FindCoordinatorResponse
from pykraft.protocol.schema import Request

K = TypeVar("K", bound=Hashable)

ANY_BROKER = -1
ANY_NODE = Node(ANY_BROKER, "", -1)
"""Stands for a broker that the driver chooses."""


class LookupStrategy(Generic[K]):
    """Finds the node that answers for a key: from the client's metadata, or, with `request` and `read`, by asking."""

    def node_of(self, key: K) -> Node | None:
        """The node to ask, `ANY_NODE`, or None if it is not known yet."""
        raise NotImplementedError

    def unknown(self, key: K) -> str:
        """What the metadata lack while `node_of` is None, in words."""
        raise NotImplementedError

    def request(self, keys: Sequence[K]) -> Request | None:
        """The request that any broker answers with these nodes. None: newer metadata will have them."""
        return None

    def read(self, keys: Sequence[K], response: Any) -> Iterator[tuple[K, KafkaError | None]]:
        """Learn the nodes from the response to `request`; yields each key that it answers, with its error."""
        raise NotImplementedError

    def forget(self, key: K, node: Node, error: ErrorCode) -> None:
        """This node has answered the key with an error, which may mean that another node must be asked."""


class BrokerStrategy(LookupStrategy[K]):
    """Asks the broker that a key names, or any if it names `ANY_BROKER`."""

    def __init__(self, metadata: ClusterMetadata, broker_of: Callable[[K], int]) -> None:
        self._metadata = metadata
        self._broker_of = broker_of

    def node_of(self, key: K) -> Node | None:
        broker_id = self._broker_of(key)
        if broker_id != ANY_BROKER:
            return self._metadata.brokers.get(broker_id)
        return self._metadata.controller if self._metadata.of_controllers else ANY_NODE

    def unknown(self, key: K) -> str:
        if not self._metadata.of_controllers:
            return f"broker {self._broker_of(key)} is not known to live"
        broker_id = self._broker_of(key)
        return "no controller is known to be active" if broker_id == ANY_BROKER else f"{broker_id} is no controller"

    def forget(self, key: K, node: Node, error: ErrorCode) -> None:
        if self._metadata.of_controllers and error in _CONTROLLER_IS_ELSEWHERE:
            self._metadata.forget_controller()


class PartitionLeaderStrategy(LookupStrategy[TopicPartition]):
    """Asks the leader of a partition."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata

    def node_of(self, key: TopicPartition) -> Node | None:
        self._metadata.add_topic(key.topic)  # so that the metadata will have the leader
        return self._metadata.leader_of(key)

    def unknown(self, key: TopicPartition) -> str:
        return "no leader is known"

    def forget(self, key: TopicPartition, node: Node, error: ErrorCode) -> None:
        if error.retriable:
            self._metadata.request_update()


class CoordinatorStrategy(LookupStrategy[str]):
    """Asks the coordinator of a group or of a transactional id, and remembers which broker that is."""

    def __init__(self, key_type: int) -> None:
        """`key_type` is GROUP_COORDINATOR or TRANSACTION_COORDINATOR."""
        self._key_type = key_type
        self._coordinators: dict[str, Node] = {}

    def node_of(self, key: str) -> Node | None:
        return self._coordinators.get(key)

    def request(self, keys: Sequence[str]) -> Request:
        return FindCoordinatorRequest(key=keys[0], key_type=self._key_type, coordinator_keys=keys)

    def read(self, keys: Sequence[str], response: FindCoordinatorResponse) -> Iterator[tuple[str, KafkaError | None]]:
        for found in response.coordinators:
            yield found.key, self._learn(found.key, found)
        if not response.coordinators:  # versions 0 to 3
            yield keys[0], self._learn(keys[0], response)

    def _learn(
        self, key: str, found: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator
    ) -> KafkaError | None:
        if found.error_code:
            error = ErrorCode.of(found.error_code)
            return KafkaError(error, f"{key}: {found.error_message or error.text}")
        if found.node_id < 0:
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{key}: the answer names no coordinator")
        self._coordinators[key] = Node(found.node_id, found.host, found.port)
        return None

    def forget(self, key: str, node: Node, error: ErrorCode) -> None:
        if error in _COORDINATOR_IS_ELSEWHERE and self._coordinators.get(key) == node:
            del self._coordinators[key]


_CONTROLLER_IS_ELSEWHERE = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NETWORK_EXCEPTION,
)
_COORDINATOR_IS_ELSEWHERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
)
