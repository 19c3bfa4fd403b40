"""A message as Kafka's tools print it: JSON with the field names of Kafka's message files.

Only what is on the wire is shown: fields of the version, in the order of their declaration, and of the tagged ones
those that differ from their default. Bytes are base64, ids are their 22 characters, and names are in camelCase::

    {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}

Follows org.apache.kafka.message.JsonConverterGenerator, and Jackson's compact form.
"""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from pykraft.common.types import Uuid
from pykraft.protocol.schema import Struct
from pykraft.protocol.wire import Field

Json = Mapping[str, Any]

# The message files spell these in their own way.
_UNUSUAL = {"kraft_version": "kRaftVersion", "kraft_version_feature": "kRaftVersionFeature"}


def as_json(structure: Struct, version: int) -> dict[str, Any]:
    """What this version of a message says, as objects that `json` knows."""
    return {
        camel_case(f.name): _value(getattr(structure, f.name), version)
        for f in structure.fields
        if f.present(version) and (f.tag is None or _differs_from_default(f, getattr(structure, f.name)))
    }


def json_text(content: Json) -> str:
    """Compact JSON: no blanks, and no escapes but the necessary ones."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _value(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return as_json(value, version)
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [_value(element, version) for element in value]
    return value


def _differs_from_default(f: Field, value: Any) -> bool:
    if f.wire.array and f.default is not None:
        return value is None or len(value) > 0
    return bool(value != f.default)


def camel_case(name: str) -> str:
    """The name of a field as Kafka's message files spell it."""
    return _UNUSUAL.get(name) or re.sub("_([a-z])", lambda found: found[1].upper(), name)
