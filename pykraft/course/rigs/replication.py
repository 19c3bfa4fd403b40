"""Scenarios of notebook 11: three replicas of one partition, `t-0`, in a simulated cluster that stops at each step.

::

    story = one_record()                     a producer's request has arrived at the leader
    steps = one_way(story)                   each step up to the acknowledgement, with both marks of each replica
    history = watch(story, 2_500)            the leader's log end, high watermark and ISR over virtual time
    answers = fetch_answers(story, 2_000)    what the leader sends to followers and to consumers

Brokers 1 to 3 hold the replicas, node 101 is the controller. So a broker that is cut off from the partition's leader
still sends its heartbeats: it falls behind, and its broker is not fenced. ``replica.lag.time.max.ms`` is `MAX_LAG_MS`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pykraft.course.rigs.stories import ONE_RECORD_A_BATCH
from pykraft.protocol.messages.data import FetchResponse
from pykraft.records.batch import batches
from pykraft.sim.trouble.knobs import Knobs, calm, draw
from pykraft.story.story import Story

TOPIC, PARTITION = "t", 0
MAX_LAG_MS = 1_000
_FLUSH_S = 30
_SEED = 7
_PROPERTIES = {
    "replica.lag.time.max.ms": MAX_LAG_MS,
    "replica.fetch.wait.max.ms": 100,
    "broker.session.timeout.ms": 300,
    "broker.heartbeat.interval.ms": 50,
}
_LEADER_FIRST = ("leader", "first follower", "second follower")


class Marks(NamedTuple):
    """Where one replica's log ends, and the high watermark that it knows."""

    log_end: int
    high_watermark: int


class Step(NamedTuple):
    """One message that arrived, and the three replicas after it."""

    what: str
    leader: Marks
    first: Marks
    second: Marks


class Steps(list[Step]):
    """Several steps; reads as a table of log end offset / high watermark."""

    def __repr__(self) -> str:
        width = max((len(step.what) for step in self), default=0)
        titles = "".join(f"  {name:>15}" for name in _LEADER_FIRST)
        rows = [f"{'log end offset / high watermark':<{width}}{titles}"]
        for step in self:
            marks = "".join(f"  {f'{mark.log_end} / {mark.high_watermark}':>15}" for mark in step[1:])
            rows.append(f"{step.what:<{width}}{marks}")
        return "\n".join(rows)


class Moment(NamedTuple):
    """The partition at a virtual time, as its leader knows it."""

    ms: float
    log_end: int
    high_watermark: int
    isr: frozenset[int]


class FetchAnswer(NamedTuple):
    """Records that the leader sent in one response: up to which offset, and its high watermark at that moment."""

    receiver: str
    end: int
    high_watermark: int

    @property
    def past_high_watermark(self) -> int:
        """How many of the records were not committed yet."""
        return max(0, self.end - self.high_watermark)


def one_record(with_consumer: bool = False) -> Story:
    """A story that begins when the first record of a producer has arrived at the leader. Each batch has one record, and
    the producer waits for each acknowledgement."""
    story = Story.begin(_SEED, _knobs(with_consumer), {})
    if story.until("receives Produce request") is None:
        raise RuntimeError(f"seed {_SEED} has no Produce request: choose another seed")
    return story


def _knobs(with_consumer: bool) -> Knobs:
    own = draw(_SEED)
    alone = replace(own, brokers=3, controllers=1, partitions=1, groups=(), transactions=None, admin_every_ms=0)
    return calm(
        replace(
            alone,
            producers=(ONE_RECORD_A_BATCH,),
            has_plain_producer=False,
            consumers=({},) * with_consumer,
            properties={**own.properties, **_PROPERTIES},
            topic={"min.insync.replicas": 2},
        )
    )


def leader_of(story: Story) -> int:
    """The node that leads `t-0` at this step."""
    leader = story.view.leader(TOPIC, PARTITION)
    assert leader is not None, "no node leads t-0 here"
    return leader


