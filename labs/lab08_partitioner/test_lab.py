"""What lab 08 asks of a partitioner. Hashes are compared with those that Kafka's own tests expect, and for other keys
with pykraft's, which is itself compared with the Java client, librdkafka, kafka-python and aiokafka."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from pykraft.client.producing import partitioner as kafka

# As Kafka's own tests have them, as signed numbers.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def said(function, key, found, wanted):
    return f"{function}({key!r}) is {found:#010x}, Kafka's clients compute {wanted:#010x}"


def equal_hash(impl, key, wanted):
    found = impl.murmur2(key)
    assert isinstance(found, int), f"murmur2({key!r}) is a {type(found).__name__}, not a whole number"
    assert found & 0xFFFFFFFF == wanted, said("murmur2", key, found, wanted)


def random_key(chance, length):
    return chance.randbytes(length)


# --- task 8.1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("8.1", points=3)
@pytest.mark.parametrize("key", KNOWN, ids=lambda key: key.decode()[:12])
def test_known_keys_have_the_hash_that_kafka_expects(impl, key):
    """Six keys from Kafka's own tests, with their hashes."""
    equal_hash(impl, key, KNOWN[key] & 0xFFFFFFFF)


@pytest.mark.task("8.1", points=2)
def test_keys_of_every_length_are_hashed_to_their_last_byte(impl, chance):
    """Keys of 0 to 40 random bytes below 128: after the last group of four there may be 0, 1, 2 or 3 bytes."""
    for length in range(41):
        key = bytes(chance.randrange(128) for _ in range(length))
        equal_hash(impl, key, kafka.murmur2(key))


@pytest.mark.task("8.1", points=1)
def test_bytes_above_127_are_numbers_from_128_to_255(impl, chance):
    """Keys of bytes such as 0xE9: in Java a byte is signed, and the client masks the sign off."""
    for length in range(1, 9):
        key = bytes(chance.randrange(128, 256) for _ in range(length))
        equal_hash(impl, key, kafka.murmur2(key))


@pytest.mark.task("8.1", points=1)
def test_a_hash_has_32_bits(impl, chance):
    """300 random keys: each hash lies between 0 and 2**32 - 1, and some are in the upper half."""
    hashes = [impl.murmur2(random_key(chance, 12)) for _ in range(300)]
    wrong = [found for found in hashes if not 0 <= found < 1 << 32]
    assert not wrong, f"{wrong[:1]} does not fit into 32 bits without a sign"
    assert any(found >= 1 << 31 for found in hashes), "no hash of 300 has its highest bit set: where does it go?"


@pytest.mark.task("8.1", points=1)
def test_zero_bytes_at_the_end_count(impl):
    """b"a" and b"a\\0" are two keys: the length is part of the hash. Zeros that are left over are read like other
    bytes, and the hash is multiplied by the factor once more."""
    hashes = {impl.murmur2(b"a" + b"\0" * count) for count in range(8)}
    assert len(hashes) == 8, f"b'a' with 0 to 7 zero bytes behind it has only {len(hashes)} different hashes"
    for count in range(8):
        found, wanted = impl.murmur2(b"\0" * count), kafka.murmur2(b"\0" * count)
        assert found == wanted, (
            f"{said('murmur2', bytes(count), found, wanted)}: {count % 4} of its bytes are left over, and step 3 is for"
            f" them though they are zeros"
        )


# --- task 8.2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("8.2", points=2)
@pytest.mark.parametrize("partitions", [3, 6, 12])
def test_the_routes_go_where_kafkas_clients_put_them(impl, partitions):
    """Routes from New York, and an empty key, with 3, 6 and 12 partitions."""
    for route in ("JFK-LAX", "LGA-ATL", "EWR-SFO", "JFK-SFO", "LGA-ORD", "EWR-BOS", "JFK-BUF", "LGA-XNA"):
        key = route.encode()
        found, wanted = impl.partition_of_key(key, partitions), kafka.partition_of_key(key, partitions)
        assert found == wanted, (
            f"of {partitions} partitions {route} goes to {found}, Kafka's clients put it in {wanted}"
        )
    found, wanted = impl.partition_of_key(b"", partitions), kafka.partition_of_key(b"", partitions)
    assert found == wanted, (
        f"of {partitions} partitions the empty key goes to {found}, Kafka's clients put it in {wanted}: it is a key,"
        f" and has a hash"
    )


