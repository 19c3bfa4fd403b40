"""The draw of a seed as the kinds of history see it that change it: what was drawn for every seed before.

`knobs.draw` begins with what any seed has, and lets each kind of history change its own seeds. Those modules cannot
import `Knobs`, which has their draws as fields: so this protocol says what they read of it.
"""

from collections.abc import Mapping
from typing import Any, Protocol


class Drawn(Protocol):
    """What `Knobs` has, as far as the changes of some seeds read it."""

    @property
    def brokers(self) -> int: ...

    @property
    def controllers(self) -> int: ...

    @property
    def partitions(self) -> int: ...

    @property
    def properties(self) -> dict[str, int]: ...

    @property
    def topic(self) -> Mapping[str, int | str]: ...

    @property
    def features(self) -> Mapping[str, int]: ...

    @property
    def faults(self) -> dict[str, float]: ...

    @property
    def producers(self) -> tuple[dict[str, object], ...]: ...

    @property
    def consumers(self) -> tuple[dict[str, object], ...]: ...

    @property
    def transactions(self) -> Any: ...

    @property
    def elections(self) -> Any: ...

    @property
    def storm_until_ms(self) -> int: ...
