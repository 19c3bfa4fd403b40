"""What lab 25 asks of a law: that it kills what is planted, and says nothing of what is sound.

The histories are those of a small model of a replicated partition, drawn by the seed. Each planted bug changes one rule
of the model.
"""

import pytest

NODES = (1, 2, 3)
FASTEST, TO_THE_WATERMARK, NO_TRUNCATION, OUTSIDE = "fastest", "to the watermark", "no truncation", "outside the ISR"
BUGS = (FASTEST, TO_THE_WATERMARK, NO_TRUNCATION, OUTSIDE)


class Model:
    """Three replicas of a partition, of which one leads. A rule may be wrong: `bug`."""

    def __init__(self, impl, chance, bug=""):
        self.impl, self.chance, self.bug = impl, chance, bug
        self.logs = {node: [] for node in NODES}
        self.marks = dict.fromkeys(NODES, 0)
        self.leader, self.epoch, self.isr = 1, 0, set(NODES)
        self.written = 0

    def step(self):
        """One thing that may happen."""
        act = self.chance.choice((self.write, self.write, self.fetch, self.fetch, self.fetch, self.shrink, self.fail))
        act()
        self.commit()
        return self.state()

    def write(self):
        self.written += 1
        self.logs[self.leader].append(self.impl.Record(self.epoch, f"r{self.written}"))

    def fetch(self, node=None):
        node = node or self.chance.choice([node for node in NODES if node != self.leader])
        log, theirs = self.logs[node], self.logs[self.leader]
        agreed = next(
            (at for at, (one, other) in enumerate(zip(log, theirs, strict=False)) if one != other),
            min(len(log), len(theirs)),
        )
        if self.bug != NO_TRUNCATION:
            del log[agreed:]
        log.extend(theirs[len(log) : len(log) + self.chance.randint(1, 3)])
        self.marks[node] = max(self.marks[node], min(self.marks[self.leader], len(log)))
        if len(log) >= self.marks[self.leader] and log == theirs[: len(log)] and len(log) >= len(theirs) - 1:
            self.isr.add(node)

    def shrink(self):
        slow = [node for node in self.isr if node != self.leader and len(self.logs[node]) < len(self.logs[self.leader])]
        self.isr -= set(slow[:1])

    def commit(self):
        ends = [len(self.logs[node]) for node in self.isr]
        reached = max(ends) if self.bug == FASTEST else min(ends)
        if len(self.isr) >= 2:
            self.marks[self.leader] = max(self.marks[self.leader], min(reached, len(self.logs[self.leader])))

    def fail(self):
        """The leader dies, another one is elected, and the dead one returns as a follower."""
        fit = set(NODES) if self.bug == OUTSIDE else self.isr
        heirs = sorted(fit - {self.leader})
        if not heirs or self.chance.random() < 0.5:
            return
        heir = min(heirs, key=lambda node: len(self.logs[node])) if self.bug == OUTSIDE else self.chance.choice(heirs)
        self.isr = (self.isr - {self.leader}) | {heir}
        self.leader, self.epoch = heir, self.epoch + 1
        for node in NODES:
            if self.bug == TO_THE_WATERMARK:
                del self.logs[node][self.marks[node] :]

    def state(self):
        return tuple(
            self.impl.Replica(
                node,
                node == self.leader,
                self.epoch,
                frozenset(self.isr) if node == self.leader else frozenset(),
                tuple(self.logs[node]),
                self.marks[node],
            )
            for node in NODES
        )


def history_of(impl, chance, bug="", steps=40):
    model = Model(impl, chance, bug)
    return [model.step() for _ in range(steps)]


def log(impl, *records):
    """A log from words such as "0a 0b 1c": the epoch and the value of each record."""
    return tuple(impl.Record(int(word[0]), word[1:]) for word in " ".join(records).split())


def replica(impl, node, words, *, leads=False, epoch=0, isr=(), mark=0):
    return impl.Replica(node, leads, epoch, frozenset(isr), log(impl, words), mark)


