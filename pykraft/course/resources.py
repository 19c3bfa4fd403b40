"""What a process holds: threads, connections, child processes, open files. Two looks tell what was left behind.

Some of it belongs to the notebook, not to the lesson: the kernel's own threads and sockets (a second browser tab may
open more at any time), the database of its history, the monitor of progress bars. We recognise them by where their code
comes from, by the ports they had at the first look, and by the folder of the files.

librdkafka's threads are not Python's; the system knows them by name.
"""

import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_NOTEBOOK = ("ipykernel", "IPython", "jupyter", "zmq", "tornado", "tqdm", "debugpy", "pydevd", "ipywidgets", "asyncio")
_NATIVE_CLIENT = "rdk:"


@dataclass(frozen=True)
class Resources:
    """One look at this process."""

    threads: frozenset[str]
    connections: frozenset[tuple[int, str]]
    """Local port and state."""
    children: frozenset[int]
    files: frozenset[str]
    native_clients: int
    """Threads of librdkafka."""

    @staticmethod
    def now() -> "Resources":
        process = psutil.Process()
        return Resources(
            frozenset(f"{thread.name} ({thread.ident})" for thread in threading.enumerate() if not _is_kernels(thread)),
            frozenset(
                (connection.laddr.port, connection.status)
                for connection in process.net_connections(kind="inet")
                if connection.laddr and connection.status not in (psutil.CONN_TIME_WAIT, psutil.CONN_NONE)
            ),
            frozenset(_children(process)),
            frozenset(file.path for file in process.open_files() if ".ipython" not in Path(file.path).parts),
            _native_clients(),
        )

    def beyond(self, before: "Resources") -> list[str]:
        """In words, what is here and was not there."""
        known_ports = {port for port, _ in before.connections}
        ports = sorted({port for port, _ in self.connections if port not in known_ports})
        found = [f"thread {name} still runs" for name in sorted(self.threads - before.threads)]
        found += [f"a socket on port {port} is still open" for port in ports]
        found += [f"child process {pid} still runs" for pid in sorted(self.children - before.children)]
        found += [f"{path} is still open" for path in sorted(self.files - before.files)]
        if self.native_clients > before.native_clients:
            found.append("a client of confluent_kafka still runs: close it, and delete the last name for it")
        return found


def _is_kernels(thread: threading.Thread) -> bool:
    """Whether the thread belongs to the notebook's machinery, by the module of its class or of what it runs."""
    modules = [type(thread).__module__, getattr(getattr(thread, "_target", None), "__module__", None) or ""]
    return any(module.startswith(_NOTEBOOK) for module in modules) or thread.name.startswith("asyncio_")


def _children(process: psutil.Process) -> list[int]:
    found = []
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                found.append(child.pid)
    return found


def _native_clients() -> int:
    """How many of librdkafka's threads run; 0 where the system does not name its threads in /proc."""
    names = []
    for file in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # it has ended meanwhile
            names.append(file.read_text())
    return sum(name.startswith(_NATIVE_CLIENT) for name in names)
