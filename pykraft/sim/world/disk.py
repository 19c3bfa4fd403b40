"""A disk in memory that forgets what a real one may forget: `MemoryFileSystem`, a `FileSystem` for tests and simulator.

It tells what was *written* from what is *on the disk*. Of a file it knows the bytes as written, and how many of them
were there at its last sync; of a folder the entries as they are, and the changes to them since it was last synced. So
it can tell two kinds of crash apart:

`crash_process` ends the process. Open files die with it (each further use raises OSError) and locks are released. All
bytes and all entries stay, for the kernel has them.

`crash_power` also loses what was not synced, each file and each folder on its own, by the dice that it is given:

* *Appended bytes.* A file keeps what was synced, and of what was appended since a prefix that may end at any byte:
  often nothing or everything, else any length. In some cases the last bytes of that prefix are not what was written but
  zeros (the length reached the disk before the data did) or noise (a sector was being written).
* *Truncation.* A truncation that was not synced either happened, with what was appended after it treated as above; or
  it never did: the file is what it was at its last sync, and nothing appended since survives. There is no mixture, as
  the blocks of a file that was cut are given away only with the transaction that cuts it.
* *Entries.* The creations, renames and removals in a folder that was not synced are kept up to a random one, in their
  order, and undone from there on: a journal keeps changes in order. A rename is one change: the old name and the new
  are never both there, nor both gone. Folders are independent of each other, and a file's sync says nothing about its
  folder: a file that was synced, but whose entry was not, may be missing. POSIX promises no more. (ext4 does: it has
  one journal for all folders, and the sync of a file writes it out.)
* `write` returns with the file synced, but not its folder.

What an open file needs is its inode, not its name: it works on when its name changes or goes.

*Bit rot* (`rot`): bytes of a file read as others than were written. The file keeps what was written beside it, and
shows the damage only while `shows_damage`: a node meets it, and a law that looks at the same file does not. A disk can
be copied (`copy`), so that an older one can be put in its place.

*Broken disks* (`failed_folders`): what is asked of a file below such a folder fails, until the folder is mended. A disk
can also be made to break at the next operation of a kind on it (`break_at`). As with rot, only the node meets that; a
law also reads what the node has closed.

For tests the changing operations are counted (`operations`), and one of those to come can be made to fail
(`fail_after`), or to be the one before which or within which the machine stops (`crash_after`).

Follows what ext4 (data=ordered) does, and forgets more, where POSIX allows it. Only the order of a folder's changes is
taken from the journal: POSIX would allow to lose any of them. A sync of a folder that is there for that order alone is
therefore missed by no crash here; those that must not be missed are planted bugs of the crash tests.
"""

import errno
from collections.abc import Mapping
from copy import deepcopy
from random import Random

from pykraft.common.core import FileRegion
from pykraft.storage.disk.filesystem import Data, LockedError, Space

_GARBLED = 0.25
"""How often the surviving part of unsynced bytes ends in bytes that were never written."""


_CAPACITY_BYTES = 1 << 50


class Crash(BaseException):
    """The machine stops here. No code under test may catch it, so it is no Exception."""


