"""What lab 05 asks of a transfer. Files are real, and so are most sockets: small ones that never wait. Where a check
needs to decide what a socket takes, the socket follows a script."""

import os
import socket
import ssl
import tempfile
import tracemalloc
from contextlib import ExitStack, contextmanager

import pytest

from pykraft.course.lessons.zero_copy.certificate import reading_side, sending_side

SMALL_BUFFER = 16_384
PIECE = 32_768
MOST_TURNS = 10_000
PATIENCE_S = 2
LARGE = 64 << 20
"""A file of this many bytes, none of which takes room on the disk: in the memory of a program it is seen."""
LITTLE = 1 << 20
"""More than this is not needed for a piece."""


@pytest.fixture
def keep():
    """Closes what a check has opened."""
    with ExitStack() as stack:
        yield stack


def file_of(keep, data):
    """The descriptor of an open file with these bytes."""
    number, path = tempfile.mkstemp()
    os.unlink(path)  # the system removes it when the descriptor is closed
    keep.callback(os.close, number)
    os.write(number, data)
    return number


def connection(keep, buffer_bytes=SMALL_BUFFER):
    """Two ends: the first never waits, and takes little until the other one reads."""
    out, end = socket.socketpair()
    out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
    out.setblocking(False)
    end.settimeout(PATIENCE_S)
    keep.callback(out.close)
    keep.callback(end.close)
    return out, end


def encrypted(keep, buffer_bytes=SMALL_BUFFER):
    """The same, with TLS on top."""
    out, end = connection(keep, buffer_bytes)
    sides = [
        sending_side().wrap_socket(out, server_side=True, do_handshake_on_connect=False),
        reading_side().wrap_socket(end, do_handshake_on_connect=False),
    ]
    for side in sides:
        side.setblocking(False)
        keep.callback(side.close)
    waiting = list(sides)
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    return sides


def arrived(end, most=1 << 30):
    """What has come, up to so many bytes, without waiting."""
    found = b""
    end.setblocking(False)
    try:
        while len(found) < most and (more := end.recv(min(65_536, most - len(found)))):
            found += more
    except (BlockingIOError, ssl.SSLWantReadError):
        pass
    return found


@contextmanager
def counted_sendfile(impl, monkeypatch):
    """What each call of os.sendfile in a block has sent, 0 where it raised, whatever name the code has for it."""
    sent, plain = [], os.sendfile

    def counting(*args, **kwargs):
        sent.append(0)
        sent[-1] = plain(*args, **kwargs)
        return sent[-1]

    with monkeypatch.context() as patch:
        patch.setattr(os, "sendfile", counting)
        for name, value in list(vars(impl).items()):
            if value is plain:
                patch.setattr(impl, name, counting)
        yield sent


@contextmanager
def gone_after(most, impl, monkeypatch):
    """In a block, the first call of os.sendfile sends at most so many bytes, and the next one finds the reader gone."""
    plain, calls = os.sendfile, []

    def sending(out_fd, in_fd, offset, count):
        calls.append(offset)
        if len(calls) > 1:
            raise BrokenPipeError("the reader is gone")
        return plain(out_fd, in_fd, offset, min(count, most))

    with monkeypatch.context() as patch:
        patch.setattr(os, "sendfile", sending)
        for name, value in list(vars(impl).items()):
            if value is plain:
                patch.setattr(impl, name, sending)
        yield


