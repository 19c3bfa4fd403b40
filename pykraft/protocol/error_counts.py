"""Which errors a response tells of, and how often: Kafka's `errorCounts` of a response.

An error code is a field of the response itself, of each topic in it, of each partition of these: its name is
`error_code`, or ends so. No error (0) is counted as well.

This runs for each request, so the loops that visit these fields are written once for each kind of response, from its
declaration, and compiled. For Produce they are::

    for each1 in value.responses or ():
        for each2 in each1.partition_responses or ():
            meters[each2.error_code].count += 1

A response of a million partitions is counted in steps.

Follows org.apache.kafka.common.requests.AbstractResponse#errorCounts.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pykraft.common.core import Steps
from pykraft.common.metrics import Meter
from pykraft.protocol.schema import Response, Struct

CountErrors = Callable[[Response, Mapping[int, Meter]], None]
_CODE = "error_code"
_PER_STEP = 256
"""A response that is counted in steps may be interrupted after this many elements of an array."""

_counters: dict[Any, CountErrors] = {}


def error_counter(response: type[Response]) -> CountErrors:
    """What counts the errors of a response of this kind: each in its meter."""
    found = _counters.get(response)
    if found is None:
        found = _counters[response] = _compiled(response)
    return found


_stepwise: dict[Any, Callable[[Response, Counter[int]], Steps[None]]] = {}


def count_in_steps(response: Response) -> Steps[Counter[int]]:
    """How often each error is in a response, 0 for none."""
    kind = type(response)
    count = _stepwise.get(kind)
    if count is None:
        count = _stepwise[kind] = _compiled(kind, pauses=True)
    found: Counter[int] = Counter()
    yield from count(response, found)
    return found


def _compiled(response: type[Response], pauses: bool = False) -> Any:
    rest = ["    yield"] if pauses else ["    return"]
    lines = ["def count(value, meters):", *_lines(response, "value", 1, pauses), *rest]
    names: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<errors of {response.__name__}>", "exec"), names)
    return names["count"]


def _lines(structure: type[Struct], variable: str, depth: int, pauses: bool) -> Iterator[str]:
    """Of the structure that this variable holds."""
    counted = "" if pauses else ".count"
    indent = "    " * depth
    for field in structure.fields:
        if field.name.endswith(_CODE) and not field.wire.array:
            yield f"{indent}meters[{variable}.{field.name}]{counted} += 1"
        element = field.wire.element
        if field.wire.array and isinstance(element, type) and issubclass(element, Struct):
            inner = list(_lines(element, f"each{depth}", depth + 1, pauses))
            if not inner:
                continue
            if pauses:
                yield f"{indent}for i{depth}, each{depth} in enumerate({variable}.{field.name} or ()):"
                yield f"{indent}    if not i{depth} % {_PER_STEP}: yield"
            else:
                yield f"{indent}for each{depth} in {variable}.{field.name} or ():"
            yield from inner
