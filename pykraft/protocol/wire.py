"""What a field is on the wire: the small vocabulary between a declaration (`schema`) and its code (`source`)."""

from typing import Any, NamedTuple

from pykraft.common.types import ZERO_UUID

FOR_EVER = 1 << 15
"""A version that never comes: a field without an end has it as its last."""


class Fixed(NamedTuple):
    """A type of fixed size: its letter in `struct`, its size, its default."""

    letter: str
    size: int
    default: Any


class Variable(NamedTuple):
    """A type with a length in front: the width of that length in the classic form, and its default."""

    kind: str
    length_letter: str
    default: Any


class Wire(NamedTuple):
    """What is on the wire for one field: a fixed, variable or uuid type, a structure, or an array of these."""

    element: Fixed | Variable | type[Any] | None
    array: bool
    nullable: bool

    @property
    def is_uuid(self) -> bool:
        return self.element is None

    @property
    def default(self) -> Any:
        if self.array:
            return ()
        if isinstance(self.element, Fixed | Variable):
            return self.element.default
        return ZERO_UUID if self.is_uuid else None


class Field(NamedTuple):
    """One field of a structure, in all versions."""

    name: str
    wire: Wire
    default: Any
    since: int
    until: int
    nullable_since: int
    tag: int | None
    flexible: bool

    def present(self, version: int) -> bool:
        return self.since <= version <= self.until

    def nullable(self, version: int) -> bool:
        """Whether null may be on the wire. A tagged structure is left out instead, and reads as None; but if it has
        another default, left out means that default, and null is on the wire."""
        is_structure = isinstance(self.wire.element, type) and not self.wire.array
        left_out = self.tag is not None and is_structure and self.default is None
        return self.wire.nullable and version >= self.nullable_since and not left_out
