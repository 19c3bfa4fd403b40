"""Simulated clusters of three nodes that stand at the moment before a failure, for notebooks 00, 14, 18 and 19.

Nothing fails in them by itself: the reader drops a message or kills a node, and sees what follows. Each function
returns a `ShownStory`, at the first step where the message is on its way that matters:

    records_on_their_way()  a leader has appended a record that its followers do not have yet
    answer_on_its_way()     a producer's record is committed, and the leader's answer has not arrived yet
    marker_on_its_way()     a coordinator has written PrepareCommit, and its marker has not reached the other node yet
    brokers_in_sync()       node 1 is the active controller, and all three brokers are in sync

The seeds are chosen so that three nodes are enough to see it: in `marker_on_its_way` the coordinator and the leader of
the bank's partition are on different nodes.
"""

from dataclasses import replace

from pykraft.sim.trouble.knobs import Knobs, calm, draw
from pykraft.viz.stories.shown_story import ShownStory

_RECORD_SEED, _RECORD_STEP = 7, 2_000
_ANSWER_SEED, _MARKER_SEED, _IN_SYNC_SEED = 7, 102, 2
ONE_RECORD_A_BATCH = {
    "batch.size": 1,
    "linger.ms": 0,
    "compression.type": "none",
    "max.in.flight.requests.per.connection": 1,
    "request.timeout.ms": 800,
    "delivery.timeout.ms": 4_000,
    "retry.backoff.ms": 100,
    "metadata.max.age.ms": 1_000,
}


def records_on_their_way() -> ShownStory:
    """Clients write to one partition, `t-0`; its leader has a record that no follower has."""
    story = ShownStory.begin(_RECORD_SEED, calm(draw(_RECORD_SEED)), {})
    story.at(_RECORD_STEP)
    return story


def answer_on_its_way() -> ShownStory:
    """One idempotent producer; the answer to its first record is on its way."""
    small = _small(_ANSWER_SEED)
    one_producer = replace(small, producers=(ONE_RECORD_A_BATCH,), transactions=None)
    return _standing_at(_ANSWER_SEED, one_producer, "Produce response", "at offset")


def marker_on_its_way() -> ShownStory:
    """One teller moves money within its bank; the commit marker of its first transfer is on its way."""
    small = _small(_MARKER_SEED)
    assert small.transactions is not None
    one_teller = replace(small.transactions, tellers=1, copiers=0)
    return _standing_at(_MARKER_SEED, replace(small, transactions=one_teller), "WriteTxnMarkers request")


def brokers_in_sync() -> ShownStory:
    """No clients; one topic, `t`. Heartbeats are all that the brokers have to say."""
    story = ShownStory.begin(_IN_SYNC_SEED, replace(_small(_IN_SYNC_SEED), transactions=None), {})
    while story.view.isr("t", 0) != {1, 2, 3}:
        if story.next("isr") is None:
            raise RuntimeError(f"seed {_IN_SYNC_SEED} has no three brokers in sync: choose another seed")
    return story


def _small(seed: int) -> Knobs:
    """Three nodes, one partition of each topic, no clients yet, and no faults."""
    own = draw(seed)
    none = replace(own, brokers=3, controllers=0, partitions=1, groups=(), producers=(), consumers=())
    return calm(replace(none, has_plain_producer=False))


def _standing_at(seed: int, knobs: Knobs, *words: str) -> ShownStory:
    """The story, at the first step where a message with these words is on its way between two hosts."""
    story = ShownStory.begin(seed, knobs, {})
    while not any(m.sender != m.receiver and all(word in str(m) for word in words) for m in story.messages):
        if story.next() is None:
            raise RuntimeError(f"seed {seed} has no {words[0]} on its way: choose another seed")
    return story
