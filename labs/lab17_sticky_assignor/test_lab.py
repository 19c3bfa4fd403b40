"""What lab 17 asks of a sticky assignor. What must come out is computed here in the plainest way: by laws that an
assignment keeps or breaks, and by counting moves. Where all members read the same topics, pykraft's own assignor, which
assigns as Apache Kafka does, has to move as many."""

import itertools
from collections import Counter

import pytest

from pykraft.common.assignors import MemberSubscription
from pykraft.common.assignors.sticky import StickyAssignor
from pykraft.common.types import TopicPartition

NAMES = ("ann", "ben", "cleo", "dora", "emil", "fay")
COUNTS = {"orders": 7, "refunds": 4, "visits": 1}


def every(counts):
    return [(topic, number) for topic, count in sorted(counts.items()) for number in range(count)]


def member(impl, topics=("orders",), owned=(), generation=-1):
    return impl.Member(frozenset(topics), tuple(owned), generation)


def owners(assignment):
    """The owner of each partition. AssertionError if two members have it."""
    twice = [each for each, count in Counter(p for some in assignment.values() for p in some).items() if count > 1]
    assert not twice, f"{twice[0]} has two owners: {assignment}"
    return {partition: name for name, some in assignment.items() for partition in some}


def some_names(chance, least=1):
    return sorted(chance.sample(NAMES, chance.randrange(least, len(NAMES) + 1)))


def drawn(impl, chance, topics_of=lambda chance: COUNTS):
    """Members that shared everything by chance, without two claims of the same partition."""
    members = {name: member(impl, topics_of(chance)) for name in some_names(chance, 2)}
    shares = {name: [] for name in members}
    for partition in every(COUNTS):
        readers = [name for name in members if partition[0] in members[name].topics]
        if readers and chance.random() < 0.8:
            shares[chance.choice(readers)].append(partition)
    return {name: each._replace(owned=tuple(shares[name]), generation=5) for name, each in members.items()}


def some_topics(chance):
    return chance.sample(sorted(COUNTS), chance.randrange(1, len(COUNTS) + 1))


def check_whole(assignment, counts, members):
    """Every member is there, every partition that has a reader has one owner, and no other one has any."""
    assert set(assignment) == set(members), f"the members are {sorted(members)}, the result has {sorted(assignment)}"
    found = owners(assignment)
    for partition, name in found.items():
        assert partition in every(counts), f"{name} gets {partition}, which is not there: {counts}"
        assert partition[0] in members[name].topics, f"{name} gets {partition} and does not read {partition[0]}"
    read = {topic for each in members.values() for topic in each.topics}
    missing = [partition for partition in every(counts) if partition[0] in read and partition not in found]
    assert not missing, f"{missing[0]} has a reader and no owner: {assignment}"


def unevenness(assignment, members):
    """A move that would make the assignment more even, in words; nothing if there is none."""
    for giver, some in assignment.items():
        for partition in some:
            for taker in assignment:
                if partition[0] in members[taker].topics and len(some) - len(assignment[taker]) >= 2:
                    return f"{partition} of {giver} ({len(some)}) could go to {taker} ({len(assignment[taker])})"
    return ""


def moves(members, assignment):
    """How many of the partitions that had an owner have another one."""
    had = {partition: name for name, each in members.items() for partition in each.owned}
    return sum(had.get(partition, name) != name for partition, name in owners(assignment).items())


def of_kafka(counts, members):
    """What pykraft's sticky assignor returns."""
    assignor, said = StickyAssignor(), {}
    for name, each in members.items():
        owned = [TopicPartition(*partition) for partition in each.owned]
        said[name] = MemberSubscription(
            sorted(each.topics), generation=each.generation, user_data=assignor.user_data(owned, each.generation)
        )
    found = assignor.assign(counts, said)
    return {name: [tuple(partition) for partition in some] for name, some in found.items()}


