"""What an administrator asks about leaders: to elect them.

Follows org.apache.kafka.clients.admin.ElectLeadersResult and org.apache.kafka.common.ElectionType.
"""

from collections.abc import Iterable
from typing import Any

from pykraft.client.api_driver import ApiDriver, key_answer
from pykraft.common.core import Promise
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.messages.elections import ElectionType, ElectLeadersRequest, ElectLeadersResponse

__all__ = ["Elected", "ElectionCalls", "ElectionType", "election_type"]

Elected = dict[TopicPartition, KafkaError | None]
"""What became of each election: None if the partition has a new leader."""


def election_type(kind: Any) -> ElectionType:
    """A type of election, also by its name. ValueError if there is no such type."""
    try:
        return ElectionType[kind.upper()] if isinstance(kind, str) else ElectionType(kind)
    except (KeyError, ValueError):
        raise ValueError(f"the type of an election is ElectionType.PREFERRED or .UNCLEAN, not {kind!r}") from None


class ElectionCalls:
    """`deadline` is when to give up. Promises bring the answer or the KafkaError."""

    def __init__(self, driver: ApiDriver) -> None:
        self._driver = driver

    def elect_leaders(
        self, kind: ElectionType, partitions: Iterable[TopicPartition] | None, timeout_ms: int, deadline: int
    ) -> "Promise[Elected | KafkaError]":
        """Elect leaders of these partitions, or of all. Of all, those that have the right leader are not answered."""
        topics: dict[str, list[int]] | None = None
        if partitions is not None:
            topics = {}
            for key in dict.fromkeys(partitions):
                topics.setdefault(key.topic, []).append(key.partition)
        topic_type = ElectLeadersRequest.TopicPartitions
        request = ElectLeadersRequest(
            election_type=kind,
            topic_partitions=None
            if topics is None
            else [topic_type(topic=name, partitions=numbers) for name, numbers in topics.items()],
            timeout_ms=timeout_ms,
        )
        return self._driver.ask_any("to elect leaders", request, _elected, deadline)


def _elected(response: ElectLeadersResponse) -> Elected:
    if response.error_code:
        raise KafkaError(ErrorCode.of(response.error_code))
    found: Elected = {}
    for topic in response.replica_election_results:
        for result in topic.partition_result:
            key, error = key_answer(TopicPartition(topic.topic, result.partition_id), result.error_code, None)
            if error is not None and result.error_message:
                error = KafkaError(error.code, f"{key}: {result.error_message}")
            found[key] = error
    return found
