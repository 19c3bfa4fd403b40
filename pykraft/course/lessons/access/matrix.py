"""The matrix of notebook 21: principals and requests, answered by the authorizer of a running broker.

::

    matrix = AccessMatrix(cluster, ["alice", "bob"])
    matrix.add("allow alice WRITE TOPIC flights")       a rule, through an administrator's client
    matrix.figure("alice may write")                    each cell is asked now
    matrix.only("allow alice WRITE TOPIC flights")      this rule, and no other
    matrix.levers("Click", {...}, clicks=[...])         a button for each rule; without a reader the clicks are made
    matrix.asked_for_real()                             the same questions, as requests of real clients

A rule is written in words: ``allow alice READ TOPIC flights``. A name that ends with ``...`` is a prefix, after
``from`` comes a host, and ``*`` is everyone. A cell is ``denied`` where the answer would be yes without the rules that
deny.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from pykraft.admin import Admin
from pykraft.broker.node import Node
from pykraft.client.errors import ClientTimeoutError
from pykraft.common.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
)
from pykraft.common.errors import KafkaError
from pykraft.common.types import TopicPartition
from pykraft.consumer import Consumer
from pykraft.course.lessons.access.words import rule
from pykraft.metadata.acls import AclIndex, binding
from pykraft.producer import Producer
from pykraft.protocol.listeners import ListenerKind
from pykraft.runtime.threaded import NodeThread
from pykraft.surroundings import is_headless, is_notebook
from pykraft.transport.server_channel import RequestContext
from pykraft.viz.drawing.figure import Figure
from pykraft.viz.drawing.film_strip import Frame, strip
from pykraft.viz.measured.rights_chart import DENIED, NO, YES, rights_table

if TYPE_CHECKING:
    from pykraft.cluster import Cluster

_HOST = "127.0.0.1"
_WAIT_S = 10.0
TOPIC = "flights"


class Question(NamedTuple):
    """What a request asks the authorizer."""

    operation: AclOperation
    resource_type: AclResourceType
    name: str


REQUESTS = {
    f"produce to {TOPIC}": Question(AclOperation.WRITE, AclResourceType.TOPIC, TOPIC),
    f"fetch from {TOPIC}": Question(AclOperation.READ, AclResourceType.TOPIC, TOPIC),
    f"describe {TOPIC}": Question(AclOperation.DESCRIBE, AclResourceType.TOPIC, TOPIC),
    "create flights-2": Question(AclOperation.CREATE, AclResourceType.TOPIC, "flights-2"),
    "copy as a replica": Question(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME),
}


class AccessMatrix:
    """The answers of the first broker for some principals."""

    def __init__(self, cluster: "Cluster", principals: Sequence[str]) -> None:
        self._cluster = cluster
        self._principals = tuple(principals)
        self._shown: dict[tuple[str, str], str] = {}
        """The answers of the last picture."""

    # --- rules --------------------------------------------------------------------------------------------------------

    def add(self, *texts: str) -> None:
        """Add rules, and wait until the broker has them."""
        rules = [rule(text) for text in texts]
        with self._cluster.admin() as admin:
            admin.create_acls(rules)
        self._wait(lambda known: known.issuperset(rules))

    def remove(self, *texts: str) -> None:
        """Remove rules, and wait until the broker has lost them."""
        rules = [rule(text) for text in texts]
        with self._cluster.admin() as admin:
            admin.delete_acls(rules)
        self._wait(lambda known: known.isdisjoint(rules))

    def only(self, *texts: str) -> None:
        """Have these rules and no others, whatever a reader has clicked."""
        wanted, known = {rule(text) for text in texts}, self._ask(_rules)
        with self._cluster.admin() as admin:
            if known - wanted:
                admin.delete_acls(sorted(known - wanted))
            if wanted - known:
                admin.create_acls(sorted(wanted - known))
        self._wait(lambda now: now == wanted)

    def _wait(self, is_there: Callable[[set[AclBinding]], bool]) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not is_there(self._ask(_rules)):
            if time.monotonic() > deadline:
                raise TimeoutError("the broker does not know the rules")
            time.sleep(0.01)

    # --- answers ------------------------------------------------------------------------------------------------------

    @property
    def cells(self) -> dict[tuple[str, str], str]:
        """The answers now, by request and principal: yes, no or denied."""
        cells: dict[tuple[str, str], str] = self._ask(lambda node: _answers(node, self._principals))
        return cells

    def figure(self, title: str, note: str = "") -> Figure:
        """The answers now. What has changed since the last picture has a frame."""
        cells = self.cells
        before, self._shown = self._shown, cells
        changed = [key for key, said in cells.items() if before.get(key, said) != said]
        return rights_table(list(REQUESTS), self._principals, cells, title=title, note=note, changed=changed)

    def levers(self, title: str, clicks: Sequence[tuple[str, str]]) -> object:
        """A button for each rule in `clicks`; a click adds the rule, or removes it. Without a reader each rule is
        clicked in turn, and the pictures are one below the other, each with its caption. It begins without rules."""
        self.only()
        if is_headless() or not is_notebook():
            frames = []
            for text, caption in clicks:
                self.toggle(text)
                frames.append(Frame(text, self.figure(caption)))
            return strip(title, frames)
        return self._buttons(title, list(dict.fromkeys(text for text, _ in clicks)))

    def toggle(self, text: str) -> bool:
        """Add a rule, or remove it if it is there; whether it is there now."""
        is_there = rule(text) in self._ask(_rules)
        (self.remove if is_there else self.add)(text)
        return not is_there

    def _buttons(self, title: str, texts: Sequence[str]) -> object:
        import ipywidgets

        picture = ipywidgets.HTML(self.figure(title).svg)
        known = self._ask(_rules)
        wide = ipywidgets.Layout(width="auto")
        buttons = [ipywidgets.ToggleButton(value=rule(text) in known, description=text, layout=wide) for text in texts]

        def clicked(change: Mapping[str, Any]) -> None:
            button = change["owner"]
            (self.add if button.value else self.remove)(button.description)
            state = "added" if button.value else "removed"
            picture.value = self.figure(title, f"{button.description}: {state}").svg

        for button in buttons:
            button.observe(clicked, "value")
        return ipywidgets.VBox([*buttons, picture])

    def asked_for_real(self) -> dict[tuple[str, str], str]:
        """The first three requests as clients send them, each with the certificate of its principal: yes or no."""
        return {
            (request, principal): YES if _is_let(send, self._cluster.client_settings(principal)) else NO
            for request, send in _SENDERS.items()
            for principal in self._principals
        }

    def _ask(self, question: Callable[[Node], Any]) -> Any:
        thread = self._cluster._nodes[self._cluster.broker_ids[0]]
        assert isinstance(thread, NodeThread)
        return thread.call(question).result()


def _rules(node: Node) -> set[AclBinding]:
    return {binding(record) for record in node.loader.image.acls.values()}


def _answers(node: Node, principals: Sequence[str]) -> dict[tuple[str, str], str]:
    """What the node's authorizer says; on its thread."""
    acls = node.loader.image.acls
    without_denials = AclIndex()
    allowing = {key: each for key, each in acls.items() if each.permission_type == AclPermissionType.ALLOW}
    without_denials.follow(allowing)
    cells = {}
    for request, asked in REQUESTS.items():
        for principal in principals:
            if node.authorizer.allows(_context(principal), *asked):
                cells[request, principal] = YES
                continue
            rights = without_denials.rights(f"User:{principal}", _HOST, asked.resource_type, asked.name)
            cells[request, principal] = DENIED if rights >> asked.operation & 1 else NO
    return cells


