"""The first picture of notebook 06: a request in any version, with the names that the reader types.

It is encoded at each move by the messages that pykraft's clients send, and drawn from the bytes by the decoder that a
broker runs. A version that an API does not have is refused in a sentence, as a broker would refuse it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pykraft.protocol.field_tree import FrameTree, read_request_tree
from pykraft.protocol.header import encode_request
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from pykraft.protocol.messages.data import LATEST_TIMESTAMP, ListOffsetsRequest
from pykraft.protocol.messages.groups import HeartbeatRequest
from pykraft.protocol.schema import Request
from pykraft.viz import Figure, explore

_CORRELATION_ID = 7
_MOST_LETTERS = 40
_SOFTWARE = "1.0"


def _ask_for_versions(name: str) -> Request:
    return ApiVersionsRequest(client_software_name=name, client_software_version=_SOFTWARE)


def _ask_for_the_end(name: str) -> Request:
    partition = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=LATEST_TIMESTAMP)
    return ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name=name, partitions=[partition])])


def _say_that_a_member_lives(name: str) -> Request:
    return HeartbeatRequest(group_id=name, generation_id=3, member_id="me-1")


REQUESTS: dict[str, Callable[[str], Request]] = {
    "ApiVersions": _ask_for_versions,
    "ListOffsets": _ask_for_the_end,
    "Heartbeat": _say_that_a_member_lives,
}
"""By the name of the API; what is typed is the name of the software, of a topic, or of a group."""
NEWEST = 11
"""No version of these is above."""


@dataclass(slots=True)
class _Written:
    """The bytes of one request, with its size before it."""

    data: bytes

    def fields(self) -> FrameTree:
        return read_request_tree(self.data, has_size=True)


def draw_request(api: str, version: int, client_id: str, name: str) -> Figure:
    """The request, field by field. ValueError if the API has no such version, or a name is too long to draw."""
    if max(len(client_id), len(name)) > _MOST_LETTERS:
        raise ValueError(f"type at most {_MOST_LETTERS} letters")
    request = REQUESTS[api](name)
    lowest, highest = request.versions
    if not lowest <= version <= highest:
        raise ValueError(f"{api} has the versions {lowest} to {highest}: choose one of them")
    data = b"".join(encode_request(request, version, _CORRELATION_ID, client_id))
    form = "flexible" if version >= request.flexible else "not flexible"
    return explore(_Written(data), title=f"{api}, version {version}, {form}: {len(data)} bytes")
