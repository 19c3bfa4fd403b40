"""``--json``: what a command lists or describes, as one line of JSON for programs.

The values are those that the admin client has found, by the names of their fields; Kafka's tools print tables only, and
their `log-dirs` JSON of its own. A row that has no object of the client is made by the command.
"""

import argparse
import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any

from pykraft.commands.common import CommandError, say
from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicPartition, Uuid


def add_json(parser: argparse.ArgumentParser, what: str = "") -> None:
    """The option; `what` says of which actions it is, if the command has others."""
    parser.add_argument("--json", action="store_true", help=f"{what}a line of JSON in place of the text")


def check_json(options: argparse.Namespace, is_shown: bool, actions: str) -> None:
    """CommandError if JSON is asked for of an action that shows nothing; `actions` are those that do."""
    if options.json and not is_shown:
        raise CommandError(f"--json is for {actions}")


def say_json(**found: object) -> None:
    """One line with these under their names."""
    say(json.dumps({name: plain(value) for name, value in found.items()}))


def plain(value: object) -> Any:
    """Numbers, texts, lists and dictionaries that say the same. TypeError for what is neither."""
    match value:
        case Enum():
            return value.value if isinstance(value.value, str) else value.name
        case None | bool() | int() | float() | str():
            return value
        case Uuid():
            return str(value)
        case KafkaError():
            return {"error": value.code.name, "message": value.detail or str(value)}
        case Mapping():
            return {_key(key): plain(each) for key, each in value.items()}
        case AbstractSet():
            return [plain(each) for each in sorted(value)]
        case tuple() if hasattr(value, "_asdict"):
            return {name: plain(each) for name, each in value._asdict().items()}
        case list() | tuple():
            return [plain(each) for each in value]
    raise TypeError(f"{value!r} has no form in JSON")


def _key(key: object) -> str:
    if isinstance(key, str | int | TopicPartition):
        return str(key)
    raise TypeError(f"{key!r} is no name in JSON")
