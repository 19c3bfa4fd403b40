"""Other implementations of Kafka's formats, to compare with."""

from __future__ import annotations

import importlib
import warnings
from typing import Any


def module(name: str) -> Any:
    """A module of kafka-python or aiokafka. The former reads its JSON files in a way that Python gave up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(name)
