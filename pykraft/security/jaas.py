"""JAAS texts: how Kafka's settings name a login module and its options.

::

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

On a broker ``user_NAME="password"`` options are the users that PLAIN knows; ``username`` and ``password`` are its own,
for connections to other nodes. Java reads the text with a StreamTokenizer, so words may be quoted with ' or ", and
comments are those of Java.

No error quotes the text: it has passwords in it.

Follows org.apache.kafka.common.security.JaasConfig.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pykraft.common.errors import ConfigError

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_USER = "user_"
_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<word>[\w.$-]+)
    | (?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_FORM = 'MODULE required option="value" ...;'


class Jaas(NamedTuple):
    """A login module and its options."""

    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Jaas({self.module})"

    @property
    def credentials(self) -> tuple[str, str] | None:
        """The name and the password for connections to others; None if there are none."""
        user, password = self.options.get("username"), self.options.get("password")
        return None if not user or password is None else (user, password)

    @property
    def users(self) -> dict[str, str]:
        """The passwords of the users that PLAIN knows."""
        return {name.removeprefix(_USER): value for name, value in self.options.items() if name.startswith(_USER)}


def parse_jaas(text: str, setting: str) -> Jaas:
    """Read the value of a ``sasl.jaas.config``; ConfigError names the setting, and what is wrong."""
    tokens = list(_tokens(text, setting))
    if len(tokens) < 3:
        raise ConfigError(f"{setting} names no login module: it must be {_FORM}")
    (module, _), (flag, _) = tokens[:2]
    if flag.lower() not in _FLAGS:
        raise ConfigError(f"{setting} must have one of {', '.join(_FLAGS)} after the login module: {_FORM}")
    options: dict[str, str] = {}
    position = 2
    while position < len(tokens) and tokens[position] != (";", True):
        parts = tokens[position : position + 3]
        if len(parts) < 3 or parts[1] != ("=", True) or parts[2] in ((";", True), ("=", True)):
            raise ConfigError(f"{setting} has an option without a value: it must be {_FORM}")
        options[parts[0][0]] = parts[2][0]
        position += 3
    if position == len(tokens):
        raise ConfigError(f"{setting} must end with a semicolon: {_FORM}")
    if position + 1 < len(tokens):
        raise ConfigError(f"{setting} names more than one login module, but must name one")
    return Jaas(module, options)


def _tokens(text: str, setting: str) -> Iterator[tuple[str, bool]]:
    """(text, whether it is a sign) of each token."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ConfigError(f"{setting} cannot be read from character {position + 1} on: it must be {_FORM}")
        position = found.end()
        if found["quoted"] is not None:
            yield _ESCAPE.sub(_unescape, found["quoted"][1:-1]), False
        elif found["word"] is not None:
            yield found["word"], False
        elif found["sign"] is not None:
            yield found["sign"], True


def _unescape(found: re.Match[str]) -> str:
    what = found[1]
    return chr(int(what, 8)) if what[0] in "01234567" else _ESCAPED.get(what, what)


def as_jaas(module: str, user: str, password: str) -> str:
    """The text for these credentials."""
    return f'{module} required username="{_escaped(user)}" password="{_escaped(password)}";'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
