"""A simulated history that you can step through, step into, and let go on differently.

::

    story = Simulation(4711).story()
    story.next("election")            # to the first election; story.view is the cluster there
    branch = story.kill(story.view.active_controller)
    branch.next("election")           # what happens without it; `story` still is what it was

A story has a position, a *step*. An intervention takes the step after it, and history goes on from there. The original
is never changed: what you do makes a *branch*, and goes on in that branch as long as you act at its end. A branch is
nothing but the seed and what was done in which step, so it gives the same history again, to the last byte.

The laws of `sim.laws.invariants` are checked in branches, too. One that is broken is the end of its history, and the
story says so.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Self

from pykraft.cluster_view import ClusterView, MessageInFlight
from pykraft.common.trace import TraceEvent
from pykraft.common.types import TopicPartition
from pykraft.sim.cluster import Intervention, SimulatedCluster
from pykraft.sim.coordination import Doing
from pykraft.sim.interventions import (
    Cut,
    Delay,
    Deliver,
    Drop,
    Duplicate,
    Fire,
    Heal,
    Host,
    Impossible,
    Kill,
    Restart,
)
from pykraft.sim.report import SimulationFailed
from pykraft.sim.timers import Timer
from pykraft.sim.trouble.knobs import Knobs
from pykraft.sim.world.frames import Frame
from pykraft.story.checkpoints import Checkpoints, Plan, go_on
from pykraft.story.film import Film
from pykraft.story.marks import KINDS, Mark
from pykraft.story.ran import Ran, watch

__all__ = ["Impossible", "Mark", "Story"]

ORIGINAL = "original"
MOST_STEPS = 20_000
"""No story is longer; most are over after ten thousand steps."""
EVENT = "event"


class _Family:
    """What a story and all its branches share."""

    def __init__(self, seed: int, knobs: Knobs, plan: Plan | None) -> None:
        self.seed = seed
        self.checkpoints = Checkpoints(seed, knobs, plan)
        self.stories: dict[str, Story] = {}


class Story:
    """One history of a seed, recorded as far as it was looked at."""

    def __init__(
        self,
        family: _Family,
        name: str,
        deeds: Mapping[int, Intervention],
        film: Film,
        parent: "Story | None" = None,
    ) -> None:
        self._family = family
        self.name = name
        self.parent = parent
        self.forked_at = film.last_step if parent is not None else 0
        """The last step that it shares with the story it branched off from."""
        self._deeds = dict(deeds)
        self._film = film
        self._cluster: SimulatedCluster | None = None
        self._step = max(0, film.last_step)
        family.stories[name] = self

    @classmethod
    def begin(cls, seed: int, knobs: Knobs, deeds: Mapping[int, Intervention], plan: Plan | None = None) -> Self:
        """The story of a seed, and of what was done to it. A `plan` says what befalls the cluster in every branch."""
        story = cls(_Family(seed, knobs, plan), ORIGINAL, deeds, Film())
        story._cluster = story._family.checkpoints.begin()
        story._film.record(story._cluster)
        return story

    # --- where we are -------------------------------------------------------------------------------------------------

    @property
    def seed(self) -> int:
        return self._family.seed

    @property
    def step(self) -> int:
        """The position: how many events have happened."""
        return self._step

    @property
    def last_step(self) -> int:
        """The last recorded step; `is_over` says whether there is more."""
        return self._film.last_step

    @property
    def is_over(self) -> bool:
        if self.last_step + 1 in self._deeds:
            return False
        return self._film.is_over or self.last_step >= MOST_STEPS

    @property
    def failure(self) -> str | None:
        """The law that this history breaks in its last step."""
        return self._film.failure

    @property
    def view(self) -> ClusterView:
        """The cluster at this step."""
        return self._film.view(self._step)

    def describe(self) -> ClusterView:
        """The same: a board can be drawn of a story."""
        return self.view

    @property
    def messages(self) -> tuple[MessageInFlight, ...]:
        """What is on its way at this step."""
        return self._film.messages(self._step)

    @property
    def time_ms(self) -> float:
        return self._film.time_us(self._step) / 1000

    @property
    def what(self) -> str:
        """This step in one sentence."""
        return self._film.what(self._step)

    @property
    def trace(self) -> tuple[TraceEvent, ...]:
        """What the nodes and the simulator reported in this step."""
        return self._film.trace(self._step)

    @property
    def marks(self) -> list[Mark]:
        """Where something happened, in what is recorded."""
        return self._film.marks

    @property
    def interventions(self) -> dict[int, Intervention]:
        """What was done, by step. With the seed this is the whole branch: `Simulation(seed).story(interventions)`."""
        return dict(self._deeds)

    @property
    def digest(self) -> str:
        """A hash of everything that was reported up to this step: equal histories have equal digests."""
        digest = blake2b(digest_size=8)
        for step in range(self._step + 1):
            for event in self._film.trace(step):
                digest.update(str(event).encode())
        return digest.hexdigest()

    def __repr__(self) -> str:
        more = "" if self.is_over else " so far"
        law = f"\nA LAW IS BROKEN in step {self.last_step:,}: {self.failure}" if self.failure else ""
        return (
            f"seed {self.seed}, {self.name}: step {self._step:,} of {self.last_step:,}{more}, {self.time_ms:,.1f} ms: "
            f"{self.what}{law}"
        )

    # --- moving -------------------------------------------------------------------------------------------------------

    def at(self, step: int) -> ClusterView:
        """Go to a step; ValueError if this history does not have it."""
        if step < 0:
            raise ValueError(f"step {step}: the first step is 0")
        self._look_until(lambda: self.last_step >= step)
        if step > self.last_step:
            raise ValueError(f"step {step}: this history ends with step {self.last_step}")
        self._step = step
        return self.view

    def run(self) -> Self:
        """Look at the whole history; the position stays."""
        self._look_until(lambda: False)
        return self

    def next(self, kind: str = EVENT, within: float = float("inf")) -> Mark | None:
        """Go to the next event, or to the next mark of a kind; None if there is none up to the end, or within this many
        steps beyond those that were looked at before."""
        if _checked(kind) == EVENT:
            self._look_until(lambda: self.last_step > self._step)
            return self._go_to(self._event(self._step + 1)) if self._step < self.last_step else None
        looked_at = sum(mark.step <= self._step for mark in self.marks)
        limit = self.last_step + within

        def found() -> bool:
            nonlocal looked_at
            while looked_at < len(self.marks) and self.marks[looked_at].kind != kind:
                looked_at += 1
            return looked_at < len(self.marks)

        self._look_until(lambda: found() or self.last_step >= limit)
        return self._go_to(self.marks[looked_at]) if found() else None

    def next_message(self, receiver: Host) -> Mark | None:
        """Go to the next step in which a message arrives at this host."""
        step = self._step + 1

        def arrives() -> bool:
            nonlocal step
            while step <= self.last_step and self._receiver(step) != receiver:
                step += 1
            return step <= self.last_step

        self._look_until(arrives)
        return self._go_to(self._event(step)) if arrives() else None

    def until(self, words: str) -> Mark | None:
        """Go to the next step whose sentence has all of these words, such as "Produce response"; None if there is none
        up to the end."""
        wanted = _words(words)
        step = self._step + 1

        def is_there() -> bool:
            nonlocal step
            while step <= self.last_step and not wanted <= _words(self._film.what(step)):
                step += 1
            return step <= self.last_step

        self._look_until(is_there)
        return self._go_to(self._event(step)) if is_there() else None

    def previous(self, kind: str = EVENT) -> Mark | None:
        """Go back to the last mark of a kind before this step; None if there is none."""
        if _checked(kind) == EVENT:
            return self._go_to(self._event(self._step - 1)) if self._step else None
        before = [mark for mark in self.marks if mark.kind == kind and mark.step < self._step]
        return self._go_to(before[-1]) if before else None

    def _go_to(self, mark: Mark) -> Mark:
        self._step = mark.step
        return mark

    def _event(self, step: int) -> Mark:
        return Mark(step, EVENT, self._film.what(step))

    def _receiver(self, step: int) -> int | str | None:
        number = self._film.delivered[step]
        frame = None if number is None else self._film.decoder.message(number)
        return None if frame is None else frame.receiver

    def _look_until(self, condition: Callable[[], bool]) -> None:
        """Let history go on until it is so, or over; not a step further, for there it may be stepped into."""
        while not condition() and not self.is_over:
            self._record_next()

    def _record_next(self) -> None:
        cluster = self._at_end()
        try:
            go_on(cluster, self._deeds)
        except SimulationFailed as failure:
            self._break_law(cluster, failure)
        else:
            self._film.record(cluster)

    def _at_end(self) -> SimulatedCluster:
        """The cluster after the last recorded step; it stays with this story."""
        if self._cluster is None:
            self._cluster = self._family.checkpoints.take(self._deeds, self.last_step)
        return self._cluster

    def _break_law(self, cluster: SimulatedCluster, failure: SimulationFailed) -> None:
        self._cluster = None
        cause = failure.__cause__
        power = cluster.watcher.lossy
        remark = f" (node {min(power)} had lost power before, which Kafka may not outlive)" if power else ""
        self._film.break_law(cluster, f"{type(cause).__name__}: {cause}{remark}")

    # --- stepping into it ---------------------------------------------------------------------------------------------

    def kill(self, node: int) -> Self:
        """A crash: the node ends, and stays down until you restart it."""
        return self._do(Kill(node))

    def restart(self, node: int) -> Self:
        """Start a node that is down."""
        return self._do(Restart(node))

    def cut(self, one: Host, other: Host) -> Self:
        """A network partition between two hosts, until you heal it. Clients have names."""
        return self._do(Cut(one, other))

    def heal(self, one: Host, other: Host) -> Self:
        """Two hosts reach each other again."""
        return self._do(Heal(one, other))

    def deliver(self, message: MessageInFlight | int) -> Self:
        """A message arrives now."""
        return self._do(Deliver(*self._message(message)))

    def delay(self, message: MessageInFlight | int, ms: int) -> Self:
        """Message delay: it arrives that much later."""
        number, label = self._message(message)
        return self._do(Delay(number, ms, label))

    def drop(self, message: MessageInFlight | int) -> Self:
        """Message omission: it never arrives, and neither does what else is under way on its connection."""
        return self._do(Drop(*self._message(message)))

    def duplicate(self, message: MessageInFlight | int, ms: int) -> Self:
        """A request arrives once more that much later, and its answer goes nowhere."""
        number, label = self._message(message)
        return self._do(Duplicate(number, ms, label))

    def fire(self, host: Host, timer: str) -> Self:
        """A timer runs out now: `fetch`, `election` or `session` (`sim.timers`), or one of a group
        (`sim.coordination`)."""
        return self._do(Fire(host, timer))

    def _message(self, message: MessageInFlight | int) -> tuple[int, str]:
        number = message if isinstance(message, int) else message.id
        known = next((each for each in self.messages if each.id == number), None)
        return number, "" if known is None else str(known).partition(":")[0]

    def fork(self, name: str | None = None) -> Self:
        """A branch that begins at this step, with nothing done to it yet. ValueError if the name is taken."""
        return self._branch(self._free_name() if name is None else name)

    def _free_name(self) -> str:
        count = sum(1 for story in self._family.stories.values() if story.parent is not None)
        while f"branch {count + 1}" in self._family.stories:
            count += 1
        return f"branch {count + 1}"

    def _branch(self, name: str) -> Self:
        if self._film.failure is not None and self._step == self.last_step:
            raise Impossible("a law is broken in this step, and the history ends here: go back before you act")
        if name in self._family.stories:
            raise ValueError(f"there is a story named {name!r} already: choose another name")
        deeds = {step: deed for step, deed in self._deeds.items() if step <= self._step}
        return type(self)(self._family, name, deeds, self._film.until(self._step), self)

    def do(self, deed: Intervention) -> Self:
        """Any intervention (`sim.interventions`); of a message that has no label, its own is taken."""
        if isinstance(deed, (Deliver, Delay, Drop, Duplicate)) and not deed.label:
            deed = replace(deed, label=self._message(deed.message)[1])
        return self._do(deed)

    def _do(self, deed: Intervention) -> Self:
        """Do it in the step after this one: in this story, if it is a branch and nothing was done later, else in a new
        branch. Impossible: it cannot be done, and nothing has changed."""
        deeds = {step: done for step, done in self._deeds.items() if step <= self._step}
        if self._film.failure is not None and self._step == self.last_step:
            raise Impossible("a law is broken in this step, and the history ends here: go back before you act")
        goes_on_here = self.parent is not None and len(deeds) == len(self._deeds)
        cluster = self._give_cluster(deeds)
        try:
            cluster.intervene(deed)
        except Impossible:
            self._family.checkpoints.put(cluster)
            raise
        except SimulationFailed as failure:
            branch = self._here_or_new(goes_on_here, deed)
            branch._break_law(cluster, failure)
        else:
            branch = self._here_or_new(goes_on_here, deed)
            branch._film.record(cluster)
            branch._cluster = cluster
        branch._step = branch.last_step
        return branch

    def _give_cluster(self, deeds: Mapping[int, Intervention]) -> SimulatedCluster:
        """The cluster at this step. It may be the one at this story's end, which the story has then no more."""
        if self._cluster is not None and self._cluster.scheduler.steps == self._step:
            cluster, self._cluster = self._cluster, None
            return cluster
        return self._family.checkpoints.take(deeds, self._step)

    def _here_or_new(self, goes_on_here: bool, deed: Intervention) -> Self:
        if goes_on_here:
            story = self
            story._film = self._film.until(self._step)
        else:
            story = self._branch(self._free_name())
        story._deeds[story._step + 1] = deed
        return story

    @property
    def branches(self) -> dict[str, "Story"]:
        """All stories of this seed by their names: the original, and what branched off from it."""
        return dict(self._family.stories)

    def beside(self) -> "tuple[Story, int] | None":
        """The story that this one branched off from, and its step at this moment; None for the original."""
        return self.beside_at(self._step)

    def beside_at(self, step: int) -> "tuple[Story, int] | None":
        """The same for a recorded step."""
        if self.parent is None:
            return None
        if step <= self.forked_at:
            return self.parent, step
        now_us = self._film.time_us(step)
        parent = self.parent
        parent._look_until(lambda: parent._film.time_us(parent.last_step) > now_us)
        return parent, max(self.forked_at, parent._film.step_at(now_us))

    def step_at(self, time_ms: float) -> int:
        """The last recorded step that was over at this time."""
        return self._film.step_at(round(time_ms * 1000))

    def time_at(self, step: int) -> float:
        """When a recorded step happened, in virtual milliseconds."""
        return self._film.time_us(step) / 1000

    def timers_at(self, step: int) -> tuple[Timer, ...]:
        """The timers that run after a recorded step."""
        return self._film.timers(step)

    def doings_at(self, step: int) -> tuple[Doing, ...]:
        """What clients and coordinators do after a recorded step."""
        return self._film.doings(step)

    def committed_at(self, step: int) -> dict[TopicPartition, int]:
        """How far a group has committed after a recorded step."""
        return self._film.committed(step)

    def messages_at(self, step: int) -> tuple[MessageInFlight, ...]:
        """What is on its way after a recorded step."""
        return self._film.messages(step)

    def trace_at(self, step: int) -> tuple[TraceEvent, ...]:
        """What was reported in a recorded step."""
        return self._film.trace(step)

    def arrived_at(self, step: int) -> Frame | None:
        """The frame that arrived in a recorded step."""
        number = self._film.delivered[step]
        return None if number is None else self._film.decoder.frames.get(number)

    def sent_in(self, number: int) -> Frame | None:
        """The frame of a message that was seen."""
        return self._film.decoder.frames.get(number)

    def run_until(self, time_ms: float) -> Self:
        """Look at the history up to a time; the position stays."""
        self._look_until(lambda: self.time_at(self.last_step) >= time_ms)
        return self

    def view_at(self, step: int) -> ClusterView:
        """The cluster at a recorded step; the position stays."""
        return self._film.view(step)

    def what_at(self, step: int) -> str:
        """A recorded step in one sentence."""
        return self._film.what(step)

    # --- what a step did ----------------------------------------------------------------------------------------------

    def lines(self, step: int | None = None, with_plumbing: bool = False) -> Ran:
        """The lines of pykraft that ran in a step (this one, if none is given): the step is run once more. `plumbing`
        is what moves and decodes bytes."""
        step = self._step if step is None else step
        if not 1 <= step <= self.last_step:
            raise ValueError(f"step {step}: there are steps 1 to {self.last_step}")
        deeds = self._deeds
        cluster = self._family.checkpoints.take({at: deed for at, deed in deeds.items() if at < step}, step - 1)
        try:
            ran = watch(lambda: go_on(cluster, deeds), with_plumbing)
        except SimulationFailed:
            return Ran((), is_complete=False)
        self._family.checkpoints.put(cluster)
        return ran

    def frames(self, step: int | None = None) -> tuple[Frame, ...]:
        """The frames that arrived in a step, or were sent in it; `print(frame.tree())` shows the fields."""
        step = self._step if step is None else step
        if not 0 <= step <= self.last_step:
            raise ValueError(f"step {step}: there are steps 0 to {self.last_step}")
        frames = self._film.decoder.frames
        arrived = self._film.delivered[step]
        before = {message.id for message in self._film.messages(step - 1)} if step else set()
        sent = [message.id for message in self._film.messages(step) if message.id not in before]
        return tuple(frames[number] for number in [arrived, *sent] if number is not None and number in frames)

    def prepare(self) -> None:
        """Make interventions quick everywhere: keep running clusters all along this story. It takes a second or two."""
        self._family.checkpoints.prepare(self.last_step)


def _checked(kind: str) -> str:
    if kind != EVENT and kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of mark; there are {', '.join((EVENT, *KINDS))}")
    return kind


def _words(text: str) -> set[str]:
    return set(re.findall(r"[\w-]+", text.lower()))