def told(said, wanted, what):
    """The words of a law, which may be any, or none."""
    assert isinstance(said, str), f"a law returns words, and yours returned {said!r}"
    assert bool(said) == wanted, f"{what}: the law is {'broken' if wanted else 'kept'}, and you say {said!r}"


# --- task 25.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("25.1", points=2)
def test_a_leader_that_commits_what_an_in_sync_follower_lacks_breaks_the_law(impl):
    """Three replicas in sync; the second or the third one has a record less than the leader has committed."""
    for short in (2, 3):
        ends = {node: "0a 0b" if node == short else "0a 0b 0c" for node in NODES}
        state = tuple(replica(impl, n, ends[n], leads=n == 1, isr=NODES if n == 1 else (), mark=3) for n in NODES)
        told(impl.high_watermark(state), True, f"node {short} ends at 2, the high watermark is 3")


@pytest.mark.task("25.1", points=1)
def test_a_log_that_ends_at_the_high_watermark_is_long_enough(impl):
    """All logs end at 3, which is the high watermark."""
    state = tuple(replica(impl, n, "0a 0b 0c", leads=n == 1, isr=NODES if n == 1 else (), mark=3) for n in NODES)
    told(impl.high_watermark(state), False, "all logs end at the high watermark")


@pytest.mark.task("25.1", points=1)
def test_a_follower_outside_the_isr_may_lag(impl):
    """Node 3 has nothing, and is not in sync."""
    ends = {1: "0a 0b", 2: "0a 0b", 3: ""}
    state = tuple(replica(impl, n, ends[n], leads=n == 1, isr=(1, 2) if n == 1 else (), mark=2) for n in NODES)
    told(impl.high_watermark(state), False, "node 3 is not in sync")


@pytest.mark.task("25.1", points=1)
def test_a_node_that_does_not_lead_commits_nothing(impl):
    """A follower that led before has kept its old ISR and its high watermark; node 3 has begun again."""
    old = replica(impl, 1, "0a 0b", epoch=1, isr=NODES, mark=2)
    new = replica(impl, 2, "0a 0b", leads=True, epoch=1, isr=(1, 2), mark=2)
    told(impl.high_watermark((old, new, replica(impl, 3, "0a", epoch=1))), False, "node 1 does not lead")


# --- task 25.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("25.2", points=2)
def test_one_epoch_has_one_record_at_an_offset(impl):
    """Two logs of the same length have another record of epoch 0 at offset 1. Then the first and the third log do."""
    for nodes in ((1, 2), (1, 3), (2, 3)):
        state = tuple(replica(impl, n, "0a 0x" if n == nodes[0] else "0a 0b" if n in nodes else "") for n in NODES)
        told(impl.log_matching(state), True, f"nodes {nodes[0]} and {nodes[1]} differ in epoch 0 at offset 1")


@pytest.mark.task("25.2", points=2)
def test_logs_with_the_same_epoch_later_are_equal_before(impl):
    """At offset 2 both have epoch 2; at offset 1 one has epoch 0 and the other one epoch 1."""
    state = (replica(impl, 1, "0a 0b 2c"), replica(impl, 2, "0a 1b 2c"))
    told(impl.log_matching(state), True, "the logs differ at offset 1, and both have epoch 2 at offset 2")


@pytest.mark.task("25.2", points=2)
def test_tails_of_different_epochs_may_differ(impl):
    """An old leader has two records of epoch 0 that the new one has not; one log is empty; one is a prefix."""
    for words in ("0a 1b 1c", "", "0a", "0a 0b 0c 0d 0e"):
        state = (replica(impl, 1, "0a 0b 0c"), replica(impl, 2, words, leads=True, epoch=1))
        told(impl.log_matching(state), False, f"the logs are '0a 0b 0c' and {words!r}")


