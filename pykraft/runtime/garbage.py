"""Python's collector of cycles, kept from holding up a node.

Python frees an object when nothing refers to it any more; the collector only finds objects that refer to each other in
a circle. For that it visits every object of a generation. The oldest generation holds all that a node keeps, its
partitions, their logs and the metadata. At five thousand partitions a full collection takes a tenth of a second, in
which no request is answered, and finds next to nothing.

So what has survived a full collection is *frozen*: later ones do not visit it, and visit only what came since. A frozen
object is freed as ever when nothing refers to it. But a circle of frozen objects stays. So once there are twice as many
frozen objects as after the last review, the next full collection visits all of them: what may stay is bounded, and
that pause is as rare as the node has doubled.

This is for a process that is a node and nothing else: `pykraft server`. It is ours; Java's collectors run beside the
program.
"""

import gc
from typing import Any

_OLDEST = 2
LEAST_REVIEWED = 100_000
"""With fewer frozen objects there is no review: twenty milliseconds."""


class Freezer:
    """Freezes what survives, from `begin` to `end`."""

    def __init__(self, least_reviewed: int = LEAST_REVIEWED) -> None:
        self._least_reviewed = least_reviewed
        self._reviewed = 0
        """How many objects were frozen after the last review."""
        self._is_review = True

    def begin(self) -> None:
        gc.callbacks.append(self._on_collection)

    def end(self) -> None:
        """Leave Python's collector as it was."""
        gc.callbacks.remove(self._on_collection)
        gc.unfreeze()

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if phase != "stop" or info["generation"] != _OLDEST:
            return
        gc.freeze()
        frozen = gc.get_freeze_count()
        if self._is_review:
            self._reviewed, self._is_review = frozen, False
        elif frozen > max(self._least_reviewed, 2 * self._reviewed):
            self._is_review = True
            gc.unfreeze()
