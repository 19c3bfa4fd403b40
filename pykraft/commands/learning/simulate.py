"""``simulate [SEED]``: run simulated histories, and check the laws after every event. A broken law is exit code 1.

``--story FILE`` writes the history as a page that plays in a browser instead. ``--act`` does something in it first, at
a virtual time (`pykraft.viz.player.acts`), and the page shows the branch that this makes beside the original.

``--trail FILE`` writes one line for each step (`pykraft.sim.trail`). ``--compare FILE``, on another machine, runs the
history again, and names the first step that is another one there; that is exit code 1, too.

``--scene NAME --story FILE`` writes the page of a scene, with a few things to try; ``--replay LINK`` replays what
a reader did in a player.

A seed may also be a history in one line, with what is left out of it (`pykraft.story.history_names`). ``--explain``
tells a history in plain words, and ``--shrink`` makes one that fails smaller. ``--bug NAME`` plants a bug (``--bugs``
lists them), and ``--patch FILE`` tries a patch: with ``--count`` either is looked for in many histories, in processes
of their own.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from pykraft.commands.common import CommandError, say, tell
from pykraft.commands.learning.bug_search import cover, find_bug, list_bugs, shrink, try_bug, try_patch
from pykraft.sim.bugs.planting import plant, planted_now
from pykraft.sim.trail import first_difference
from pykraft.sim.trouble.knobs import calm, draw
from pykraft.sim.trouble.omissions import NOTHING
from pykraft.simulation import Simulation, SimulationFailed
from pykraft.story.explanation import explain
from pykraft.story.history_names import SeedHistory, history_name, read_name, scene_name
from pykraft.story.links import Link
from pykraft.story.scenes import SCENES
from pykraft.viz.player.acts import Rehearsal
from pykraft.viz.player.page import save
from pykraft.viz.player.words import in_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "seed", nargs="?", help="the history's seed, or the history in one line (default: a drawn seed)"
    )
    parser.add_argument("--count", type=int, help="this many seeds from there on (default: 1; 100 with --patch)")
    parser.add_argument("--bug", metavar="NAME", help="plant this bug; without a seed in a history in which it dies")
    parser.add_argument("--bugs", action="store_true", help="list the bugs that can be planted")
    parser.add_argument("--patch", type=Path, metavar="FILE", help="try a unified diff of the package, on a copy")
    parser.add_argument("--jobs", type=int, default=0, help="with --bug or --patch: this many at once (default: cores)")
    parser.add_argument("--coverage", action="store_true", help="which transitions of the tables the histories take")
    parser.add_argument("--shrink", action="store_true", help="leave out all that the broken law does not need")
    parser.add_argument("--explain", action="store_true", help="tell the history in plain words")
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
    if options.bugs:
        return list_bugs()
    _check(options)
    count = options.count or 1
    if options.patch is not None:
        return try_patch(options.patch, _seed(options.seed), options.count, options.jobs)
    if options.coverage:
        return cover(_seed(options.seed), count, options.jobs)
    if options.bug is not None:
        bug = find_bug(options.bug)
        if count > 1:
            return try_bug(bug, _seed(options.seed), count, options.jobs)
        plant(bug.name)
        options.seed = options.seed or str(bug.seed)
    history = _history(options.seed, options.calm)
    if history is None:
        return _play(options.seed, None, None)
    if history.bug and history.bug not in planted_now():
        plant(find_bug(history.bug).name)
    first = history.seed
    if options.shrink:
        return shrink(first, history.knobs)
    if options.explain:
        lines, is_sound = explain(first, history.knobs)
        say("\n".join(lines))
        return 0 if is_sound else 1
    if options.story is not None:
        if count != 1:
            raise CommandError(f"--story with --count {count}: a page tells the story of one seed")
        if not options.story.parent.is_dir():
            raise CommandError(f"{options.story} cannot be written: there is no folder {options.story.parent}")
        return _tell_story(scene_name(first, history.knobs), options.act, options.story)
    if options.act:
        raise CommandError("--act without --story: say where the page shall be written")
    if options.trail is not None or options.compare is not None:
        if count != 1:
            raise CommandError(f"--trail and --compare with --count {count}: a trail is of one seed")
        return _go_along(Simulation(first, history.knobs), options.trail, options.compare)
    passes = [_passes(Simulation(first, history.knobs), options.trace)]
    passes += [_passes(Simulation(first + more, is_calm=options.calm), options.trace) for more in range(1, count)]
    return 0 if all(passes) else 1


def _check(options: argparse.Namespace) -> None:
    """CommandError: options that do not go together."""
    if (options.count is not None and options.count < 1) or options.trace < 0 or options.jobs < 0:
        raise CommandError("--count is at least 1, --trace at least 0, --jobs at least 0")
    many = (options.count or 1) > 1
    if (options.explain or options.shrink) and (many or options.patch is not None):
        raise CommandError("--explain and --shrink are about one history: leave out --count and --patch")
    if options.patch is not None and options.bug is not None:
        raise CommandError("--patch with --bug: try one of them at a time")


def _seed(text: str | None) -> int | None:
    """A seed that is a number."""
    if text is None or text.isdigit():
        return None if text is None else int(text)
    raise CommandError(f"SEED is {text!r}, and a search begins at a number")


def _history(text: str | None, is_calm: bool) -> SeedHistory | None:
    """The history of a seed, or of one line; None for the line of another scene, or of one with deeds."""
    if text is None or text.isdigit():
        seed = Random().randrange(1 << 32) if text is None else int(text)
        return SeedHistory(seed, is_calm, calm(draw(seed)) if is_calm else draw(seed), "")
    try:
        link = Link.parse(text)
        return None if link.deeds else read_name(link.scene)
    except ValueError as reason:
        raise CommandError(f"SEED is {text!r}, which is no number and no history: {reason}") from None


def _play(link: str | None, scene: str | None, path: Path | None) -> int:
    """A scene's page, or a link in words."""
    if link is not None:
        try:
            name = Link.parse(link).scene
            history = read_name(name)
            if history is not None and history.bug and history.bug not in planted_now():
                plant(find_bug(history.bug).name)
            rehearsal = Rehearsal(name)
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


def _tell_story(name: str, acts: list[str], path: Path) -> int:
    """The page of a seed's history, and of what is done in it. Exit code 1 if a law is broken."""
    rehearsal = Rehearsal(name)
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


def _passes(simulation: Simulation, events: int) -> bool:
    passes = True
    try:
        say(simulation.run())
    except SimulationFailed as failure:
        passes = False
        found, again = str(failure).rsplit("\n", 1)
        if planted_now() or simulation.knobs.omitted != NOTHING:
            again = f"again: python -m pykraft simulate {history_name(simulation.seed, simulation.knobs)}"
        tell(f"{found}\n{again}")
    for event in simulation.trace[-events:] if events else ():
        say(event)
    sys.stdout.flush()  # the next run may take minutes
    return passes
