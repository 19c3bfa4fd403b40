"""Strangers: clients that are not ours. They send well-formed requests of all kinds, and look at the answers.

A stranger connects to a broker or a controller, sends a few requests, waits for their answers, and sends more; now and
then it hangs up. It is no client's core, only a socket: what comes back is held against `laws.foreign_laws` byte by
byte. Some strangers have all rights, some have none: who a stranger is, its node takes from the host's name
(`named_by_host`), in place of a certificate or a login.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from pykraft.broker.broker import Broker
from pykraft.broker.coordination.coordinators import GROUP_TOPIC
from pykraft.common.types import Endpoint
from pykraft.coordinator.transaction.config import TRANSACTION_TOPIC
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.header import SIZE, encode_request
from pykraft.protocol.listeners import ListenerKind
from pykraft.protocol.messages.cluster import FindCoordinatorRequest
from pykraft.protocol.messages.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
)
from pykraft.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from pykraft.protocol.schema import Response
from pykraft.sim.foreign.records import group_batch, transaction_batch
from pykraft.sim.foreign.requests import Drawn, RequestDrawer, internal_write
from pykraft.sim.foreign.words import Identity, Words
from pykraft.sim.laws.foreign_laws import Question, check_answer, check_closed, check_in_time, check_nothing_done
from pykraft.sim.laws.foreign_names import OWN, OWN_WITHOUT_RIGHTS
from pykraft.sim.laws.watcher import Watcher
from pykraft.sim.node_files import BROKER_PORT, CONTROLLER_PORT
from pykraft.sim.trouble.foreigners import ForeignKnobs
from pykraft.sim.trouble.knobs import Knobs
from pykraft.sim.workloads.transaction_storm import COPIERS
from pykraft.sim.world.hosts import SimulatedNode
from pykraft.sim.world.network import End, Network
from pykraft.sim.world.scheduler import US_PER_MS, Scheduler
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.server_connection import RequestChannel, ServerConnection

_HANGS_UP = 0.03
_TO_LEADER = 0.7
"""How often a stranger who goes to a controller goes to the active one."""
_MOST_KNOWN = 4
_LOOK_MS = 500
"""How often a stranger looks whether an answer is late."""


class Door(NamedTuple):
    """Where a stranger may connect."""

    node: SimulatedNode
    kind: ListenerKind

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.node.name, BROKER_PORT if self.kind is ListenerKind.BROKER else CONTROLLER_PORT)

    @property
    def broker(self) -> Broker | None:
        return None if self.node.node is None else self.node.node.broker

    @property
    def is_active(self) -> bool:
        """Whether this is the active controller."""
        return self.node.node is not None and self.node.node.raft.replica.quorum.is_leader

    def __str__(self) -> str:
        return f"{self.node.name} as a {self.kind.value}"


class Foreigner:
    """One stranger: a host, and the receiver of what comes on its one connection."""

    is_up = True
    stalled_until_us = 0

    def __init__(
        self,
        name: str,
        has_rights: bool,
        knobs: ForeignKnobs,
        doors: Sequence[Door],
        words: Words,
        image: Callable[[], MetadataImage | None],
        scheduler: Scheduler,
        network: Network,
        random: Random,
        time_ms: Callable[[], int],
    ) -> None:
        self.name = name
        self._has_rights = has_rights
        self._knobs = knobs
        self._doors = doors
        self._words = words
        self._image = image
        self._scheduler = scheduler
        self._network = network
        self._random = random
        self._time_ms = time_ms
        self._drawer = RequestDrawer(words, has_rights, random, time_ms)
        self._door = doors[0]
        self._visit: _Visit | None = None
        self._asked = 0
        self._over_ms: int | None = None
        """When the trouble ended."""
        self.questions: list[Question] = []
        """Those that are not answered yet, in the order in which they were sent; also those before them that want no
        answer."""
        self.answered = 0

    def accept(self, endpoint: Endpoint, end: End) -> Any:
        raise AssertionError(f"{self.name} does not listen")

    @property
    def waits_for(self) -> Question | None:
        """The first request whose answer is still to come."""
        return next((each for each in self.questions if not each.wants_no_answer), None)

    def begin(self) -> None:
        self._connect()
        self._look()

    def end(self) -> None:
        """The trouble has ended: wait for the answers that are under way, and ask no more."""
        self._over_ms = self._scheduler.now
        if self.waits_for is None:
            self._hang_up()

    # --- connections --------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._hang_up()
        if self._over_ms is not None:
            return
        self._door = self._random.choice(self._doors)
        leaders = [door for door in self._doors if door.kind is ListenerKind.CONTROLLER and door.is_active]
        if self._door.kind is ListenerKind.CONTROLLER and leaders and self._random.random() < _TO_LEADER:
            self._door = leaders[0]
        visit = self._visit = _Visit(self)
        visit.end = self._network.connect(self, self._door.endpoint, visit)
        self._scheduler.after(self._knobs.patience_ms * US_PER_MS, lambda: self._lose_patience(visit, self.answered))

    def _hang_up(self) -> None:
        visit, self._visit = self._visit, None
        self.questions.clear()
        if visit is not None:
            visit.end.close()

    def _connect_later(self) -> None:
        self._visit = None
        self._scheduler.after(self._pause_us(), self._connect)

    def _pause_us(self) -> int:
        return self._random.randint(1, self._knobs.every_ms * US_PER_MS)

    def _lose_patience(self, visit: "_Visit", answered: int) -> None:
        """Nothing has come for a while."""
        if visit is not self._visit or self._over_ms is not None:
            return
        if self.answered == answered:
            self._hang_up()
            self._connect_later()
        else:
            now_answered = self.answered
            self._scheduler.after(self._knobs.patience_ms * US_PER_MS, lambda: self._lose_patience(visit, now_answered))

    def _look(self) -> None:
        """Whether an answer is late, once the network is whole again."""
        if self._over_ms is not None and (question := self.waits_for) is not None:
            check_in_time(question, self._scheduler.now - max(self._over_ms, question.sent_ms))
        self._scheduler.after(_LOOK_MS * US_PER_MS, self._look)

    # --- what it sends ------------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Send some requests, or hang up."""
        visit = self._visit
        if visit is None or not visit.is_connected or self.waits_for or self._over_ms is not None:
            return
        if self._random.random() < _HANGS_UP:
            self._hang_up()
            self._connect_later()
            return
        for _ in range(self._random.randint(1, self._knobs.at_once)):
            self._send(visit, self._draw())
        if self.waits_for is None:
            self._scheduler.after(self._pause_us(), self.ask)

    def _draw(self) -> Drawn:
        if self._has_rights and self._door.kind is ListenerKind.BROKER and self._random.random() < self._knobs.records:
            topic = self._random.choice((GROUP_TOPIC, TRANSACTION_TOPIC))
            image = self._image()
            found = None if image is None else image.topic_named(topic)
            if found is None:  # the first lookup makes it
                return Drawn(FindCoordinatorRequest(key=OWN, key_type=int(topic == TRANSACTION_TOPIC)), 2, OWN)
            make = group_batch if topic == GROUP_TOPIC else transaction_batch
            batch = make(self._random, self._time_ms())
            return internal_write(topic, found.topic_id, len(found.partitions), batch, self._random)
        is_broker = self._door.kind is ListenerKind.BROKER
        self._words.begin(self._door.broker if is_broker else None)
        return self._drawer.draw(self._door.kind)

    def _send(self, visit: "_Visit", drawn: Drawn) -> None:
        self._asked += 1
        request, version, client_id = drawn
        parts = encode_request(request, version, self._asked, client_id)
        door = self._door
        life = door.node.life if door.node.is_up else -1
        now = self._scheduler.now
        question = Question(request, version, self._asked, str(door), now, life, self._has_rights)
        with suppress(OSError):
            visit.end.send(parts)
            self.questions.append(question)

    # --- what comes ---------------------------------------------------------------------------------------------------

    def hear(self, frame: bytes) -> None:
        while self.questions[0].wants_no_answer:
            del self.questions[0]
        question = self.questions.pop(0)
        self._learn(question, check_answer(question, frame))
        self.answered += 1
        if self.waits_for is None:
            if self._over_ms is not None:
                self._hang_up()
            else:
                self._scheduler.after(self._pause_us(), self.ask)

    def _learn(self, question: Question, answer: Response) -> None:
        words, asked = self._words, question.request
        if not self._has_rights:
            return
        if isinstance(answer, InitProducerIdResponse) and isinstance(asked, InitProducerIdRequest):
            if not answer.error_code:
                known = Identity(asked.transactional_id or "", answer.producer_id, answer.producer_epoch)
                words.producers[:] = [*words.producers, known][-_MOST_KNOWN:]
        elif isinstance(answer, JoinGroupResponse) and isinstance(asked, JoinGroupRequest) and answer.member_id:
            member = Identity(asked.group_id, answer.member_id, answer.generation_id)
            words.members[:] = [*words.members, member][-_MOST_KNOWN:]
        elif isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.member_id:
            assert isinstance(asked, ConsumerGroupHeartbeatRequest)
            member = Identity(asked.group_id, answer.member_id, answer.member_epoch)
            words.members[:] = [*words.members, member][-_MOST_KNOWN:]

    def hear_end(self, visit: "_Visit") -> None:
        """The connection is closed, and not from here."""
        if visit is not self._visit:
            return
        node = self._door.node
        has_lived_on = node.is_up and not node.is_stopping
        if (question := self.waits_for) is not None:
            before = self.questions[: self.questions.index(question) + 1]
            check_closed(question, before, has_lived_on and node.life == question.node_life)
        self.questions.clear()
        self._connect_later()


