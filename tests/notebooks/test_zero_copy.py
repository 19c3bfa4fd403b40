"""Notebook 05 must turn red when a broker sends files wrongly; and what it measures with measures what it says."""

from __future__ import annotations

import mmap
import os
import socket
import ssl
import zlib
from pathlib import Path

import nbformat
import psutil
import pytest

from pykraft.course.authoring.execute import NotebookFailed, execute, read
from pykraft.course.rigs.programs import Program, ProgramFailed, why_nobody_counts
from pykraft.course.rigs.transfers import compare, transfer
from tests.notebooks.sections import NOTEBOOK, cells_up_to, run

ZERO_COPY = NOTEBOOK.parent / "05_zero_copy.ipynb"
MEGABYTE = 1 << 20
PIECES = 8

A_REGION_THAT_FORGETS_WHAT_HAS_GONE = """
def send_to(region, socket_fileno, start):
    return os.sendfile(socket_fileno, region._file.descriptor.number, region._position, region._length - start)

OsFileRegion.send_to = send_to
"""
WITH = "with Cluster(nodes=1"
SMALLER = "nb.pick = lambda small, full: max(8, small // 12)"
"""What is wrong shows with little data as well."""


def test_a_broker_that_begins_a_file_anew_at_each_turn_turns_notebook_05_red() -> None:
    planted = (WITH, A_REGION_THAT_FORGETS_WHAT_HAS_GONE + WITH)
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*gets every record from both brokers"):
        run("5. ", path=ZERO_COPY, before=SMALLER, changed=planted)


@pytest.mark.long
def test_a_way_that_loses_its_place_turns_notebook_05_red() -> None:
    lost = (
        "position += os.sendfile(out.fileno(), file, position, piece)",
        "position += os.sendfile(out.fileno(), file, 0, piece)",
    )
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*the same bytes arrive"):
        run("2. ", path=ZERO_COPY, before=SMALLER, changed=lost)


@pytest.mark.long
def test_a_sendfile_that_encrypts_turns_notebook_05_red() -> None:
    """As with TLS in the kernel: then its words about plain text are not true any more."""
    notebook = read(ZERO_COPY)
    whole = cells_up_to(notebook, "Where this differs")
    first = next(index for index, cell in enumerate(whole) if 'nb.predict(\n    "speed"' in cell.source)
    about_tls = [
        cell for cell in whole if "def raw(send)" in cell.source or "transfer(sendfile, file, enc" in cell.source
    ]
    asked = next(cell for cell in whole if 'nb.predict(\n    "tls"' in cell.source)
    assert len(about_tls) == 2
    by_the_kernel = "os.sendfile(out.fileno(), records.fileno(), 0, 16_384)"
    assert by_the_kernel in about_tls[0].source
    about_tls[0].source = about_tls[0].source.replace(by_the_kernel, "out.sendall(records.read(16_384))")
    smaller = nbformat.v4.new_code_cell(SMALLER)  # type: ignore[no-untyped-call]
    notebook.cells = [whole[0], smaller, *whole[1:first], asked, *about_tls, notebook.cells[-1]]
    with pytest.raises(NotebookFailed, match=r"this does not hold: .*goes out as plain text"):
        execute(notebook, ZERO_COPY.parent)


# --- what it measures with --------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(MEGABYTE * PIECES))
    return path


def read_and_send(file: int, out: socket.socket, size: int, piece: int) -> None:
    for position in range(0, size, piece):
        out.sendall(os.pread(file, piece, position))


def sendfile(file: int, out: socket.socket, size: int, piece: int) -> None:
    position = 0
    while position < size:
        position += os.sendfile(out.fileno(), file, position, piece)


def mapped(file: int, out: socket.socket, size: int, piece: int) -> None:
    with mmap.mmap(file, size, prot=mmap.PROT_READ) as seen, memoryview(seen) as view:
        out.sendall(view)


def a_fifth_of_a_second_of_work(file: int, out: socket.socket, size: int, piece: int) -> None:
    while sum(os.times()[:2]) < 0.2:
        pass
    out.sendall(os.pread(file, size, 0))


def broken(file: int, out: socket.socket, size: int, piece: int) -> None:
    out.sendall(bytes(size // 2))
    raise RuntimeError("half of it is missing")


@pytest.mark.parametrize("way", [read_and_send, sendfile, mapped])
@pytest.mark.parametrize("options", [{}, {"pairs": 2}, {"one_core": True}, {"times": 3, "piece": 10_000}], ids=str)
def test_every_byte_arrives_however_it_is_sent(way, options, file: Path) -> None:  # type: ignore[no-untyped-def]
    found = transfer(way, file, checks=True, **options)
    times = options.get("times", 1)
    assert found.checksum == zlib.crc32(file.read_bytes() * times)
    assert found.gigabytes == pytest.approx(file.stat().st_size * times * options.get("pairs", 1) / 1e9)


def test_over_tls_every_byte_arrives_and_a_kernel_that_sends_past_it_is_refused(file: Path) -> None:
    found = transfer(read_and_send, file, encrypts=True, checks=True)
    assert found.checksum == zlib.crc32(file.read_bytes())
    with pytest.raises(ssl.SSLError):
        transfer(sendfile, file, encrypts=True)


def test_the_work_is_counted_where_it_is_done(file: Path) -> None:
    found = transfer(a_fifth_of_a_second_of_work, file)
    assert 0.1 <= found.sender.cpu_s < 0.6
    assert found.reader_cpu_s < 0.1


@pytest.mark.skipif(why_nobody_counts() is not None, reason="this system does not count a process's calls")
def test_calls_are_counted_by_the_kernel(file: Path) -> None:
    counted = {way.__name__: transfer(way, file).sender for way in (read_and_send, sendfile, mapped)}
    assert PIECES <= counted["sendfile"].write_calls < PIECES + 10
    assert counted["sendfile"].bytes_written >= PIECES * MEGABYTE
    assert PIECES <= counted["read_and_send"].read_calls < PIECES + 10
    assert counted["read_and_send"].bytes_written < MEGABYTE, "send is not counted as a write"
    assert counted["mapped"].bytes_read < MEGABYTE


def test_a_comparison_takes_the_best_of_its_rounds_for_each_number(file: Path) -> None:
    found = compare((read_and_send, sendfile), file, rounds=2)
    assert list(found) == ["read_and_send", "sendfile"]
    for one in found.values():
        assert one.gigabytes_a_second > 0 and one.cpu == pytest.approx(one.sender_cpu + one.reader_cpu)


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
