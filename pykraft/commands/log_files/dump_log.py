"""``dump-log``: print what the files of a log hold, line for line as kafka-dump-log.sh does.

The kind of a file is in its name: ``.log`` and ``.checkpoint`` (a snapshot of the metadata) hold batches, ``.index``,
``.timeindex`` and ``.txnindex`` are the indexes beside a log, ``.snapshot`` is what the log remembers of its producers.
Files are only read, so a log may be looked at while its node runs.

A decoder says what the records' bytes mean; without one they are shown as text. After all files, standard error lists
what does not fit together, such as an index that does not point at its batches.

Follows kafka.tools.DumpLogSegments of Apache Kafka 4.2.
"""

import argparse
from pathlib import PurePath

from pykraft.commands.common import CommandError, say, tell
from pykraft.commands.log_files.log_batches import BatchDump
from pykraft.commands.log_files.log_decoders import (
    Decoder,
    decode_cluster_metadata,
    decode_group_record,
    decode_text,
    decode_transaction_record,
)
from pykraft.commands.log_files.log_indexes import IndexDump
from pykraft.commands.log_files.read_only import open_file
from pykraft.common.errors import KafkaError
from pykraft.raft.log import snapshot
from pykraft.storage import producer_state, segment_files
from pykraft.storage.producer_state import decode_snapshot
from pykraft.storage.transaction_index import decode_transaction_index

_DECODERS: dict[str, Decoder] = {
    "offsets_decoder": decode_group_record,
    "transaction_log_decoder": decode_transaction_record,
    "cluster_metadata_decoder": decode_cluster_metadata,
}
_LARGEST_MESSAGE = 5 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--files", required=True, metavar="FILE,...", help="the files to print")
    parser.add_argument("--deep-iteration", action="store_true", help="print each record, not only each batch")
    parser.add_argument("--print-data-log", action="store_true", help="print keys and values, too")
    parser.add_argument("--skip-record-metadata", action="store_true", help="of records print keys and values only")
    parser.add_argument("--max-bytes", type=int, metavar="N", help="stop after the last batch that ends by byte N")
    parser.add_argument(
        "--max-message-size", type=int, default=_LARGEST_MESSAGE, metavar="N", help="the size of the largest batch"
    )
    parser.add_argument("--index-sanity-check", action="store_true", help="only check indexes, as a start does")
    parser.add_argument(
        "--verify-index-only", action="store_true", help="compare indexes with the log, and print no entries"
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--offsets-decoder", action="store_true", help="the log is of __consumer_offsets")
    kinds.add_argument("--transaction-log-decoder", action="store_true", help="the log is of __transaction_state")
    kinds.add_argument("--cluster-metadata-decoder", action="store_true", help="the log is of __cluster_metadata")


def run(options: argparse.Namespace) -> int:
    """Print one file after the other."""
    decoder = next((decoder for name, decoder in _DECODERS.items() if getattr(options, name)), None)
    with_data = options.print_data_log or decoder is not None
    batches = BatchDump(
        decoder=(decoder or decode_text) if with_data else None,
        is_deep=options.deep_iteration or with_data,
        with_metadata=not options.skip_record_metadata,
        max_bytes=options.max_bytes,
    )
    indexes = IndexDump(options.index_sanity_check, options.verify_index_only, options.max_message_size)
    for path in options.files.split(","):
        say(f"Dumping {path}")
        try:
            _dump(path, batches, indexes)
        except KafkaError as error:
            raise CommandError(f"{path} cannot be read: {error.detail or error}") from None
        except BrokenPipeError:
            raise  # no file of ours failed: the reader of our output has seen enough
        except OSError as error:
            raise CommandError(f"{error.filename or path} cannot be read: {error.strerror}") from None
    for line in [*indexes.complaints(), *batches.complaints()]:
        tell(line)
    return 0


def _dump(path: str, batches: BatchDump, indexes: IndexDump) -> None:
    match PurePath(path).suffix:
        case segment_files.LOG_SUFFIX | snapshot.SNAPSHOT_SUFFIX:
            batches.dump(path)
        case segment_files.INDEX_SUFFIX:
            indexes.dump_offset_index(path)
        case segment_files.TIME_INDEX_SUFFIX:
            indexes.dump_time_index(path)
        case producer_state.SNAPSHOT_SUFFIX:
            _dump_producers(path)
        case segment_files.TRANSACTION_INDEX_SUFFIX:
            _dump_transactions(path)
        case _:
            tell(f"Ignoring unknown file {path}")


def _dump_producers(path: str) -> None:
    with open_file(path) as file:
        entries = decode_snapshot(file.read(0, file.size))
    for entry in entries:
        first = entry.transaction_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {'OptionalLong.empty' if first is None else f'OptionalLong[{first}]'} "
            f"lastTimestamp: {entry.last_timestamp} "
        )
        if entry.batches:
            batch = entry.batches[0]
            line += (
                f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
                f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
            )
        say(line)


def _dump_transactions(path: str) -> None:
    with open_file(path) as file:
        entries = decode_transaction_index(file.read(0, file.size))
    for version, aborted in entries:
        say(
            f"version: {version} producerId: {aborted.producer_id} firstOffset: {aborted.first_offset} "
            f"lastOffset: {aborted.last_offset} lastStableOffset: {aborted.last_stable_offset}"
        )
