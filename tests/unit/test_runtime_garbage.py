"""Full collections of a node's process stay short, however much the node has loaded."""

from __future__ import annotations

import gc

from pykraft.runtime import garbage
from pykraft.runtime.garbage import ShortCollections


class Circle:
    def __init__(self) -> None:
        self.itself = self


def test_what_survives_a_long_collection_is_not_looked_at_again_and_later_circles_are_freed() -> None:
    before = gc.get_freeze_count()
    collections = ShortCollections()
    collections.begin()
    try:
        loaded = [[number] for number in range(1_000_000)]
        gc.collect()
        assert collections.count >= 1 and gc.get_freeze_count() > before + len(loaded)
        assert len(gc.get_objects()) < len(loaded)
        Circle()
        assert gc.collect() >= 1
    finally:
        collections.end()
    assert gc.get_freeze_count() == 0


def test_a_short_collection_sets_nothing_aside() -> None:
    assert garbage.LONG_COLLECTION_S < 0.05, "a node's heartbeat must not notice it"
    collections = ShortCollections()
    collections.begin()
    try:
        gc.collect(0)
        assert collections.count == 0
    finally:
        collections.end()
