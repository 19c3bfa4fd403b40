"""Notebook 05 must turn red when a broker sends files wrongly; and what it measures with measures what it says."""

from __future__ import annotations

import mmap
import os
import socket
import ssl
import sys
import zlib
from pathlib import Path

import psutil
import pytest

from pykraft import Producer
from pykraft.course.authoring.execute import NotebookFailed
from pykraft.course.lessons.zero_copy.programs import Program, ProgramFailed
from pykraft.course.lessons.zero_copy.transfers import (
    SampleFile,
    Way,
    compare,
    connection,
    read_and_send,
    sendfile,
    through_tls,
    transfer,
)
from pykraft.course.lessons.zero_copy.two_brokers import BrokerApart
from pykraft.storage.disk.filesystem import OsFileRegion
from pykraft.viz.wire.byte_path import Move
from tests.notebooks.sections import NOTEBOOK, run

ZERO_COPY = NOTEBOOK.parent / "05_zero_copy.ipynb"
MEGABYTE = 1 << 20
PIECES = 8

SMALLER = "nb.pick = lambda small, full: max(2, small // 12)"
"""What is wrong shows with little data as well."""


@pytest.mark.long
def test_a_broker_that_copies_turns_notebook_05_red() -> None:
    copies = ("BrokerApart(OsFileRegion)", "BrokerApart(CopiedRegion)")
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*The broker copies less than 1 % of a fetch"):
        run("4. ", path=ZERO_COPY, before=SMALLER, changed=copies)


@pytest.mark.long
def test_records_that_are_not_compressed_turn_notebook_05_red() -> None:
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*Compression saves the broker more than sendfile"):
        run("5. ", path=ZERO_COPY, before=SMALLER, changed=('write("packed", "zstd")', 'write("packed", "none")'))


# --- what it measures with --------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(MEGABYTE * PIECES))
    return path


def in_pieces(file: int, out: socket.socket, size: int, piece: int) -> None:
    for position in range(0, size, piece):
        out.sendall(os.pread(file, piece, position))


def mapped(file: int, out: socket.socket, size: int, piece: int) -> None:
    with mmap.mmap(file, size, prot=mmap.PROT_READ) as seen, memoryview(seen) as view:
        out.sendall(view)


def a_fifth_of_a_second_of_work(file: int, out: socket.socket, size: int, piece: int) -> None:
    until = sum(os.times()[:2]) + 0.2
    while sum(os.times()[:2]) < until:
        pass
    out.sendall(os.pread(file, size, 0))


