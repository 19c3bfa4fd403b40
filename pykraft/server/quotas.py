"""How much a client may use: the Quotas port, and the one without limits.

The dispatcher records each request; the answer says for how many milliseconds the client is throttled. A throttled
client gets its answer at once, with the time in it, and its connection stays muted for that long (KIP-219).

Follows kafka.server.{QuotaFactory,ClientRequestQuotaManager}.
"""

from typing import Protocol

from pykraft.transport.server_channel import RequestContext


class Quotas(Protocol):
    def record(self, context: RequestContext, now: int) -> int:
        """Count a request; returns the milliseconds for which its client is throttled."""
        ...


class NoQuotas:
    def record(self, context: RequestContext, now: int) -> int:
        return 0
