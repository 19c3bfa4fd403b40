"""Simulated clusters for people: one seed, one run.

::

    run = Simulation(4711)
    print(run.run())          # counts, and a digest that is the same on every machine
    run.at(5000)              # the cluster as it was at step 5,000: the run is done again up to there
    run.story()               # to step through it, step into it, and let it go on differently

See `pykraft.sim.cluster` for what happens in a run and what is checked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pykraft.cluster_view import ClusterView
from pykraft.common.trace import TraceEvent
from pykraft.controller.features import levels_with
from pykraft.sim.cluster import Intervention, SimulatedCluster
from pykraft.sim.report import Report, SimulationFailed
from pykraft.sim.trail import origin, trail
from pykraft.sim.trouble.knobs import Knobs, calm, draw
from pykraft.story.story import Story
from pykraft.story.views import cluster_view

__all__ = ["Report", "Simulation", "SimulationFailed"]


class Simulation:
    """The run of one seed."""

    def __init__(
        self,
        seed: int,
        knobs: Knobs | None = None,
        is_calm: bool = False,
        features: Mapping[str, int] | None = None,
    ) -> None:
        """`knobs` (`pykraft.sim.trouble.knobs`) are the seed's own, unless others are given; `is_calm` takes all faults
        from them, so that there are none but yours. `features` are levels of the cluster by name, where they are to be
        others than usual (``{"eligible.leader.replicas.version": 0}``); ConfigError if there is no such level."""
        self.seed = seed
        self.knobs = draw(seed) if knobs is None else knobs
        if is_calm:
            self.knobs = calm(self.knobs)
        if features:
            levels_with(features)
            self.knobs = replace(self.knobs, features={**self.knobs.features, **features})
        self._cluster = self._begin()

    def _begin(self) -> SimulatedCluster:
        cluster = SimulatedCluster(self.seed, self.knobs)
        cluster.begin()
        return cluster

    @property
    def cluster(self) -> SimulatedCluster:
        """The nodes and clients at this step."""
        return self._cluster

    @property
    def step(self) -> int:
        """How many events have happened."""
        return self._cluster.scheduler.steps

    @property
    def trace(self) -> list[TraceEvent]:
        """What was reported up to this step."""
        return self._cluster.trace

    def describe(self) -> ClusterView:
        """What the nodes know at this step, and what is on its way between them."""
        return cluster_view(self._cluster)

    def story(self, interventions: Mapping[int, Intervention] | None = None) -> Story:
        """The whole run, to step through, and into. `interventions` are what was done in which step, as a branch keeps
        them: with the same ones it is the same story again."""
        return Story.begin(self.seed, self.knobs, interventions or {}).run()

    def run(self) -> Report:
        """Go on to the end. SimulationFailed if a law is broken on the way."""
        while not self._cluster.is_settled:
            self._cluster.step()
        return self._cluster.report()

    @property
    def origin(self) -> str:
        """All that the history depends on, in one line: version, seed, settings of your own, and what you have done."""
        return origin(self._cluster)

    def trail(self) -> Iterator[str]:
        """Go on to the end, like `run`: one line for each step, the same on every machine (see `pykraft.sim.trail`)."""
        return trail(self._cluster)

    def at(self, step: int) -> SimulatedCluster:
        """The cluster right after an event: forward from here, or from the beginning."""
        if step < self.step:
            self._cluster = self._begin()
        while self.step < step and not self._cluster.is_settled:
            self._cluster.step()
        return self._cluster
