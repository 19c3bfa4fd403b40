"""What lab 18 asks of a sequence window. Verdicts are compared with those of pykraft's own leader, whose batches Apache
Kafka answers with the same errors."""

import pytest

from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.records.batch import RecordBatch
from pykraft.records.builder import RecordBatchBuilder
from pykraft.storage.producer_state import AppendOrigin, ProducerEntry

LARGEST = 2**31 - 1
VERDICTS = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "refuse",
    ErrorCode.INVALID_PRODUCER_EPOCH: "fence",
}


def batch_of(epoch, first, records, base_offset):
    builder = RecordBatchBuilder(base_offset, producer_id=7, producer_epoch=epoch, base_sequence=first)
    for _ in range(records):
        builder.append(0, None, b"")
    return RecordBatch(memoryview(builder.build()))


class Leader:
    """pykraft's own: the same questions, the same answers."""

    def __init__(self):
        self.entry = ProducerEntry(7)
        self.end = 0

    def ask(self, epoch, first, records):
        batch = batch_of(epoch, first, records, self.end)
        known = self.entry.duplicate_of(batch)
        if known is not None:
            return known.first_offset
        try:
            self.entry = self.entry.after_batch(batch, AppendOrigin.CLIENT)
        except KafkaError as error:
            return VERDICTS[error.code]
        self.end += records
        return "append"


class Dialogue:
    """The learner's window and the leader, asked the same."""

    def __init__(self, impl):
        self.window = impl.SequenceWindow()
        self.leader = Leader()
        self.said = []

    def ask(self, epoch, first, records=1):
        """Ask both; AssertionError if they differ."""
        base_offset = self.leader.end
        wanted = self.leader.ask(epoch, first, records)
        found = self.window.check(epoch, first, records)
        before = ", ".join(self.said[-6:]) or "nothing"
        question = f"sequence {first} of {records} records in epoch {epoch}"
        assert found == wanted, f"after {before}: {question} gets {found!r}, Kafka's leaders say {wanted!r}"
        if wanted == "append":
            self.window.append(epoch, first, records, base_offset)
        self.said.append(f"({epoch}, {first}, {records}) -> {wanted}")
        return wanted

    def expect(self, verdict, epoch, first, records=1):
        """Ask both, where the leader is known to say this."""
        said = self.ask(epoch, first, records)
        assert said == verdict, f"pykraft's leader says {said!r}: this check is wrong, not you"


# --- task 18.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("18.1", points=1)
def test_the_next_number_is_one_more(impl, chance):
    """Numbers below the largest."""
    for sequence in (0, 1, 41, *(chance.randrange(LARGEST) for _ in range(20))):
        found = impl.next_sequence(sequence)
        assert found == sequence + 1, f"after {sequence} comes {found}"


@pytest.mark.task("18.1", points=2)
def test_after_the_largest_number_comes_zero(impl):
    """2**31 - 1 is the largest: Java's int has no more."""
    found = impl.next_sequence(LARGEST)
    assert found == 0, f"after {LARGEST} comes {found}, but a sequence is an int32 and begins at 0 again"


@pytest.mark.task("18.1", points=2)
def test_a_batch_may_go_over_the_end_of_the_numbers(impl, chance):
    """Batches that end before, at and after the largest number."""
    for first, records, wanted in ((0, 1, 0), (5, 10, 14), (LARGEST - 2, 3, LARGEST), (LARGEST - 2, 5, 1)):
        found = impl.last_sequence(first, records)
        assert found == wanted, f"{records} records from {first} on end with {wanted}, not with {found}"
    for _ in range(20):
        back = chance.randrange(1, 1000)
        found = impl.last_sequence(LARGEST - back, back + 10)
        assert found == 8, f"{back + 10} records from {LARGEST - back} on end with 8, not with {found}"


# --- task 18.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("18.2", points=1)
def test_batches_in_order_are_appended(impl, chance):
    """Twenty batches of one to nine records, each where the one before ends."""
    dialogue, first = Dialogue(impl), 0
    for _ in range(20):
        records = chance.randrange(1, 10)
        dialogue.expect("append", 0, first, records)
        first += records


@pytest.mark.task("18.2", points=1)
def test_of_an_unknown_producer_any_sequence_is_taken(impl):
    """A window that knows nothing: retention may have deleted all that the producer wrote before."""
    Dialogue(impl).expect("append", 3, 4711)


