"""A cluster of pykraft in a process of its own, so that a test's process has none.

The child reads from its standard input which node to kill or restart, answers each with a line, and ends with the
input.
"""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType

from tests.harness.asking import PATIENT
from tests.harness.tree import ROOT

DONE = "done"


class ClusterProcess:
    """`nodes` combined nodes, ready when the constructor returns. With mode "processes" a kill is a SIGKILL."""

    def __init__(self, nodes: int = 3, mode: str = "threads", **properties: str) -> None:
        settings = json.dumps({name.replace("_", "."): value for name, value in properties.items()})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.cluster_process", str(nodes), mode, settings],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.bootstrap_servers = self._answer()

    def __enter__(self) -> ClusterProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def kill(self, node: int) -> None:
        self._tell(f"kill {node}")

    def restart(self, node: int) -> None:
        self._tell(f"restart {node}")

    def close(self) -> None:
        """End it; AssertionError if a node had died without a kill."""
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0, "the cluster did not end well: its own words are above"

    def _tell(self, order: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        assert self._answer() == DONE

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"the cluster ended with status {self._process.wait(60)}")
        return line


def main() -> None:
    from pykraft.cluster import Cluster

    nodes, mode, settings = sys.argv[1:]
    with Cluster(nodes=int(nodes), mode=mode, properties={**PATIENT, **json.loads(settings)}) as cluster:
        say(cluster.bootstrap_servers)
        for line in sys.stdin:
            order, node = line.split()
            {"kill": cluster.kill, "restart": cluster.restart}[order](int(node))
            say(DONE)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
