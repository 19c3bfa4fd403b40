"""What lab 12 asks. Logs are drawn as histories leave them: two brokers lead in turn, each without the other."""

import pytest

from pykraft.storage.leader_epoch_cache import LeaderEpochCache

EMPTY = ()
LATEST = 20
"""The epoch of the leader that has been elected just now, and has no record of it yet."""


class Nowhere:
    """A disk for a cache whose file does not matter."""

    def exists(self, path):
        return False

    def read(self, path):
        raise FileNotFoundError(path)


def theirs(entries, log_end, epoch):
    """What pykraft's own cache says, in the lab's words."""
    cache = LeaderEpochCache(Nowhere(), "nowhere")
    for entry in entries:
        cache.assign(*entry)
    found = cache.end_offset_for(epoch, log_end)
    return None if found is None else (found.epoch, found.offset)


def entries_of(log):
    """The entries of a log that is given as the epoch of each record."""
    return [(epoch, offset) for offset, epoch in enumerate(log) if not offset or log[offset - 1] != epoch]


def two_logs(chance):
    """The epochs of each record of two logs, after some leaders: of what a leader appends, the other may get all, the
    first records, or nothing."""
    logs, epoch = ([], []), 0
    for _ in range(chance.randrange(1, 7)):
        leader, follower = chance.sample(logs, 2)
        if chance.random() < 0.6:
            follower[:] = leader[: chance.randint(common(leader, follower), len(leader))]
        leader += [epoch] * chance.randrange(0, 4)
        epoch += chance.randrange(1, 3)
    return logs


def common(one, other):
    """How many records both logs have at their beginning."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


# --- task 12.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("12.1", points=2)
def test_an_epoch_is_entered_once(impl, chance):
    """A log appended record by record: epoch 3 three times, then 4, then 9. And a first record of an epoch that its
    leader has entered already."""
    log = [3, 3, 3, 4, *[9] * chance.randrange(2, 6)]
    found = []
    for offset, epoch in enumerate(log):
        found = impl.assigned(found, epoch, offset)
    assert list(found) == entries_of(log), f"records of the epochs {log} give the entries {found}"
    for entries, epoch, offset in (([(3, 0)], 3, 0), ([(0, 0), (2, 4)], 2, 4)):
        found = list(impl.assigned(entries, epoch, offset))
        assert found == entries, (
            f"{entries} has epoch {epoch} already, from before its first record at offset {offset}: nothing changes, "
            f"and you say {found}"
        )


@pytest.mark.task("12.1", points=2)
def test_truncation_forgets_epochs_without_a_record(impl):
    """A log of epochs 0 (from 0), 2 (from 4) and 5 (from 7), truncated to 8, 7, 5 and 0."""
    entries = [(0, 0), (2, 4), (5, 7)]
    for end, left in ((8, 3), (7, 2), (5, 2), (4, 1), (0, 0)):
        found = list(impl.truncated(entries, end))
        assert found == entries[:left], f"truncated to {end}, {entries} becomes {entries[:left]}, and you say {found}"


@pytest.mark.task("12.1", points=1)
def test_the_entries_that_were_handed_in_stay_as_they_are(impl):
    """A new epoch, and a truncation: the answer is a new list."""
    entries = [(0, 0), (2, 4)]
    impl.assigned(entries, 3, 9)
    impl.truncated(entries, 2)
    assert entries == [(0, 0), (2, 4)], f"your function has changed the list that it was given: {entries}"


@pytest.mark.task("12.1", points=2)
def test_an_epoch_ends_where_the_next_one_begins_and_the_last_one_with_the_log(impl):
    """Epochs 0, 2 and 5; the log ends at 9."""
    entries = [(0, 0), (2, 4), (5, 7)]
    for epoch, wanted in ((0, (0, 4)), (2, (2, 7)), (5, (5, 9))):
        found = impl.end_of_epoch(entries, 9, epoch)
        assert found == wanted, f"epoch {epoch} of {entries}, log end 9: the answer is {wanted}, and you say {found}"


@pytest.mark.task("12.1", points=2)
def test_an_epoch_that_is_not_there_is_answered_with_the_one_before(impl, chance):
    """Epochs between those of the log, below and above them, as pykraft's own cache answers, and Apache Kafka's."""
    entries = [(3, 0), (5, 3), (9, 8)]
    for epoch in (4, 6, 8, 0, 2, 10, 11):
        found, wanted = impl.end_of_epoch(entries, 12, epoch), theirs(entries, 12, epoch)
        assert found == wanted, f"epoch {epoch} of {entries}: pykraft's cache answers {wanted}, and you say {found}"
    found = impl.end_of_epoch(EMPTY, 0, 3)
    assert found is None, f"an empty log knows no epoch, and you find {found}"


# --- task 12.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("12.2", points=2)
def test_a_log_that_is_a_part_of_the_leaders_is_fine(impl):
    """The follower ends within epoch 2, at its end, and at the leader's own end."""
    entries = [(0, 0), (2, 4), (5, 7)]
    for offset, epoch in ((3, 0), (4, 0), (5, 2), (7, 2), (9, 5)):
        found = impl.diverging(entries, 9, offset, epoch)
        assert found is None, f"a log that ends at {offset} in epoch {epoch} is a part of {entries}; you say {found}"


