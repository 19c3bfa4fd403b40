"""Writes down how a check called the code under test: with what, and what came back.

The functions of a module, and the methods of its classes, are replaced by ones that note each call which comes from
outside; calls of the learner's functions among themselves are their own business. Values are noted as they were before
the call: bytes as bytes (also those of an object that holds them as `data`, such as a file that is read through a
hole), everything else as Python writes it.

Only a trace does this (`replay`): checks as such run on the bare module.
"""

import inspect
import json
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

MOST_CALLS = 3000
MOST_BYTES, MOST_LETTERS = 4096, 2000
_BYTES = (bytes, bytearray, memoryview)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""An object's address in memory, which differs in every run: two runs could not be compared with it."""
Value = dict[str, Any]
"""{"hex": the first bytes, "size": how many there are}, or {"text": as Python writes it}."""


def noted(value: Any) -> Value:
    """A value in a form that a file can hold."""
    held = getattr(value, "data", None)
    data = value if isinstance(value, _BYTES) else held if isinstance(held, _BYTES) else None
    if data is not None:
        return {"hex": bytes(data[:MOST_BYTES]).hex(), "size": len(data)}
    text = _ADDRESS.sub("", repr(value))
    return {"text": text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"}


class Calls:
    """The calls of one module, as they come; of very many the first ones and the last."""

    def __init__(self, module: ModuleType) -> None:
        self.found: list[dict[str, Any]] = []
        self.count = 0
        self._depth = 0
        for name, thing in list(vars(module).items()):
            if getattr(thing, "__module__", None) != module.__name__:
                continue
            if isinstance(thing, FunctionType):
                setattr(module, name, self._noting(name, thing))
            elif isinstance(thing, type) and not issubclass(thing, tuple | BaseException):
                for method, function in list(vars(thing).items()):
                    if isinstance(function, FunctionType):
                        setattr(thing, method, self._noting(f"{name}.{method}", function))

    def _noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._depth:
                return function(*args, **kwargs)
            self.count += 1
            del self.found[MOST_CALLS:]
            entry: dict[str, Any] = {"name": name, "number": self.count, "inputs": _inputs(function, args, kwargs)}
            self.found.append(entry)
            self._depth += 1
            try:
                answer = function(*args, **kwargs)
            except BaseException as error:
                entry["answer"] = {"text": f"raises {type(error).__name__}: {error}"}
                raise
            finally:
                self._depth -= 1
            entry["answer"] = noted(answer)
            return answer

        return call

    def write(self, path: Path) -> None:
        """All calls, as JSON."""
        path.write_text(json.dumps({"count": self.count, "calls": self.found}), encoding="utf-8")


def _inputs(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Value]:
    """The arguments by their names."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:  # the function takes others: the call itself will tell
        bound = {f"argument {number}": value for number, value in enumerate(args, 1)} | kwargs
    return {name: noted(value) for name, value in bound.items() if name != "self"}