def memory_of(action):
    """The most bytes that a call has had in memory at once."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class Scripted:
    """A connection that takes as much at each call as the script says, or raises what it says."""

    def __init__(self, *script):
        self.script = list(script)
        self.offered = []
        self.taken = b""

    def send(self, data, flags=0):
        assert self.script, "the socket was full, or had taken a part, and you called it again in the same turn"
        step = self.script.pop(0)
        self.offered.append(len(data))
        if isinstance(step, BaseException):
            raise step
        self.taken += bytes(data[:step])
        return min(step, len(data))

    def sendall(self, data, flags=0):
        raise AssertionError("sendall does not say how much a full connection took: call send, once")

    def fileno(self):
        raise AssertionError("sendfile was called, or the like: these bytes would go out in plain text")


def same(found, wanted, about):
    assert len(found) == len(wanted), f"{about}: {len(found):,} bytes arrived instead of {len(wanted):,}"
    at = next((n for n, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1]), None)
    assert at is None, f"{about}: byte {at:,} of those that arrived differs from the file"


# --- task 5.1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("5.1", points=2)
def test_a_piece_leaves_and_its_size_is_returned(impl, chance, keep):
    """Ten pieces of up to 2,000 bytes from anywhere in a file, also its first and its last byte alone."""
    data = chance.randbytes(20_000)
    file, (out, end) = file_of(keep, data), connection(keep)
    pieces = [(chance.randrange(18_000), chance.randrange(1, 2_000)) for _ in range(8)]
    for position, count in (*pieces, (0, 1), (19_999, 1)):
        sent = impl.send_piece(out, file, position, count)
        assert sent == count, f"a piece of {count:,} bytes left through an empty socket, but you returned {sent}"
        same(arrived(end), data[position : position + count], f"{count:,} bytes from {position:,} on")


@pytest.mark.task("5.1", points=2)
def test_the_kernel_sends_and_the_program_reads_nothing(impl, chance, keep, monkeypatch):
    """os.sendfile is watched, and your memory: a piece of 100 bytes, and one of 64 MB for a small socket."""
    data = chance.randbytes(5_000)
    file, (out, end) = file_of(keep, data), connection(keep)
    with counted_sendfile(impl, monkeypatch) as sent:
        impl.send_piece(out, file, 30, 100)
    assert sent == [100], f"one call of os.sendfile sends 100 bytes; yours sent {sent or 'none of them that way'}"
    arrived(end)
    os.ftruncate(file, LARGE)
    with counted_sendfile(impl, monkeypatch) as sent:
        most = memory_of(lambda: impl.send_piece(out, file, 0, LARGE))
    assert len(sent) == 1, f"a piece is one call of os.sendfile, also where the socket takes a part: {len(sent)} calls"
    assert most < LITTLE, f"{most:,} bytes of the file were in your memory: the kernel sends them without you"


@pytest.mark.task("5.1", points=2)
def test_a_socket_that_takes_a_part_is_no_error(impl, chance, keep):
    """A piece of 1 MB for a socket with room for a few KB: you return how many bytes left, and these bytes arrive."""
    data = chance.randbytes(1 << 20)
    file, (out, end) = file_of(keep, data), connection(keep)
    sent = impl.send_piece(out, file, 100, len(data) - 100)
    found = arrived(end)
    assert sent == len(found) > 0, f"{len(found):,} bytes arrived, but you returned {sent}"
    same(found, data[100 : 100 + sent], "what the socket took")


@pytest.mark.task("5.1", points=1)
def test_a_full_socket_takes_nothing_and_that_is_no_error(impl, chance, keep):
    """The same socket many times, while the other end does not read."""
    data = chance.randbytes(1 << 20)
    file, (out, end) = file_of(keep, data), connection(keep)
    total = 0
    for _ in range(MOST_TURNS):
        try:
            sent = impl.send_piece(out, file, total, len(data) - total)
        except BlockingIOError:
            pytest.fail(f"the socket was full after {total:,} bytes: return 0, and let the caller wait", pytrace=False)
        if sent == 0:
            break
        total += sent
    assert sent == 0, f"after {MOST_TURNS:,} calls and {total:,} bytes you still did not return 0"
    same(arrived(end), data[:total], "what had gone before the socket was full")


@pytest.mark.task("5.1", points=2)
def test_a_file_that_ends_too_early_raises_eoferror(impl, chance, keep):
    """A piece that begins at the end of the file, and one that begins after it. Of a piece that reaches beyond the end,
    the part that exists leaves."""
    data = chance.randbytes(5_000)
    file, (out, end) = file_of(keep, data), connection(keep)
    try:
        sent = impl.send_piece(out, file, 4_000, 3_000)
    except EOFError:
        pytest.fail("the file has 1,000 bytes from byte 4,000 on: send these, and raise EOFError where it has none")
    assert sent == 1_000, f"the file has 1,000 bytes from byte 4,000 on, but you returned {sent}"
    same(arrived(end), data[4_000:], "the part that exists")
    for position in (5_000, 6_000):
        with pytest.raises(EOFError):
            sent = impl.send_piece(out, file, position, 100)
            pytest.fail(f"of 5,000 bytes, from {position:,} on, you returned {sent}, not EOFError", pytrace=False)


@pytest.mark.task("5.1", points=1)
def test_a_reader_that_is_gone_raises_its_error(impl, chance, keep):
    """The other end is closed: the error goes to the caller, which closes the connection. 0 would make it wait."""
    file, (out, end) = file_of(keep, chance.randbytes(5_000)), connection(keep)
    end.close()
    with pytest.raises(OSError, match=r"Broken pipe|reset|not connected|[Ss]ocket") as told:
        sent = impl.send_piece(out, file, 0, 5_000)
        pytest.fail(f"the reader is gone, but you returned {sent} instead of raising the error", pytrace=False)
    assert not isinstance(told.value, BlockingIOError), "the reader is gone: that is not a full socket"


# --- task 5.2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.task("5.2", points=1)
def test_a_copy_sends_the_bytes_of_the_file(impl, chance, keep):
    """Pieces from anywhere in a file, for a connection that takes everything. The file's own position stays."""
    data = chance.randbytes(20_000)
    file = file_of(keep, data)
    os.lseek(file, 77, os.SEEK_SET)
    for position, count in [(0, 1), (19_999, 1), (chance.randrange(9_000), chance.randrange(1, 9_000))]:
        out = Scripted(1 << 20)
        sent = impl.copy_piece(out, file, position, count)
        assert sent == count, f"the connection took all {count:,} bytes, but you returned {sent}"
        same(out.taken, data[position : position + count], f"{count:,} bytes from {position:,} on")
    at = os.lseek(file, 0, os.SEEK_CUR)
    assert at == 77, f"the file's own position was 77 and is {at}: all answers share it, so read with os.pread"


