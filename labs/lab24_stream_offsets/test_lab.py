"""What lab 24 asks of a stream's planner. Wanted answers are written down, or follow from what the planner has to keep:
no offset twice, none left out, and a batch that is planned again is the same batch."""

import copy

import pytest

A, B, C = ("air", 0), ("air", 1), ("sea", 0)
IDS = {"air": "id-1", "sea": "id-2"}


def position(impl, offsets, **changed):
    return impl.Position({topic: {**IDS, **changed}[topic] for topic, _ in offsets}, dict(offsets))


def look(impl, ends, firsts=None, **changed):
    """A look at logs that end there; they begin at 0 unless `firsts` says otherwise."""
    known = {topic: {**IDS, **changed}[topic] for topic, _ in ends}
    return impl.Look(known, {**dict.fromkeys(ends, 0), **(firsts or {})}, dict(ends))


def equal(found, wanted, what):
    assert found == wanted, f"{what}: {wanted} is right, not {found}"


# --- task 24.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("24.1", points=1)
def test_without_a_limit_everything_is_read(impl):
    """Two partitions, and no limit; a limit that is larger than what there is, or equal to it; and one that is one
    record smaller, which is shared."""
    begins, ends = {A: 10, B: 0}, {A: 30, B: 5}
    for limit in (None, 100, 25):
        equal(impl.limited(limit, begins, ends), ends, f"limit {limit}, from {begins} to {ends}")
    what = f"25 records do not fit into a limit of 24, from {begins} to {ends}"
    equal(impl.limited(24, begins, ends), {A: 29, B: 4}, what)


@pytest.mark.task("24.1", points=2)
def test_shares_are_in_proportion_to_what_each_partition_has(impl):
    """1,000, 500 and 250 new records, and limits of 175 and 700."""
    begins, ends = {A: 100, B: 0, C: 7}, {A: 1100, B: 500, C: 257}
    equal(impl.limited(175, begins, ends), {A: 200, B: 50, C: 32}, "a limit of 175")
    equal(impl.limited(700, begins, ends), {A: 500, B: 200, C: 107}, "a limit of 700")


@pytest.mark.task("24.1", points=2)
def test_a_share_is_rounded_down(impl):
    """Three partitions with 10 records each, and a limit of 20: 6.67 for each is 6."""
    begins, ends = {A: 0, B: 0, C: 0}, {A: 10, B: 10, C: 10}
    equal(impl.limited(20, begins, ends), {A: 6, B: 6, C: 6}, "a limit of 20 for 30 records")


@pytest.mark.task("24.1", points=2)
def test_each_partition_with_records_gets_one_and_others_get_none(impl):
    """A partition with 1 record beside one with a million, and one without any."""
    begins, ends = {A: 0, B: 5, C: 9}, {A: 1_000_000, B: 6, C: 9}
    equal(impl.limited(100, begins, ends), {A: 99, B: 6, C: 9}, "a limit of 100 for 1,000,001 records")


