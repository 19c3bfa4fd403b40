"""The first picture of notebook 09: the batches of a producer whose linger, batch size and rate the reader sets.

At each move two producers send the same records on a simulated clock and network (`VirtualProducer`): one with these
settings, one with Kafka's defaults. Their batches are made by pykraft's own accumulator. A batch waits for one of three
things, and the note counts them: that it is full, that its linger is over, or that one of the five requests under way
is answered.
"""

from collections import Counter

from pykraft.client.config import BATCH_SIZE, LINGER_MS
from pykraft.course.rigs.virtual_producer import VirtualProducer
from pykraft.viz import Figure, batches_over_time
from pykraft.viz.clients.batch_chart import SentBatch

SENDS_MS, DRAWN_MS = 120, 60
"""The program sends for so long; so much of it is drawn."""
FULL, LINGERED, HELD_UP = "full", "lingered", "held up"
_HEADER_BYTES = 61
_TIMER_MS = 1
"""The producer's timers count whole milliseconds."""


def draw_batches(linger_ms: int, batch_kb: int, records_per_s: int) -> Figure:
    """Both producers' batches, and what they waited for."""
    mine = sent(linger_ms, batch_kb << 10, records_per_s)
    usual = sent(LINGER_MS.default, BATCH_SIZE.default, records_per_s)
    why = Counter(waited_for(batch, linger_ms, batch_kb << 10, 1000 / records_per_s) for batch in mine.batches)
    title = (
        f"You send {mine.requests} requests, and a record takes {mine.latency_ms():.1f} ms; "
        f"Kafka's defaults send {usual.requests}, and it takes {usual.latency_ms():.1f} ms"
    )
    note = (
        f"{records_per_s:,} records a second. Of your {len(mine.batches)} batches {why[FULL]} left full, "
        f"{why[LINGERED]} after the linger, {why[HELD_UP]} had to wait for an answer"
    )
    rows = {
        f"yours: {linger_ms} ms, {batch_kb} KB": mine.batches,
        f"default: {LINGER_MS.default} ms, {BATCH_SIZE.default >> 10} KB": usual.batches,
    }
    return batches_over_time(rows, until_ms=DRAWN_MS, title=title, note=note)


def sent(linger_ms: int, batch_size: int, records_per_s: int) -> VirtualProducer:
    """A producer with these settings that has sent records at this rate."""
    producer = VirtualProducer(linger_ms=linger_ms, batch_size=batch_size)
    producer.send(max(1, records_per_s * SENDS_MS // 1000), records_per_s=records_per_s)
    return producer


def waited_for(batch: SentBatch, linger_ms: int, batch_size: int, pause_ms: float) -> str:
    """What ended the wait of this batch. Another record comes each `pause_ms`: the first without room makes it full."""
    record_bytes = (batch.size - _HEADER_BYTES) / batch.records
    is_full = batch.size + record_bytes > batch_size
    if is_full and batch.sent_ms <= max(batch.appended_ms) + pause_ms + _TIMER_MS:
        return FULL
    lingered_until_ms = min(batch.appended_ms) + linger_ms
    return LINGERED if batch.sent_ms <= lingered_until_ms + _TIMER_MS else HELD_UP