@pytest.mark.task("5.2", points=2)
def test_a_copy_returns_what_was_taken_and_not_what_was_offered(impl, chance, keep):
    """A connection that takes 1 byte, some, and all but one."""
    data = chance.randbytes(20_000)
    file = file_of(keep, data)
    for takes in (1, chance.randrange(2, 9_998), 9_999):
        out = Scripted(takes)
        sent = impl.copy_piece(out, file, 500, 10_000)
        assert sent == takes, f"10,000 bytes were offered and {takes:,} were taken, but you returned {sent}"
        same(out.taken, data[500 : 500 + takes], "what was taken")


@pytest.mark.task("5.2", points=1)
def test_no_more_is_read_than_a_piece(impl, chance, keep):
    """A gigabyte is wanted from a file of 100,000 bytes: you offer 32,768 at once. And 64 MB of a large file, while
    your memory is watched: a thousand readers must need little."""
    data = chance.randbytes(100_000)
    file = file_of(keep, data)
    for count in (1 << 30, PIECE + 1, PIECE, PIECE - 1):
        out = Scripted(1 << 30)
        impl.copy_piece(out, file, 50, count)
        wanted = min(count, PIECE)
        assert out.offered == [wanted], f"{count:,} bytes are wanted: offer {wanted:,} at once, not {out.offered}"
    os.ftruncate(file, LARGE)
    most = memory_of(lambda: impl.copy_piece(Scripted(1 << 30), file, 50, LARGE))
    assert most < LITTLE, f"{most:,} bytes of a large file were in your memory at once: read at most {PIECE:,}"