def followers_of(story: Story) -> list[int]:
    """The other two brokers, in the order of their ids."""
    return sorted(set(story.view.replicas(TOPIC, PARTITION)) - {leader_of(story)})


def one_way(story: Story) -> Steps:
    """Each message between here and the producer's acknowledgement, with both marks of the three replicas."""
    nodes = [leader_of(story), *followers_of(story)]
    steps = Steps([Step(_short(story.what), *_marks(story, nodes))])
    while "receives the Produce response" not in steps[-1].what:
        if story.next() is None:
            raise RuntimeError("this story ends before the acknowledgement")
        if "receives" in story.what:
            steps.append(Step(_short(story.what), *_marks(story, nodes)))
    return steps


def _short(what: str) -> str:
    return what.partition(":")[0]


def _marks(story: Story, nodes: Sequence[int]) -> tuple[Marks, Marks, Marks]:
    replicas = story.view.replicas(TOPIC, PARTITION)
    leader, first, second = (
        Marks(replicas[node].log_end_offset, max(0, replicas[node].high_watermark)) for node in nodes
    )
    return leader, first, second


def watch(story: Story, until_ms: float) -> list[Moment]:
    """The partition after each step of the next `until_ms` of virtual time, counted from here. The story goes on."""
    began, found = story.time_ms, [_moment(story, story.time_ms)]
    while story.time_ms - began < until_ms and story.next() is not None:
        moment = _moment(story, began)
        if moment[1:] != found[-1][1:]:
            found.append(moment)
    return [found[0]._replace(ms=0.0), *found[1:]]


def _moment(story: Story, began: float) -> Moment:
    view = story.view
    led = view.replicas(TOPIC, PARTITION)[leader_of(story)]
    return Moment(story.time_ms - began, led.log_end_offset, led.high_watermark, frozenset(view.isr(TOPIC, PARTITION)))


def waited_ms(history: Sequence[Moment]) -> float:
    """For how long the high watermark stayed below the log end, before it rose for the first time; infinite if it did
    not."""
    first = next(moment.ms for moment in history if moment.high_watermark < moment.log_end)
    risen = (moment.ms for moment in history if moment.high_watermark > history[0].high_watermark)
    return next(risen, float("inf")) - first


def fetch_answers(story: Story, until_ms: float) -> dict[str, list[FetchAnswer]]:
    """The Fetch responses with records that the leader sends within `until_ms`: to "followers", and to "consumers". The
    story goes on."""
    began, leader = story.time_ms, f"node-{leader_of(story)}"
    found: dict[str, list[FetchAnswer]] = {"followers": [], "consumers": []}
    while story.time_ms - began < until_ms and story.next() is not None:
        now_us = round(story.time_ms * 1_000)
        for frame in story.frames():
            if not (frame.is_response and frame.sender == leader and frame.name == "Fetch" and frame.sent_us == now_us):
                continue
            receivers = "followers" if frame.receiver.startswith("node-") else "consumers"
            answer = frame.message()
            assert isinstance(answer, FetchResponse)
            for records in (each.records for topic in answer.responses for each in topic.partitions if each.records):
                last = list(batches(memoryview(records)))[-1].last_offset
                found[receivers].append(FetchAnswer(frame.receiver, last + 1, _high_watermark(story)))
    return found


def _high_watermark(story: Story) -> int:
    return story.view.high_watermark(TOPIC, PARTITION)


def heard_by_librdkafka(bootstrap_servers: str, topic: str, acks: str) -> str:
    """What librdkafka tells its user after it sent one record: the offset, or the name of the error."""
    from confluent_kafka import Producer

    heard: list[str] = []
    settings = {"bootstrap.servers": bootstrap_servers, "acks": acks, "retries": 0, "log_level": 0}
    producer = Producer(settings)
    producer.produce(
        topic,
        b"one record",
        on_delivery=lambda error, message: heard.append(
            f"offset {message.offset()}" if error is None else error.name().lstrip("_")
        ),
    )
    producer.flush(_FLUSH_S)
    return heard[0] if heard else "nothing"
