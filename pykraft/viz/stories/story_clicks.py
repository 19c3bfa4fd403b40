"""What the buttons of a story's player do, without a screen: each as a word that a script can hold as well.

::

    next            next election    previous commit    at 3001    until Produce response
    kill leader     kill 2           restart 2
    cut 1 2         cut leader       heal 1 2           heal
    deliver Vote    delay Fetch 200  drop Vote response
    fork            story original

`kill leader` ends the active controller, `kill leader of t-0` the leader of a partition. `cut` and `heal` with one node
mean all its links to other nodes, `heal` alone means all links. A message is named by its id or by words of its
description; the first one on its way that has them all is meant. `until` goes to the next step whose sentence has all
of its words. Several clicks may stand in one step of a script, with semicolons between them. A live board's buttons are
called the same (`live_clicks`).
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from pykraft.cluster_view import MessageInFlight
from pykraft.common.types import TopicPartition
from pykraft.sim.interventions import Host
from pykraft.story.marks import Mark
from pykraft.story.story import EVENT, Story

_NUMBER = re.compile(r"-?\d+")


class StoryClicks:
    """A story, and what the buttons do to it."""

    def __init__(self, story: Story) -> None:
        self.story = story
        """The branch that is shown."""
        self.said = ""
        """What the last click did, in one sentence."""
        self.reach = float("inf")
        """How many steps `next` looks ahead, beyond those that were looked at before."""

    def click(self, what: str) -> None:
        """Press a button, or several with semicolons between them. ValueError: there is no such button, or it does not
        work now; the text says why."""
        for each in what.split(";"):
            self._press(each)

    def _press(self, what: str) -> None:
        verb, _, rest = what.strip().partition(" ")
        presses: dict[str, Callable[[str], str]] = {
            "next": self._next,
            "previous": self._previous,
            "at": self._at,
            "until": self._until,
            "kill": lambda node: self._act(self.story.kill, self._node(node)),
            "restart": lambda node: self._act(self.story.restart, self._node(node)),
            "cut": self._cut,
            "heal": self._heal,
            "deliver": lambda words: self._act(self.story.deliver, self._message(words)),
            "delay": self._delay,
            "drop": lambda words: self._act(self.story.drop, self._message(words)),
            "fork": self._fork,
            "story": self._switch,
        }
        if verb not in presses:
            raise ValueError(f"{what!r} is no click; a click begins with {', '.join(presses)}")
        self.said = presses[verb](rest.strip())

    # --- moving -------------------------------------------------------------------------------------------------------

    def _next(self, kind: str) -> str:
        before = self.story.step
        mark = self.story.next(kind or EVENT, self.reach)
        if mark is None and not self.story.is_over:
            return f"there is no {kind} up to step {self.story.last_step:,}; press again to look further"
        return self._moved(mark, f"there is no next {kind or EVENT} after step {before:,}")

    def _previous(self, kind: str) -> str:
        before = self.story.step
        mark = self.story.previous(kind or EVENT)
        return self._moved(mark, f"there is no {kind or EVENT} before step {before:,}")

    def _moved(self, mark: Mark | None, otherwise: str) -> str:
        law = f"; a law is broken: {self.story.failure}" if self._is_at_broken_law() else ""
        return f"{otherwise if mark is None else mark}{law}"

    def _is_at_broken_law(self) -> bool:
        return self.story.failure is not None and self.story.step == self.story.last_step

    def _at(self, step: str) -> str:
        if not step.replace(",", "").isdigit():
            raise ValueError(f"at {step}: a step is a number")
        self.story.at(int(step.replace(",", "")))
        return f"step {self.story.step:,}: {self.story.what}"

    def _until(self, words: str) -> str:
        before = self.story.step
        return self._moved(self.story.until(words), f"there is no step after {before:,} with the words {words!r}")

    # --- stepping in --------------------------------------------------------------------------------------------------

    def _act(self, act: Callable[..., Story], *arguments: Any) -> str:
        before = self.story
        self.story = act(*arguments)
        branch = "" if self.story is before else f" ({self.story.name} begins)"
        return self._moved(Mark(self.story.step, "you", self.story.what), "") + branch

    def _node(self, words: str) -> int:
        if words.isdigit():
            return int(words)
        if words == "leader":
            leader = self.story.view.active_controller
        elif words.startswith("leader of "):
            leader = self._leader_of(words.removeprefix("leader of "))
        else:
            raise ValueError(f"{words!r} is no node: say a node's id, leader, or leader of t-0")
        if leader is None:
            raise ValueError(f"there is no {words} at step {self.story.step:,}")
        return leader

    def _leader_of(self, name: str) -> int | None:
        topic, _, number = name.rpartition("-")
        key = TopicPartition(topic, int(number)) if number.isdigit() else None
        if key is None or key not in self.story.view.topic_partitions:
            known = ", ".join(map(str, self.story.view.topic_partitions)) or "none yet"
            raise ValueError(f"there is no partition {name!r} at step {self.story.step:,}; there are {known}")
        return self.story.view.leader(key.topic, key.partition)

    def _cut(self, words: str) -> str:
        """Of one node all its links to other nodes."""
        is_cut = self.story.view.is_cut
        return self._act_on_all(self.story.cut, [pair for pair in self._pairs(words) if not is_cut(*pair)], words)

    def _heal(self, words: str) -> str:
        """Of one node all its links, and without a word all links."""
        is_cut = self.story.view.is_cut
        pairs = [pair for pair in self._pairs(words) if is_cut(*pair)] if words else self._cut_pairs()
        return self._act_on_all(self.story.heal, pairs, words)

    def _cut_pairs(self) -> list[tuple[Host, Host]]:
        ordered = [(one, other) if str(one) < str(other) else (other, one) for one, other in self.story.view.cut_links]
        return sorted(set(ordered), key=str)

    def _act_on_all(self, act: Callable[..., Story], pairs: list[tuple[Host, Host]], words: str) -> str:
        if len(words.split()) == 2 and not words.startswith("leader"):
            pairs = [self._pair(words)]  # the story says why it cannot be done
        if not pairs:
            raise ValueError("there is no link to cut or to heal")
        before, verb = self.story, act.__name__
        said = self._act(act, *pairs[0])
        for pair in pairs[1:]:
            self._act(getattr(self.story, verb), *pair)
        begun = "" if self.story is before else f" ({self.story.name} begins)"
        return said if len(pairs) == 1 else f"step {self.story.step:,}: you {verb} {_joined(pairs)}{begun}"

    def _pairs(self, words: str) -> list[tuple[Host, Host]]:
        if len(words.split()) == 2 and not words.startswith("leader"):
            return [self._pair(words)]
        node = self._node(words)
        return [(node, other) for other in self.story.view.nodes if other != node]

    def _pair(self, words: str) -> tuple[Host, Host]:
        one, other = (int(name) if name.isdigit() else name for name in words.split())
        return one, other

    def _message(self, words: str) -> MessageInFlight:
        wanted = words.lower().split()
        for message in self.story.messages:
            if words == str(message.id) or (wanted and all(word in str(message).lower() for word in wanted)):
                return message
        raise ValueError(f"no message on its way at step {self.story.step:,} has the words {words!r}")

    def _delay(self, words: str) -> str:
        message, _, ms = words.rpartition(" ")
        if not _NUMBER.fullmatch(ms):
            raise ValueError(f"delay {words}: the last word is the number of milliseconds")
        return self._act(self.story.delay, self._message(message), int(ms))

    def _fork(self, name: str) -> str:
        self.story = self.story.fork(name or None)
        return f"{self.story.name} begins at step {self.story.step:,}"

    def _switch(self, name: str) -> str:
        if name not in self.story.branches:
            raise ValueError(f"there is no story {name!r}; there are {', '.join(self.story.branches)}")
        self.story = self.story.branches[name]
        return f"{name}, step {self.story.step:,}: {self.story.what}"


def _joined(pairs: Sequence[tuple[Host, Host]]) -> str:
    return ", ".join(f"{_named(one)} and {_named(other)}" for one, other in pairs)


def _named(host: Host) -> str:
    return f"node {host}" if isinstance(host, int) else host
