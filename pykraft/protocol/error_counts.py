"""Which errors a response tells of, and how often: Kafka's `errorCounts` of a response.

An error code is a field of the response itself, of each topic in it, of each partition of these: its name is
`error_code`, or ends so. No error (0) is counted as well.

This runs for each request, so the loops that visit these fields are written once for each kind of response, from its
declaration, and compiled. For Produce they are::

    for each1 in value.responses or ():
        for each2 in each1.partition_responses or ():
            meters[each2.error_code].count += 1

Follows org.apache.kafka.common.requests.AbstractResponse#errorCounts.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pykraft.common.metrics import Meter
from pykraft.protocol.schema import Response, Struct

CountErrors = Callable[[Response, Mapping[int, Meter]], None]
_CODE = "error_code"


_counters: dict[Any, CountErrors] = {}


def error_counter(response: type[Response]) -> CountErrors:
    """What counts the errors of a response of this kind: each in its meter."""
    found = _counters.get(response)
    if found is None:
        found = _counters[response] = _compiled(response)
    return found


def _compiled(response: type[Response]) -> CountErrors:
    lines = ["def count(value, meters):", *_lines(response, "value", 1), "    return"]
    names: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<errors of {response.__name__}>", "exec"), names)
    count: CountErrors = names["count"]
    return count


def _lines(structure: type[Struct], variable: str, depth: int) -> Iterator[str]:
    """Of the structure that this variable holds."""
    indent = "    " * depth
    for field in structure.fields:
        if field.name.endswith(_CODE) and not field.wire.array:
            yield f"{indent}meters[{variable}.{field.name}].count += 1"
        element = field.wire.element
        if field.wire.array and isinstance(element, type) and issubclass(element, Struct):
            inner = list(_lines(element, f"each{depth}", depth + 1))
            if inner:
                yield f"{indent}for each{depth} in {variable}.{field.name} or ():"
                yield from inner