@pytest.mark.task("18.2", points=2)
def test_each_of_the_last_five_batches_is_answered_again_with_its_offset(impl, chance):
    """Batches of several records; then each of the last five, in any order."""
    dialogue, first, sent = Dialogue(impl), 0, []
    for _ in range(9):
        records = chance.randrange(2, 6)
        dialogue.ask(0, first, records)
        sent.append((first, records))
        first += records
    for known in chance.sample(sent[-5:], 5):
        dialogue.ask(0, *known)


@pytest.mark.task("18.2", points=2)
def test_an_older_batch_is_refused(impl):
    """Six batches: the first is forgotten, and its repetition is out of order."""
    dialogue = Dialogue(impl)
    for sequence in range(6):
        dialogue.ask(0, sequence)
    dialogue.expect("refuse", 0, 0)
    dialogue.expect(1, 0, 1)


@pytest.mark.task("18.2", points=2)
def test_a_gap_is_refused_and_changes_nothing(impl):
    """Sequence 3 after 1; then 2, which is next, and 3 again."""
    dialogue = Dialogue(impl)
    for sequence, wanted in ((0, "append"), (1, "append"), (3, "refuse"), (2, "append"), (3, "append")):
        dialogue.expect(wanted, 0, sequence)


@pytest.mark.task("18.2", points=2)
def test_a_repetition_has_the_same_first_sequence_and_as_many_records(impl):
    """A batch that begins as one on record and is shorter or longer; one that ends as one on record."""
    dialogue = Dialogue(impl)
    dialogue.ask(0, 0, 4)
    dialogue.ask(0, 4, 4)
    for first, records in ((4, 3), (4, 5), (5, 3), (0, 8)):
        dialogue.expect("refuse", 0, first, records)
    dialogue.expect(0, 0, 0, 4)


@pytest.mark.task("18.2", points=2)
def test_a_new_epoch_begins_at_zero_and_forgets_the_batches_of_the_old_one(impl):
    """Epoch 1 after epoch 0: sequence 2 is refused, 0 is appended, and then 1 of epoch 1 is no repetition. Then
    epoch 7: some epochs have written nothing here."""
    dialogue = Dialogue(impl)
    dialogue.ask(0, 0)
    dialogue.ask(0, 1)
    dialogue.expect("refuse", 1, 2)
    dialogue.expect("append", 1, 0)
    dialogue.expect("append", 1, 1)
    dialogue.expect(2, 1, 0)
    dialogue.expect("refuse", 7, 2)
    dialogue.expect("append", 7, 0)


@pytest.mark.task("18.2", points=2)
def test_an_old_epoch_is_fenced_even_when_it_repeats(impl):
    """A zombie of epoch 0 after epoch 1: its next batch, and a repetition of what it has written."""
    dialogue = Dialogue(impl)
    dialogue.ask(0, 0)
    dialogue.ask(1, 0)
    dialogue.expect("fence", 0, 0)
    dialogue.expect("fence", 0, 1)


@pytest.mark.task("18.2", points=2)
def test_the_order_goes_on_over_the_end_of_the_numbers(impl):
    """A producer that begins shortly before the largest number."""
    dialogue = Dialogue(impl)
    dialogue.expect("append", 0, LARGEST - 3, 3)
    dialogue.expect("append", 0, LARGEST, 4)
    dialogue.expect("append", 0, 3, 2)
    dialogue.expect("append", 0, 5, 1)
    dialogue.expect(3, 0, LARGEST, 4)


QUESTIONS = [(epoch, first, records) for epoch in (1, 2, 3) for first in range(9) for records in (1, 2)]


@pytest.mark.task("18.2", points=2)
def test_to_ask_changes_nothing(impl):
    """One batch is checked and not appended: then every other batch is answered as before. Batches of all kinds."""
    for asked in QUESTIONS:
        dialogue = Dialogue(impl)
        for first in (0, 2, 4):
            dialogue.ask(2, first, 2)
        window, wanted = dialogue.window, Dialogue(impl)
        window.check(*asked)
        for first in (0, 2, 4):
            wanted.ask(2, first, 2)
        for question in QUESTIONS:
            found, before = window.check(*question), wanted.window.check(*question)
            assert found == before, (
                f"(epoch, sequence, records) {question} got {before!r}, and gets {found!r} after {asked} was checked "
                "and not appended: check() looks at a batch and changes nothing"
            )
    window = impl.SequenceWindow()
    window.check(3, 7, 1)
    found = window.check(0, 0, 1)
    assert found == "append", f"nothing was appended yet, so any batch may be, and after a check you say {found!r}"