@pytest.mark.task("12.2", points=2)
def test_more_records_of_an_epoch_than_the_leader_has_diverge(impl):
    """Epoch 0 ends at 4 here, and the follower has six records of it. Then the last epoch, which ends with the log."""
    found = impl.diverging([(0, 0), (2, 4)], 9, 6, 0)
    assert found == (0, 4), (
        f"epoch 0 ends at 4 on the leader and at 6 on the follower: the answer is (0, 4), and you say {found}"
    )
    found = impl.diverging([(0, 0), (2, 4)], 9, 11, 2)
    assert found == (2, 9), (
        f"epoch 2 ends with the leader's log at 9, and the follower is at 11: the answer is (2, 9), and you say {found}"
    )


@pytest.mark.task("12.2", points=2)
def test_an_epoch_that_the_leader_never_had_diverges_though_the_offset_is_there(impl):
    """Leader 0 0 0 5 5, follower 0 0 2: offset 2 is of epoch 0 here and of epoch 2 there."""
    found = impl.diverging([(0, 0), (5, 3)], 5, 3, 2)
    assert found == (0, 3), (
        f"the leader has no epoch 2: it answers the end of epoch 0, which is (0, 3), and you say {found}"
    )
    found = impl.diverging([(0, 0), (5, 8)], 9, 3, 2)
    assert found == (0, 8), (
        f"epoch 0 ends at 8 on the leader, also if the follower's log ends at 3: (0, 8), and you say {found}"
    )


@pytest.mark.task("12.2", points=1)
def test_a_leader_without_that_epoch_or_an_older_one_shares_nothing(impl):
    """The follower's only epoch is 1, the leader's log begins with epoch 4."""
    found = impl.diverging([(4, 0)], 6, 3, 1)
    assert found == (1, 0), (
        f"epoch 1 ended before this log begins, at offset 0, and the follower has three records of it: the answer is "
        f"(1, 0), and you say {found}"
    )
    found = impl.diverging([(4, 0)], 0, 3, 1)
    assert found == (1, 0), f"the leader of epoch 4 has no record yet: the answer is (1, 0), and you say {found}"


# --- task 12.3 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("12.3", points=2)
def test_a_follower_truncates_to_where_that_epoch_ends_in_both_logs(impl):
    """The leader's epoch 0 ends at 4; in the follower's log it ends at 6, at 3 and at 4, before another epoch or with
    the log."""
    logs = (([(0, 0)], 6, 4), ([(0, 0), (3, 3)], 6, 3), ([(0, 0), (3, 4)], 6, 4), ([(0, 0)], 3, 3))
    for entries, log_end, wanted in logs:
        found = impl.truncation_offset(entries, log_end, (0, 4))
        assert found == wanted, (
            f"{entries} with log end {log_end}, answer (0, 4): truncate to {wanted}, and you say {found}"
        )


@pytest.mark.task("12.3", points=1)
def test_a_follower_without_that_epoch_begins_again(impl):
    """The leader's answer is of epoch 0, or says that nothing is shared; the follower's log begins with epoch 1."""
    for answer in ((0, 4), (1, 0)):
        found = impl.truncation_offset([(1, 0)], 6, answer)
        assert found == 0, f"the leader answers {answer}, the log is of epoch 1: truncate to 0, and you say {found}"


@pytest.mark.task("12.3", points=1)
def test_the_last_epoch_of_a_log(impl):
    """Of a log with two epochs, and of an empty one."""
    assert impl.last_epoch([(0, 0), (3, 2)]) == 3, "the last record is of epoch 3"
    assert impl.last_epoch([]) == -1, "an empty log has no epoch, which is -1"


@pytest.mark.task("12.3", points=3)
def test_what_is_left_is_what_both_logs_have(impl, chance):
    """Eighty pairs of logs that two brokers wrote in turn, each without the other; one of them leads now."""
    for _ in range(80):
        leader, follower = two_logs(chance)
        known = [*entries_of(leader), (LATEST, len(leader))]
        found, _ = impl.agreed(known, len(leader), entries_of(follower), len(follower))
        wanted = common(leader, follower)
        what = f"leader {leader}, follower {follower} (the epoch of each record)"
        assert found == wanted, f"{what}: {found} records are left, and both have {wanted}"


@pytest.mark.task("12.3", points=2)
def test_logs_that_parted_twice_take_two_truncations(impl):
    """Leader 0 0 2 2 5 5, follower 0 0 1 1 3 3: no epoch after 0 is in both. Then logs that parted three times."""
    found = impl.agreed([(0, 0), (2, 2), (5, 4)], 6, [(0, 0), (1, 2), (3, 4)], 6)
    assert found == (2, 2), f"two records are shared, and it takes two rounds to find them: (2, 2), and you say {found}"
    leader, follower = [(0, 0), (2, 2), (5, 4), (8, 6)], [(0, 0), (1, 2), (3, 4), (7, 6)]
    found = impl.agreed(leader, 8, follower, 8)
    assert found == (2, 3), f"two records are shared, and the logs parted three times: (2, 3), and you say {found}"


@pytest.mark.task("12.3", points=1)
def test_a_log_that_is_a_part_is_not_truncated(impl):
    """A follower that is merely behind; and one with two records too many of the leader's last epoch."""
    found = impl.agreed([(0, 0), (2, 2)], 6, [(0, 0), (2, 2)], 4)
    assert found == (4, 0), f"the follower lacks two records and has none too many: (4, 0), and you say {found}"
    found = impl.agreed([(0, 0), (2, 2)], 6, [(0, 0), (2, 2)], 8)
    assert found == (6, 1), f"the leader's log ends at 6, and the follower's at 8: (6, 1), and you say {found}"