@pytest.mark.task("24.1", points=2)
def test_a_million_offsets_are_shared_without_an_error_of_rounding(impl, chance):
    """Large offsets, drawn: each share is the whole part of limit * size / total, computed exactly."""
    for _ in range(50):
        begins = {("t", n): chance.randrange(1 << 60) for n in range(5)}
        sizes = {partition: chance.randrange(1, 1 << 50) for partition in begins}
        total, limit = sum(sizes.values()), chance.randrange(1, 1 << 40)
        found = impl.limited(limit, begins, {p: begins[p] + sizes[p] for p in begins})
        wanted = {p: begins[p] + max(1, limit * sizes[p] // total) for p in begins} if limit < total else None
        if wanted is not None:
            equal(found, wanted, f"a limit of {limit:,} of {total:,}")


# --- task 24.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("24.2", points=2)
def test_a_batch_begins_where_the_last_one_ended_and_a_new_partition_at_its_first_offset(impl):
    """A partition that was read up to 40, and two that are new; one of them begins at offset 12."""
    start, now = position(impl, {A: 40}), look(impl, {A: 90, B: 30, C: 20}, {C: 12})
    equal(impl.begins(start, now), {A: 40, B: 0, C: 12}, f"begins after {start.offsets} with {now}")


@pytest.mark.task("24.2", points=2)
def test_a_topic_with_another_id_is_read_from_its_first_offset(impl):
    """A topic that was deleted and created again, and is longer than the old one was."""
    start, now = position(impl, {A: 40, C: 5}), look(impl, {A: 90, C: 9}, {A: 3}, air="id-7")
    equal(impl.begins(start, now), {A: 3, C: 5}, "begins when topic air has another id")


@pytest.mark.task("24.2", points=2)
def test_a_begin_is_never_outside_of_the_log(impl):
    """Records up to 60 were deleted; another log was truncated to 20."""
    start, now = position(impl, {A: 40, B: 50}), look(impl, {A: 90, B: 20}, {A: 60})
    equal(impl.begins(start, now), {A: 60, B: 20}, f"begins after {start.offsets} with {now}")


@pytest.mark.task("24.2", points=1)
def test_nothing_is_lost_while_logs_only_grow(impl):
    """Logs that grew, that did not, whose read records were deleted, and a new one that begins at 0."""
    start, now = position(impl, {A: 40, B: 50}), look(impl, {A: 90, B: 50, C: 3}, {A: 40, B: 7})
    equal(impl.losses(start, now), {}, f"losses after {start.offsets} with {now}")


@pytest.mark.task("24.2", points=3)
def test_each_kind_of_loss_has_its_name(impl):
    """A partition that is gone, one that was truncated, one whose unread records were deleted, a new one without its
    beginning; and a topic that was created again."""
    start = position(impl, {A: 40, B: 50, ("air", 2): 6, C: 8})
    now = look(impl, {B: 20, ("air", 2): 9, C: 90, ("air", 3): 5}, {("air", 2): 7, ("air", 3): 1}, sea="id-9")
    wanted = {A: "gone", B: "truncated", ("air", 2): "deleted", ("air", 3): "deleted", C: "recreated"}
    equal(impl.losses(start, now), wanted, f"losses after {start} with {now}")
    now = look(impl, {A: 50, C: 9}, {C: 2})
    what = "sea is a new topic that begins at 2: what was before was never read, and the losses"
    equal(impl.losses(position(impl, {A: 40}), now), {C: "deleted"}, what)


@pytest.mark.task("24.2", points=1)
def test_a_topic_that_was_created_again_is_no_other_loss(impl):
    """The new topic is shorter, or its first records were deleted: still it is "recreated", once. A partition that only
    the new topic has was never read: nothing of it is lost, or what was deleted."""
    for offset, other in ((40, "id-7"), (4, "id-0")):
        start, now = position(impl, {A: offset}), look(impl, {A: 9}, {A: 5}, air=other)
        equal(
            impl.losses(start, now), {A: "recreated"}, f"a topic with another id, read up to {offset}, now from 5 to 9"
        )
    for first, wanted in ((0, {A: "recreated"}), (3, {A: "recreated", B: "deleted"})):
        start, now = position(impl, {A: 4}), look(impl, {A: 9, B: 7}, {B: first}, air="id-7")
        what = f"air was created again, with a partition 1 that begins at {first} and that the position does not have"
        equal(impl.losses(start, now), wanted, what)


# --- task 24.3 --------------------------------------------------------------------------------------------------------


def batches(impl, planner, start, looks):
    """One batch for each look; the ranges of each, and the last position."""
    found = []
    for now in looks:
        given = copy.deepcopy((start, now))
        end = planner.latest(start, now)
        found.append(planner.ranges(start, end, now))
        assert (start, now) == given, f"the position and the look were {given}, and the planner has changed them: {now}"
        start = end
    return found, start


@pytest.mark.task("24.3", points=3)
def test_every_offset_is_read_once_and_in_order_while_topics_grow(impl, chance):
    """30 looks at partitions that grow and appear, with a limit of 50 records; then looks until nothing is left."""
    ends, looks = {A: 0}, []
    for number in range(30):
        for partition in ends:
            ends[partition] += chance.randrange(40)
        if number % 10 == 9:
            ends[("air", len(ends))] = chance.randrange(30)
        looks.append(look(impl, ends))
    found, _ = batches(impl, impl.StreamPlanner(limit=50), position(impl, {}), looks + looks[-1:] * 60)
    for partition, end in ends.items():
        read = [offset for batch in found if partition in batch for offset in range(*batch[partition])]
        assert read == list(range(end)), f"of {partition} {len(read)} offsets were read, {end} are there: {read[:20]}"
    largest = max(sum(last - first for first, last in batch.values()) for batch in found)
    assert largest <= 50 + len(ends), f"a batch has {largest} records, with a limit of 50"


@pytest.mark.task("24.3", points=3)
def test_a_batch_that_is_planned_again_reads_the_same_offsets(impl):
    """The driver dies after it has written the end of the batch; meanwhile the topics grow, and a new one appears."""
    planner, start = impl.StreamPlanner(limit=30), position(impl, {A: 10, B: 0})
    before = look(impl, {A: 40, B: 60, C: 9})
    end = planner.latest(start, before)
    planned = planner.ranges(start, end, before)
    grown = look(impl, {A: 400, B: 600, C: 90, ("sea", 1): 5})
    again = impl.StreamPlanner(limit=30).ranges(start, end, grown)
    equal(again, planned, "the ranges of a batch that is planned again after a crash")
    assert all(first < last for first, last in planned.values()), f"a range without an offset: {planned}"
    planner, start, now = (
        impl.StreamPlanner(limit=3),
        position(impl, {A: 0, B: 0, C: 0}),
        look(impl, {A: 999, B: 1, C: 1}),
    )
    end = planner.latest(start, now)
    wanted = {one: (0, last) for one, last in end.offsets.items()}
    equal(planner.ranges(start, end, now), wanted, f"the ranges up to {end.offsets}, whatever the limit")


@pytest.mark.task("24.3", points=2)
def test_a_range_begins_with_the_first_record_that_is_there(impl):
    """A new partition that begins at offset 12; a topic that was created again and begins at 3; and records that were
    deleted after the batch was planned."""
    planner, start = impl.StreamPlanner(fail_on_data_loss=False), position(impl, {A: 5, C: 40})
    now = look(impl, {A: 30, B: 20, C: 50}, {B: 12, C: 3}, sea="id-9")
    end = planner.latest(start, now)
    wanted = {A: (5, 30), B: (12, 20), C: (3, 50)}
    equal(
        planner.ranges(start, end, now),
        wanted,
        "partition 1 of air is new and begins at 12, sea is new and begins at 3",
    )
    later = look(impl, {A: 30, B: 20, C: 50}, {A: 9, B: 20, C: 3}, sea="id-9")
    wanted = {A: (9, 30), C: (3, 50)}
    equal(planner.ranges(start, end, later), wanted, "records before 9 and 20 of topic air were deleted after the plan")


@pytest.mark.task("24.3", points=2)
def test_a_loss_ends_the_query_or_it_goes_on_with_what_is_there(impl):
    """A partition is gone, was created again, truncated, or has lost its next records: DataLossError. Or what is gone
    is forgotten, and the rest is read."""
    start, now = position(impl, {A: 40, C: 8}), look(impl, {C: 20}, sea="id-9")
    with pytest.raises(impl.DataLossError):
        impl.StreamPlanner().latest(start, now)
        pytest.fail("a partition is gone, and latest() has raised no DataLossError")
    for now_there in (look(impl, {A: 30}), look(impl, {A: 90}, {A: 50}), look(impl, {A: 90}, air="id-7")):
        with pytest.raises(impl.DataLossError):
            impl.StreamPlanner().latest(position(impl, {A: 40}), now_there)
            pytest.fail(f"offset 40 comes next, the log is {now_there}, and latest() has raised no DataLossError")
    planner = impl.StreamPlanner(fail_on_data_loss=False)
    end = planner.latest(start, now)
    equal(end, impl.Position({"sea": "id-9"}, {C: 20}), "the position after a loss that is no error")
    equal(planner.ranges(start, end, now), {C: (0, 20)}, "what is read of a topic that was created again")


@pytest.mark.task("24.3", points=1)
def test_a_target_stops_the_query_where_the_topics_ended(impl):
    """The target is fixed at 40 and 7; then the topics grow, and a new one appears. The limit still holds. Then the
    second partition is gone. And a target without any partition."""
    planner = impl.StreamPlanner(limit=20)
    planner.fix_target(look(impl, {A: 40, B: 7}))
    later = look(impl, {A: 100, B: 30, C: 9})
    found, last = batches(impl, planner, position(impl, {A: 5, B: 0}), [later] * 4)
    equal(last.offsets, {A: 40, B: 7}, "the last position of a query with a target")
    equal(found[-1], {}, "a batch after the target was reached")
    assert sum(end - first for first, end in found[0].values()) <= 21, f"a limit of 20, and a batch of {found[0]}"
    for fails in (True, False):
        planner = impl.StreamPlanner(fail_on_data_loss=fails)
        planner.fix_target(look(impl, {A: 40, B: 7}))
        gone = position(impl, {A: 5} if fails else {A: 5, B: 0}), look(impl, {A: 100})
        what = f"partition 1 of air is in the target, and gone; the position is {gone[0].offsets}: where the batch ends"
        equal(planner.latest(*gone).offsets, {A: 40}, what)
    planner = impl.StreamPlanner()
    planner.fix_target(look(impl, {}))
    end = planner.latest(position(impl, {}), look(impl, {A: 100}))
    equal(end.offsets, {}, "there was no topic when the target was fixed, so nothing is read: the position")


@pytest.mark.task("24.3", points=1)
def test_records_that_are_deleted_beyond_the_target_are_not_read(impl):
    """The target is fixed at 40 and 70; then the records before offset 60 of the first partition are deleted. They are
    a loss if the query was at 5, and none if it was at 40 already."""
    planner = impl.StreamPlanner(limit=20, fail_on_data_loss=False)
    planner.fix_target(look(impl, {A: 40, B: 70}))
    later, start = look(impl, {A: 100, B: 100}, {A: 60}), position(impl, {A: 5, B: 0})
    end = planner.latest(start, later)
    what = "all up to a target is deleted, so nothing of that partition is left to read: the position"
    equal(end.offsets, {A: 40, B: 20}, what)
    equal(planner.ranges(start, end, later), {B: (0, 20)}, "what is read when the target of a partition was deleted")
    planner = impl.StreamPlanner()
    planner.fix_target(look(impl, {A: 40, B: 70}))
    later = look(impl, {A: 100, B: 100, C: 9}, {A: 60, C: 2})
    with pytest.raises(impl.DataLossError):
        planner.latest(start, later)
        pytest.fail("offsets 5 to 39 were deleted before they were read, and latest() has raised no DataLossError")
    try:
        end = planner.latest(position(impl, {A: 40, B: 0}), later)
    except impl.DataLossError as error:
        pytest.fail(
            f"the query has read up to its target, 40; the log begins at 60 now, and sea is not in the target. What is"
            f" beyond the target is no loss, and latest() has raised DataLossError({error})"
        )
    equal(end.offsets, {A: 40, B: 70}, "the position when only records beyond the target were deleted")


@pytest.mark.task("24.3", points=1)
def test_without_new_records_the_position_does_not_move(impl):
    """The same look twice: the second batch is empty, and its position is that of the first."""
    now, planner = look(impl, {A: 40, B: 0}), impl.StreamPlanner()
    end = planner.latest(position(impl, {}), now)
    equal(planner.latest(end, now), end, "the position when nothing is new")
    equal(planner.ranges(end, end, now), {}, "what is read when nothing is new")


@pytest.mark.task("24.3", points=1)
def test_a_partition_that_vanished_after_the_plan_keeps_its_range(impl):
    """The end of the batch was written; then topic sea was deleted, or one partition of it, or it was created again,
    and begins at 0 or at 4; or a log was truncated. The task finds that out, the plan stays."""
    planner, start = impl.StreamPlanner(), position(impl, {A: 1, C: 2})
    end = planner.latest(start, look(impl, {A: 4, C: 5, ("sea", 1): 3}))
    wanted = {A: (1, 4), C: (2, 5), ("sea", 1): (0, 3)}
    equal(
        planner.ranges(start, end, look(impl, {A: 4})), wanted, "the ranges of a planned batch, when topic sea is gone"
    )
    one_less = look(impl, {A: 4, C: 5})
    equal(
        planner.ranges(start, end, one_less), wanted, "the ranges of a planned batch, when partition 1 of sea is gone"
    )
    for first in (0, 4):
        again = look(impl, {A: 4, C: 9, ("sea", 1): 9}, {C: first, ("sea", 1): first}, sea="id-9")
        what = f"the ranges of a planned batch, when topic sea was created again and begins at {first}"
        equal(planner.ranges(start, end, again), wanted, what)
    truncated = look(impl, {A: 2, C: 5, ("sea", 1): 3})
    what = "the ranges of a planned batch, when partition 0 of air was truncated to 2"
    equal(planner.ranges(start, end, truncated), wanted, what)