# --- task 17.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("17.1", points=1)
def test_of_members_that_have_nothing_none_gets_two_more_than_another(impl, chance):
    """Twelve partitions for one to six members, and then one to twenty."""
    for count in (12, *(chance.randrange(1, 21) for _ in range(5))):
        members = {name: member(impl) for name in some_names(chance)}
        found = impl.deal(every({"orders": count}), {name: [] for name in members}, members)
        check_whole(found, {"orders": count}, members)
        sizes = sorted(len(some) for some in found.values())
        assert sizes[-1] - sizes[0] <= 1, f"{count} partitions on {len(members)} members: {sizes}"


@pytest.mark.task("17.1", points=2)
def test_what_a_member_has_already_counts(impl):
    """ann has three partitions, ben has one, cleo none: three more are dealt out. Then ann has two of another topic."""
    members = {name: member(impl) for name in ("cleo", "ann", "ben")}
    had = {"cleo": [], "ann": [("orders", 0), ("orders", 1), ("orders", 2)], "ben": [("orders", 3)]}
    found = impl.deal([("orders", 4), ("orders", 5), ("orders", 6)], had, members)
    sizes = {name: len(some) for name, some in found.items()}
    assert sizes == {"ann": 3, "ben": 2, "cleo": 2}, f"three more go to those with the fewest, and now {sizes}"
    assert found["ann"] == had["ann"], f"ann had {had['ann']} and has {found['ann']}"
    members = {name: member(impl, COUNTS) for name in ("ann", "ben")}
    had = {"ann": [("refunds", 0), ("refunds", 1)], "ben": [("orders", 0)]}
    found = impl.deal([("orders", 1)], had, members)
    assert ("orders", 1) in found["ben"], (
        f"ann has 2 partitions and ben 1, of whatever topic: ben gets orders-1: {found}"
    )


@pytest.mark.task("17.1", points=2)
def test_of_equals_the_first_by_name_gets_it(impl, chance):
    """The members come in any order."""
    for _ in range(5):
        names = chance.sample(NAMES, 4)
        members = {name: member(impl) for name in names}
        found = owners(impl.deal(every({"orders": 6}), {name: [] for name in names}, members))
        wanted = {("orders", number): sorted(names)[number % 4] for number in range(6)}
        assert found == wanted, f"members in the order {names}: {found}, wanted was {wanted}"


@pytest.mark.task("17.1", points=2)
def test_a_partition_goes_to_a_reader_of_its_topic_or_is_left_out(impl):
    """ann reads one topic, ben another one, and no member reads the third."""
    members = {"ann": member(impl, ["orders"]), "ben": member(impl, ["refunds"])}
    found = owners(impl.deal(every(COUNTS), {"ann": [], "ben": []}, members))
    readers = {"orders": "ann", "refunds": "ben"}
    wanted = {each: readers[each[0]] for each in every(COUNTS) if each[0] in readers}
    assert found == wanted, f"orders are for ann, refunds for ben, visits for none: {found}"


@pytest.mark.task("17.1", points=1)
def test_what_is_given_is_not_changed(impl):
    """The same assignment after the call."""
    members = {"ann": member(impl), "ben": member(impl)}
    had = {"ann": [("orders", 0)], "ben": []}
    impl.deal([("orders", 1)], had, members)
    assert had == {"ann": [("orders", 0)], "ben": []}, f"the assignment that you were given is {had} now"


# --- task 17.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("17.2", points=1)
def test_what_one_member_claims_it_keeps(impl, chance):
    """Claims without any conflict; a member without partitions has an empty list."""
    members = {**drawn(impl, chance), "zoe": member(impl)}
    found = impl.kept(COUNTS, members)
    assert set(found) == set(members), f"the members are {sorted(members)}, the result has {sorted(found)}"
    for name, each in members.items():
        assert sorted(found[name]) == sorted(each.owned), f"{name} had {each.owned}, and keeps {found[name]}"


@pytest.mark.task("17.2", points=2)
def test_what_is_not_there_any_more_or_not_read_any_more_is_free(impl):
    """A topic that lost partitions, one that is gone, and one that its owner has left."""
    owned = [("orders", 6), ("orders", 7), ("gone", 0), ("refunds", 0)]
    found = impl.kept(COUNTS, {"ann": member(impl, ["orders", "gone"], owned, 3)})
    assert found == {"ann": [("orders", 6)]}, (
        f"ann reads orders (0 to 6) and gone (not there), had {owned}, and keeps {found['ann']}"
    )


