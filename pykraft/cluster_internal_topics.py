"""The internal topics of a cluster that was just started, made before the first client needs them.

Kafka makes ``__consumer_offsets`` and ``__transaction_state`` when a client asks for its first coordinator, and asks
that client to come again. librdkafka waits two seconds before it does: the first `close` of a consumer takes that
long. With a cluster for each test, each test pays it.

So a thread asks for a coordinator of each kind as soon as the brokers are ready. The topics are there some 20 ms later,
which nothing waits for.
"""

import threading
from contextlib import suppress

from pykraft.admin import Admin
from pykraft.common.errors import KafkaError
from pykraft.runtime.client_thread import ClientClosedError

_ASKING = "pykraft-internal-topics"
"""A group and a transactional id, of which nothing is kept: to ask for their coordinators makes the topics."""


class InternalTopics:
    """Makes them with this client, which it closes."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._thread = threading.Thread(target=self._make, name="pykraft-internal-topics", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        with suppress(KafkaError, ClientClosedError), self._admin:
            self._admin.list_consumer_group_offsets(_ASKING)
            self._admin.describe_transactions([_ASKING])

    def close(self) -> None:
        """Stop, whether they are made or not."""
        self._admin.close()
        self._thread.join()