class _Inode:
    """A file without its name."""

    __slots__ = ("before_cut", "data", "rotten", "synced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = 0
        """So many of the first bytes are on the disk, if the truncations are."""
        self.before_cut: bytes | None = None
        """What was on the disk before the first truncation that was not synced."""
        self.rotten: dict[int, int] = {}
        """By position: the bits of a byte that are read inverted."""

    def read(self, start: int, end: int, shows_damage: bool) -> bytes:
        if not (self.rotten and shows_damage):
            return bytes(memoryview(self.data)[start:end])
        found = bytearray(memoryview(self.data)[start:end])
        for position, bits in self.rotten.items():
            if start <= position < start + len(found):
                found[position - start] ^= bits
        return bytes(found)

    def cut(self, size: int) -> None:
        if size < self.synced:
            if self.before_cut is None:
                self.before_cut = bytes(memoryview(self.data)[: self.synced])
            self.synced = size
        del self.data[size:]
        self.rotten = {position: bits for position, bits in self.rotten.items() if position < size}

    def sync(self) -> None:
        self.synced = len(self.data)
        self.before_cut = None

    def lose(self, random: Random) -> None:
        """The power fails."""
        if self.before_cut is not None and random.random() < 0.5:
            self.data = bytearray(self.before_cut)
        elif self.synced < len(self.data):
            self._tear(random)
        self.rotten = {position: bits for position, bits in self.rotten.items() if position < len(self.data)}
        self.sync()

    def _tear(self, random: Random) -> None:
        size = random.choice((self.synced, len(self.data), random.randint(self.synced, len(self.data))))
        del self.data[size:]
        if size > self.synced and random.random() < _GARBLED:
            count = random.randint(1, size - self.synced)
            self.data[size - count :] = random.choice((bytes(count), random.randbytes(count)))


_Change = tuple[tuple[str, "_Inode | _Directory | None"], ...]


class _Directory:
    """A folder: its entries, and the changes to them that may be lost."""

    __slots__ = ("durable", "entries", "unsynced")

    def __init__(self) -> None:
        self.entries: dict[str, _Inode | _Directory] = {}
        self.durable: dict[str, _Inode | _Directory] = {}
        self.unsynced: list[_Change] = []

    def change(self, *change: "tuple[str, _Inode | _Directory | None]") -> None:
        """Give each of these names to its file or folder, or to none, all at once."""
        _apply(change, self.entries)
        self.unsynced.append(change)

    def sync(self) -> None:
        for change in self.unsynced:
            _apply(change, self.durable)
        self.unsynced = []

    def lose(self, random: Random) -> None:
        """The power fails, for this folder and all that is left in it."""
        del self.unsynced[random.randint(0, len(self.unsynced)) :]
        self.sync()
        self.entries = dict(self.durable)
        for _, node in sorted(self.entries.items()):
            node.lose(random)

    @property
    def size_bytes(self) -> int:
        nodes = self.entries.values()
        return sum(node.size_bytes if isinstance(node, _Directory) else len(node.data) for node in nodes)

    def sync_all(self) -> None:
        self.sync()
        for node in self.entries.values():
            if isinstance(node, _Directory):
                node.sync_all()
            else:
                node.sync()


def _apply(change: _Change, entries: "dict[str, _Inode | _Directory]") -> None:
    for name, node in change:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class MemoryFile:
    """An open file. As with the system's own, `size` is what this handle knows of."""

    __slots__ = ("_filesystem", "_inode", "_life", "path", "size")

    def __init__(self, filesystem: "MemoryFileSystem", path: str, inode: _Inode) -> None:
        self._filesystem = filesystem
        self._inode = inode
        self._life = filesystem.life
        self.path = path
        self.size = len(inode.data)

    def append(self, data: Data) -> None:
        self._check("append")
        self._filesystem.step(self._inode, data)
        self._inode.data += data
        self.size += len(data)

    def read(self, position: int, length: int) -> bytes:
        if self._filesystem.shows_damage:
            self._check("read")
        return self._inode.read(position, position + length, self._filesystem.shows_damage)

    def truncate(self, size: int) -> None:
        self._check()
        assert size <= self.size, f"{self.path} has {self.size} bytes and cannot be cut to {size}"
        self._filesystem.step()
        self._inode.cut(size)
        self.size = size

    def trim(self) -> None:
        """Nothing was reserved."""

    def sync(self) -> None:
        self._check("sync")
        self._filesystem.step()
        self._inode.sync()

    def region(self, position: int, length: int) -> FileRegion | bytes:
        return self.read(position, length)

    def close(self) -> None:
        self._life = -1

    def _check(self, operation: str = "") -> None:
        if self._life != self._filesystem.life:
            raise OSError(errno.EBADF, "the file is closed, or its process ended", self.path)
        if self._filesystem.has_bad_disks:
            self._filesystem.check_disk(self.path, operation)


class MemoryLock:
    """A file's lock, held until released or until the process ends."""

    def __init__(self, held: "dict[str, MemoryLock]", path: str) -> None:
        self._held = held
        self._path = path
        held[path] = self

    def release(self) -> None:
        if self._held.get(self._path) is self:
            del self._held[self._path]


_OF_SEGMENTS_THAT_GO = (".swap", ".deleted")


class MemoryFileSystem:
    """A tree of folders and files in memory. See the module for what it loses when."""

    def __init__(self) -> None:
        self._root = _Directory()
        self._locks: dict[str, MemoryLock] = {}
        self.life = 0
        """Which process uses it: files opened by one before it are dead."""
        self.operations = 0
        """How many operations have changed something, or synced it."""
        self._planned: tuple[int, OSError | Crash, int] | None = None
        self._is_for_good = False
        self._stopped: OSError | Crash | None = None
        self.crash_in_swap: int | None = None
        """As `crash_after`, from the next time on that segments are swapped or deleted."""
        self.capacity_bytes = _CAPACITY_BYTES
        """A write beyond this many bytes finds the disk full."""
        self.failed_folders: set[str] = set()
        """What is asked of a file below one of these fails: a disk of its own, which has broken."""
        self._breaking: dict[str, str] = {}
        """By folder: the operation at which its disk will break."""
        self.refusals = 0
        """How many writes of this process found it full."""
        self.is_rotten = False
        """Whether some of its bytes are rotten."""
        self.shows_damage = True
        """Whether these are read so now, and a broken disk fails now."""

    # --- the port -----------------------------------------------------------------------------------------------------

    def open(self, path: str) -> MemoryFile:
        directory, name = self._parent(path)
        inode = directory.entries.get(name)
        if isinstance(inode, _Directory):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        if inode is None and self.has_bad_disks:
            self.check_disk(path, "create")
        return MemoryFile(self, path, inode if inode is not None else self._create(directory, name))

    def exists(self, path: str) -> bool:
        try:
            self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def read(self, path: str) -> bytes:
        inode = self._inode(path)
        return inode.read(0, len(inode.data), self.shows_damage)

    def write(self, path: str, data: Data, mode: int = 0o644) -> None:
        directory, name = self._parent(path, "write")
        inode = directory.entries.get(name)
        if isinstance(inode, _Directory):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        if inode is None:
            inode = self._create(directory, name)
        else:
            self.step()
            inode.cut(0)
        self.step(inode, data)
        inode.data += data
        self.step()
        inode.sync()

    def list(self, path: str) -> list[str]:
        return sorted(self._directory(path).entries)

    def make_directory(self, path: str) -> None:
        directory = self._root
        for name in _parts(path):
            node = directory.entries.get(name)
            if node is None:
                self.step()
                node = _Directory()
                directory.change((name, node))
            if not isinstance(node, _Directory):
                raise FileExistsError(errno.EEXIST, "a file has this name", path)
            directory = node

    def remove(self, path: str) -> None:
        directory, name = self._parent(path)
        node = self._node(path)
        if isinstance(node, _Directory):
            for child in sorted(node.entries):
                self.remove(f"{path}/{child}")
        self.step()
        directory.change((name, None))

    def rename(self, old: str, new: str) -> None:
        directory, name = self._parent(old, "rename")
        target, new_name = self._parent(new)
        node = self._node(old)
        assert directory is target, "pykraft renames within a folder only"
        replaced = target.entries.get(new_name)
        if isinstance(replaced, _Directory) and replaced.entries:
            raise OSError(errno.ENOTEMPTY, "the folder is not empty", new)
        if self.crash_in_swap is not None and new.endswith(_OF_SEGMENTS_THAT_GO):
            self.crash_after(self.crash_in_swap)
            self.crash_in_swap = None
        self.step()
        directory.change((name, None), (new_name, node))

    def sync_directory(self, path: str) -> None:
        directory = self._directory(path)
        self.step()
        directory.sync()

    def sync_everything(self, path: str) -> None:
        directory = self._directory(path)
        self.step()
        directory.sync_all()

    def lock(self, path: str) -> MemoryLock:
        self.open(path).close()
        if path in self._locks:
            raise LockedError("this process")
        return MemoryLock(self._locks, path)

    def space(self, path: str) -> Space:
        self._directory(path)
        return Space(self.capacity_bytes, max(0, self.capacity_bytes - self._root.size_bytes))

    def absolute(self, path: str) -> str:
        return path

    # --- crashes ------------------------------------------------------------------------------------------------------

    def crash_process(self) -> None:
        """The process ends: open files die, locks are released, every byte stays."""
        self.life += 1
        self.refusals = 0
        self._locks.clear()
        self.spare()

    def crash_power(self, random: Random) -> None:
        """The power fails: what was not synced is lost, or is not, as the dice fall."""
        self.crash_process()
        self._root.lose(random)

    def sync_all(self) -> None:
        """Put everything on the disk: a test begins from here."""
        self._root.sync_all()

    def durable_size(self, path: str) -> int:
        """So many of a file's first bytes outlast a loss of power, whatever the dice say; 0 if its name may not."""
        node: _Inode | _Directory | None = self._root
        for name in _parts(path):
            node = node.durable.get(name) if isinstance(node, _Directory) else None
        return node.synced if isinstance(node, _Inode) else 0

    # --- damage, and other disks --------------------------------------------------------------------------------------

    def fill_up(self, left_bytes: int) -> None:
        """Only this much more can be written."""
        self.capacity_bytes = self._root.size_bytes + left_bytes

    def make_room(self) -> None:
        self.capacity_bytes = _CAPACITY_BYTES

    def rot(self, path: str, bits: Mapping[int, int]) -> None:
        """At these positions of a file these bits are inverted from now on."""
        self._inode(path).rotten.update(bits)
        self.is_rotten = True

    def rotten(self, path: str) -> tuple[int, ...]:
        """The rotten positions that a file still has."""
        return tuple(self._inode(path).rotten)

    def break_at(self, folder: str, operation: str) -> None:
        """The disk that this folder is on breaks at the next such operation: append, create, read, rename, sync, or
        write, which is that of a checkpoint."""
        self._breaking[folder] = operation

    def is_breaking(self, folder: str) -> bool:
        """Whether its disk will break."""
        return folder in self._breaking

    def break_now(self, folder: str) -> None:
        """The disk that this folder is on breaks."""
        self._breaking.pop(folder, None)
        self.failed_folders.add(folder)

    def lose_unsynced(self, folder: str, random: Random) -> None:
        """The disk that this folder is on has lost what was not synced, as `crash_power` takes it from all."""
        self._directory(folder).lose(random)

    def copy(self) -> "MemoryFileSystem":
        """Another disk with all that is on this one now; no process uses it."""
        other = MemoryFileSystem()
        other._root, other.is_rotten = deepcopy(self._root), self.is_rotten
        other.shows_damage = False
        other.sync_all()
        return other

    # --- planned faults -----------------------------------------------------------------------------------------------

    def fail_after(self, count: int, error: OSError, torn_bytes: int = 0, for_good: bool = False) -> None:
        """Let `count` more operations succeed; the one after them raises `error`. Of what it writes `torn_bytes` are
        written and stay, of all else nothing is done. A disk that fails `for_good` then fails at everything, until
        `spare` or a crash."""
        self._planned = (self.operations + count, error, torn_bytes)
        self._is_for_good = for_good

    def crash_after(self, count: int, torn_bytes: int = 0) -> None:
        """Let `count` more operations succeed, then stop: the next one raises `Crash`, as does all that follows, until
        `crash_process` or `crash_power` is called. If it writes bytes, the first `torn_bytes` of them are written."""
        self._planned = (self.operations + count, Crash(), torn_bytes)
        self._is_for_good = True

    def spare(self) -> None:
        """Take back what was planned; a disk that failed works again."""
        self._planned = self._stopped = self.crash_in_swap = None
        self._breaking = {}

    def step(self, inode: _Inode | None = None, data: Data = b"") -> None:
        """Count an operation that is about to begin, perhaps the append of `data`; raise what was planned for it."""
        if self._stopped is not None:
            raise self._stopped
        if self._planned is not None and self._planned[0] == self.operations:
            _, error, torn_bytes = self._planned
            self._planned = None
            self._stopped = error if self._is_for_good else None
            if inode is not None:
                inode.data += memoryview(data)[:torn_bytes]
            raise error
        is_limited = data and self.capacity_bytes < _CAPACITY_BYTES
        if is_limited and self._root.size_bytes + len(data) > self.capacity_bytes:
            self.refusals += 1
            raise OSError(errno.ENOSPC, "no space is left on the disk")
        self.operations += 1

    # --- paths --------------------------------------------------------------------------------------------------------

    def _create(self, directory: _Directory, name: str) -> _Inode:
        self.step()
        inode = _Inode()
        directory.change((name, inode))
        return inode

    @property
    def has_bad_disks(self) -> bool:
        return bool(self.failed_folders or self._breaking) and self.shows_damage

    def check_disk(self, path: str, operation: str = "") -> None:
        """OSError if the disk of this file has broken, or breaks now."""
        for folder, breaks_at in list(self._breaking.items()):
            if operation == breaks_at and is_below(path, folder):
                self.break_now(folder)
        if any(is_below(path, folder) for folder in self.failed_folders):
            raise OSError(errno.EIO, "the disk fails", path)

    def _node(self, path: str) -> _Inode | _Directory:
        if self.has_bad_disks:
            self.check_disk(path)
        node: _Inode | _Directory = self._root
        for name in _parts(path):
            if not isinstance(node, _Directory):
                raise NotADirectoryError(errno.ENOTDIR, "a part of the path is a file", path)
            if name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, "there is no such file or folder", path)
            node = node.entries[name]
        return node

    def _inode(self, path: str) -> _Inode:
        node = self._node(path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._node(path)
        if not isinstance(node, _Directory):
            raise NotADirectoryError(errno.ENOTDIR, "it is a file", path)
        return node

    def _parent(self, path: str, operation: str = "") -> tuple[_Directory, str]:
        if self.has_bad_disks:
            self.check_disk(path, operation)
        above, _, name = path.rpartition("/")
        return self._directory(above), name


def is_below(path: str, folder: str) -> bool:
    """Whether this is the folder, or something in it."""
    return path == folder or path.startswith(f"{folder}/")


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