@pytest.mark.task("8.2", points=2)
def test_a_hash_with_its_sign_bit_set_loses_the_bit_and_not_its_value(impl, chance):
    """Keys whose hash is negative in Java, with partition counts that are no power of two."""
    keys = [key for key in (random_key(chance, 9) for _ in range(200)) if kafka.murmur2(key) >> 31]
    for key in keys:
        count = chance.choice((3, 5, 7, 100, 1000))
        found, wanted = impl.partition_of_key(key, count), kafka.partition_of_key(key, count)
        assert found == wanted, f"{key!r} of {count} partitions: {found} instead of {wanted}"


@pytest.mark.task("8.2", points=1)
def test_every_partition_is_one_that_there_is(impl, chance):
    """500 random keys and 1 to 50 partitions: the number is at least 0 and less than the count."""
    for _ in range(500):
        count = chance.randrange(1, 51)
        found = impl.partition_of_key(random_key(chance, chance.randrange(20)), count)
        assert 0 <= found < count, f"with {count} partitions there is no partition {found}"


@pytest.mark.task("8.2", points=1)
def test_a_key_always_goes_to_the_same_partition(impl, chance):
    """Each of 50 random keys is asked for three times, with other keys in between."""
    keys = [random_key(chance, 8) for _ in range(50)]
    first, second, third = ([impl.partition_of_key(key, 7) for key in keys] for _ in range(3))
    assert first == second == third, "the same key went to different partitions"


# --- task 8.3 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("8.3", points=2)
def test_records_stay_with_a_partition_until_a_batch_is_full(impl, chance):
    """Batches of 1,000 bytes, from records of 100, and from one of 999 and one of a single byte: none is spread. Nor do
    twenty of them all go to the same partition."""
    partitioner, went = impl.StickyPartitioner(Random(chance.random()), 1000), set()
    for sizes in [[100] * 10, [999, 1]] * 10:
        found = [partitioner.partition("flights", (0, 1, 2), size) for size in sizes]
        assert len(set(found)) == 1, f"records of {sizes} bytes make one batch of 1,000, and were spread: {found}"
        went |= set(found)
    assert len(went) > 1, (
        f"20 batches of 1,000 bytes all went to partition {min(went)}: a batch is as large as all its records together"
    )


@pytest.mark.task("8.3", points=1)
def test_the_record_that_reaches_the_limit_still_goes_to_the_same_partition(impl, chance):
    """Batches of 1,000 bytes, from records of 600: the second one passes the limit and still belongs to the batch."""
    partitioner = impl.StickyPartitioner(Random(chance.random()), 1000)
    found = [partitioner.partition("flights", (0, 1, 2), 600) for _ in range(20)]
    for first, second in zip(found[::2], found[1::2], strict=True):
        assert first == second, (
            f"600 of 1,000 bytes went to partition {first}, so the batch is not full; the next 600 went to {second}"
        )


@pytest.mark.task("8.3", points=2)
def test_when_a_batch_is_full_the_next_partition_is_drawn_from_all(impl, chance):
    """300 records of a whole batch each, with three partitions and with one: none is left out, and the last one may be
    drawn again."""
    partitioner = impl.StickyPartitioner(Random(chance.random()), 500)
    found = [partitioner.partition("flights", (0, 1, 2), 500) for _ in range(300)]
    counts = Counter(found)
    assert min(counts[p] for p in range(3)) >= 50, f"300 batches went to {dict(sorted(counts.items()))}: draw each time"
    assert any(one == two == three for one, two, three in zip(found, found[1:], found[2:], strict=False)), (
        "in 300 batches no partition was drawn three times in a row: draw again each time, and from all of them"
    )
    alone = [partitioner.partition("alone", (4,), 500) for _ in range(2)]
    assert alone == [4, 4], f"there is only partition 4, and two batches went to {alone}"


