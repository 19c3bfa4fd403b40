"""The text of `pykraft.client.settings`: the settings of clients as type checkers know them.

A client checks its settings by a table (`client.config`). Editors and type checkers read no tables, they read a
`TypedDict`. So the module with it is written from the table, and a test says when the two differ::

    python -m pykraft.course.authoring.typed_settings
"""

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pykraft
from pykraft.client.config import ACKS, ADMIN_CONFIG, AUTO_OFFSET_RESET, COMMON_CONFIG, CONSUMER_CONFIG, PRODUCER_CONFIG
from pykraft.common.settings.config import Key, as_text

MODULE = Path(pykraft.__file__).parent / "client" / "settings.py"
COMMAND = "python -m pykraft.course.authoring.typed_settings"

_HEAD = '''"""The settings of clients as keywords: for editors, and for type checkers such as mypy and pyright.

Text is taken for a number too, as properties files have it, and None leaves the default. The names with dots instead
of underscores are Kafka's. `python -m pykraft.course.authoring.typed_settings` makes this module from the table that
clients check their settings by (`pykraft.client.config`).
"""

from collections.abc import Sequence
from typing import Literal, NewType, TypedDict

ByDuration = NewType("ByDuration", str)
"""How far back to begin, such as ``ByDuration("by_duration:PT1H")`` for an hour."""
'''
_TYPES = {
    "string": "str | None",
    "boolean": "bool | str | None",
    "list": "str | Sequence[str] | None",
    "password": "str | None",
    **dict.fromkeys(("short", "int", "long"), "int | str | None"),
}
_CLASSES = {
    "ClientSettings": ("", "Of every client.", COMMON_CONFIG),
    "AdminSettings": ("ClientSettings", "Of `Admin`.", ADMIN_CONFIG),
    "ProducerSettings": ("ClientSettings", "Of `Producer`.", PRODUCER_CONFIG),
    "ConsumerSettings": ("ClientSettings", "Of `Consumer`.", CONSUMER_CONFIG),
}
_WIDTH = 120


def settings_module() -> str:
    """The whole module."""
    parts = [_HEAD]
    for name, (base, about, definition) in _CLASSES.items():
        keys = [key for key in definition.keys.values() if not base or key.name not in COMMON_CONFIG.keys]
        parts.append(f'\n\nclass {name}({base or "TypedDict"}, total=False):\n    """{about}"""\n')
        parts.extend(_fields(keys))
    return "".join(parts)


def _fields(keys: Iterable[Key[Any]]) -> Iterable[str]:
    for key in keys:
        kind = _words(key) or _TYPES[key.kind]
        default = "" if key.required or as_text(key.default) == "" else f" (default {as_text(key.default)})"
        end = "" if key.meaning.endswith(".") and not default else "."
        yield f"\n    {key.name.replace('.', '_')}: {kind}\n"
        said = textwrap.wrap(f'"""{key.meaning[:1].upper()}{key.meaning[1:]}{default}{end}"""', _WIDTH - 4)
        yield "".join(f"    {line}\n" for line in said)


def _words(key: Key[Any]) -> str:
    """The type of a setting that is one of a few words; empty for others."""
    if key is AUTO_OFFSET_RESET:
        return 'Literal["earliest", "latest", "none"] | ByDuration | None'
    if key.name in COMMON_CONFIG.keys:  # so that a dict of texts is good for an Admin
        return ""
    words = key.allowed.removeprefix("one of ").split(", ") if key.allowed.startswith("one of ") else []
    if not words:
        return ""
    numbers = ", 0, 1, -1" if key is ACKS else ""
    return "Literal[" + ", ".join(f'"{word}"' for word in words) + numbers + "] | None"


if __name__ == "__main__":
    MODULE.write_text(settings_module(), encoding="utf-8")
