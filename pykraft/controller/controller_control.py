"""Controllers register, and are unregistered: the plans for it.

A controller has no epoch and no session: it is a voter or not, and that is Raft's to know. What its registration adds
are its endpoints, and the levels of features that it can run at (KIP-919). An administrator unregisters one that will
not come back (KIP-1312): a feature is not raised to a level that a registered controller cannot run at. The active
controller cannot be unregistered.

Follows registerController and unregisterController of org.apache.kafka.controller.ClusterControlManager.
"""

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.cluster_control import check_listeners, check_not_many
from pykraft.controller.result import Result
from pykraft.metadata.image import MetadataImage
from pykraft.metadata.versions import (
    IV_3_7_0_CONTROLLER_REGISTRATION,
    IV_4_4_2_CONTROLLERS_UNREGISTER,
    METADATA_VERSION,
)
from pykraft.protocol.messages.admin import UnregisterControllerRequest, UnregisterControllerResponse
from pykraft.protocol.messages.brokers import ControllerRegistrationRequest, ControllerRegistrationResponse
from pykraft.protocol.messages.records import (
    Endpoint,
    RegisterControllerRecord,
    SupportedFeature,
    UnregisterControllerRecord,
)


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


def unregister_controller(
    image: MetadataImage, request: UnregisterControllerRequest, active_id: int
) -> Result[UnregisterControllerResponse]:
    """The controller is not registered any more; it registers again when it starts."""
    controller_id = request.controller_id
    if controller_id == active_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"controller {controller_id} is the active one")
    level = image.features.get(METADATA_VERSION, 0)
    if level < IV_4_4_2_CONTROLLERS_UNREGISTER:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"controllers unregister from {METADATA_VERSION} {IV_4_4_2_CONTROLLERS_UNREGISTER} on, and it is {level}",
        )
    if controller_id not in image.controllers:
        raise KafkaError(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"no controller {controller_id} is registered")
    record = UnregisterControllerRecord(controller_id=controller_id)
    return Result([(record, 0)], UnregisterControllerResponse(error_message=None))
