"""What came of a simulated run: a report, or the seed and the step at which it failed.

Both name the seed, for a seed is all that it takes to run the same history again. A report counts what the run has
brought about, and has a digest of everything that was reported: equal runs have equal digests.
"""

from dataclasses import dataclass

from pykraft.sim.laws.progress import Progress


@dataclass(frozen=True)
class Report:
    """What came of a run."""

    seed: int
    progress: Progress
    steps: int
    virtual_ms: int
    digest: str
    """A hash of everything that was reported: equal runs have equal digests."""

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in vars(self.progress).items())
        return f"seed {self.seed}: {self.steps} steps, {self.virtual_ms / 1000:.1f} s, {counts}, digest {self.digest}"


class SimulationFailed(AssertionError):  # noqa: N818 (it tells what happened)
    """A law was broken, or a node died. The message names the seed that shows it again."""

    def __init__(self, seed: int, step: int, now: int, cause: BaseException) -> None:
        super().__init__(
            f"seed {seed}, step {step}, {now} ms: {type(cause).__name__}: {cause}\n"
            f"again: python -m pykraft simulate {seed}"
        )
        self.seed = seed
        self.step = step
