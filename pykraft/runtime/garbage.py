"""Python's garbage collector in the process of a node: it must not stop the node for long.

Python frees an object when nothing refers to it any more. Only what refers to itself in a circle is left, and for that
it now and then looks through all objects that there are: a *full collection*. A node with 5,000 partitions and 1,000
groups has a million objects, and looking through them takes a fifth of a second, in which nobody gets an answer. Large
requests bring it about, since each brings tens of thousands of objects.

But what a node has loaded lives about as long as the node. So whatever survives a full collection that took long is set
aside, and later collections do not look at it (`gc.freeze`). The price: a circle among what was set aside is not freed
when it is given up. The node's code avoids circles, and Python frees everything else as before.

The JVM of Apache Kafka has the same trouble, and the same remedy: generations.
"""

import gc
from time import perf_counter
from typing import Any

LONG_COLLECTION_S = 0.01
_FULL = 2
"""The oldest generation: collecting it looks at everything that was not set aside."""


class ShortCollections:
    """Sets aside what survives a long collection. For the whole process: not for a notebook's, whose objects are its
    user's."""

    def __init__(self) -> None:
        self._began = 0.0
        self.count = 0
        """How often something was set aside."""

    def begin(self) -> None:
        """From now on."""
        gc.callbacks.append(self._on_collection)

    def end(self) -> None:
        """Look at everything again."""
        gc.callbacks.remove(self._on_collection)
        gc.unfreeze()

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != _FULL:
            return
        if phase == "start":
            self._began = perf_counter()
        elif perf_counter() - self._began > LONG_COLLECTION_S:
            gc.freeze()
            self.count += 1