@pytest.mark.task("18.2", points=2)
def test_a_long_dialogue_gets_kafkas_verdicts(impl, chance):
    """300 batches in several epochs: in order, repeated, from the past and from the future; begun near the end of the
    numbers, and from 0."""
    for begin in (0, LARGEST - 9):
        long_dialogue(impl, chance, begin)


def long_dialogue(impl, chance, sequence):
    dialogue, epoch, sent = Dialogue(impl), 0, []
    for _ in range(300):
        drawn = chance.random()
        if drawn < 0.5:
            records = chance.randrange(1, 4)
            if dialogue.ask(epoch, sequence, records) == "append":
                sent.append((epoch, sequence, records))
                sequence = (sequence + records) % (LARGEST + 1)
        elif drawn < 0.8 and sent:
            dialogue.ask(*chance.choice(sent[-8:]))
        elif drawn < 0.97:
            ahead = (sequence + chance.randrange(1, 4)) % (LARGEST + 1)
            dialogue.ask(max(0, epoch - chance.randrange(2)), ahead)
        else:
            epoch, sequence = epoch + 1, 0


# --- task 18.3 --------------------------------------------------------------------------------------------------------


def a_log(chance, producers, batches):
    """A log of several producers in turn, and of some that are not idempotent."""
    log, offset, next_of = [], 0, {}
    for _ in range(batches):
        producer_id, records = chance.choice((-1, *producers)), chance.randrange(1, 4)
        epoch, first = (-1, -1) if producer_id == -1 else next_of.get(producer_id, (0, 0))
        if producer_id != -1 and chance.random() < 0.1:
            epoch, first = epoch + 1, 0
        next_of[producer_id] = epoch, first + records
        log.append((producer_id, epoch, first, records, offset))
        offset += records
    return log


@pytest.mark.task("18.3", points=2)
def test_after_a_restart_the_windows_are_what_they_were(impl, chance):
    """A log of four producers in turn: the windows that were kept on the way, and those made of the log, say the
    same."""
    log = a_log(chance, (0, 5, 8, 9), 120)
    rebuilt = impl.windows_of(log)
    kept = {}
    for producer_id, *batch in log:
        if producer_id != -1:
            kept.setdefault(producer_id, impl.SequenceWindow()).append(*batch)
    for producer_id, epoch, first, records, _ in log:
        if producer_id != -1:
            wanted = kept[producer_id].check(epoch, first, records)
            found = rebuilt[producer_id].check(epoch, first, records)
            assert found == wanted, f"producer {producer_id} had {wanted!r} before the restart and {found!r} after it"


@pytest.mark.task("18.3", points=1)
def test_batches_without_a_producer_id_have_no_window(impl, chance):
    """A log in which some batches come from producers that are not idempotent."""
    found = impl.windows_of(a_log(chance, (0, 5), 60))
    assert set(found) == {0, 5}, f"the producers with an id are 0 and 5, and there are windows for {sorted(found)}"


@pytest.mark.task("18.3", points=2)
def test_the_log_is_taken_as_it_is(impl):
    """A cleaner has removed batches: there are gaps between the sequences, and epoch 2 does not begin at 0."""
    log = [(7, 0, 4, 2, 10), (7, 0, 9, 1, 15), (7, 2, 3, 2, 20), (7, 2, 8, 3, 30)]
    for count, question, wanted in ((2, (0, 10, 1), "append"), (3, (2, 3, 2), 20), (4, (2, 11, 1), "append")):
        found = impl.windows_of(log[:count])[7].check(*question)
        assert found == wanted, (
            f"after the log {log[:count]} the batch (epoch, sequence, records) {question} gets {wanted!r}, and you say "
            f"{found!r}: what is in the log was checked when it was appended"
        )


@pytest.mark.task("18.3", points=1)
def test_the_log_may_come_batch_by_batch(impl, chance):
    """An iterator, which can be read once only, and a log without any batch."""
    found = impl.windows_of(iter(a_log(chance, (3,), 30)))
    assert len(found) == 1, f"a log of one producer, read once, gives {len(found)} windows"
    found = impl.windows_of(iter(()))
    assert found == {}, f"an empty log gives {found}, not an empty dict"
