"""What a client's user hands in, looked at before it is taken.

Records, offsets and names become bytes on the thread that sends, long after the call that brought them. What cannot
become bytes must not get that far: it would end the thread, and with it all that others have handed in. So a wrong type
is refused in the call that brings it, in a sentence, and a number that does not fit its field with it.

Whether a name or a number makes sense is for the brokers to say.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from numbers import Real
from operator import index
from typing import Any

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import TopicPartition
from pykraft.protocol.header import encode_request
from pykraft.protocol.schema import Request
from pykraft.records.record import Header

LARGEST_INT32 = (1 << 31) - 1
LARGEST_INT64 = (1 << 63) - 1
_LONGEST_NAME = 249


def by_name(client: str, misplaced: Sequence[object]) -> None:
    """TypeError if a client is given an address or a dict of settings where neither belongs."""
    if not misplaced:
        return
    value = misplaced[0]
    if isinstance(value, Mapping):
        how = f"a dict of settings is unpacked, as in {client}(**settings)"
    elif isinstance(value, str) and ":" in value:
        how = f"an address is given by name, as in {client}(bootstrap_servers={value!r})"
    else:
        how = f"settings are given by name, as in {client}(bootstrap_servers='localhost:9092')"
    raise TypeError(f"{client}({value!r}): {how}")


def flag(what: str, value: Any) -> bool:
    """True or False. TypeError for a number: it is meant for another argument."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} is True or False, not {value!r}: give other arguments by name")
    return value


def function(what: str, value: Any) -> Any:
    """A function, or None. TypeError if it cannot be called."""
    if value is not None and not callable(value):
        raise TypeError(f"{what} is a function, and {type(value).__name__} cannot be called")
    return value


def topic_name(name: Any) -> str:
    """A topic's name. TypeError if it is none; KafkaError if no topic can have it."""
    if not isinstance(name, str):
        raise TypeError(f"a topic is named by a str, not by {name!r}")
    if len(name) > _LONGEST_NAME or not name.isprintable():
        shown = ascii(name if len(name) <= _LONGEST_NAME else f"{name[:20]}...")
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{shown}: {ErrorCode.INVALID_TOPIC_EXCEPTION.text}")
    return name


def topic_names(names: Iterable[Any]) -> list[str]:
    """Names of topics. A str alone would be read letter by letter."""
    if isinstance(names, str | bytes):
        raise TypeError(f"names of topics come in a list: [{names!r}], not {names!r}")
    return [topic_name(name) for name in names]


def topic_partition(key: Any) -> TopicPartition:
    """A partition, also as a plain pair."""
    if not isinstance(key, tuple | list) or len(key) != 2:
        raise TypeError(f"a partition is TopicPartition(topic, number), not {key!r}")
    return TopicPartition(topic_name(key[0]), whole_number("the number of a partition", key[1], LARGEST_INT32))


def whole_number(what: str, value: Any, at_most: int = LARGEST_INT64) -> int:
    """A number from 0 on."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{what} is a whole number, not {value!r}") from None
    if not 0 <= number <= at_most:
        raise ValueError(f"{what} is 0 or more and at most {at_most}, not {number}")
    return number


def committed_offset(value: Any) -> tuple[int, str, int]:
    """(offset, metadata, leader epoch) of an offset to commit, which may be a plain number."""
    if not isinstance(value, tuple | list):
        return whole_number("an offset", value), "", -1
    match tuple(value):
        case (offset, str() | None as metadata, *epoch) if len(epoch) < 2:
            known = epoch[0] if epoch and epoch[0] is not None else -1
            return whole_number("an offset", offset), metadata or "", -1 if known == -1 else _epoch(known)
    raise TypeError(f"an offset to commit is a number or OffsetAndMetadata(offset, metadata), not {value!r}")


def _epoch(value: Any) -> int:
    return whole_number("a leader epoch", value, (1 << 31) - 1)


def milliseconds(what: str, value: Any) -> float:
    """How long to wait."""
    if not isinstance(value, Real) or isnan(value):
        raise TypeError(f"{what} is a number of milliseconds, not {value!r}")
    return float(value)


def record_headers(headers: Iterable[Any] | None) -> Sequence[Header]:
    """The headers of a record: pairs of a name and bytes or None."""
    found: list[Header] = []
    for header in headers or ():
        match header:
            case (str(name), bytes() | None as content):
                if not name.isascii() and name.encode(errors="replace").decode() != name:
                    raise ValueError(f"a header's name is text, and {name!r} has half a character")
                found.append((name, content))
            case _:
                raise TypeError(f"a header is a pair of a name and bytes or None, not {header!r}")
    return found


def check_sendable(what: str, request: Request) -> None:
    """KafkaError if the request cannot become bytes."""
    try:
        encode_request(request, request.versions[1], 0, "")
    except (struct.error, TypeError, ValueError, AttributeError) as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what}: this cannot be sent: {error}") from None
