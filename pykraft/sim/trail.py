"""The trail of a history: what happened in each step, one line a step, to be compared with another machine's.

A history depends on four things, and its *origin* names them in one line: the version of pykraft, the seed, the
settings where they are not the seed's own, and what a person did in which step. It depends on nothing else: not on the
version of Python, the size of a word, the order in which a set gives its members, or the libraries that compress. Two
machines with the same origin have the same trail, and the digests of the two trails are equal. Where they are not,
`first_difference` names the first step that is another one: there the machine has come into the history.

A line has the step, the virtual time, what arrived with its size and checksum, the host that acted, the nodes on which
something happened, and what they reported. So every byte that arrives at a host is in the digest.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b
from itertools import zip_longest
from zlib import crc32

from pykraft.sim.cluster import SimulatedCluster
from pykraft.sim.trouble.knobs import Knobs, calm, draw, leave_out
from pykraft.sim.world.frames import read_frame
from pykraft.sim.world.network import InFlight
from pykraft.transport.client_channel import SOFTWARE_VERSION

_END = "the end"
"""What the shorter one of two trails has where the other one goes on."""


def origin(cluster: SimulatedCluster) -> str:
    """All that the history depends on, in one line."""
    parts = [f"pykraft {SOFTWARE_VERSION}", f"seed {cluster.seed}", *_other_knobs(cluster.seed, cluster.knobs)]
    parts += [f"{intervention} after step {step - 1}" for step, intervention in cluster.interventions.items()]
    return " · ".join(parts)


def _other_knobs(seed: int, knobs: Knobs) -> list[str]:
    """Settings that are not the seed's own: by name those that a caller can name, the others by a digest."""
    own, omitted = draw(seed), knobs.omitted
    features = [f"{name}={level}" for name, level in knobs.features.items() if own.features.get(name) != level]
    own_features = dict(knobs.features)
    for other, said in ((own, []), (calm(own), ["calm"])):
        whole = vars(leave_out(replace(other, omitted=omitted)))
        if {**whole, "features": own_features} == {**vars(knobs), "features": own_features}:
            return [*said, *features, *omitted.words()]
    return [f"settings {digest([repr(knobs)])}"]


def trail(cluster: SimulatedCluster) -> Iterator[str]:
    """Take the history to its end, a line for each step. SimulationFailed if a law is broken on the way."""
    reported = 0
    while not cluster.is_settled:
        cluster.step()
        clock = cluster.scheduler
        happened = f"step {clock.steps}, {clock.now_us} µs: {_arrival(cluster.network.last_delivered)}"
        happened += f"{clock.actor or 'no host'} acts, nodes {cluster.active}"
        yield "; ".join((happened, *map(str, cluster.trace[reported:])))
        reported = len(cluster.trace)


def _arrival(flight: InFlight | None) -> str:
    """What arrived: the message, its bytes and their checksum."""
    if flight is None:
        return ""
    data = flight.piece.data
    what = str(read_frame(flight) or "{} to {}".format(*flight.link))
    content = "the end of the stream" if data is None else f"{len(data)} bytes, {crc32(data):08x}"
    return f"message {flight.piece.number}, {what}, {content}; "


def digest(lines: Iterable[str]) -> str:
    """A hash of the lines: equal trails have equal digests."""
    sum_of_all = blake2b(digest_size=8)
    for line in lines:
        sum_of_all.update(line.encode() + b"\n")
    return sum_of_all.hexdigest()


def first_difference(ones: Iterable[str], others: Iterable[str]) -> tuple[str, str] | None:
    """The first two lines that differ; None if the trails are equal."""
    pairs = zip_longest(ones, others, fillvalue=_END)
    return next((pair for pair in pairs if pair[0] != pair[1]), None)
