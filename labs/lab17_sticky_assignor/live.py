"""Lab 17 in a live cluster: the leader of two groups runs your code.

The members come and go in the same order in both groups. In the first one they use `sticky`, and give up everything
before they join again; in the second one `cooperative-sticky`, and keep what they have. Consumers, coordinator and
protocol are pykraft's own. Who owned what, and when, is what their rebalance listeners heard.
"""

from pykraft import Cluster, NewTopic, TopicPartition
from pykraft.common.assignors.sticky import decode_claim
from pykraft.course.labs.plug import Outcome, plugged
from pykraft.course.lessons.groups.live_group import LiveGroup
from pykraft.viz import ownership

TOPIC, PARTITIONS = "orders", 8
PATIENCE_S, PACE_S = 5.0, 1.0
PLAN = (("join", "ann"), ("join", "ben"), ("join", "cleo"), ("leave", "ben"))
"""What happens, a second apart or when the group has settled."""
EAGER = "pykraft.common.assignors.sticky.StickyAssignor.assign"
LAZY = "pykraft.common.assignors.sticky.CooperativeStickyAssignor.assign"
FEWEST = {"ben joins": 4, "cleo joins": 2, "ben leaves": 3}
"""Of eight partitions: how many must move, at least and at most, when this happens."""


def run(work):
    """Two groups whose leader asks `work`; it agrees if all is even, and no more has moved than had to."""
    with Cluster(nodes=1) as cluster, plugged(places(work)) as plugs:
        with cluster.admin() as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        cluster.wait_until_known(TOPIC, PARTITIONS)
        seen = {way: of_a_group(cluster, way) for way in ("sticky", "cooperative-sticky")}
    lines = [f"{way}: {moved} partitions moved, {uneven}" for way, (_, _, moved, uneven) in seen.items()]
    needed = sum(FEWEST.values())
    lines.append(f"{needed} moves are needed, in each of the groups.")
    figure = ownership(
        {f"{way}: {moved} moved": owners for way, (owners, _, moved, _) in seen.items()},
        title="Eager members stop everything, cooperative ones what moves; the assignor is yours in both",
        marks=seen["sticky"][1],
        note="The marks are the moments of the first group; the second one follows the same plan",
    )
    compared = {f"moves, {way}": (moved, needed) for way, (_, _, moved, _) in seen.items()}
    compared |= {f"even, {way}": (uneven == EVEN, True) for way, (_, _, _, uneven) in seen.items()}
    facts = {way: moved for way, (_, _, moved, _) in seen.items()}
    return Outcome(compared, tuple(lines), tuple(plugs.values()), figure, facts)


EVEN = "and no member had two more than another."


def of_a_group(cluster, way):
    """Let members come and go: who owned what, what happened when, how much moved, and what was uneven."""
    group = LiveGroup(cluster, TOPIC, way=way, patience_s=PATIENCE_S)
    uneven = ""
    try:
        for number, (happens, name) in enumerate(PLAN, 1):
            getattr(group, happens)(name)
            group.wait_until_shared()
            if not group.is_shared():
                sizes = sorted(len(member.partitions) for member in group.members.values())
                happened = list(group.events)[-1].replace("joins", "joined").replace("leaves", "left")
                uneven = f"and after {happened} the members had {sizes}."
                break  # what comes after it would say no more, and be waited for
            group.wait_until(lambda due=number * PACE_S: group.now_s >= due)
        return group.owners, group.events, group.moved("ben joins"), uneven or EVEN
    finally:
        group.close()


def places(work):
    """Your functions where the leader of a classic group assigns."""

    def sticky(assignor, partitions, members):
        claims = {name: decode_claim(each.user_data or b"") for name, each in members.items()}
        said = {name: (claim.partitions, claim.generation) for name, claim in claims.items()}
        return checked(work.sticky(dict(partitions), as_members(work, members, said)), members)

    def cooperative(assignor, partitions, members):
        said = {name: (each.owned, each.generation) for name, each in members.items()}
        return checked(work.cooperative(dict(partitions), as_members(work, members, said)), members)

    return {EAGER: sticky, LAZY: cooperative}


def as_members(work, members, said):
    """The members as the lab has them."""
    return {
        name: work.Member(frozenset(each.topics), tuple(tuple(key) for key in said[name][0]), said[name][1])
        for name, each in members.items()
    }


def checked(found, members):
    """Your assignment as the client has it. ValueError if it has other members."""
    if not isinstance(found, dict) or set(found) != set(members):
        raise ValueError(f"an assignment has an entry for each of {sorted(members)}, and this is {found!r}")
    return {name: [TopicPartition(*partition) for partition in some] for name, some in found.items()}
