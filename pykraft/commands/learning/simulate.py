"""``simulate [SEED]``: run simulated histories, and check the laws after every event. A broken law is exit code 1.

``--story FILE`` writes the history as a page that plays in a browser instead. ``--act`` does something in it first, at
a virtual time (`pykraft.viz.player.acts`), and the page shows the branch that this makes beside the original.

``--trail FILE`` writes one line for each step (`pykraft.sim.trail`). ``--compare FILE``, on another machine, runs the
history again, and names the first step that is another one there; that is exit code 1, too.

``--scene NAME --story FILE`` writes the page of a scene, with a few things to try; ``--replay LINK`` replays what
a reader did in a player.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from pykraft.commands.common import CommandError, say, tell
from pykraft.sim.trail import first_difference
from pykraft.simulation import Simulation, SimulationFailed
from pykraft.story.links import Link
from pykraft.story.scenes import SCENES
from pykraft.viz.player.acts import Rehearsal
from pykraft.viz.player.page import save
from pykraft.viz.player.words import in_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("seed", type=int, nargs="?", help="the history's seed (default: one that is drawn)")
    parser.add_argument("--count", type=int, default=1, help="this many seeds from there on")
    parser.add_argument("--trace", type=int, default=0, metavar="N", help="print the last N things that happened")
    parser.add_argument("--calm", action="store_true", help="no faults, and a network that delivers in good time")
    parser.add_argument("--story", type=Path, metavar="FILE", help="write a page on which the history plays")
    parser.add_argument("--trail", type=Path, metavar="FILE", help="write a line for each step")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="name the first step that differs from this trail")
    parser.add_argument("--scene", choices=SCENES, help="with --story: the page of this scene, with what-ifs")
    parser.add_argument("--replay", metavar="LINK", help="what a reader did in a player, again: says what came of it")
    acts = "with --story: what to do before that, at which virtual ms: '2000 kill leader' (as often as you like)"
    parser.add_argument("--act", action="append", default=[], metavar="WORDS", help=acts)


def run(options: argparse.Namespace) -> int:
    """Run one history after the other, also after one that failed."""
    if options.replay is not None or options.scene is not None:
        return _play(options.replay, options.scene, options.story)
    if options.count < 1 or options.trace < 0:
        raise CommandError("--count is at least 1, --trace at least 0")
    first = Random().randrange(1 << 32) if options.seed is None else options.seed
    if options.story is not None:
        if options.count != 1:
            raise CommandError(f"--story with --count {options.count}: a page tells the story of one seed")
        if not options.story.parent.is_dir():
            raise CommandError(f"{options.story} cannot be written: there is no folder {options.story.parent}")
        return _tell_story(first, options.calm, options.act, options.story)
    if options.act:
        raise CommandError("--act without --story: say where the page shall be written")
    if options.trail is not None or options.compare is not None:
        if options.count != 1:
            raise CommandError(f"--trail and --compare with --count {options.count}: a trail is of one seed")
        return _go_along(Simulation(first, is_calm=options.calm), options.trail, options.compare)
    failed = [seed for seed in range(first, first + options.count) if not _passes(seed, options.calm, options.trace)]
    return 1 if failed else 0


def _play(link: str | None, scene: str | None, path: Path | None) -> int:
    """A scene's page, or a link in words."""
    if link is not None:
        try:
            rehearsal = Rehearsal(Link.parse(link).scene)
            rehearsal.replay(link)
        except ValueError as reason:
            raise CommandError(f"--replay {link}: {reason}") from None
        say(in_words(rehearsal.data()))
        return 0
    if path is None or scene is None:
        raise CommandError("--scene without --story: say where the page shall be written")
    _write(Rehearsal(scene), path)
    say(f"{path}: {scene}")
    return 0


def _tell_story(seed: int, is_calm: bool, acts: list[str], path: Path) -> int:
    """The page of a seed, and of what is done in it. Exit code 1 if a law is broken."""
    rehearsal = Rehearsal(f"seed-{seed}{'-calm' if is_calm else ''}")
    for words in acts:
        ms, _, act = words.partition(" ")
        said = rehearsal.act(act, float(ms)) if ms.replace(".", "", 1).isdigit() else "An act begins with a time in ms."
        if said:
            raise CommandError(f"--act {words!r}: {said}")
        say(rehearsal.story.what_at(rehearsal.story.last_step))
    _write(rehearsal, path)
    story = rehearsal.story
    say(f"{path}: {story.last_step:,} events, {len(story.marks):,} marks")
    if story.failure is not None:
        tell(f"a law is broken in step {story.last_step:,}: {story.failure}")
    return 0 if story.failure is None else 1


def _write(rehearsal: Rehearsal, path: Path) -> None:
    try:
        save(rehearsal, path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def _go_along(simulation: Simulation, trail: Path | None, other: Path | None) -> int:
    """Write the trail of a history, or compare it with the one that another machine has written."""
    lines = _with_origin(simulation)
    try:
        if trail is not None:
            trail.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            say(f"{trail}: {simulation.step:,} steps")
        elif other is not None:
            difference = first_difference(lines, other.read_text(encoding="utf-8").rstrip("\n").split("\n"))
            if difference is not None:
                tell("the histories differ:\n  here:  {}\n  there: {}".format(*difference))
                return 1
            say(f"the same history, {simulation.step:,} steps")
    except OSError as error:
        raise CommandError(f"{trail or other}: {error.strerror}") from None
    except SimulationFailed as failure:
        tell(failure)
        return 1
    return 0


def _with_origin(simulation: Simulation) -> Iterator[str]:
    yield simulation.origin
    yield from simulation.trail()


def _passes(seed: int, is_calm: bool, events: int) -> bool:
    simulation = Simulation(seed, is_calm=is_calm)
    passes = True
    try:
        say(simulation.run())
    except SimulationFailed as failure:
        passes = False
        tell(failure)
    for event in simulation.trace[-events:] if events else ():
        say(event)
    sys.stdout.flush()  # the next run may take minutes
    return passes
