"""The laws of connections whose ends must prove who they are.

* **Each request is its sender's.** The principal of a request is that of the host at the other end of the connection,
  whatever the node believes. Before a login is over a node gets ApiVersions, and nothing else.
* **A server is the one that was meant.** No connection with TLS is established to a node that shows the certificate of
  another host, of an unknown authority, or one whose time is over.
* **A handshake ends.** A client that has not proved who it is within `connections.max.idle.ms` is closed, however often
  it sends a byte. A node looks for such clients twice in that time, so one may stay half as long besides.
* **A failure has its name.** A client that is refused hears one of the reasons that there are for it.

That strangers hold up no other client is seen by the other laws: records are acknowledged, and the cluster recovers,
while they come and go.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from pykraft.common.types import Endpoint
from pykraft.protocol.messages.cluster import ApiVersionsRequest
from pykraft.protocol.security_protocol import SecurityProtocol
from pykraft.sim.laws.invariants import require
from pykraft.sim.world.hosts import SimulatedStream
from pykraft.sim.world.secure_hosts import SecureStream
from pykraft.sim.world.tls import AUTHORITY, Certificate
from pykraft.transport.server_channel import ANONYMOUS
from pykraft.transport.server_connection import QueuedRequest

OF_SERVERS = {
    "unknown authority": "unable to get local issuer certificate",
    "expired": "certificate has expired",
    "wrong host": "Hostname mismatch",
}
OF_CLIENTS = {
    "unknown authority shown": "tlsv1 alert unknown ca",
    "expired certificate shown": "sslv3 alert certificate expired",
    "no certificate": "tlsv13 alert certificate required",
    "no certificate in TLS 1.2": "sslv3 alert handshake failure",
    "wrong password": "due to invalid credentials with SASL mechanism",
}
NAMES = {**OF_SERVERS, **OF_CLIENTS}
"""The reasons for which a client is refused, by a word of ours: what each says, in part."""


class SecurityLaws:
    """Watches the connections of a cluster."""

    def __init__(self, principal_of: Callable[[str, SecurityProtocol, bool], str | None], max_idle_ms: int) -> None:
        """`principal_of` gives that of a host, by its name, at a listener, and whether that is the controllers'; None
        if it has none."""
        self._principal_of = principal_of
        self._max_idle_ms = max_idle_ms
        self.refused: Counter[str] = Counter()
        """How often each reason was heard."""
        self.requests: Counter[str] = Counter()
        """How many requests of each principal there were."""
        self.verified = 0
        """Connections with TLS whose server was the one that was meant."""

    def see_request(self, queued: QueuedRequest) -> None:
        """A node is about to handle this."""
        context, stream = queued.inbound.context, queued.connection.stream
        assert isinstance(stream, SimulatedStream)
        channel = queued.connection.channel
        if not channel.is_authenticated:
            require(
                context.api_key == ApiVersionsRequest.api and context.principal == ANONYMOUS,
                f"{stream.client} has not logged in, and API {context.api_key} is handled for {context.principal}",
            )
            return
        wanted = self._principal_of(stream.client, channel.protocol, context.listener == "CONTROLLER")
        found = context.principal
        require(found == wanted, f"a request of {stream.client}, which is {wanted}, counts as {found}")
        self.requests[context.principal] += 1

    def see_streams(self, streams: Iterable[SimulatedStream], now: int) -> None:
        """What a node has open after it has looked for idle connections."""
        longest_ms = self._max_idle_ms + self._max_idle_ms // 2 + 1
        for stream in streams:
            is_proved = stream.connection.channel.is_authenticated
            if isinstance(stream, SecureStream) and not stream.session.is_established:
                is_proved = False
            require(
                is_proved or now - stream.accepted_at <= longest_ms,
                f"{stream.client} has not proved who it is, and is connected for {now - stream.accepted_at} ms",
            )

    def see_certificate(self, host: str, endpoint: Endpoint, shown: Certificate | None) -> None:
        """A connection with TLS is established to this address."""
        is_meant = shown is not None and endpoint.host in shown.hosts
        is_good = shown is not None and shown.issuer == AUTHORITY and not shown.is_expired
        require(is_meant and is_good, f"{host} has connected to {endpoint}, which shows {shown}")
        self.verified += 1

    def see_refusal(self, endpoint: Endpoint, reason: str) -> None:
        """A client was refused there, or has refused the server."""
        known = [name for name, text in NAMES.items() if text in reason]
        require(len(known) == 1, f"a client is refused, and hears {reason!r}")
        self.refused[known[0]] += 1
