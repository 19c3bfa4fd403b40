"""What notebook 19 looks at: the batches of a partition as a reader meets them, the coordinator's log, and two kinds of
readers.

::

    batches_of(cluster, "accounts", 0)    ["0: 2 records in a transaction", "2: COMMIT marker"]
    states_of(cluster, "teller")          ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    read(cluster, "accounts", 0)          the values that a read_committed consumer gets
"""

import time
from typing import TYPE_CHECKING, Literal

from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer
from pykraft.coordinator.runtime import partition_for
from pykraft.coordinator.transaction.state import TransactionState
from pykraft.protocol.messages.coordinators import TransactionLogKey, TransactionLogValue
from pykraft.records.batch import RecordBatch, batches
from pykraft.records.markers import read_marker

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

LOG = "__transaction_state"
Level = Literal["read_uncommitted", "read_committed"]
_VERSION = 2
"""Bytes of the version in front of a key and of a value."""
_POLL_MS = 500
_LOOK_S, _PATIENCE_S = 0.01, 30


def log_of(cluster: "Cluster", topic: str, partition: int) -> list[RecordBatch]:
    """The batches of a partition, read from the files of its leader."""
    leader = cluster.describe().leader(topic, partition)
    assert leader is not None
    folder = cluster.partition_directory(leader, topic, partition)
    data = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
    return list(batches(memoryview(data)))


def batches_of(cluster: "Cluster", topic: str, partition: int) -> list[str]:
    """The batches of a partition in words, one for each."""
    return [f"{batch.base_offset}: {_in_words(batch)}" for batch in log_of(cluster, topic, partition)]


def _in_words(batch: RecordBatch) -> str:
    if batch.is_control:
        return f"{'COMMIT' if read_marker(batch).committed else 'ABORT'} marker"
    kind = "in a transaction" if batch.is_transactional else "without a transaction"
    return f"{batch.count} {'record' if batch.count == 1 else 'records'} {kind}"


def states_of(cluster: "Cluster", transactional_id: str) -> list[str]:
    """The states that the coordinator has written into its log for a transactional id, in order."""
    partitions = len([number for name, number in cluster.describe().topic_partitions if name == LOG])
    number = partition_for(transactional_id, partitions)
    found = []
    for batch in log_of(cluster, LOG, number):
        for record in batch.records():
            if record.key is None or record.value is None:
                continue
            key = TransactionLogKey.decode(memoryview(record.key)[_VERSION:], 0)
            value = TransactionLogValue.decode(
                memoryview(record.value)[_VERSION:], int.from_bytes(record.value[:2], "big")
            )
            if key.transactional_id == transactional_id:
                found.append(next(s.title for s in TransactionState if s.number == value.transaction_status))
    return found


def wait_for_markers(cluster: "Cluster", transactional_id: str) -> None:
    """Wait until the markers of the last transaction are written: a producer hears of its commit before that."""
    deadline = time.monotonic() + _PATIENCE_S
    with cluster.admin() as admin:
        while admin.describe_transactions([transactional_id])[transactional_id].state.value.startswith("Prepare"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the markers of {transactional_id} are not written after {_PATIENCE_S} s")
            time.sleep(_LOOK_S)


def read(cluster: "Cluster", topic: str, partition: int = 0, isolation_level: "Level" = "read_committed") -> list[str]:
    """The values that a consumer gets from the beginning up to where it may read now."""
    key = TopicPartition(topic, partition)
    servers = cluster.bootstrap_servers
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level=isolation_level) as consumer:
        consumer.assign([key])
        values: list[str] = []
        while consumer.position(key) < consumer.end_offsets([key])[key]:
            for some in consumer.poll(_POLL_MS).values():
                values += [(record.value or b"").decode() for record in some]
        return values