# --- task 25.3 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("25.3", points=2)
def test_a_new_leader_without_a_committed_record_breaks_the_law(impl):
    """Up to 2 is committed. The next leader has one of the two records; then two, and the second is another one."""
    before = (replica(impl, 1, "0a 0b", leads=True, isr=(1, 2), mark=2),)
    for words in ("0a", "0a 1x", "1x 1y 1z"):
        after = (replica(impl, 2, words, leads=True, epoch=1, isr=(2,)),)
        told(impl.committed_stays(before, after), True, f"'0a 0b' was committed, and the new leader has {words!r}")


@pytest.mark.task("25.3", points=2)
def test_what_was_not_committed_may_go(impl):
    """The old leader had four records, two of them committed; the new one has these two and its own."""
    before = (replica(impl, 1, "0a 0b 0c 0d", leads=True, isr=(1, 2), mark=2),)
    for words in ("0a 0b", "0a 0b 1x"):
        after = (replica(impl, 2, words, leads=True, epoch=1, isr=(2,), mark=2),)
        told(impl.committed_stays(before, after), False, f"'0a 0b' was committed, and the new leader has {words!r}")


@pytest.mark.task("25.3", points=2)
def test_followers_and_leaders_of_older_epochs_may_lack_it(impl):
    """The new leader has all; a follower has nothing, and a node that leads in an older epoch does not know better."""
    before = (replica(impl, 2, "0a 0b 1c", leads=True, epoch=1, isr=(2, 3), mark=3),)
    old = replica(impl, 1, "0a 0b", leads=True, epoch=0, isr=(1, 2), mark=2)
    after = (old, *before, replica(impl, 3, "", epoch=1))
    told(impl.committed_stays(before, after), False, "node 1 leads an older epoch, and node 3 follows")
    lone = (replica(impl, 3, "0a", epoch=1, mark=9),)
    told(impl.committed_stays(lone, after), False, "no node led before")


# --- task 25.4 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("25.4", points=3)
def test_sound_histories_cause_no_alarm(impl, chance):
    """Twelve histories of 40 events each: writes, fetches, ISRs that shrink and grow, leaders that die."""
    for number in range(12):
        found = impl.judge(history_of(impl, chance))
        assert found is None, f"history {number} is sound, and you say that state {found} breaks a law"


@pytest.mark.task("25.4", points=4)
def test_each_planted_bug_dies(impl, chance):
    """Four wrong rules, in twelve histories each: the fastest replica decides what is committed; replicas truncate to
    their high watermark; they do not truncate; the leader comes from outside the ISR."""
    for bug in BUGS:
        deaths = [impl.judge(history_of(impl, chance, bug)) for _ in range(12)]
        assert any(found is not None for found in deaths), f"the bug {bug!r} outlives all twelve histories"


@pytest.mark.task("25.4", points=2)
def test_the_first_broken_state_is_named(impl):
    """Five states; from the third one on the leader has committed too much. Then no state is wrong."""
    good = (replica(impl, 1, "0a", leads=True, isr=(1, 2), mark=0), replica(impl, 2, ""))
    bad = (replica(impl, 1, "0a", leads=True, isr=(1, 2), mark=1), replica(impl, 2, ""))
    found = impl.judge([good, good, bad, bad, bad])
    assert found == 2, f"the first wrong state has index 2, and you say {found}"
    assert impl.judge([good] * 5) is None, "no state is wrong, and None says so"


@pytest.mark.task("25.4", points=2)
def test_a_judge_remembers_what_was_committed_long_ago(impl):
    """A leader commits two records and dies. For three states no node leads; then one does, and lacks them."""
    led = (replica(impl, 1, "0a 0b", leads=True, isr=(1, 2), mark=2), replica(impl, 2, "0a 0b"))
    alone = (replica(impl, 3, ""),)
    after = (replica(impl, 3, "", leads=True, epoch=1, isr=(3,)),)
    found = impl.judge([led, alone, alone, alone, after])
    assert found == 4, f"the leader of the state with index 4 lacks what was committed, and you say {found}"
