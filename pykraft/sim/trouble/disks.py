"""Trouble with disks and clocks: bytes that rot, disks that are full, or are older or empty ones, and clocks that are
set.

*Bit rot.* In closed segments of one broker bytes are read as others than were written. Kafka looks at the checksum of a
batch when a consumer gets it, when a follower is about to append it, and when a start after a crash reads what was not
synced; a leader sends what is in its file. So the damage lasts until an administrator takes the damaged folders away.
It strikes what a checksum covers, and lengths and formats, which any reader stumbles over. Base offsets, leader epochs
and the number of a batch's last record are looked at before a checksum is, or have none: there Kafka promises nothing.

*A full disk.* A write finds no room. It is the broker's only directory, so its process ends (as Kafka's does, by
`LogDirFailureChannel`), and each new one ends until there is room.

*Another disk.* A broker begins again on a copy of its disk from some time ago, or on an empty one, under its id. It may
lack what it has acknowledged. So this is a loss of power that loses more (`trouble.faults`): nothing is promised if it
was the last of an ISR. Otherwise nothing is lost as long as another member of each of its ISRs stays; so until it is
back in them nothing else befalls the brokers. (With an ELR, too: a broker that crashes leaves the ELR when it begins
again, and the one with the empty disk would be the last that was known to lead.)

Only brokers that are no controllers lose what they know of the metadata: a voter on another disk has another directory
id, and that is a matter of voters (`trouble.wiped_disks`).

*Clocks.* The wall clock of a machine is set, by seconds or by hours, in either direction. What waits does not notice.

Follows KIP-858, KIP-966, KIP-853 and kafka.server.{ReplicaManager,AbstractFetcherThread}.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pykraft.common.settings.topic_config import UNCLEAN_LEADER_ELECTION_ENABLE
from pykraft.sim.trouble.drawn import Drawn
from pykraft.sim.trouble.swarms import BANKS

DISK_SEEDS = range(8_150, 8_250)
"""In these seeds disks and clocks go wrong."""
BIT_ROT, FULL_DISK, OLD_DISK, CLOCK = "bit_rot", "full_disk", "old_disk", "clock_jump"
KINDS = (BIT_ROT, FULL_DISK, OLD_DISK, CLOCK)
"""Seed by seed in turn."""
_BANKS: Mapping[str, tuple[str, ...]] = {
    BIT_ROT: ("elections", "elections", "groups"),
    FULL_DISK: ("groups", "bank", "elections", "snapshots", "logs that move"),
    OLD_DISK: ("groups", "bank", "elections", "elections"),
    CLOCK: ("groups", "bank", "elections", "snapshots"),
}
_ALSO = 0.3
"""How often a clock or a full disk comes on top of the seed's own kind."""
_S, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
_JUMPS_MS = (_S, 30 * _S, 10 * _MINUTE, 40 * _MINUTE)
_LONG_JUMPS_MS = (*_JUMPS_MS, 3 * _HOUR)
"""A bank's producers give up where a broker's clock is an hour behind: ``message.timestamp.after.max.ms``."""


@dataclass(frozen=True)
class DiskKnobs:
    """The draw of a seed in which disks and clocks go wrong. Times are milliseconds."""

    kind: str
    jumps_ms: tuple[int, ...]
    """By how much a clock is set, in either direction."""
    copy_every_ms: int
    """How often a disk is copied, to be put in again later."""
    damaged_for_ms: tuple[int, int]
    """How long damage stays until the administrator takes it away."""
    full_for_ms: tuple[int, int]
    wiped: float
    """How often another disk is an empty one."""
    second: float
    """How often another replica than the damaged one loses its disk meanwhile, and copies from the damaged one."""
    read_again_ms: int
    """How often a reader begins again at the start."""


def draw_disks(seed: int, draw_of: Callable[[int], Any]) -> Any:
    """The knobs of such a seed; `draw_of` gives those of a seed of a bank."""
    random = Random(f"disks {seed}")
    kind = KINDS[seed % len(KINDS)]
    bank = random.choice(_BANKS[kind])
    base = draw_of(random.choice(BANKS[bank].seeds))
    also = {each: 0.5 for each in (FULL_DISK, CLOCK) if each != kind and random.random() < _ALSO}
    if bank == "logs that move":
        also.pop(CLOCK, None)  # its producers are forgotten after seconds, by the clock
    disks = DiskKnobs(
        kind=kind,
        jumps_ms=_JUMPS_MS if base.transactions is not None else _LONG_JUMPS_MS,
        copy_every_ms=random.choice((300, 1_000)),
        damaged_for_ms=random.choice(((100, 600), (500, 2_000))),
        full_for_ms=random.choice(((100, 1_000), (500, 4_000))),
        wiped=random.choice((0.2, 0.6)),
        second=random.choice((0.3, 0.7)),
        read_again_ms=random.choice((300, 1_000)),
    )
    return replace(base, **disk_changes(base, disks, also), swarm=("disks", kind, bank, *sorted(also)))


def disk_changes(base: Drawn, disks: DiskKnobs, also: Mapping[str, float]) -> dict[str, Any]:
    """What the draw has instead of what it would have otherwise."""
    elections = base.elections
    others = [name for name in sorted(base.faults) if name != "power_loss"]
    kept = {name: min(0.5, base.faults[name]) for name in others}
    changes: dict[str, Any] = {
        "faults": {**kept, **also, disks.kind: 3.0},
        "properties": {**base.properties, "log.segment.delete.delay.ms": 300},
        "fault_every_ms": 120,
        "records_per_s": 30,
        "storm_from_ms": 1_000,
        "storm_until_ms": 8_000,
        "elections": elections and replace(elections, allows_unclean=False, orders_unclean=False),
        "topic": {name: value for name, value in base.topic.items() if name != UNCLEAN_LEADER_ELECTION_ENABLE.name},
        "disks": disks,
    }
    if disks.kind == OLD_DISK:
        changes["controllers"] = base.controllers or 3
    if disks.kind == BIT_ROT:
        # A member of a group, or a copier, would tell its user of the damage, and end.
        changes["groups"] = ()
        changes["faults"].pop("crash_coordinator", None)
        changes["topic"] = {**changes["topic"], "internal.segment.bytes": 1_200}
        changes["properties"] |= {"replica.fetch.max.bytes": 1 << 20, "replica.fetch.response.max.bytes": 10 << 20}
    return changes
