"""Configuration: typed keys, layers, and the properties file.

A `Key` says what a setting is called, what it means, which values it may have and its default. A `Config` answers
``config[KEY]`` with a value of the key's own type. It is made from layers of text, strongest first (a topic's own
settings, the node's dynamic ones, the cluster's, the node's file), and is never changed: when a setting changes, a new
Config replaces the old one as a whole, so no reader sees half of a change.

A key may have synonyms, weaker names for the same setting in the same layer: ``log.retention.ms``, else
``log.retention.minutes``, else ``log.retention.hours``.

A wrong value is refused with one sentence that names key, value and what is allowed. Unknown keys are no error, as in
Kafka (a properties file may be shared with other programs): `unknown` lists them, for a warning.

Follows org.apache.kafka.common.config.{ConfigDef,AbstractConfig} and java.util.Properties.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pykraft.common.errors import ConfigError
from pykraft.common.settings.java_text import format_double, parse_double

T = TypeVar("T")

LARGEST = {"short": (1 << 15) - 1, "int": (1 << 31) - 1, "long": (1 << 63) - 1}
"""The largest number that fits into each of Kafka's widths; the smallest is one below its negative."""

SECRET = "password"
"""The kind of a key whose value is shown nowhere."""
HOURS_TO_MS = 3_600_000
MINUTES_TO_MS = 60_000


@dataclass(frozen=True)
class Synonym:
    """A weaker name of a key; a number under that name counts `scale` units of the key, and is an int if these are
    larger than the key's own."""

    name: str
    scale: int = 1


@dataclass(frozen=True, eq=False)
class Key(Generic[T]):
    """One setting. `parse` reads the text or raises ValueError; `allowed` completes the sentence "... must be ..."."""

    name: str
    default: T
    parse: Callable[[str], T]
    allowed: str
    meaning: str
    kind: str
    synonyms: tuple[Synonym, ...] = ()
    required: bool = False

    def read(self, text: str, name: str = "") -> T:
        """The value of `text`; ConfigError names what is wrong."""
        text = text.strip()
        if re.search("[\0\ud800-\udfff]", text):
            shown = "a secret" if self.kind == SECRET else repr(text)
            raise ConfigError(f"{name or self.name} is {shown}, but must be text without NUL and half characters")
        try:
            return self.parse(text)
        except ValueError:
            raise ConfigError(f"{name or self.name} is {text!r}, but must be {self.allowed}") from None


def integer(
    name: str,
    default: int,
    meaning: str,
    at_least: int | None = None,
    at_most: int | None = None,
    synonyms: Sequence[Synonym] = (),
    required: bool = False,
    kind: str = "int",
) -> Key[int]:
    """A key whose value is a whole number; `kind` is what Kafka calls its width: short, int or long."""
    largest = LARGEST[kind] if at_most is None else at_most
    smallest = -LARGEST[kind] - 1 if at_least is None else at_least

    def parse(text: str) -> int:
        value = int(digits(text))
        if not smallest <= value <= largest:
            raise ValueError(value)
        return value

    return Key(name, default, parse, _range(smallest, largest), meaning, kind, tuple(synonyms), required)


def secret(name: str, meaning: str) -> Key[str]:
    """A key whose value is a password, or has one in it: no error shows it."""
    return Key(name, "", str, "text", meaning, SECRET)


def digits(text: str) -> str:
    """A number as Kafka reads it: without the underscores that Python lets pass."""
    if "_" in text:
        raise ValueError(text)
    return text


def _range(at_least: int, at_most: int) -> str:
    bounds = [f"at least {at_least}"] if at_least > -LARGEST["long"] - 1 else []
    bounds += [f"at most {at_most}"] if at_most < LARGEST["long"] else []
    return "a whole number" + (" of " + " and ".join(bounds) if bounds else "")


def decimal(
    name: str, default: float, meaning: str, at_least: float, at_most: float, synonyms: Sequence[Synonym] = ()
) -> Key[float]:
    """A key whose value is a number with a fraction."""

    def parse(text: str) -> float:
        value = parse_double(text)
        if not at_least <= value <= at_most:
            raise ValueError(value)
        return value

    return Key(name, default, parse, f"a number from {at_least:g} to {at_most:g}", meaning, "double", tuple(synonyms))


