"""A controller process tells the active controller that it has started (KIP-919).

The registration is a RegisterControllerRecord in the metadata log: the controller's endpoints, and the levels of
features that it can run at. Tools find the controllers by it (DescribeCluster at a controller), and no level is
finalized that a registered controller lacks. A registration stays when its process ends; the next process replaces it,
under an incarnation id of its own.

A controller registers when its image has another process's registration or none, from ``metadata.version`` 15 on. It
asks until that is committed.

Follows kafka.server.ControllerRegistrationManager.
"""

from collections.abc import Callable, Mapping

from pykraft.broker.startup.controller_channel import ControllerChannel
from pykraft.common.core import Poll
from pykraft.common.errors import ErrorCode
from pykraft.common.trace import Tracer
from pykraft.common.types import Endpoint, Uuid
from pykraft.metadata.image import FeatureRange, MetadataImage
from pykraft.metadata.versions import IV_3_7_0_CONTROLLER_REGISTRATION, METADATA_VERSION
from pykraft.protocol.messages.brokers import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    SecuredEndpoint,
    SupportedFeature,
)
from pykraft.protocol.security_protocol import SecurityProtocol

RETRY_BACKOFF_MS = 100
COMMIT_PATIENCE_MS = 1000
"""How long a registration that was acknowledged may take to come into this node's own image."""


class ControllerRegistration:
    """This process's registration. It is a RequestManager."""

    def __init__(
        self,
        *,
        controller_id: int,
        incarnation_id: Uuid,
        features: Mapping[str, FeatureRange],
        endpoints: Callable[[], Mapping[str, tuple[Endpoint, SecurityProtocol]]],
        image: Callable[[], MetadataImage],
        channel: ControllerChannel,
        trace: Tracer,
    ) -> None:
        """`endpoints()` are its listeners by name, once they are open."""
        self._controller_id = controller_id
        self._incarnation_id = incarnation_id
        self._features = features
        self._endpoints = endpoints
        self._image = image
        self._channel = channel
        self._trace = trace
        self.room = channel.room
        self._next = 0
        self._in_flight = False
        self._refusal = ErrorCode.NONE

    @property
    def is_missing(self) -> bool:
        """Whether the cluster's level asks for a registration that this process does not have."""
        image = self._image()
        if image.features.get(METADATA_VERSION, 0) < IV_3_7_0_CONTROLLER_REGISTRATION:
            return False
        known = image.controllers.get(self._controller_id)
        return known is None or known.incarnation_id != self._incarnation_id

    def poll(self, now: int) -> Poll:
        if not self._in_flight and self.is_missing:
            if now < self._next:
                return Poll(self._next)
            self._in_flight = True
            self._channel.send(self._request(), self._on_answer, now)
        return self._channel.poll(now)

    def _request(self) -> ControllerRegistrationRequest:
        return ControllerRegistrationRequest(
            controller_id=self._controller_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                SecuredEndpoint(name=name, host=endpoint.host, port=endpoint.port, security_protocol=protocol)
                for name, (endpoint, protocol) in sorted(self._endpoints().items())
            ],
            features=[
                SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(self._features.items())
            ],
        )

    def _on_answer(self, response: ControllerRegistrationResponse | None, now: int) -> None:
        self.room.mark("answer")
        self._in_flight = False
        error = ErrorCode.REQUEST_TIMED_OUT if response is None else ErrorCode.of(response.error_code)
        self._next = now + (RETRY_BACKOFF_MS if error else COMMIT_PATIENCE_MS)
        if error is not ErrorCode.NONE and error is not self._refusal:
            self._trace("controller_registration_refused", reason=error.name)
        self._refusal = error
