"""One script's dialogue: its first command says what is on the stage, the others are said to that."""

from __future__ import annotations

from tests.datadriven.cluster import Cluster
from tests.datadriven.vocabulary import ScriptError, World
from tests.datadriven.voters import Voters

WORLDS: dict[str, type[World]] = {"voters": Voters, "static-voters": Voters, "cluster": Cluster}


class Dialogue:
    """Runs the lines of a script, one after the other."""

    def __init__(self) -> None:
        self._world: World | None = None

    def run(self, line: str) -> list[str]:
        """Do what the line says; what the nodes say then."""
        first = line.split()[0]
        if self._world is None:
            if first not in WORLDS:
                raise ScriptError(f"a script begins with {' or '.join(WORLDS)}, not with {first}")
            self._world = WORLDS[first]()
        return self._world.run(line)
