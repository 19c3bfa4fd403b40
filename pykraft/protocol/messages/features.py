"""Messages about the levels of features: UpdateFeatures (KIP-584).

A client learns the levels from ApiVersions, which every node answers, and changes them with UpdateFeatures. It sends
that to any broker, which forwards it in an Envelope to the active controller.
"""

from pykraft.protocol.listeners import BOTH
from pykraft.protocol.schema import Array, Request, Response, Struct, boolean, field, int8, int16, int32, string

UPGRADE = 1
SAFE_DOWNGRADE = 2
"""A downgrade after which everything in the metadata can still be read."""
UNSAFE_DOWNGRADE = 3
"""A downgrade that may lose metadata. Kafka 4.2 refuses it wherever it would."""


class UpdateFeaturesRequest(Request, api=57, versions=(0, 2), flexible=0, listeners=BOTH, forwardable=True):
    """Set these features to these levels: all of them, or none. Level 0 disables a feature."""

    class Update(Struct):
        feature: string
        max_version_level: int16
        # Kafka 4.2 does not heed it: in version 0 every update is an upgrade.
        allow_downgrade: boolean = field(default=False, until=0)
        upgrade_type: int8 = field(default=UPGRADE, since=1)

    timeout_ms: int32 = field(default=60_000)
    feature_updates: Array[Update]
    # Check everything and answer as if it were done, but change nothing.
    validate_only: boolean = field(default=False, since=1)


class UpdateFeaturesResponse(Response, to=UpdateFeaturesRequest):
    """Whether the levels hold now. An error is that of the whole request, and its message names the feature."""

    class Result(Struct):
        feature: string
        error_code: int16 = field(default=0)
        error_message: string | None = field(default=None)

    throttle_time_ms: int32 = field(default=0)
    error_code: int16 = field(default=0)
    error_message: string | None = field(default=None)
    # Each feature by name, if there was no error.
    results: Array[Result] = field(default=(), until=1)
