"""Controllers register: the plan for it.

A controller has no epoch and no session: it is a voter or not, and that is Raft's to know. What its registration adds
are its endpoints, and the levels of features that it can run at (KIP-919).

Follows org.apache.kafka.controller.ClusterControlManager.registerController.
"""

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.cluster_control import check_listeners, check_not_many
from pykraft.controller.result import Result
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.versions import IV_3_7_0_CONTROLLER_REGISTRATION, METADATA_VERSION
from pykraft.protocol.messages.brokers import ControllerRegistrationRequest, ControllerRegistrationResponse
from pykraft.protocol.messages.records import Endpoint, RegisterControllerRecord, SupportedFeature


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> Result[ControllerRegistrationResponse]:
    """The process replaces the one before it. KafkaError(INVALID_REGISTRATION) if it cannot be reached."""
    level = image.features.get(METADATA_VERSION, 0)
    if level < IV_3_7_0_CONTROLLER_REGISTRATION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"controllers register from {METADATA_VERSION} {IV_3_7_0_CONTROLLER_REGISTRATION} on, and it is {level}",
        )
    check_listeners("controller", request.controller_id, request.listeners)
    check_not_many("features", request.features)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            Endpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=[
            SupportedFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
    )
    return Result([(record, 0)], ControllerRegistrationResponse())
