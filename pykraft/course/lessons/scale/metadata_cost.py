"""What a partition costs a node in memory, on its disk and at its start: measured here, by the code of a real node.

::

    cost = cost_of(10_000)
    cost.memory_bytes                  what the image holds
    cost.snapshot_bytes                the file that is written of it
    cost.write_s, cost.load_s          the time of a snapshot, and of a start that reads it

No cluster runs: the image becomes records and the records a file, and the file becomes records and an image again, as
in a node (`metadata.snapshot_generator`, `metadata.loader`). Partitions have three replicas on five brokers.
"""

import gc
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import NamedTuple

from pykraft.common.core import finish
from pykraft.common.types import OffsetAndEpoch, Uuid
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionRegistration
from pykraft.metadata.loader import MetadataLoader
from pykraft.metadata.snapshot_generator import snapshot_of_image
from pykraft.protocol.messages.records import TopicRecord
from pykraft.raft.log.history import read_snapshot
from pykraft.raft.log.snapshot import snapshot_name, write_snapshot
from pykraft.raft.log.voters import NO_VOTERS
from pykraft.storage.disk.filesystem import OsFileSystem

BROKERS, REPLICAS, PER_TOPIC = 5, 3, 100
_END = OffsetAndEpoch(20_000, 3)
_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType)
_AT_ONCE = 1000


class Cost(NamedTuple):
    """What the metadata of this many partitions costs one node."""

    partitions: int
    memory_bytes: int
    snapshot_bytes: int
    write_s: float
    load_s: float


def cost_of(partitions: int) -> Cost:
    """Write a snapshot of this many partitions, load it, and measure both."""
    filesystem = OsFileSystem()
    with tempfile.TemporaryDirectory() as folder, without_collector():
        path = Path(folder) / snapshot_name(_END)
        image = image_of(partitions)
        began = time.perf_counter()
        write_snapshot(filesystem, str(path), snapshot_of_image(image, NO_VOTERS, _END.epoch, 0, 0))
        written = time.perf_counter()
        del image
        loading = time.perf_counter()
        loader = MetadataLoader()
        found = read_snapshot(filesystem, str(path))
        assert found is not None
        finish(loader.handle_load_snapshot(found.id, found.decoded()))
        loaded = time.perf_counter()
        return Cost(partitions, bytes_of(loader.image), path.stat().st_size, written - began, loaded - loading)


@contextmanager
def without_collector() -> Iterator[None]:
    """A process that is a node keeps the collector of cycles from visiting its metadata again and again
    (`runtime.garbage`): here it waits as well."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def image_of(partitions: int) -> MetadataImage:
    """Topics of at most a hundred partitions, each on three of five brokers."""
    random = Random(1)
    delta = MetadataDelta(EMPTY_IMAGE)
    for first in range(0, partitions, PER_TOPIC):
        topic_id = Uuid.random(random)
        delta.replay(TopicRecord(name=f"topic-{first // PER_TOPIC}", topic_id=topic_id))
        for number in range(min(PER_TOPIC, partitions - first)):
            delta.replay(_registration(number).to_record(topic_id, number))
    return delta.apply(OffsetAndEpoch(_END.offset - 1, _END.epoch))


def _registration(number: int) -> PartitionRegistration:
    replicas = tuple(1 + (number + each) % BROKERS for each in range(REPLICAS))
    return PartitionRegistration(
        replicas=replicas,
        directories=tuple(Uuid(bytes(15) + bytes([100 + replica])) for replica in replicas),
        isr=replicas,
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
    )


def bytes_of(thing: object) -> int:
    """The memory of a thing and of all that it refers to, each object once; without the program's code."""
    seen, waiting, total = {id(thing)}, [thing], sys.getsizeof(thing)
    while waiting:
        some, waiting = waiting[-_AT_ONCE:], waiting[:-_AT_ONCE]
        for found in gc.get_referents(*some):
            if id(found) not in seen and not isinstance(found, _CODE):
                seen.add(id(found))
                total += sys.getsizeof(found)
                waiting.append(found)
    return total
