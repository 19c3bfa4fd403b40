"""What the buttons of a live board do, without a screen: each as a word that a script can hold as well.

::

    start producer        start producer acks=1   stop producer   start consumer   stop consumer
    kill leader of t-0    kill 2             restart 2           restart dead
    cut leader of t-0     cut 1 2            heal 1              heal
    wait 20 records       wait leader of t-0  wait diverging     wait in sync

`leader` is the active controller. `cut` and `heal` with one node mean all its links. One step of a script may be
several clicks, with semicolons between them. A `wait` lasts until the cluster is so; after `WAIT_S` it is a
TimeoutError. `Recorder` looks at the cluster and keeps each look that differs from the one before.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from pykraft.cluster_view import ClusterView
from pykraft.common.types import TopicPartition
from pykraft.viz.boards.live_flows import ConsumerFlow, Flow, ProducerFlow

MOST_FRAMES = 400
WAIT_S = 30.0
_POLL_S = 0.05
ACKS = ("all", "1", "0")
_FLOWS: dict[str, type[Flow]] = {"producer": ProducerFlow, "consumer": ConsumerFlow}


class Breakable(Protocol):
    """A cluster, as far as the buttons are concerned."""

    node_ids: list[int]

    @property
    def alive(self) -> list[int]: ...

    @property
    def bootstrap_servers(self) -> str: ...

    def describe(self) -> ClusterView: ...

    def kill(self, node_id: int) -> None: ...

    def restart(self, node_id: int, wait: bool = True) -> None: ...

    def disconnect(self, one: int, other: int) -> None: ...

    def reconnect(self, one: int, other: int) -> None: ...


class Seen(NamedTuple):
    """One look at the cluster, and what the producer and the consumer had counted by then."""

    view: ClusterView
    facts: tuple[str, ...] = ()

    def resembles(self, other: "Seen") -> bool:
        """Whether nothing is different but the time."""
        return replace(self.view, time_ms=0) == replace(other.view, time_ms=0) and self.facts == other.facts


class Recorder:
    """What was seen of a cluster, one look for each change; the oldest are forgotten when there are very many."""

    def __init__(self, look: Callable[[], Seen]) -> None:
        self._look = look
        self.frames: list[Seen] = [look()]

    def look(self) -> bool:
        """Look once more; whether anything has changed since."""
        seen = self._look()
        if seen.resembles(self.frames[-1]):
            return False
        self.frames = [*self.frames[1 - MOST_FRAMES :], seen]
        return True


class LiveClicks:
    """A cluster that runs, and what a reader does to it."""

    def __init__(self, cluster: Breakable, topic: str | None = None) -> None:
        """`topic` is what the producer and the consumer use; the first that there is, unless it is named."""
        self._cluster = cluster
        self._topic = topic
        self.flows: dict[str, Flow] = {}
        """Those that were ever switched on, by name."""
        self.said = ""
        """What the last click did, in one sentence."""
        self._epochs: dict[TopicPartition, int] = {}
        """The newest leader epochs before something was broken last."""

    # --- looking ------------------------------------------------------------------------------------------------------

    def look(self) -> Seen:
        return Seen(self._cluster.describe(), tuple(self.facts()))

    def facts(self) -> list[str]:
        """What the producer and the consumer have counted."""
        parts = []
        for name, words in (("producer", ("acknowledged", "failed")), ("consumer", ("consumed",))):
            if name in self.flows:
                counts = self.flows[name].counts
                shown = [f"{word} {counts[word]:,}" for word in words if counts[word] or word != "failed"]
                parts.append(" · ".join(shown) + ("" if self.is_on(name) else f" ({name} off)"))
        return parts

    def is_on(self, name: str) -> bool:
        return name in self.flows and self.flows[name].is_running

    # --- clicking -----------------------------------------------------------------------------------------------------

    def click(self, what: str) -> None:
        """Press one or several buttons. ValueError: there is no such button, or it does not work now; the text says
        why. TimeoutError: what was waited for has not come."""
        said = []
        for each in what.split(";"):
            verb, _, rest = each.strip().partition(" ")
            presses: dict[str, Callable[[str], str]] = {
                "start": self._start,
                "stop": self._stop,
                "kill": self._kill,
                "restart": self._restart,
                "cut": self._cut,
                "heal": self._heal,
                "wait": self._wait,
            }
            if verb not in presses:
                raise ValueError(f"{each.strip()!r} is no click; a click begins with {', '.join(presses)}")
            said.append(presses[verb](rest.strip()))
        self.said = "; ".join(said)
        self.said = f"{self.said[:1].upper()}{self.said[1:]}."

    def close(self) -> None:
        """End the producer and the consumer; the cluster stays."""
        for flow in self.flows.values():
            flow.stop()

    def _start(self, words: str) -> str:
        name, _, setting = words.partition(" ")
        if self.is_on(self._flow_name(name)):
            return f"the {name} runs already"
        settings = {}
        if setting:
            key, _, value = setting.partition("=")
            if name != "producer" or key != "acks" or value not in ACKS:
                raise ValueError(f"start {words}: the only setting is the producer's acks={' or '.join(ACKS)}")
            settings = {"acks": value if value == "all" else int(value)}
        topic = self._topic_name()
        counts = self.flows[name].counts if name in self.flows else Counter[str]()
        self.flows[name] = _FLOWS[name](self._cluster.bootstrap_servers, topic, counts, **settings)
        return f"the {name} of {topic} is on{f' with {setting}' if setting else ''}"

    def _stop(self, name: str) -> str:
        if not self.is_on(self._flow_name(name)):
            return f"the {name} does not run"
        self.flows[name].stop()
        return f"the {name} is off"

    def _flow_name(self, name: str) -> str:
        if name not in _FLOWS:
            raise ValueError(f"{name!r} is no client; there are {', '.join(_FLOWS)}")
        return name

    def _topic_name(self) -> str:
        if self._topic is None:
            topics = [key.topic for key in self._cluster.describe().topic_partitions if not key.topic.startswith("__")]
            if not topics:
                raise ValueError("there is no topic yet: create one, or name one: board.live(cluster, topic=...)")
            self._topic = topics[0]
        return self._topic

    def _kill(self, words: str) -> str:
        self._remember_epochs()
        (node_id,) = self._nodes(words, 1)
        self._cluster.kill(node_id)
        return f"node {node_id} was killed"

    def _restart(self, words: str) -> str:
        dead = sorted(set(self._cluster.node_ids) - set(self._cluster.alive))
        nodes = dead if words == "dead" else self._nodes(words, 1)
        for node_id in nodes:
            self._cluster.restart(node_id, wait=False)
        return " and ".join(f"node {node_id}" for node_id in nodes) + " started" if nodes else "no node is dead"

    def _pairs(self, words: str) -> list[tuple[int, int]]:
        """The links that are meant: one, or all of a node."""
        nodes = self._nodes(words, 2)
        alive = self._cluster.alive
        pairs = [(nodes[0], nodes[1])] if len(nodes) == 2 else [(nodes[0], n) for n in alive if n != nodes[0]]
        return [(min(pair), max(pair)) for pair in pairs]

    def _cut(self, words: str) -> str:
        self._remember_epochs()
        pairs = self._pairs(words)
        for pair in pairs:
            self._cluster.disconnect(*pair)
        return f"nothing gets through between {_named(pairs)}"

    def _heal(self, words: str) -> str:
        links = self._cluster.describe().cut_links
        cut = {(min(a, b), max(a, b)) for a, b in links if isinstance(a, int) and isinstance(b, int)}
        pairs = sorted(cut & set(self._pairs(words))) if words else sorted(cut)
        for pair in pairs:
            self._cluster.reconnect(*pair)
        return f"nodes {_named(pairs)} hear each other again" if pairs else "no such link is cut"

    def _nodes(self, words: str, most: int) -> list[int]:
        view = self._cluster.describe()
        leader: int | None
        if words == "leader":
            leader = view.active_controller
        elif words.startswith("leader of "):
            key = self._partition(words.removeprefix("leader of "), view)
            leader = view.leader(key.topic, key.partition)
        else:
            names = words.split()
            if not 1 <= len(names) <= most or not all(name.isdigit() for name in names):
                raise ValueError(f"{words!r} is no node: say a node's id, leader, or leader of t-0")
            return [int(name) for name in names]
        if leader is None:
            raise ValueError(f"there is no {words} now")
        return [leader]

    def _partition(self, name: str, view: ClusterView) -> TopicPartition:
        topic, _, number = name.rpartition("-")
        key = TopicPartition(topic, int(number)) if number.isdigit() else None
        if key is None or key not in view.topic_partitions:
            known = ", ".join(map(str, view.topic_partitions)) or "none"
            raise ValueError(f"there is no partition {name!r}; there are {known}")
        return key

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _remember_epochs(self) -> None:
        view = self._cluster.describe()
        self._epochs = {key: _newest_epoch(view, key) for key in view.topic_partitions}

    def _wait(self, words: str) -> str:
        number, _, noun = words.partition(" ")
        if number.isdigit() and noun in ("records", "record"):
            if not self.is_on("producer"):
                raise ValueError("no record comes: start producer first")
            counts = self.flows["producer"].counts
            goal = counts["acknowledged"] + int(number)
            self._until(lambda _: counts["acknowledged"] >= goal, words)
            return f"{int(number):,} more records were acknowledged"
        if words.startswith("leader of "):
            view = self._cluster.describe()
            key = self._partition(words.removeprefix("leader of "), view)
            before = self._epochs.get(key, -1)
            view = self._until(lambda v: _newest_epoch(v, key) > before and _is_led(v, key), words)
            return f"node {view.leader(key.topic, key.partition)} leads {key}"
        if words == "diverging":
            self._until(lambda view: any(_torn(view)), words)
            return "a log has records that its leader has not"
        if words == "in sync":
            self._until(lambda view: not view.cut_links and all(_in_sync(view)), words)
            return "all replicas are in sync"
        raise ValueError(f"wait {words!r}: say 20 records, leader of t-0, diverging, or in sync")

    def _until(self, condition: Callable[[ClusterView], bool], what: str) -> ClusterView:
        deadline = time.monotonic() + WAIT_S
        while not condition(view := self._cluster.describe()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {WAIT_S:g} s still no: wait {what}; last seen:\n{view}")
            time.sleep(_POLL_S)
        return view


def _named(pairs: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{one} and {other}" for one, other in pairs)


def _newest_epoch(view: ClusterView, key: TopicPartition) -> int:
    return max((seen.leader_epoch for seen in view.replicas(key.topic, key.partition).values()), default=-1)


def _is_led(view: ClusterView, key: TopicPartition) -> bool:
    leader = view.leader(key.topic, key.partition)
    return leader is not None and leader in view.nodes and view.nodes[leader].is_alive


def _torn(view: ClusterView) -> list[bool]:
    return [
        view.truncation_offset(key.topic, key.partition, node_id) is not None
        for key in view.topic_partitions
        for node_id in view.nodes
    ]


def _in_sync(view: ClusterView) -> list[bool]:
    replicas = {key: view.replicas(key.topic, key.partition).values() for key in view.topic_partitions}
    return [node.is_alive for node in view.nodes.values()] + [
        set(view.isr(*key)) == {n for seen in replicas[key] for n in seen.replicas} for key in replicas
    ]
