"""The exceptions of pykraft in one place: ``from pykraft.errors import KafkaError``.

kafka-python has an exception for each of the protocol's error codes. pykraft has one, `KafkaError`, whose `code` says
which: to import one of kafka-python's names says what to write instead.
"""

import re

from pykraft.client.errors import (
    AuthenticationError,
    ClientTimeoutError,
    CommitFailedError,
    FencedInstanceIdError,
    LogTruncationError,
    NoOffsetError,
    ProducerFencedError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    TransactionAbortableError,
    TransactionError,
    TransactionFatalError,
)
from pykraft.common.errors import ConfigError, CorruptRecordError, ErrorCode, KafkaError
from pykraft.runtime.client_thread import ClientClosedError

__all__ = [
    "AuthenticationError",
    "ClientClosedError",
    "ClientTimeoutError",
    "CommitFailedError",
    "ConfigError",
    "CorruptRecordError",
    "ErrorCode",
    "FencedInstanceIdError",
    "KafkaError",
    "LogTruncationError",
    "NoOffsetError",
    "ProducerFencedError",
    "RebalanceInProgressError",
    "RetriableCommitFailedError",
    "TransactionAbortableError",
    "TransactionError",
    "TransactionFatalError",
]

_OURS = {
    "KafkaConfigurationError": "ConfigError",
    "KafkaConnectionError": "ClientTimeoutError",
    "KafkaTimeoutError": "ClientTimeoutError (and TimeoutError for future.get(timeout))",
    "NoBrokersAvailable": "ClientTimeoutError",
    "NoOffsetForPartitionError": "NoOffsetError",
    "IllegalStateError": "RuntimeError",
    "IllegalArgumentError": "ValueError and TypeError",
}
_CODES = {
    "CorruptRecordError": "CORRUPT_MESSAGE",
    "CorruptRecordException": "CORRUPT_MESSAGE",
    "InvalidConfigurationError": "INVALID_CONFIG",
    "InvalidReplicationAssignmentError": "INVALID_REPLICA_ASSIGNMENT",
    "InvalidTopicError": "INVALID_TOPIC_EXCEPTION",
    "MessageSizeTooLargeError": "MESSAGE_TOO_LARGE",
    "NotLeaderForPartitionError": "NOT_LEADER_OR_FOLLOWER",
    "UnknownError": "UNKNOWN_SERVER_ERROR",
    "UnsupportedCodecError": "UNSUPPORTED_COMPRESSION_TYPE",
}


def code_of(name: str) -> ErrorCode | None:
    """The code that an exception of kafka-python of this name is for."""
    words = re.sub("(?<=[a-z])(?=[A-Z])", "_", re.sub("(Error|Exception)$", "", name)).upper()
    for each in (_CODES.get(name, words), f"{words}_ERROR", f"{words}_EXCEPTION"):
        if each in ErrorCode.__members__:
            return ErrorCode[each]
    return None


def __getattr__(name: str) -> object:
    if name in _OURS:
        raise ImportError(f"pykraft.errors has no {name}: catch {_OURS[name]}")
    code = code_of(name) if name[:1].isupper() else None
    if code is None:
        raise AttributeError(f"module 'pykraft.errors' has no attribute {name!r}")
    raise ImportError(
        f"pykraft.errors has no {name}: catch KafkaError, and look whether error.code is ErrorCode.{code.name}"
    )
