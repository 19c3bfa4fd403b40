"""A slice of time: for how long a node does one thing before it looks after the others.

One thread owns a node, and heartbeats wait for whatever that thread does. Long work is therefore done in pieces, and
what does it asks after each piece whether its slice of time is over::

    time_slice.begin()
    for item in items:
        answer(item)
        if time_slice.is_over():
            ...  # go on in the next turn of the node's loop

How long a piece takes need not be known beforehand: a slice is measured, not counted. Within a step of the simulator no
time passes, so a slice there ends as the seed says (`sim.world.slices`), and histories go through cuts at every place.

A computation that an answer depends on is different. If it is short the answer waits for it, and if it is long the
answer goes out without it. Which of the two it is must not depend on how busy the machine is: `is_long` counts steps.

This is ours: Kafka's request handlers are threads of their own, and the operating system slices them.
"""

from typing import Any, Protocol

from pykraft.common.core import Clock, Steps

SLICE_US = 3_000
"""A slice lasts this long. An idle node answers a small request in a twentieth of it."""
LONG_STEPS = 1_000
"""A computation of more steps is a long one. A step takes a few microseconds."""


class TimeSlice(Protocol):
    """What ends a piece of work."""

    def begin(self) -> None:
        """A slice begins now."""
        ...

    def is_over(self) -> bool:
        """Whether the slice is over, so that the rest of the work is to wait for the next one."""
        ...

    def is_long(self, steps: int) -> bool:
        """Whether a computation that is not done after so many steps is a long one."""
        ...


class EndlessSlice:
    """A slice that is never over: for a core that nothing else waits for."""

    def begin(self) -> None:
        pass

    def is_over(self) -> bool:
        return False

    def is_long(self, steps: int) -> bool:
        return False


ENDLESS = EndlessSlice()


class ClockSlice:
    """A slice of `SLICE_US` on a stopwatch."""

    __slots__ = ("_clock", "_ends_us")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends_us = 0

    def begin(self) -> None:
        self._ends_us = self._clock.elapsed_us() + SLICE_US

    def is_over(self) -> bool:
        return self._clock.elapsed_us() >= self._ends_us

    def is_long(self, steps: int) -> bool:
        return steps >= LONG_STEPS


def take_steps(steps: Steps[Any], sent: int | None, time_slice: TimeSlice, now: int) -> tuple[bool, Any]:
    """Go on with steps until the slice is over; whether they are done, and what they return. `sent` is None if they
    begin now, else the time."""
    try:
        steps.send(sent)  # type: ignore[arg-type]
        while not time_slice.is_over():
            steps.send(now)
    except StopIteration as end:
        return True, end.value
    return False, None


def take_short_steps(steps: Steps[Any], time_slice: TimeSlice, now: int) -> tuple[bool, Any]:
    """Take all steps, unless there are many; whether they are done, and what they return."""
    try:
        next(steps)
        taken = 1
        while not time_slice.is_long(taken):
            steps.send(now)
            taken += 1
    except StopIteration as end:
        return True, end.value
    steps.close()
    return False, None