@pytest.mark.task("17.2", points=2)
def test_of_two_claims_the_one_of_the_higher_generation_wins(impl, chance):
    """Both orders of the members, several generations; the names say nothing about it. Then two old claims and a new
    one."""
    for _ in range(10):
        old, new = sorted(chance.sample(range(20), 2))
        one, other = chance.sample(NAMES, 2)
        members = {
            one: member(impl, owned=[("orders", 0), ("orders", 1)], generation=old),
            other: member(impl, owned=[("orders", 1), ("orders", 2)], generation=new),
        }
        if chance.random() < 0.5:
            members = dict(reversed(members.items()))
        found = impl.kept(COUNTS, members)
        wanted = {one: [("orders", 0)], other: [("orders", 1), ("orders", 2)]}
        assert {name: sorted(some) for name, some in found.items()} == wanted, (
            f"{one} claims orders 0 and 1 since generation {old}, {other} claims 1 and 2 since {new}: {found}"
        )
    members = {name: member(impl, owned=[("orders", 0)], generation=4) for name in ("ann", "ben")}
    members["cleo"] = member(impl, owned=[("orders", 0)], generation=6)
    for order in itertools.permutations(members):
        found = impl.kept(COUNTS, {name: members[name] for name in order})
        assert found == {"ann": [], "ben": [], "cleo": [("orders", 0)]}, (
            f"ann and ben claim orders-0 since generation 4, cleo since 6 and keeps it: {found}; the members come in "
            f"the order {', '.join(order)}"
        )


@pytest.mark.task("17.2", points=2)
def test_what_two_claim_in_the_same_generation_neither_keeps(impl):
    """Also when a third one claims it, in an older generation or in the same one; the members come in any order."""
    for third in (3, 4):
        members = {
            "ann": member(impl, owned=[("orders", 0), ("orders", 1)], generation=4),
            "ben": member(impl, owned=[("orders", 1), ("orders", 2)], generation=4),
            "cleo": member(impl, owned=[("orders", 1)], generation=third),
        }
        for order in itertools.permutations(members):
            found = impl.kept(COUNTS, {name: members[name] for name in order})
            wanted = {"ann": [("orders", 0)], "ben": [("orders", 2)], "cleo": []}
            assert found == wanted, (
                f"ann and ben claim orders-1 since generation 4, cleo since {third}: {wanted} is kept, not {found}; "
                f"the members come in the order {', '.join(order)}"
            )


@pytest.mark.task("17.2", points=1)
def test_a_topic_that_the_winner_has_left_is_free(impl):
    """ben has the newest claim and does not read the topic any more; ann reads it, and has an older claim."""
    members = {
        "ann": member(impl, owned=[("orders", 0), ("orders", 1)], generation=4),
        "ben": member(impl, ["refunds"], owned=[("orders", 1)], generation=6),
    }
    for order in itertools.permutations(members):
        found = impl.kept(COUNTS, {name: members[name] for name in order})
        assert found == {"ann": [("orders", 0)], "ben": []}, (
            f"ben's claim of orders-1 is the newest, and ben does not read orders: it is free, and ann keeps orders-0 "
            f"alone, not {found}"
        )


# --- task 17.3 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("17.3", points=1)
def test_what_is_even_stays_as_it_is(impl, chance):
    """Differences of one are no reason to move. Then a group in which no member has a partition, and an empty one."""
    for _ in range(5):
        names = some_names(chance, 2)
        members = {name: member(impl) for name in names}
        had = {name: [] for name in names}
        for number, partition in enumerate(every({"orders": chance.randrange(1, 15)})):
            had[names[number % len(names)]].append(partition)
        found = impl.balance(had, members)
        assert found == had, f"no member has two more than another in {had}, and yet it became {found}"
    for members in ({"ann": member(impl), "ben": member(impl)}, {}):
        had = {name: [] for name in members}
        try:
            found = impl.balance(had, members)
        except Exception as error:
            raise AssertionError(f"in {had} there is nothing to move, and your code raises {error!r}") from None
        assert found == had, f"in {had} there is nothing to move, and yet it became {found}"


