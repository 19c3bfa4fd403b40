"""What planning a change comes to: the records that would make it, and the answer once they are decided.

A plan is a function of an image and a request. It changes nothing. So it can be tried, refused, or thrown away with a
leadership that is lost, and the one place where state changes is the replay of its records.

A plan for thousands of partitions takes long. It may therefore be `Steps`, which pause after each of them. The image
stays the newest one meanwhile, for the controller makes one plan after another (`controller`).

Follows org.apache.kafka.controller.ControllerResult.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from pykraft.common.core import Steps
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.records import MetadataRecord

T = TypeVar("T")

MAX_RECORDS_PER_REQUEST = 10_000
"""What a request asks for becomes true together, in one batch of at most this many records."""

VersionedRecord = tuple[MetadataRecord, int]
"""A record, and the version that it is written in."""


Charge = Callable[[int], None]
"""Takes so many partitions from what a client may change. KafkaError if it may change no more now."""


def free(partitions: int) -> None:
    """The charge of a client without a quota."""


class Result(NamedTuple, Generic[T]):
    """The records and the response of a plan."""

    records: list[VersionedRecord]
    response: T
    after: Callable[[int], None] | None = None
    """Called once the records are appended, with the offset of the newest image: what the active controller notes for
    itself, and writes into no log."""
    first_offset: int | None = None
    """The plan is good only if its first record gets this offset. Else it is made again."""


def gathered(records: Iterable[VersionedRecord]) -> Steps[list[VersionedRecord]]:
    """These records, with a pause after each."""
    found = []
    for record in records:
        found.append(record)
        yield
    return found


def check_size(request: Any) -> None:
    """KafkaError(POLICY_VIOLATION) if a request names more topics or resources than one request may change, before any
    of them is looked at."""
    for name, most in _MOST.items():
        count = len(getattr(request, name, None) or ())
        if count > most:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{count} {name} in one request; {most} are allowed")


_MOST = {
    "topics": MAX_RECORDS_PER_REQUEST,
    "topic_names": MAX_RECORDS_PER_REQUEST,
    "resources": 2000,
    "creations": MAX_RECORDS_PER_REQUEST,
    "entries": MAX_RECORDS_PER_REQUEST,
    "filters": 2000,
    "deletions": MAX_RECORDS_PER_REQUEST // 2,
    "upsertions": MAX_RECORDS_PER_REQUEST // 2,
}
"""To check the settings of a resource takes a tenth of a millisecond, and the active controller does nothing else
meanwhile. A filter is compared with every rule."""
