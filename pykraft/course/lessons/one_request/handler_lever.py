"""A lever of notebook 07: handlers that wait for disks, as many of each as the reader chooses.

A node of pykraft has one owner at a time, so its handlers cannot show what `num.io.threads` is for. Here are handlers
without a node: threads that take requests from pykraft's own `RequestQueue`, compute, and wait for a disk. The disks
are imitated. A disk is a lock, held for as long as the reader says: it serves one request at a time, and the wait gives
the processor away, as a read does. Request n wants disk n mod `disks`, like partitions spread over `log.dirs`.

The documentation of Kafka 0.8 said of `num.io.threads`: "You should have at least as many threads as you have disks".
Two experiments ask for that: one handler against one for each disk, and one for each disk against the reader's number.
Java threads also compute at the same time, on several cores. Python's do not, so this is the smallest gain from more
of them.
"""

import threading
import time
from typing import cast

from pykraft.course.experiment import Experiment, Outcome
from pykraft.network.stages import RequestQueue, WaitingTime
from pykraft.transport.server_connection import QueuedRequest
from pykraft.viz import Figure, verdicts

REQUESTS = 16
AS_MANY, MORE, FEWER = "As many handlers as disks", "More handlers than disks", "Fewer handlers than disks"
_CAPACITY = 500
_ROUNDS = 2
"""The better one counts: another program was perhaps in the way of the other."""


def draw_handlers(handlers: int, disks: int, disk_ms: int, compute_ms: int) -> Figure:
    """Whether handlers pay: up to one for each disk, and beyond. ValueError if there is nothing to compare."""
    found = outcomes_of(handlers, disks, disk_ms, compute_ms)
    gains = ", ".join(
        f"{more} are {outcome.factor:.1f} times as fast as {fewer.split()[0]}"
        for outcome in found.values()
        for fewer, more in [outcome.experiment.compared]
    )
    note = f"{REQUESTS} requests; each computes for {compute_ms} ms, and has its disk for {disk_ms} ms"
    rows = {name: outcome.finding for name, outcome in found.items()}
    return verdicts(rows, title=f"{_counted(disks, 'disk')}: {gains}", note=note)


def outcomes_of(handlers: int, disks: int, disk_ms: int, compute_ms: int, seed: int = 0) -> dict[str, Outcome]:
    """One handler against one for each disk, and these against the reader's number. ValueError if there is nothing to
    compare."""
    if not disk_ms and not compute_ms:
        raise ValueError("a request takes 0 ms: let it wait for its disk, or compute")
    if handlers == disks == 1:
        raise ValueError("1 handler and 1 disk: nothing to compare, so add one of them")
    compared = {AS_MANY: (1, disks), MORE if handlers > disks else FEWER: (handlers, disks)}
    found = {}
    for name, counts in compared.items():
        fewer, more = min(counts), max(counts)
        if fewer < more:
            plan = _plan(fewer, more)
            arms = dict(zip(plan.compared, (fewer, more), strict=True))

            def measure(arm: str, arms: dict[str, int] = arms) -> float:
                return min(ms_for_a_request(arms[arm], disks, disk_ms, compute_ms) for _ in range(_ROUNDS))

            found[name] = plan.run(measure, seed)
    return found


def ms_for_a_request(handlers: int, disks: int, disk_ms: float, compute_ms: float) -> float:
    """Let this many handlers take all requests from a queue: milliseconds a request."""
    queue = RequestQueue(_CAPACITY)
    locks = [threading.Lock() for _ in range(disks)]
    answered = threading.Semaphore(0)

    def handle() -> None:
        waiting = WaitingTime(time.monotonic_ns)
        while (number := cast("int | None", queue.take(waiting))) is not None:
            computed = time.thread_time() + compute_ms / 1000
            while time.thread_time() < computed:
                pass
            with locks[number % disks]:
                time.sleep(disk_ms / 1000)
            answered.release()

    threads = [threading.Thread(target=handle, daemon=True) for _ in range(handlers)]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    for number in range(REQUESTS):
        queue.put(cast("QueuedRequest", number))  # the queue does not look at what it holds
    for _ in range(REQUESTS):
        answered.acquire()
    seconds = time.perf_counter() - began
    queue.close()
    for thread in threads:
        thread.join()
    return seconds * 1000 / REQUESTS


def _plan(fewer: int, more: int) -> Experiment:
    compared = _counted(fewer, "handler"), _counted(more, "handler")
    return Experiment(
        claim=f"With {compared[0]} a request takes at least 1.5 times as long as with {compared[1]}.",
        compared=compared,
        holds_if="at least 1.5 times",
        prediction=more / fewer,
        because="a handler that waits for its disk leaves the processor to others, and a disk serves one at a time",
        unit="ms a request",
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + "s" * (count > 1)
