"""A simulated history in one line, with what is left out of it and the bug that is planted.

::

    pykraft/0.1.0/seed-39,no-crash,no-7,until-3000,bug-a_vote_for_a_stale_log/39

It is the link of the history's scene, so a player shows it, and ``simulate`` runs it again.
"""

import re
from dataclasses import replace
from typing import NamedTuple

from pykraft.common.version import VERSION
from pykraft.sim.bugs.planting import planted_now
from pykraft.sim.trouble.knobs import KINDS, Knobs, calm, draw
from pykraft.sim.trouble.omissions import NOTHING

_NAME = re.compile(r"seed-(\d{1,10})(-calm)?((?:,[a-z][\w~-]*)*)")
_BUG = "bug-"


class SeedHistory(NamedTuple):
    """What the name of a seed's history says."""

    seed: int
    is_calm: bool
    knobs: Knobs
    """As the history has them, with what is left out."""
    bug: str
    """The bug that must be planted; nothing for none."""


def read_name(name: str) -> SeedHistory | None:
    """What a scene's name says, ``seed-39`` and more; None if it is none of a seed. ValueError: a word is none."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    seed, bug, omitted = int(found[1]), "", NOTHING
    for word in found[3].split(",")[1:]:
        if word.startswith(_BUG):
            bug = word.removeprefix(_BUG)
        else:
            omitted = omitted.with_word(word, KINDS)
    knobs = calm(draw(seed)) if found[2] else draw(seed)
    return SeedHistory(seed, bool(found[2]), replace(knobs, omitted=omitted), bug)


def scene_name(seed: int, knobs: Knobs) -> str:
    """The name of this history's scene, under the bug that is planted now."""
    whole = replace(knobs, omitted=NOTHING)
    is_calm = whole != draw(seed) and whole == calm(draw(seed))
    words = [*knobs.omitted.words(), *(f"{_BUG}{name}" for name in planted_now())]
    return ",".join([f"seed-{seed}{'-calm' if is_calm else ''}", *words])


def history_name(seed: int, knobs: Knobs) -> str:
    """The whole line."""
    return f"pykraft/{VERSION}/{scene_name(seed, knobs)}/{seed}"