def _context(principal: str) -> RequestContext:
    """A request of this principal, as the authorizer is asked about it."""
    return RequestContext("", "SSL", ListenerKind.BROKER, f"User:{principal}", None, _HOST, 0, 0, 0, 0)


# --- real clients -----------------------------------------------------------------------------------------------------


def _produce(settings: dict[str, Any]) -> None:
    with Producer(**settings, enable_idempotence=False) as producer:
        producer.send(TOPIC, value=b"x").result(_WAIT_S)


def _fetch(settings: dict[str, Any]) -> None:
    with Consumer(**settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        deadline = time.monotonic() + _WAIT_S
        while not consumer.poll(0.2):
            if time.monotonic() > deadline:
                raise ClientTimeoutError("no record came")


def _describe(settings: dict[str, Any]) -> None:
    with closing(Admin(**settings)) as admin:
        admin.describe_topics([TOPIC])


_SENDERS = dict(zip(REQUESTS, (_produce, _fetch, _describe), strict=False))


def _is_let(send: Callable[[dict[str, Any]], None], settings: dict[str, Any]) -> bool:
    """Whether the broker does it. Any error that is not about rights is raised."""
    try:
        send(settings)
    except KafkaError as error:
        if not error.code.name.endswith("AUTHORIZATION_FAILED"):
            raise
        return False
    return True
