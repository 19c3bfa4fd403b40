"""The part of ``simulate`` that looks for bugs: those that are planted by name, and those in a patch."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

from pykraft.commands.common import CommandError, say, tell
from pykraft.sim.bugs.planting import Bug, bugs
from pykraft.sim.laws.names import LAWS
from pykraft.sim.search.coverage import Row, summary
from pykraft.sim.search.patched import PACKAGE, patched_package
from pykraft.sim.search.shrinker import Failure, Shrinker, runner
from pykraft.sim.search.unified_diff import PatchRefused
from pykraft.sim.search.untaken import RARE, UNTAKEN
from pykraft.sim.search.workers import Outcome, Unusable, run_seeds
from pykraft.sim.trouble.knobs import Knobs
from pykraft.sim.trouble.mixture import mixture
from pykraft.story.history_names import history_name

_PROGRESS = 10
_SEEDS_OF_A_PATCH = 100


def list_bugs() -> int:
    """Each bug: its name, what it breaks, and one sentence."""
    for bug in sorted(bugs().values(), key=lambda each: (each.part, each.name)):
        say(f"{bug.name} ({bug.part}): {bug.sentence}")
    return 0


def find_bug(name: str) -> Bug:
    found = bugs().get(name)
    if found is None:
        raise CommandError(f"--bug {name}: there is no such bug; --bugs lists them all")
    return found


def seeds_from(first: int | None) -> Iterator[int]:
    """From this seed on, or those of every kind in turn."""
    return mixture() if first is None else count(first)


def try_bug(bug: Bug, first: int | None, number: int, jobs: int) -> int:
    """Whether it dies in one of this many histories."""
    say(f"{bug.name}: {bug.sentence}")
    return _search(islice(seeds_from(first), number), jobs, bug.name, PACKAGE.parent, f" --bug {bug.name}")


def try_patch(path: Path, first: int | None, number: int | None, jobs: int) -> int:
    """Whether the patched package dies in one of this many histories."""
    seeds = islice(seeds_from(first), number or _SEEDS_OF_A_PATCH)
    try:
        with patched_package(path.read_text("utf-8")) as (root, others):
            for other in others:
                tell(f"left out: {other} is not in the package")
            return _search(seeds, jobs, "", root, f" --patch {path}")
    except PatchRefused as reason:
        raise CommandError(f"{path}: {reason}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def cover(first: int | None, number: int, jobs: int) -> int:
    """Which rows of the transition tables this many histories take. Exit code 1 if one of them breaks a law."""
    taken: set[Row] = set()
    died = False
    for done, outcome in enumerate(run_seeds(islice(seeds_from(first), number), jobs, has_coverage=True), 1):
        taken.update(outcome.rows)
        if outcome.law:
            died = True
            tell(outcome.line)
        if done % _PROGRESS == 0:
            tell(f"{done} histories, {len(taken)} rows")
    say("\n".join(summary(taken, RARE | UNTAKEN)))
    return 1 if died else 0


def shrink(seed: int, knobs: Knobs) -> int:
    """Leave out what can be left out, and say so; the smaller history is a line."""
    try:
        shrinker = Shrinker(runner(seed, knobs), knobs.omitted)
    except ValueError as reason:
        raise CommandError(f"--shrink: {reason}") from None
    failure = shrinker.failure
    say(f"seed {seed} breaks the law {failure.law} in step {failure.step:,}; it has {_parts(failure)}")
    for gone in shrinker.shrink():
        tell(f"left out: {gone}")
    small = shrinker.failure
    say(f"what is needed breaks it in step {small.step:,}, and has {_parts(small)}")
    say(f"{shrinker.tries} histories were run; this is the smallest one:")
    line = history_name(seed, replace(knobs, omitted=shrinker.omitted))
    say(line)
    say(f"again: python -m pykraft simulate {line} --explain")
    return 0


def _parts(failure: Failure) -> str:
    kinds = ", ".join(f"{number} ({kind})" for number, kind in failure.faults)
    clients = ", ".join(failure.clients) or "none"
    bad = len(failure.messages)
    messages = f"{bad} message{' that is' if bad == 1 else 's that are'} late, lost or repeated"
    return f"the faults {kinds or 'none'}, {messages}, and the clients {clients}"


def _search(seeds: Iterable[int], jobs: int, bug: str, root: Path, options: str) -> int:
    lived = steps = 0
    outcomes = run_seeds(seeds, jobs, bug, root)
    try:
        for outcome in outcomes:
            if outcome.law:
                _say_death(outcome, lived, options)
                return 1
            lived, steps = lived + 1, steps + outcome.step
            if lived % _PROGRESS == 0:
                tell(f"{lived} histories, {steps:,} steps, no law is broken yet")
    except Unusable as reason:
        raise CommandError(f"the patched package cannot be run: {reason}") from None
    finally:
        outcomes.close()
    say(f"it lived: {lived} histories, {steps:,} steps, and no law was broken")
    return 0


def _say_death(outcome: Outcome, lived: int, options: str) -> None:
    after = f" (after {lived} that it survived)" if lived else ""
    says = f": {LAWS[outcome.law]}" if outcome.law in LAWS else ""
    say(f"it died in seed {outcome.seed}{after}, by the law {outcome.law}{says}")
    say(f"found: {outcome.line}")
    say(f"again: python -m pykraft simulate {outcome.seed}{options}{' --count 1' if 'patch' in options else ''}")
