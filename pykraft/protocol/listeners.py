"""The two kinds of listener that a node may have, and what a request's declaration says of them.

Clients and replicas talk to the broker listener. The quorum's own messages, and those of brokers to the active
controller, go to the controller listener. Each request is declared with the listeners that serve it; one that is
declared without any can be read and written, but no node answers it yet.

Follows the "listeners" of Kafka's message definitions (org.apache.kafka.common.message.ApiMessageType.ListenerType).
"""

from enum import Enum


class ListenerKind(Enum):
    """Which of a node's two kinds of listener a connection came in by."""

    BROKER = "broker"
    CONTROLLER = "controller"


BROKER = (ListenerKind.BROKER,)
CONTROLLER = (ListenerKind.CONTROLLER,)
BOTH = (ListenerKind.BROKER, ListenerKind.CONTROLLER)
