"""The names of a segment's files, and the suffixes that say what is to become of them.

::

    00000000000000001200.log            in use
    00000000000000001200.log.cleaned    being written by the cleaner: worth nothing yet
    00000000000000001200.log.swap       whole and synced: it takes the place of the segments that it was made of
    00000000000000001200.log.deleted    out of the log, kept for readers that still have it open
    00000000000000001200.log.2.deleted  the next of that name, deleted while the first is still there

A cleaned segment comes into the log by renames alone, and in an order in which every crash leaves a correct log:

1. ``.cleaned`` becomes ``.swap``, the .log file *last*. Until then the old segments are the log.
2. The old segments become ``.deleted``, oldest first.
3. ``.swap`` loses its suffix, the .log file *first*. A ``.log.swap`` says that step 2 may have to be finished.

`finish_leftovers` brings a folder that a crash left in between to one end or the other. If the crash came before the
.log file of a segment got the new suffix, its other files that have it are worth nothing; if it came later, all are
whole and stay.

Follows org.apache.kafka.storage.internals.log.{LogFileUtils,LocalLog.replaceSegments} and the first passes of LogLoader
(KAFKA-6264).
"""

from collections.abc import Iterator
from itertools import count

from pykraft.common.errors import CorruptRecordError
from pykraft.records.batch import LARGEST_OFFSET
from pykraft.storage.disk.checkpoint import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from pykraft.storage.disk.filesystem import TEMPORARY_SUFFIX, FileSystem
from pykraft.storage.file_records import FileRecords

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETED_SUFFIX = ".deleted"

SMALL_FILES = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)
"""The other files of a log that are replaced as a whole."""
_OFFSET_DIGITS = 20


def segment_paths(filesystem: FileSystem, directory: str, base_offset: int, suffix: str = "") -> list[str]:
    """The files that the segment has under this suffix, the .log file first."""
    stem = f"{directory}/{base_offset:020d}"
    return [path for kind in SUFFIXES if filesystem.exists(path := stem + kind + suffix)]


def remove_segment_files(filesystem: FileSystem, directory: str, base_offset: int, suffix: str = "") -> None:
    """Remove the files of a segment that is closed."""
    for path in segment_paths(filesystem, directory, base_offset, suffix):
        filesystem.remove(path)


def mark_deleted(filesystem: FileSystem, directory: str, base_offset: int) -> tuple[list[str], str]:
    """Take the segment out of the log; the new names of its files, and the suffix that they got. No other file has it:
    a response that promised bytes of one file, and has to open it again, must not find those of another."""
    suffix = next(each for each in _deleted_suffixes() if not segment_paths(filesystem, directory, base_offset, each))
    paths = segment_paths(filesystem, directory, base_offset)
    for path in paths:
        filesystem.rename(path, path + suffix)
    return [path + suffix for path in paths], suffix


def _deleted_suffixes() -> Iterator[str]:
    yield DELETED_SUFFIX
    yield from (f".{number}{DELETED_SUFFIX}" for number in count(2))


def begin_swap(filesystem: FileSystem, directory: str, base_offset: int) -> None:
    """Step 1: the cleaned segment is whole. From here on a crash ends with it in the log."""
    for path in reversed(segment_paths(filesystem, directory, base_offset, CLEANED_SUFFIX)):
        filesystem.rename(path, path.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
    filesystem.sync_directory(directory)


def finish_swap(filesystem: FileSystem, directory: str, base_offset: int) -> None:
    """Step 3: the cleaned segment gets its name."""
    for path in segment_paths(filesystem, directory, base_offset, SWAP_SUFFIX):
        filesystem.rename(path, path.removesuffix(SWAP_SUFFIX))
    filesystem.sync_directory(directory)


def offset_of(stem: str) -> int | None:
    """The offset that is the first part of a file's name: 20 digits. None for anything else, for only a name like that
    leads to the file again."""
    is_offset = len(stem) == _OFFSET_DIGITS and stem.isascii() and stem.isdecimal() and int(stem) <= LARGEST_OFFSET
    return int(stem) if is_offset else None


def base_offset_of(name: str) -> int | None:
    """The base offset in the name of a segment's file; None for other files."""
    stem, dot, rest = name.partition(".")
    return offset_of(stem) if dot + rest.partition(".")[0] in SUFFIXES else None


def finish_leftovers(filesystem: FileSystem, directory: str) -> list[str]:
    """Finish or take back what a crash interrupted: replacements of small files, deletions, cleaning, swaps; and remove
    indexes whose log is gone; but no file whose name is none of ours. Returns the names of the files that are left."""
    names = filesystem.list(directory)
    if any(name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
        _finish_cleaning(filesystem, directory)
        names = filesystem.list(directory)
    logs = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    left = []
    for name in names:
        stem, dot, suffix = name.partition(".")
        is_orphan = dot + suffix in SUFFIXES and stem not in logs
        is_over = name.endswith((TEMPORARY_SUFFIX, DELETED_SUFFIX)) or is_orphan
        if is_over and (base_offset_of(name) is not None or name.removesuffix(TEMPORARY_SUFFIX) in SMALL_FILES):
            filesystem.remove(f"{directory}/{name}")
        else:
            left.append(name)
    return left


def _finish_cleaning(filesystem: FileSystem, directory: str) -> None:
    _take_back_cleaning(filesystem, directory)
    names = filesystem.list(directory)
    swaps = sorted(
        {base for name in names if name.endswith(SWAP_SUFFIX) and (base := base_offset_of(name)) is not None}
    )
    for base_offset in swaps:
        _remove_replaced(filesystem, directory, base_offset)
        finish_swap(filesystem, directory, base_offset)


def _take_back_cleaning(filesystem: FileSystem, directory: str) -> None:
    """Remove what the cleaner was writing. If some of a segment's files have become ``.swap`` and others not yet, all
    of them go, and those of later segments: Kafka may have split one segment into several."""
    names = {name: base for name in filesystem.list(directory) if (base := base_offset_of(name)) is not None}
    unfinished = [base for name, base in names.items() if name.endswith(CLEANED_SUFFIX)]
    if not unfinished:
        return
    for name, base_offset in names.items():
        if name.endswith(SWAP_SUFFIX) and base_offset >= min(unfinished):
            filesystem.remove(f"{directory}/{name}")
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            filesystem.remove(f"{directory}/{name}")


def _remove_replaced(filesystem: FileSystem, directory: str, base_offset: int) -> None:
    """Remove the segments that a ``.log.swap`` was made of: those that begin within it."""
    path = f"{directory}/{base_offset:020d}{LOG_SUFFIX}{SWAP_SUFFIX}"
    if not filesystem.exists(path):
        return  # it has its name already
    end = _end_offset(filesystem, path, base_offset)
    replaced = {base for name in filesystem.list(directory) if (base := base_offset_of(name)) is not None}
    for base in sorted(replaced):
        if base_offset <= base < end:
            remove_segment_files(filesystem, directory, base)


def _end_offset(filesystem: FileSystem, path: str, base_offset: int) -> int:
    records = FileRecords(filesystem.open(path))
    end = base_offset
    try:
        for at in records.headers():
            end = at.header.next_offset
    except CorruptRecordError:
        pass  # the recovery of the segment will see to it
    finally:
        records.close()
    return end
