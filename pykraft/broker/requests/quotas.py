"""How much a client may use: the Quotas port.

Each request is recorded when its response is encoded: its bytes, the response's bytes, and the time that its handler
needed. The answer says for how many milliseconds the client is throttled. A throttled client gets its response
at once, with the time in it, and its connection stays muted for that long (KIP-219).

A node without quotas records nothing: then no size is computed, and no time is taken.

Follows kafka.server.{QuotaFactory,ClientQuotaManager,ClientRequestQuotaManager}.
"""

from typing import NamedTuple, Protocol

from pykraft.transport.server_channel import RequestContext


class Used(NamedTuple):
    """What one request has used."""

    request_bytes: int
    """Header and body, as RequestChannel.Request.sizeInBytes."""
    response_bytes: int
    """The body and four bytes more, as FetchResponse.sizeOf; 0 if the client wants no response."""
    handling_us: int
    """Until the handler returned. What it waited for afterwards is not the client's fault, and not counted."""


class Quotas(Protocol):
    def record(self, context: RequestContext, used: Used, now: int) -> int:
        """Count a request; returns the milliseconds for which its client is throttled."""
        ...