@pytest.mark.task("17.3", points=3)
def test_in_the_end_no_move_is_left_that_helps(impl, chance):
    """Members that read the same topics, and members that do not."""
    for number in range(20):
        members = drawn(impl, chance, some_topics if number % 2 else lambda chance: COUNTS)
        had = {name: list(each.owned) for name, each in members.items()}
        found = impl.balance(had, members)
        same = all(had[name] == list(each.owned) for name, each in members.items())
        assert same, f"balance() has changed the assignment that it was given: it is {had} now"
        assert sorted(owners(found)) == sorted(p for each in members.values() for p in each.owned), (
            f"the partitions are not the same as before: {found}"
        )
        wrong = [(n, p) for n, some in found.items() for p in some if p[0] not in members[n].topics]
        assert not wrong, f"{wrong[0][0]} gets {wrong[0][1]} and does not read that topic"
        left = unevenness(found, members)
        assert not left, f"{left}, and it would be more even: {found}"


@pytest.mark.task("17.3", points=3)
def test_the_largest_difference_comes_first_so_no_move_is_wasted(impl, chance):
    """One member with much, one with some, others with nothing; all read the same topic."""
    for _ in range(10):
        names = chance.sample(NAMES, chance.randrange(3, 6))
        many, some = 4 + chance.randrange(6), 2 + chance.randrange(2)
        orders = every({"orders": many + some})
        members = {name: member(impl) for name in names}
        members[names[0]] = member(impl, owned=orders[:many], generation=1)
        members[names[1]] = member(impl, owned=orders[many:], generation=1)
        found = impl.balance({name: list(each.owned) for name, each in members.items()}, members)
        check_whole(found, {"orders": many + some}, members)
        quota, more = divmod(many + some, len(names))
        had = sorted((len(each.owned) for each in members.values()), reverse=True)
        needed = sum(max(0, count - quota - (place < more)) for place, count in enumerate(had))
        done = moves(members, found)
        assert done == needed, f"from {had} on {needed} moves are enough, and you made {done}"


# --- task 17.4 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("17.4", points=2)
def test_everything_has_one_owner_that_reads_it_and_all_is_even(impl, chance):
    """Members with old claims and new ones, some with other topics."""
    for number in range(40):
        members = drawn(impl, chance, some_topics if number % 2 else lambda chance: COUNTS)
        members["zoe"] = member(impl, COUNTS)
        found = impl.sticky(COUNTS, members)
        check_whole(found, COUNTS, members)
        left = unevenness(found, members)
        assert not left, f"{left}, and it would be more even: {found}"


@pytest.mark.task("17.4", points=3)
def test_as_few_partitions_move_as_in_kafka(impl, chance):
    """Members that come and go; all read the same topics."""
    for _ in range(20):
        members = drawn(impl, chance)
        members |= {name: member(impl, COUNTS) for name in ("yan", "zoe")[: chance.randrange(3)]}
        if len(members) > 2 and chance.random() < 0.5:
            del members[chance.choice(sorted(members))]
        found = impl.sticky(COUNTS, members)
        done, needed = moves(members, found), moves(members, of_kafka(COUNTS, members))
        had = {name: len(each.owned) for name, each in members.items()}
        assert done <= needed, f"members with {had}: Kafka moves {needed} partitions, and you move {done}"


def plainly_kept(counts, members):
    """The member that keeps each partition, by the three rules of task 17.2."""
    found = {}
    for partition in every(counts):
        claims = [(each.generation, name) for name, each in members.items() if partition in each.owned]
        winners = [name for generation, name in claims if generation == max(claims)[0]]
        if len(winners) == 1 and partition[0] in members[winners[0]].topics:
            found[partition] = winners[0]
    return found


