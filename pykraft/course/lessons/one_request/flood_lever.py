"""The first picture of notebook 07: a flood of requests in a broker that stands still, with threads of one's choice.

At each move a staged broker is started with these settings, and held: nothing is handled. Each client sends one small
request. When no thread can go on, the requests are counted where they are. Then the broker is let go, and answers all.
"""

from contextlib import closing

from pykraft.course.lessons.one_request.stages import Broker
from pykraft.viz import Figure, broker_stages
from pykraft.viz.wire.stage_drawing import StageCounts


def draw_flood(clients: int, network_threads: int, io_threads: int, queued_requests: int) -> Figure:
    """Where the requests are."""
    counts = counts_of_flood(clients, network_threads, io_threads, queued_requests)
    title = f"Of {clients} requests {counts.inside} are inside the broker, {counts.sockets} wait in their sockets"
    return broker_stages(counts, title=title)


def counts_of_flood(clients: int, network_threads: int, io_threads: int, queued_requests: int) -> StageCounts:
    """In which stage how many requests are while the node is held."""
    settings = {
        "num.network.threads": network_threads,
        "num.io.threads": io_threads,
        "queued.max.requests": queued_requests,
    }
    with closing(Broker(settings)) as broker:
        with broker.held():
            callers = broker.call(clients)
            counts = broker.counts()
        for caller in callers:
            caller.receive()
    return counts
