"""What one release of Apache Kafka has changed against another: messages, records, settings, errors, APIs.

    python -m tests.harness.release_changes 4.2.1 4.4.0

It prints a unified diff without context. Each message has a line for itself and one for each field; a field that lasts
from version 3 on reads ``versions=3+``. The message files are in Kafka's jars; the rest its classes say
(ReleaseTables.java). pykraft/KAFKA_RELEASES.md says what to do with it.
"""

from __future__ import annotations

import difflib
import json
import pathlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from tests.harness.apache_kafka import TOOL_S, fetched, java_command

SOURCE = pathlib.Path(__file__).parent / "ReleaseTables.java"
_SCHEMA = re.compile(r"common/(message|metadata)/\w+\.json")
_COMMENT = re.compile(r"^[ \t]*//.*$|[ \t]//[^\"\n]*$", re.MULTILINE)
_NOT_SHOWN = {"about", "fields", "commonStructs"}


def schema_lines(version: str) -> dict[str, list[str]]:
    """Each message and record of the release, as lines."""
    found: dict[str, list[str]] = {}
    for jar in sorted((fetched(version) / "libs").glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in filter(_SCHEMA.fullmatch, archive.namelist()):
                schema = json.loads(_COMMENT.sub("", archive.read(name).decode()))
                found[schema["name"]] = [_line(schema), *_fields(schema, 1)]
    return found


def _fields(structure: Mapping[str, Any], depth: int) -> Iterator[str]:
    for field in [*(structure.get("fields") or ()), *(structure.get("commonStructs") or ())]:
        yield "  " * depth + _line(field)
        yield from _fields(field, depth + 1)


def _line(described: Mapping[str, Any]) -> str:
    shown = {key: value for key, value in sorted(described.items()) if key not in _NOT_SHOWN}
    return " ".join([str(shown.pop("name")), *(f"{key}={value}" for key, value in shown.items())])


def table_lines(version: str) -> list[str]:
    """The settings, errors and APIs of the release."""
    command = java_command(version, str(SOURCE))
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TOOL_S)
    return done.stdout.splitlines()


def changes(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> Iterator[str]:
    """What is other in one of these pages: its name, then the lines that are gone, and those that are new."""
    for name in sorted(before.keys() | after.keys()):
        lines = list(difflib.unified_diff(before.get(name, []), after.get(name, []), n=0, lineterm=""))
        if lines:
            yield name
            yield from (line for line in lines[2:] if not line.startswith("@@"))


def main(older: str, newer: str) -> None:
    for line in changes(schema_lines(older), schema_lines(newer)):
        sys.stdout.write(f"{line}\n")
    for line in changes({"tables": table_lines(older)}, {"tables": table_lines(newer)}):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
