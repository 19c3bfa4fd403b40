"""The first picture of notebook 18: a producer sends payments, and the reader chooses which message is lost.

At each move a producer without idempotence, with pykraft's own code, sends the payments on a simulated clock and
network, one at a time. The first of them meets the loss. Each Produce request is drawn with what the leader's log
gained by it, and with the answer.
"""

from typing import Any, NamedTuple

from pykraft.common.core import Failure, Outbound
from pykraft.course.rigs.virtual_producer import VirtualProducer
from pykraft.records.batch import RecordBatch
from pykraft.sim.world.scheduler import US_PER_MS
from pykraft.viz import Figure, Step, exchange

ANSWER, REQUEST, NOTHING = "the answer", "the request", "nothing"
LOST = (ANSWER, REQUEST, NOTHING)
ACKS = ("all", "1", "0")
_REQUEST_TIMEOUT_MS, _DELIVERY_TIMEOUT_MS, _SETTLE_MS = 1_000, 20_000, 50


class Attempt(NamedTuple):
    """One Produce request."""

    payment: int
    is_added: bool
    """Whether it added the payment to the leader's log."""
    is_answered: bool


class SpiedProducer(VirtualProducer):
    """A producer with one request under way at a time, each of which is noted."""

    def __init__(self, acks: str, retries: int) -> None:
        self.attempts: list[Attempt] = []
        self._loses_request = False
        super().__init__(
            acks=acks, retries=retries, enable_idempotence=False, batch_size=1, linger_ms=0,
            max_in_flight_requests_per_connection=1, request_timeout_ms=_REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=_DELIVERY_TIMEOUT_MS,
        )  # fmt: skip
        self.attempts = []  # without those that made it ready

    def lose_request(self) -> None:
        """The connection will go silent while the next Produce request is on its way."""
        self._loses_request = True

    def settle(self) -> None:
        """Let a request arrive that is answered by nothing: with acks=0 the producer does not wait for it."""
        until_us = self._scheduler.now_us + _SETTLE_MS * US_PER_MS
        self._scheduler.at(until_us, _only_time_passes)
        self._run(self._host, lambda: self._scheduler.now_us >= until_us)

    def _watched(self, outbound: Outbound) -> Outbound:
        watched = super()._watched(outbound)
        payment = _payment_in(outbound.request)
        had = self.log.count(payment)

        def on_response(response: Any, now: int) -> None:
            watched.on_response(response, now)
            is_added = self.log.count(payment) > had
            self.attempts.append(Attempt(payment, is_added, not isinstance(response, Failure)))

        return watched._replace(on_response=on_response)

    def _look(self) -> None:
        """After each event of the simulator."""
        if not self._loses_request:
            return
        network = self._cluster.network
        for flight in network.in_flight():
            if flight.link[0] == self._host.name:
                self._loses_request = False
                network.drop(flight.piece.number)
                return


def draw_loss(lost: str, acks: str, retries: int, payments: int) -> Figure:
    """What the producer and the leader said to each other, and what is in the log then."""
    producer = sent_with_a_loss(lost, acks, retries, payments)
    has_failed = 0 in producer.failed
    times = {0: "is not in the log", 1: "is in the log once", 2: "is in the log twice"}[producer.log.count(0)]
    title = f"Payment 0 {times}, and send() reports {'an' if has_failed else 'no'} error"
    there = ", ".join(map(str, producer.log)) or "none"
    note = f"After a first record the log has payments {there}: acks={acks}, retries={retries}, no idempotence."
    return exchange(steps(producer, acks), title=title, note=note)


def sent_with_a_loss(lost: str, acks: str, retries: int, payments: int) -> SpiedProducer:
    """A producer that has sent payments, while a message about the first was lost."""
    producer = SpiedProducer(acks, retries)
    if lost == REQUEST:
        producer.lose_request()
    elif lost == ANSWER and acks != "0":  # with acks=0 there is no answer to lose
        producer.lose_answer()
    producer.send(payments, records_per_s=1000)
    producer.settle()
    return producer


def steps(producer: SpiedProducer, acks: str) -> list[Step]:
    """Each request as `exchange` draws it."""
    offsets = {number: [offset for offset, found in producer.records if found == number] for number in producer.log}
    seen: list[int] = []
    found = []
    for payment, was_added, is_answered in producer.attempts:
        asked = f"Produce payment {payment}" + (", again" if payment in seen else "")
        seen.append(payment)
        is_added = was_added or (acks == "0" and payment in offsets)  # it was answered by nothing, before it arrived
        offset = offsets[payment].pop(0) if is_added else -1
        did = f"appends it at offset {offset}" if is_added else ""
        answer = "" if acks == "0" else f"offset {offset}" if is_answered else None
        found.append(Step(asked, did, answer))
    return found


def _payment_in(request: Any) -> int:
    """The number of the one record in a Produce request; -1 for the one that makes the producer ready."""
    (record,) = RecordBatch(memoryview(request.topic_data[0].partition_data[0].records)).records()
    word = (record.value or b"").split()[0]
    return int(word) if word.isdigit() else -1


def _only_time_passes() -> None:
    """Nothing else happens."""
