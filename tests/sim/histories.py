"""Runs simulated histories, each in the seed's own way, and as many at once as the machine has processors.

A history that breaks a law, or ends a node by an assertion, comes back as text: the seed, the step, the law, and the
command that shows it again. Each history, or search, has a process of its own: what it has patched into itself is gone
with it. They are forked from here, where everything is imported and the codecs are compiled, which takes a second.
"""

from __future__ import annotations

import functools
import gc
import os
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from pykraft.simulation import Report, Simulation, SimulationFailed

SEEDS = range(100)
"""The histories of a long run, and those in which planted bugs are looked for."""
SHORT = (1, 2, 5, 6, 8, 10)
"""The histories of `make test`: clusters, groups and troubles of every kind."""


def history(seed: int) -> Report | str:
    """What came of a seed: its report, or how it failed."""
    try:
        return Simulation(seed).run()
    except SimulationFailed as failure:
        return str(failure)


def in_processes(function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
    """`map`, each call in a process of its own; the results come in the order of the arguments."""
    _warm_up()
    context = get_context("fork")
    running: dict[Connection, tuple[int, BaseProcess]] = {}
    results: dict[int, Any] = {}
    begun = 0
    try:
        while len(results) < len(arguments):
            while begun < len(arguments) and len(running) < (os.cpu_count() or 1):
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(theirs, function, arguments[begun]))
                process.start()
                theirs.close()
                running[ours] = begun, process
                begun += 1
            for ready in connection.wait(list(running)):
                assert isinstance(ready, Connection)
                is_result, value = ready.recv()
                assert is_result, f"{arguments[running[ready][0]]}: {value}"
                results[running[ready][0]] = value
                _end(ready, running.pop(ready)[1])
    finally:
        for unfinished, (_, process) in running.items():
            process.kill()
            _end(unfinished, process)
    return [results[number] for number in range(len(arguments))]


@functools.cache
def _warm_up() -> None:
    """What is forked from here need not compile a codec again, nor look for garbage among what is here already."""
    Simulation(0).at(3000)
    gc.freeze()


def _work(pipe: Connection, function: Callable[[Any], Any], argument: Any) -> None:
    """Send the result back, or as text why there is none."""
    gc.set_threshold(50_000, 20, 20)  # a history keeps what it makes
    try:
        pipe.send((True, function(argument)))
    except Exception:
        pipe.send((False, traceback.format_exc()))


def _end(pipe: Connection, process: BaseProcess) -> None:
    pipe.close()
    process.join()
    process.close()