def check_first_round(impl, counts, members):
    """The first round gives to each member, of what sticky() gives it, what it keeps and what no other claims."""
    whole, first, keeper = (
        impl.sticky(counts, members),
        impl.cooperative(counts, members),
        plainly_kept(counts, members),
    )
    told = {name: (list(each.owned), each.generation) for name, each in members.items() if each.owned}
    about = f"members that own, since a generation: {told}; sticky() gives {whole}, and cooperative() {first}"
    assert set(first) == set(members), f"the members are {sorted(members)}, the result has {sorted(first)}"
    for name, some in whole.items():
        stray = set(first[name]) - set(some)
        assert not stray, f"{name} gets {min(stray)}, and sticky() does not give it: {about}"
        for partition in some:
            others = [other for other, each in members.items() if other != name and partition in each.owned]
            if keeper.get(partition) == name:
                assert partition in first[name], f"{name} keeps {partition}, and yet it has to give it up: {about}"
            elif others:
                assert partition not in first[name], (
                    f"{name} gets {partition} in the first round and does not keep it by the rules of 17.2: "
                    f"{others[0]} claims it, may be reading it, and has not given it up: {about}"
                )
            else:
                assert partition in first[name], (
                    f"no other member claims {partition}, and {name} does not get it in the first round: {about}"
                )
    return first


def check_rounds(impl, counts, members, most=2):
    """The first round, and those after it, in which each member owns what the one before gave; after so many rounds
    each partition has its owner."""
    for generation in range(8, 7 + most):
        given = check_first_round(impl, counts, members)
        members = {n: each._replace(owned=tuple(given[n]), generation=generation) for n, each in members.items()}
    check_whole(impl.cooperative(counts, members), counts, members)


@pytest.mark.task("17.4", points=2)
def test_what_another_one_has_to_give_up_is_left_out_in_the_first_round(impl, chance):
    """A new member. In the second round, when the others have given up, it gets its share."""
    for _ in range(5):
        check_rounds(impl, COUNTS, {**drawn(impl, chance), "zoe": member(impl, COUNTS)})


@pytest.mark.task("17.4", points=2)
def test_what_is_free_is_there_at_once(impl):
    """The first round of a new group, and a member that has crashed."""
    members = {name: member(impl) for name in ("ann", "ben")}
    check_whole(impl.cooperative({"orders": 5}, members), {"orders": 5}, members)
    orders = every({"orders": 6})
    members = {
        "ann": member(impl, owned=orders[:2], generation=2),
        "ben": member(impl, owned=orders[2:4], generation=2),
    }
    check_whole(impl.cooperative({"orders": 6}, members), {"orders": 6}, members)


@pytest.mark.task("17.4", points=2)
def test_an_old_claim_takes_nothing_from_the_owner(impl):
    """A member has missed a rebalance and claims what another one has had since; their names are exchanged."""
    orders = every({"orders": 4})
    for owner, late, third in itertools.permutations(("ann", "ben", "cleo")):
        for claimed in orders[:2]:
            members = {
                owner: member(impl, owned=orders[:2], generation=7),
                late: member(impl, owned=[claimed], generation=5),
                third: member(impl, owned=orders[2:], generation=7),
            }
            check_rounds(impl, {"orders": 4}, members)


@pytest.mark.task("17.4", points=2)
def test_what_two_claim_goes_to_no_member_at_once(impl):
    """Two members claim a partition in the same generation. It goes to a third one, or to one of them: not yet."""
    for one, other, third in itertools.permutations(("ann", "ben", "cleo")):
        members = {
            one: member(impl, owned=[("orders", 0), ("orders", 1)], generation=4),
            other: member(impl, owned=[("orders", 1), ("orders", 2)], generation=4),
            third: member(impl),
        }
        for count in (2, 3, 4, 5):
            check_rounds(impl, {"orders": count}, members)
        del members[third]
        check_rounds(impl, {"orders": 3}, members)


@pytest.mark.task("17.4", points=2)
def test_all_claims_at_once_give_no_partition_two_readers(impl, chance):
    """Thirty groups whose members claim at random, in generations 5 to 7: many claims of the same partition."""
    for number in range(30):
        topics = some_topics if number % 3 == 2 else lambda chance: COUNTS
        members = {}
        for name in chance.sample(NAMES, chance.randrange(2, 6)):
            claims = chance.sample(every(COUNTS), chance.randrange(5))
            members[name] = member(impl, topics(chance), claims, chance.randrange(5, 8))
        check_rounds(impl, COUNTS, members, most=6)  # where topics differ, the second round may move something again
