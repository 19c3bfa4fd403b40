"""What a record's key and value are, for type checkers: bytes or None, unless a client has functions for them.

A type variable has a default from Python 3.13 on; type checkers know defaults in every version.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes | None)
    V = TypeVar("V", default=bytes | None)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
