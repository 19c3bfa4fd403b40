"""How much a client may use: the Quotas port.

Each request is recorded when its response is encoded: its bytes, the response's bytes, and the time that its handler
needed. The answer says for how many milliseconds the client is throttled. A throttled client gets its response
at once, with the time in it, and its connection stays muted for that long (KIP-219).

While no client has a quota nothing is recorded: then no size is computed, and no time is taken. Requests of nodes among
themselves are exempt: what throttles a client must not hold up the cluster. Where a quota by bytes decides what an
answer has in it, its handler asks before (`quota_managers`).

Follows kafka.server.{QuotaFactory,ClientQuotaManager,ClientRequestQuotaManager}.
"""

from typing import NamedTuple, Protocol

from pykraft.protocol.api import ListenerKind, apis
from pykraft.protocol.listeners import CONTROLLER
from pykraft.protocol.messages.data import FetchRequest
from pykraft.protocol.messages.transactions import WriteTxnMarkersRequest
from pykraft.protocol.schema import Request
from pykraft.transport.server_channel import RequestContext

_OF_NODES = {key for key, api in apis.items() if api.listeners == CONTROLLER} | {WriteTxnMarkersRequest.api}


class Used(NamedTuple):
    """What one request has used."""

    request_bytes: int
    """Header and body, as RequestChannel.Request.sizeInBytes."""
    response_bytes: int
    """The body and four bytes more, as FetchResponse.sizeOf; 0 if the client wants no response."""
    handling_us: int
    """Until the handler returned. What it waited for afterwards is not the client's fault, and not counted."""
    is_exempt: bool = False
    """A node has asked it, for the cluster's sake."""


class Quotas(Protocol):
    def record(self, context: RequestContext, used: Used, now: int) -> int:
        """Count a request; returns the milliseconds for which its client is throttled."""
        ...


def is_exempt(context: RequestContext, request: Request) -> bool:
    """Whether a node asks this for the cluster's sake: Raft, heartbeats, changes of partitions, a follower's fetch."""
    if isinstance(request, FetchRequest):
        state = request.replica_state
        is_replica = max(request.replica_id, -1 if state is None else state.replica_id) >= 0
        return is_replica or context.kind is ListenerKind.CONTROLLER
    return context.api_key in _OF_NODES
