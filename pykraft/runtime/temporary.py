"""Temporary directories that are removed, at the latest by the next process that makes one.

A process that is killed removes nothing: a notebook's kernel that is restarted, a test run that is stopped. So each
directory has a mark, a file that says which process made it, and that this process keeps locked while it lives. Before
a process makes a directory it looks for those whose process has ended.

What pykraft did not make is never touched. A directory is removed only if all of this is so:

* its name begins as these names do, it is a directory of this user, and no link;
* the mark names its device and inode. A copy that you made of it has others;
* the process of the mark has ended: another one has its number, none has, or the machine has been started since;
* its lock is free, and so are those of the nodes in it. (In another container the number of a process means nothing.)
"""

import os
import shutil
import stat
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from pykraft.network.inherited import end_in_child
from pykraft.storage.disk.filesystem import LockedError, OsLock

PREFIX = "pykraft-"
MARK = ".made-by-pykraft"
_NODE_LOCKS = "*/.lock"


class TemporaryPlace:
    """A new directory of this process, below the system's directory for temporary files."""

    def __init__(self, prefix: str = PREFIX) -> None:
        """Removes the directories of processes that have ended. `prefix` begins with that of all names."""
        remove_abandoned(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        mark = self.path / MARK
        mark.write_text(_mark_of(self.path, os.getpid()))
        self._lock: OsLock | None = OsLock(str(mark))
        _own.add(self.path)
        end_in_child(self, TemporaryPlace._leave_to_parent)

    def remove(self) -> None:
        """Remove it with all that is in it; a second time does nothing."""
        if self._lock is None:
            return
        _remove(self.path)
        self._lock.release()
        self._lock = None
        _own.discard(self.path)

    def _leave_to_parent(self) -> None:
        self._lock = None


_own: set[Path] = set()
"""Those of this process: to open a mark and close it again would release its lock."""


def remove_abandoned(folder: Path) -> list[Path]:
    """Remove the directories in `folder` whose process has ended; which they were."""
    removed = []
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if entry.name.startswith(PREFIX)]:
            path = folder / name
            if path not in _own and _remove_if_abandoned(path):
                removed.append(path)
    return removed


def _remove_if_abandoned(path: Path) -> bool:
    try:
        if not _is_abandoned(path):
            return False
        with ExitStack() as held:
            for each in (path / MARK, *sorted(path.glob(_NODE_LOCKS))):
                held.callback(OsLock(str(each)).release)
            _remove(path)
    except (OSError, ValueError, LockedError):
        return False
    return not path.exists()


def _remove(path: Path) -> None:
    """The mark goes last: what could not be removed, or was interrupted, is found again."""
    for each in path.iterdir() if path.is_dir() else ():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        elif each.name != MARK:
            each.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    """Whether the directory is one of these, and its process has ended. OSError, ValueError: it is none of these."""
    found, mark = path.lstat(), path / MARK
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or not stat.S_ISREG(mark.lstat().st_mode):
        return False
    text = mark.read_text()
    said = dict(line.split("=", 1) for line in text.splitlines())
    pid = int(said["pid"]) if said.get("pid", "").isdecimal() else 0
    is_ours = pid > 0 and text == _mark(said.get("boot", ""), pid, said.get("started", ""), path)
    return is_ours and _mark_of(path, pid) != text


def _mark_of(path: Path, pid: int) -> str:
    """What the mark of a directory says if this process made it."""
    return _mark(_boot_id(), pid, _started(pid), path)


def _mark(boot: str, pid: int, started: str, path: Path) -> str:
    found = path.lstat()
    return f"boot={boot}\npid={pid}\nstarted={started}\ninode={found.st_dev}:{found.st_ino}\n"


def _boot_id() -> str:
    """Differs each time that the machine is started; empty where the system does not say."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _started(pid: int) -> str:
    """When this process was started: another one may get its number. Where the system does not say, whether it runs."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, 0)
        return "" if not Path("/proc/self/stat").exists() else "ended"
    return "ended"
