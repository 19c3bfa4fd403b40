"""Scenes that several tests look at: each is simulated once, and what a test does in it is taken back."""

from __future__ import annotations

from functools import cache

from pykraft.viz.player.acts import Rehearsal


@cache
def rehearsal_of(name: str) -> Rehearsal:
    """A scene. A test that acts in it ends with `take_back`."""
    rehearsal = Rehearsal(name)
    rehearsal.film()
    return rehearsal


def take_back(rehearsal: Rehearsal) -> None:
    """Undo all that was done."""
    while rehearsal.before is not None:
        rehearsal.act("undo", 0)