@pytest.mark.task("5.2", points=2)
def test_a_connection_that_is_not_ready_takes_nothing_and_that_is_no_error(impl, chance, keep):
    """A plain socket raises BlockingIOError, a TLS connection ssl.SSLWantWriteError. In the next call you offer the
    same bytes."""
    data = chance.randbytes(20_000)
    file = file_of(keep, data)
    for error in (BlockingIOError(), ssl.SSLWantWriteError()):
        kind, out = type(error).__name__, Scripted(error, 700)
        try:
            sent = [impl.copy_piece(out, file, 300, 1_000) for _ in range(2)]
        except OSError:
            pytest.fail(
                f"the connection raised {kind}, since it was full: return 0, and let the caller wait", pytrace=False
            )
        assert sent == [0, 700], f"the connection raised {kind}, then took 700 bytes, but you returned {sent}"
        same(out.taken, data[300:1_000], "what was taken in the end")


@pytest.mark.task("5.2", points=1)
def test_a_copy_beyond_the_end_of_the_file_raises_eoferror(impl, chance, keep):
    """At the end of the file and after it. Of a piece that reaches beyond the end, the part that exists is sent. An
    error of the connection goes to the caller unchanged."""
    file = file_of(keep, chance.randbytes(5_000))
    try:
        sent = impl.copy_piece(Scripted(1 << 20), file, 4_000, 3_000)
    except EOFError:
        pytest.fail("the file has 1,000 bytes from byte 4,000 on: send these, and raise EOFError where it has none")
    assert sent == 1_000, f"the file has 1,000 bytes from byte 4,000 on, but you returned {sent}"
    for position in (5_000, 6_000):
        with pytest.raises(EOFError):
            sent = impl.copy_piece(Scripted(100), file, position, 100)
            pytest.fail(f"of 5,000 bytes, from {position:,} on, you returned {sent}, not EOFError", pytrace=False)
    for error in (BrokenPipeError("gone"), ssl.SSLError("broken")):
        with pytest.raises(type(error)):
            sent = impl.copy_piece(Scripted(error), file, 0, 100)
            pytest.fail(f"the connection raised {error!r}, but you returned {sent}", pytrace=False)


# --- task 5.3 ---------------------------------------------------------------------------------------------------------


def drained(transfer, out, end, chance, most):
    """All that arrives while the transfer and a reader take turns; the reader takes a random count each time."""
    found, told = b"", 0
    for _ in range(MOST_TURNS):
        told += transfer.transfer_to(out)
        found += arrived(end, chance.randrange(1, most))
        if not transfer.remaining:
            return found + arrived(end), told
    raise AssertionError(f"after {MOST_TURNS:,} turns {transfer.remaining:,} bytes have not left")


@pytest.mark.task("5.3", points=3)
def test_the_whole_range_arrives_however_little_the_socket_takes(impl, chance, keep, monkeypatch):
    """A range of 300,000 bytes from the middle of a file, and a reader that takes sometimes more, sometimes less. All
    of them leave by os.sendfile, which is watched."""
    data = chance.randbytes(400_000)
    file, (out, end) = file_of(keep, data), connection(keep)
    start = chance.randrange(1, 90_000)
    transfer = impl.Transfer(file, start, 300_000)
    assert transfer.remaining == 300_000, f"nothing has left yet, but remaining is {transfer.remaining}"
    with counted_sendfile(impl, monkeypatch) as sent:
        found, told = drained(transfer, out, end, chance, 30_000)
    same(found, data[start : start + 300_000], "the range")
    assert sum(sent) == 300_000, f"of 300,000 bytes {sum(sent):,} left by os.sendfile: a plain socket gets all that way"
    assert told == 300_000, f"300,000 bytes left, but the turns returned {told:,} in all"