def broken(file: int, out: socket.socket, size: int, piece: int) -> None:
    out.sendall(bytes(size // 2))
    raise RuntimeError("half of it is missing")


@pytest.mark.parametrize("way", [in_pieces, read_and_send, sendfile, mapped])
@pytest.mark.parametrize("piece", [MEGABYTE, 10_000])
def test_every_byte_arrives_however_it_is_sent(way: Way, piece: int, file: Path) -> None:
    found = transfer(way, file, piece=piece, checks=True)
    assert found.checksum == zlib.crc32(file.read_bytes())
    assert found.gigabytes == pytest.approx(file.stat().st_size / 1e9)


def test_over_tls_every_byte_arrives_and_a_kernel_that_sends_past_it_is_refused(file: Path) -> None:
    found = transfer(in_pieces, file, encrypts=True, checks=True)
    assert found.checksum == zlib.crc32(file.read_bytes())
    with pytest.raises(ssl.SSLError):
        transfer(sendfile, file, encrypts=True)


def test_what_a_way_puts_into_a_tls_connection_is_seen_before_it_is_decrypted() -> None:
    text = b"gate A1 " * 512
    encrypted, past = through_tls(in_pieces, text), through_tls(sendfile, text)
    assert encrypted.received == text and encrypted.refusal == "" and text[:16] not in encrypted.on_the_wire
    assert past.received == b"" and past.refusal != "" and past.on_the_wire.endswith(text)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may copy")
@pytest.mark.parametrize(("way", "gets_new"), [(in_pieces, False), (mapped, False), (sendfile, True)])
def test_on_linux_a_socket_holds_pages_of_the_file_after_sendfile_alone(way: Way, gets_new: bool) -> None:
    old, new = b"a" * 16_384, b"b" * 16_384
    with SampleFile(old) as file, connection() as (out, end):
        way(file.number, out, len(old), len(old))
        os.pwrite(file.number, new, 0)
        assert end.recv(len(old)) == (new if gets_new else old)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system chooses the cores itself")
def test_a_sender_runs_on_one_core_and_the_notebook_has_all_of_them_again(file: Path) -> None:
    def core_counter(file: int, out: socket.socket, size: int, piece: int) -> None:
        cores = len(os.sched_getaffinity(0))
        out.sendall(bytes([cores]) * size)

    before = os.sched_getaffinity(0)
    found = transfer(core_counter, file, checks=True)
    assert found.checksum == zlib.crc32(b"\1" * file.stat().st_size)
    assert os.sched_getaffinity(0) == before


def test_the_work_is_counted_where_it_is_done(file: Path) -> None:
    found = transfer(a_fifth_of_a_second_of_work, file)
    assert 0.1 <= found.sender.cpu_s < 0.6
    assert found.reader_cpu_s < 0.1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts a process's calls")
def test_calls_are_counted_by_the_kernel(file: Path) -> None:
    counted = {way.__name__: transfer(way, file).sender for way in (in_pieces, sendfile, mapped)}
    assert PIECES <= counted["sendfile"].write_calls < PIECES + 10
    assert counted["sendfile"].bytes_written >= PIECES * MEGABYTE
    assert PIECES <= counted["in_pieces"].read_calls < PIECES + 10
    assert counted["in_pieces"].bytes_written < MEGABYTE, "send is not counted as a write"
    assert counted["mapped"].bytes_read < MEGABYTE


def test_calls_are_counted_by_their_names_and_the_way_of_the_bytes_follows_from_them(file: Path) -> None:
    size = PIECES * MEGABYTE
    paths = {way.__name__: transfer(way, file).path("x") for way in (in_pieces, read_and_send, sendfile, mapped)}
    assert (
        paths["in_pieces"].copied_in
        == Move("pread", PIECES, size)
        == paths["in_pieces"].copied_out._replace(call="pread")
    )
    assert paths["read_and_send"].copied_in == Move("preadv", PIECES, size)
    assert paths["sendfile"][1:3] == (None, None)
    lent = paths["sendfile"].lent
    assert lent is not None and lent.call == "sendfile" and lent.moved_bytes == size and lent.calls >= PIECES
    assert paths["mapped"].copied_in is None and paths["mapped"].lent is None
    assert (transfer(sendfile, file).copied_share, transfer(in_pieces, file).copied_share) == (0, 1)


def test_a_broker_sends_by_the_region_that_it_was_given(file: Path) -> None:
    class Halves(OsFileRegion):
        def send_to(self, socket_fileno: int, start: int) -> int:
            return os.write(socket_fileno, self.read(start, 50_000))

    records = [os.urandom(30_000) for _ in range(100)]
    shares = []
    for region in (OsFileRegion, Halves):
        broker = BrokerApart(region)
        try:
            with Producer(bootstrap_servers=broker.address, batch_size=900_000) as producer:
                for record in records:
                    producer.send("t", record)
            found = broker.read("t", records)
            shares.append(found.copied_share)
            assert found.gigabytes == pytest.approx(0.003)
        finally:
            broker.close()
    assert shares[0] < 0.01 and shares[1] > 0.99


def test_a_comparison_takes_the_best_of_its_rounds_for_each_number(file: Path) -> None:
    found = compare((read_and_send, sendfile), file, rounds=2)
    assert list(found) == ["read_and_send", "sendfile"]
    for one in found.values():
        assert one.gigabytes_a_second > 0 and 0 < one.sender_cpu < 10 and 0 < one.reader_cpu < 10


def test_a_sender_that_dies_is_told_with_its_last_words(file: Path) -> None:
    with pytest.raises(ProgramFailed, match="RuntimeError: half of it is missing"):
        transfer(broken, file)


def test_a_program_speaks_and_hears_and_ends_when_it_is_closed() -> None:
    program = Program("import sys\nfor line in sys.stdin: print(int(line) + int(sys.argv[1]), flush=True)", 3)
    program.say(4)
    assert program.hear() == "7"
    assert program.usage().cpu_s > 0
    program.close()
    assert not psutil.pid_exists(program.pid)


def test_a_program_that_ends_instead_of_speaking_is_told() -> None:
    program = Program("import sys; sys.exit(3)")
    with pytest.raises(ProgramFailed, match="it ended with code 3"):
        program.hear()
    program.close()
