"""Patterns of topic names, which the coordinator resolves for the members of a consumer group.

A consumer may subscribe to a pattern instead of names. In a classic group each client matches the pattern itself; in a
consumer group the coordinator does, with RE2 syntax, once for all members with the same pattern (KIP-848). The name as
a whole has to match.

A pattern is a program that a client sends to the broker. Python's own `re` backtracks: the pattern ``(a+)+$`` takes
time exponential in the length of the name, and one request would stop the broker. RE2 compiles a pattern to an
automaton, takes time linear in the name, and limits the memory of a pattern; in exchange it has no back references and
no lookaround.

A record (type 16) holds the topics of each pattern, the version of the metadata and the time at which it was resolved.
So a coordinator that loads the group has the same topics as the one before it.

Follows org.apache.kafka.coordinator.group.GroupMetadataManager.refreshRegularExpressions and
org.apache.kafka.coordinator.group.modern.consumer.ResolvedRegularExpression; RE2 is Google's, Kafka uses RE2/J.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import re2

from pykraft.common.errors import ErrorCode, KafkaError

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # the library would write to standard error


class ResolvedPattern(NamedTuple):
    """The topics that a pattern matches."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


NOT_RESOLVED = ResolvedPattern(frozenset(), -1, -1)


class Pattern(Protocol):
    """A compiled pattern."""

    def fullmatch(self, text: str) -> object | None: ...


def compile_pattern(text: str) -> Pattern:
    """The pattern, ready to match; KafkaError INVALID_REGULAR_EXPRESSION says what is wrong with it."""
    try:
        pattern: Pattern = re2.compile(text, _OPTIONS)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        detail = f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}."
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, detail) from None
    return pattern


def resolve(patterns: Iterable[str], names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Which of the names each pattern matches as a whole. A pattern that cannot be read matches none: another
    coordinator accepted it, for instance a broker with RE2/J."""
    names = list(names)
    matched: dict[str, frozenset[str]] = {}
    for text in patterns:
        try:
            matched[text] = frozenset(filter(compile_pattern(text).fullmatch, names))
        except KafkaError:
            matched[text] = frozenset()
    return matched