class _Visit:
    """One connection: puts frames together."""

    end: End

    def __init__(self, owner: Foreigner) -> None:
        self._owner = owner
        self._rest = b""
        self.is_connected = False

    def connected(self) -> None:
        self.is_connected = True
        self._owner.ask()

    def received(self, data: bytes) -> None:
        self._rest += data
        while len(self._rest) >= SIZE.size and len(self._rest) >= (size := SIZE.size + SIZE.unpack_from(self._rest)[0]):
            frame, self._rest = self._rest[SIZE.size : size], self._rest[size:]
            self._owner.hear(frame)

    def closed(self) -> None:
        self._owner.hear_end(self)


class ForeignWorkload:
    """The strangers that a seed has."""

    def __init__(
        self,
        drawn: Knobs,
        nodes: Mapping[int, SimulatedNode],
        cluster_id: str,
        watcher: Watcher,
        scheduler: Scheduler,
        network: Network,
        time_ms: Callable[[], int],
        dice: Callable[[str], Random],
    ) -> None:
        self._nodes = nodes
        self._watcher = watcher
        self.foreigners: list[Foreigner] = []
        knobs = drawn.foreign
        if knobs is None:
            return
        groups = [group.group_id for group in drawn.groups] + ([] if drawn.transactions is None else [COPIERS])
        watcher.has_strangers = True
        doors = [
            Door(machine, kind)
            for machine in nodes.values()
            for kind, is_one in (
                (ListenerKind.BROKER, machine.config.is_broker),
                (ListenerKind.CONTROLLER, machine.config.is_controller),
            )
            if is_one
        ]
        doors += 2 * [door for door in doors if door.kind is ListenerKind.BROKER]
        for prefix, count in ((OWN, knobs.with_rights), (OWN_WITHOUT_RIGHTS, knobs.without_rights)):
            random = dice(f"words of {prefix}")
            words = Words(watcher.newest_image, self._brokers, groups, cluster_id, knobs.edges, random)
            for number in range(count):
                name = f"{prefix}-{number}"
                about = name, prefix == OWN, knobs, doors, words, watcher.newest_image, scheduler, network
                self.foreigners.append(Foreigner(*about, dice(name), time_ms))
        for machine in nodes.values():
            machine.connection_class = NamedByHost

    def _brokers(self) -> list[Broker]:
        """Those that are up."""
        found = [machine.node for machine in self._nodes.values() if machine.node is not None]
        return [node.broker for node in found if node.broker is not None]

    def begin(self) -> None:
        for foreigner in self.foreigners:
            foreigner.begin()

    def end(self) -> None:
        for foreigner in self.foreigners:
            foreigner.end()

    @property
    def missing(self) -> str | None:
        """Which answer a stranger still waits for; None if it has all."""
        waiting = next((each.waits_for for each in self.foreigners if each.waits_for is not None), None)
        return None if waiting is None else f"a stranger waits for the answer to {waiting}"

    def check_end(self) -> None:
        self._watcher.progress.foreign_answers = sum(each.answered for each in self.foreigners)
        image = self._watcher.newest_image()
        if self.foreigners and image is not None:
            check_nothing_done(image, self._brokers())


class NamedByHost(ServerConnection):
    """A connection whose client is who its host's name says, if that is a stranger without rights."""

    def __init__(self, channel: ServerChannel, stream: Any, requests: RequestChannel) -> None:
        super().__init__(channel, stream, requests)
        if stream.client.startswith(OWN_WITHOUT_RIGHTS):
            channel.principal = f"User:{stream.client}"
