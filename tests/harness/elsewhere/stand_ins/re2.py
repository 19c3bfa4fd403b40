"""Patterns by `re`, which accepts what the histories' groups subscribe to."""

import re


class Options:
    """What pykraft sets."""

    log_errors = True


class error(Exception):  # noqa: N801, N818 (the library's name)
    """What pykraft catches."""


def compile(text, options):  # noqa: A001 (the library's name)
    """The pattern, ready to match."""
    try:
        return re.compile(text)
    except re.error as reason:
        raise error(str(reason)) from None
