"""The table of incidents: each by its number, in the order in which the reader of the course comes to them."""

from pykraft.course.incidents.acks_all_stalls import AcksAllStalls
from pykraft.course.incidents.disk_fills import DiskFills
from pykraft.course.incidents.endless_rebalance import EndlessRebalance
from pykraft.course.incidents.hot_partition import HotPartition
from pykraft.course.incidents.incident import Incident
from pykraft.course.incidents.missing_voter import MissingVoter
from pykraft.course.incidents.zombie_producer import ZombieProducer

INCIDENTS: dict[int, type[Incident]] = {
    each.NUMBER: each
    for each in (AcksAllStalls, DiskFills, HotPartition, EndlessRebalance, ZombieProducer, MissingVoter)
}
"""By number."""


def make(number: int) -> type[Incident]:
    """The incident of this number. ValueError names those that there are."""
    if number not in INCIDENTS:
        raise ValueError(f"there is no incident {number}: there are {', '.join(map(str, INCIDENTS))}")
    return INCIDENTS[number]