@pytest.mark.task("8.3", points=1)
def test_a_partition_that_loses_its_leader_keeps_its_batch(impl, chance):
    """The partition disappears from those that are available after 300 of 1,000 bytes. Two batches later it must not
    have been drawn again. Then two of four disappear just after a batch has become full."""
    for _ in range(10):
        partitioner = impl.StickyPartitioner(Random(chance.random()), 1000)
        before = partitioner.partition("flights", (0, 1, 2, 3), 300)
        left = tuple(p for p in (0, 1, 2, 3) if p != before)
        rest = [partitioner.partition("flights", left, 350) for _ in range(2)]
        assert rest == [before] * 2, (
            f"partition {before} lost its leader with 300 of 1,000 bytes in the batch: the next 700 belong to the same"
            f" batch, and went to {rest}"
        )
        after = [partitioner.partition("flights", left, 1000) for _ in range(2)][-1]
        assert after in left, f"partition {after} was drawn for a new batch, and has no leader"
    for _ in range(20):
        partitioner = impl.StickyPartitioner(Random(chance.random()), 1000)
        partitioner.partition("flights", (0, 1, 2, 3), 1000)
        found = partitioner.partition("flights", (1, 3), 400)
        assert found in (1, 3), (
            f"a batch became full while 0, 1, 2 and 3 had a leader; for the next record only 1 and 3 have one, and it"
            f" went to {found}: draw when the next record comes, from those that are available then"
        )


@pytest.mark.task("8.3", points=1)
def test_a_new_batch_begins_to_count_at_zero(impl, chance):
    """Batches of 1,000 bytes: two records of 900 make one, 800 bytes too large. The next ten records of 100 make a
    whole batch for the next partition."""
    for _ in range(20):
        partitioner = impl.StickyPartitioner(Random(chance.random()), 1000)
        for _ in range(2):
            partitioner.partition("flights", (0, 1, 2, 3), 900)
        found = [partitioner.partition("flights", (0, 1, 2, 3), 100) for _ in range(10)]
        assert len(set(found)) == 1, (
            f"a batch ended with 1,800 bytes; the next 1,000 bytes make one batch, and went to {found}: a new batch"
            f" begins to count at 0"
        )


@pytest.mark.task("8.3", points=1)
def test_partitions_that_appear_later_are_used_too(impl, chance):
    """A topic begins with two partitions and gets a third and a fourth: within 100 batches both get some."""
    partitioner = impl.StickyPartitioner(Random(chance.random()), 100)
    for _ in range(10):
        partitioner.partition("flights", (0, 1), 100)
    found = {partitioner.partition("flights", (0, 1, 2, 3), 100) for _ in range(100)}
    assert {2, 3} <= found, (
        f"partitions 2 and 3 appeared after 10 batches; the next 100 went to {sorted(found)} only:"
        f" draw from those that are available now"
    )


@pytest.mark.task("8.3", points=1)
def test_each_topic_has_a_partition_of_its_own(impl, chance):
    """Two topics in turn, sixty times: what goes to one does not fill a batch of the other, also where both have the
    same partition."""
    for _ in range(60):
        partitioner = impl.StickyPartitioner(Random(chance.random()), 1000)
        found = {"a": [], "b": []}
        for number in range(20):
            topic = "ab"[number % 2]
            found[topic].append(partitioner.partition(topic, (0, 1, 2), 100))
        for topic, partitions in found.items():
            assert len(set(partitions)) == 1, f"ten records of topic {topic} make one batch, and went to {partitions}"


@pytest.mark.task("8.3", points=1)
def test_all_partitions_get_about_the_same(impl, chance):
    """3,000 batches for five partitions: each gets at least 400, and each follows on each, itself included. Nor do 40
    producers all begin with the same one."""
    partitioner = impl.StickyPartitioner(Random(chance.random()), 1)
    found = [partitioner.partition("flights", (0, 1, 2, 3, 4), 1) for _ in range(3000)]
    counts = Counter(found)
    assert min(counts[p] for p in range(5)) >= 400, (
        f"of 3,000 batches the partitions got {dict(sorted(counts.items()))}"
    )
    missing = sorted({(one, other) for one in range(5) for other in range(5)} - set(pairwise(found)))
    assert not missing, (
        f"in 3,000 batches partition {missing[0][1]} never followed on {missing[0][0]}: draw each time from all of them"
    )
    chances = [Random(chance.random()) for _ in range(40)]
    first = {impl.StickyPartitioner(random, 1000).partition("flights", (0, 1, 2, 3, 4), 1) for random in chances}
    assert len(first) > 1, f"40 producers all begin with partition {min(first)}"


@pytest.mark.task("8.3", points=1)
def test_the_chance_that_is_given_decides(impl, chance):
    """Two partitioners with the same chance, 40 batches each: they draw the same partitions."""
    number = chance.random()
    one, other = (
        [partitioner.partition("flights", (0, 1, 2, 3, 4), 100) for _ in range(40)]
        for partitioner in (impl.StickyPartitioner(Random(number), 100) for _ in range(2))
    )
    assert one == other, f"two partitioners with the same chance went to {one[:6]}… and {other[:6]}…: use `random`"