@pytest.mark.task("5.3", points=1)
def test_a_turn_ends_when_the_socket_is_full_and_not_before(impl, chance, keep):
    """A large range: after a turn the socket takes no further byte, and what left and what remains add up."""
    data = chance.randbytes(1 << 20)
    file, (out, end) = file_of(keep, data), connection(keep)
    transfer = impl.Transfer(file, 0, len(data))
    for _ in range(3):
        before = transfer.remaining
        sent = transfer.transfer_to(out)
        assert 0 < sent < len(data), f"one turn into a small socket returned {sent:,} of {len(data):,} bytes"
        assert sent + transfer.remaining == before, (
            f"{sent:,} bytes left, but remaining went from {before:,} to {transfer.remaining:,}"
        )
        with pytest.raises(BlockingIOError):
            out.send(b"x")
            pytest.fail(f"the turn ended after {sent:,} bytes, but the socket took one more", pytrace=False)
        assert transfer.transfer_to(out) == 0, "the socket is full, but a turn returned that bytes left"
        assert len(arrived(end)) == sent, "the turn returned another number of bytes than arrived"


@pytest.mark.task("5.3", points=1)
def test_a_turn_goes_on_as_long_as_the_socket_has_room(impl, chance, keep):
    """A range of three pieces and a TLS connection with room for all of them: one turn sends the whole range."""
    data = chance.randbytes(3 * PIECE)
    file, (out, _) = file_of(keep, data), encrypted(keep, 8 * PIECE)
    sent = impl.Transfer(file, 0, len(data)).transfer_to(out)
    assert sent == len(data), (
        f"the turn ended after {sent:,} of {len(data):,} bytes, but the socket has room: you are not called for the"
        f" rest, since a socket reports room only after it was full"
    )


@pytest.mark.task("5.3", points=2)
def test_a_file_truncated_on_the_way_raises_eoferror_and_remaining_is_right(impl, chance, keep, monkeypatch):
    """A range of 200,000 bytes; after the first turn the file is truncated to 100,000, as followers do. And a reader
    that takes 1,000 bytes and is gone before the turn ends."""
    data = chance.randbytes(200_000)
    file, (out, end) = file_of(keep, data), connection(keep)
    transfer = impl.Transfer(file, 0, 200_000)
    transfer.transfer_to(out)
    os.ftruncate(file, 100_000)
    found = b""
    with pytest.raises(EOFError):
        for _ in range(MOST_TURNS):
            found += arrived(end)
            transfer.transfer_to(out)
        pytest.fail(f"the file was truncated after {len(found):,} bytes, and the caller waits forever", pytrace=False)
    same(found + arrived(end), data[:100_000], "the bytes before the truncation")
    assert transfer.remaining == 100_000, f"100,000 of 200,000 bytes left, but remaining is {transfer.remaining:,}"
    transfer, (out, _) = impl.Transfer(file, 0, 50_000), connection(keep)
    with gone_after(1_000, impl, monkeypatch), pytest.raises(BrokenPipeError):
        transfer.transfer_to(out)
        pytest.fail("the reader was gone after 1,000 bytes, and the turn raised no error", pytrace=False)
    assert transfer.remaining == 49_000, (
        f"1,000 of 50,000 bytes left, then the reader was gone: 49,000 remain, but remaining is {transfer.remaining:,}"
    )


@pytest.mark.task("5.3", points=2)
def test_over_tls_the_range_arrives_and_nothing_leaves_in_plain_text(impl, chance, keep):
    """A range of 100,000 bytes through a real TLS connection that takes little at once."""
    data = chance.randbytes(120_000)
    file, (out, end) = file_of(keep, data), encrypted(keep)
    transfer = impl.Transfer(file, 7, 100_000)
    try:
        found, told = drained(transfer, out, end, chance, 200_000)
    except ssl.SSLError as error:
        pytest.fail(f"the reader refused what came: {error.reason}", pytrace=False)
    same(found, data[7:100_007], "the range")
    assert told == 100_000, f"100,000 bytes left, but the turns returned {told:,} in all"


@pytest.mark.task("5.3", points=1)
def test_nothing_is_sent_of_an_empty_range(impl, keep):
    """A range of no bytes, at the end of a file: you return 0, and it is no error."""
    file, (out, end) = file_of(keep, b"abc"), connection(keep)
    transfer = impl.Transfer(file, 3, 0)
    sent = transfer.transfer_to(out)
    assert (sent, transfer.remaining, arrived(end)) == (0, 0, b""), f"an empty range, but you returned {sent}"
