"""A node in a process of its own, started as one starts it from a shell: ``python -m pykraft server FILE``.

Nodes in processes run side by side on several cores, are not held up by a notebook's cell, and can be ended with
``kill -9``. What they say goes to a file. A node whose parent is gone stops: it reads its standard input for the end of
it, so that a kernel that was restarted leaves no nodes behind.
"""

import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

_READY = b"  lifecycle  state=running\n"
_ENDS = (0, -signal.SIGKILL, -signal.SIGTERM)
"""Exit codes of a process that was stopped or killed; SIGTERM's if it had not installed its handler yet."""


class NodeProcess:
    """One node, from its properties file."""

    command: ClassVar[tuple[str, ...]] = ("-m", "pykraft", "server")

    def __init__(self, node_id: int, properties_file: Path, log_file: Path, network: str = "fused") -> None:
        self.name = f"node-{node_id}"
        self._log_file = log_file
        self._log_start = log_file.stat().st_size if log_file.exists() else 0
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self.command, str(properties_file), "--network", network, "--stop-with-parent"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for the notebook's cell, not for the node
            )
        self._is_wanted = True
        self._has_been_ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """Whether the broker has said that it serves. Others may still take the process before it for alive."""
        if not self._has_been_ready:
            with self._log_file.open("rb") as log:
                log.seek(self._log_start)
                self._has_been_ready = _READY in log.read()
        return self._has_been_ready

    @property
    def failure(self) -> BaseException | None:
        """Why it does not run, if it was not stopped; or that it stopped badly."""
        code = self._process.poll()
        if code is None or (not self._is_wanted and code in _ENDS):
            return None
        return RuntimeError(f"{self.name} ended with code {code}; the end of its output: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._log_file.read_text(errors="replace").splitlines()
        return " | ".join(lines[-5:]) or "nothing"

    def begin_stop(self, hand_over: bool = True) -> None:
        """Ask it to stop in order; without handing over what it leads, it does not wait for other nodes."""
        self._is_wanted = False
        if not hand_over:
            self._close()  # as if the parent were gone
        elif self.is_running:
            self._process.terminate()

    def stop(self, timeout_s: float = 120) -> None:
        """Stop in order: leaderships handed over, files closed. With thousands of logs that takes its time; who is not
        done in `timeout_s` is killed."""
        if self._is_wanted:
            self.begin_stop()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._is_wanted = False
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