def boolean(name: str, default: bool, meaning: str, synonyms: Sequence[Synonym] = ()) -> Key[bool]:
    """A key whose value is true or false."""

    def parse(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"

    return Key(name, default, parse, "true or false", meaning, "boolean", tuple(synonyms))


def string(
    name: str,
    default: str,
    meaning: str,
    one_of: Sequence[str] = (),
    required: bool = False,
    synonyms: Sequence[Synonym] = (),
    most_bytes: int | None = None,
) -> Key[str]:
    """A key whose value is text, perhaps one of a few words, perhaps of a limited length in UTF-8."""

    def parse(text: str) -> str:
        if (one_of and text not in one_of) or (required and not text):
            raise ValueError(text)
        if most_bytes is not None and len(text.encode()) > most_bytes:
            raise ValueError(text)
        return text

    allowed = "one of " + ", ".join(one_of) if one_of else "text"
    allowed += "" if most_bytes is None else f" of at most {most_bytes} bytes"
    return Key(name, default, parse, allowed, meaning, "string", tuple(synonyms), required)


def names(
    name: str,
    default: Sequence[str],
    meaning: str,
    one_of: Sequence[str] = (),
    required: bool = False,
    synonyms: Sequence[Synonym] = (),
) -> Key[tuple[str, ...]]:
    """A key whose value is a list of words, separated by commas; of a few words, each once, however often it is given
    (KIP-1161)."""

    def parse(text: str) -> tuple[str, ...]:
        parts = [part.strip() for part in text.split(",")] if text else []
        if one_of and not set(parts) <= set(one_of):
            raise ValueError(text)
        values = tuple(part for part in (dict.fromkeys(parts) if one_of else parts) if part)
        if required and not values:
            raise ValueError(text)
        return values

    allowed = "a comma-separated list" + (" of " + ", ".join(one_of) if one_of else "")
    return Key(name, tuple(default), parse, allowed, meaning, "list", tuple(synonyms), required)


def as_text(value: object) -> str:
    """A value of a key, as a file or a message has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format_double(value)
    return ",".join(value) if isinstance(value, tuple) else str(value)


class ConfigDef:
    """A set of keys that belong together, and the readings of text by them."""

    def __init__(self, keys: Iterable[Key[Any]]) -> None:
        self.keys: dict[str, Key[Any]] = {}
        for key in keys:
            assert key.name not in self.keys, f"{key.name} is defined twice"
            self.keys[key.name] = key
        self._defaults = {name: key.default for name, key in self.keys.items()}
        self._keys_of: dict[str, list[str]] = {}
        """The keys' names, by each name that may be in a layer."""
        for key in self.keys.values():
            for name in (key.name, *(synonym.name for synonym in key.synonyms)):
                self._keys_of.setdefault(name, []).append(key.name)

    def change_default(self, name: str, default: object) -> None:
        """Give a key another default, from now on."""
        self.keys[name] = replace(self.keys[name], default=default)
        self._defaults[name] = default

    def unknown(self, layer: Mapping[str, str]) -> list[str]:
        """The names in this layer that no key has, sorted."""
        return sorted(set(layer) - self._keys_of.keys())

    def resolve(self, *layers: Mapping[str, str]) -> "Config":
        """The settings that hold when these layers lie on top of each other, strongest first."""
        values = self._defaults.copy()
        # Layers say little: only what they name is looked for.
        named = {key for layer in layers for name in layer for key in self._keys_of.get(name, ())}
        for key in self.keys.values():
            if key.name in named:
                values[key.name] = _said_of(key, layers)
            elif key.required:
                raise ConfigError(f"{key.name} is not set, but must be: {key.meaning}")
        return Config(values)


def _said_of(key: Key[Any], layers: Sequence[Mapping[str, str]]) -> Any:
    """The value that the strongest layer with this key gives it."""
    for layer in layers:
        if key.name in layer:
            return key.read(layer[key.name])
        for synonym in key.synonyms:
            if synonym.name in layer:
                value = key.read(layer[synonym.name], synonym.name)
                if synonym.scale > 1:
                    if value > LARGEST["int"]:
                        raise ConfigError(f"{synonym.name} is {value}, but must be at most {LARGEST['int']}")
                    value = value * synonym.scale if value >= 0 else value  # -1 means "no limit" in every unit
                return value
    raise AssertionError(f"no layer names {key.name}")


class Config:
    """The settings in force. ``config[KEY]`` has the key's own type."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: Key[T]) -> T:
        value: T = self._values[key.name]
        return value

    def with_values(self, **values: Any) -> "Config":
        """A copy with other values; names with underscores for dots."""
        return Config({**self._values, **{name.replace("_", "."): value for name, value in values.items()}})

    def as_dict(self) -> dict[str, Any]:
        return dict(self._values)


def parse_properties(text: str) -> dict[str, str]:
    """Read a Java properties file: ``key=value``, ``key:value`` or ``key value``; ``#`` and ``!`` begin comments; a
    backslash escapes the next character, and at the end of a line continues it. A later line wins."""
    properties: dict[str, str] = {}
    lines = iter(re.split(r"\r\n|\r|\n", text))
    for line in lines:
        line = line.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1] + next(lines, "").lstrip(_BLANKS)
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """The text of a properties file with these settings, one a line, in the order given."""
    return "".join(f"{_escape_key(key)}={_escape(value)}\n" for key, value in properties.items())


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Cut a line at the first unescaped separator."""
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANKS:
        position += 2 if line[position] == "\\" else 1
    rest = line[position:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:position], rest


_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    out = []
    characters = iter(text)
    for character in characters:
        if character != "\\":
            out.append(character)
            continue
        escaped = next(characters, "")
        if escaped == "u":
            out.append(_character("".join(next(characters, "") for _ in range(4))))
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # Java writes a character beyond 16 bits as two.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _character(digits: str) -> str:
    if not re.fullmatch("[0-9A-Fa-f]{4}", digits):
        raise ConfigError(f"\\u{digits} is no character: four hexadecimal digits are wanted")
    return chr(int(digits, 16))


def _escape_key(text: str) -> str:
    return re.sub(r"([=:#! \t\f])", r"\\\1", _escape_lines(text))


def _escape(text: str) -> str:
    return re.sub(r"^([ \t\f])", r"\\\1", _escape_lines(text))


def _escape_lines(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
