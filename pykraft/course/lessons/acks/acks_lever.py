"""The first picture of notebook 10: how long records wait for their acknowledgement, and which ones a crash takes.

At each move a producer sends 40 records on a simulated cluster of three brokers (`VirtualFailover`): one every 2 ms,
and a message takes 5 ms on each link. After 60 ms the leader's process ends, and another broker is elected: from the
ISR, or, if it is empty, any other (`unclean.leader.election.enable` is true).
"""

from pykraft.course.lessons.acks.virtual_failover import VirtualFailover
from pykraft.viz import Figure
from pykraft.viz.clients.ack_chart import ack_chart

LEVELS = ("1", "all", "0")
RECORDS, CRASH_MS = 40, 60
_PER_S, _SHOWN_MS = 500, 160


def draw_acks(acks: str, min_insync_replicas: int, slower_follower_ms: int, followers_cut_off: int) -> Figure:
    """A bar for each record, from its sending to its acknowledgement."""
    run = ran(acks, min_insync_replicas, slower_follower_ms, followers_cut_off)
    lost = set(run.lost)
    early = [end - start for start, end in run.waits if end is not None and end < CRASH_MS]
    waited = f"{sorted(early)[len(early) // 2]:,.0f} ms for an acknowledgement" if early else "no acknowledgement"
    title = f"acks={acks}: before the crash {waited}; the crash takes {len(lost)} acknowledged records"
    note = (
        "1 record every 2 ms; the leader crashes after 60 ms. A bar that leaves on the right waits for the next leader."
    )
    return ack_chart(run.waits, lost, crash_ms=CRASH_MS, until_ms=_SHOWN_MS, title=title, note=note)


def ran(acks: str, min_insync_replicas: int, slower_follower_ms: int, followers_cut_off: int) -> VirtualFailover:
    configs = {"min.insync.replicas": str(min_insync_replicas), "unclean.leader.election.enable": "true"}
    run = VirtualFailover(linger_ms=0, topic_configs=configs, acks=acks, enable_idempotence=acks == "all")
    run.slow_follower(slower_follower_ms)
    if followers_cut_off:
        run.leave_out(followers_cut_off)
    run.crash_leader(CRASH_MS)
    run.send(RECORDS, records_per_s=_PER_S)
    return run
