"""``dump-log`` over the golden files prints, line for line, what Kafka's own tool printed of them.

The dumps here were made by Kafka 4.2.0-rc1, and by 4.2.1 that of a log with a later start. What Kafka's tool says of
damaged files was not recorded; it is compared where Java is (tests/interop), here only that damage is reported at all.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from subprocess import PIPE
from typing import NamedTuple

import pytest

from pykraft.cli import main
from tests.golden.dumps import DATA, DUMPS, GOLDEN, home_of
from tests.harness.tree import ROOT

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "bootstrap.checkpoint": "--cluster-metadata-decoder",
}

MAY_DIFFER: dict[str, str] = {}
"""Lines of Kafka's dumps that pykraft prints otherwise, with the reason. There are none."""

SEGMENT = "00000000000000000000"


class Dumped(NamedTuple):
    """One file, and what Kafka's tool printed of it."""

    home: pathlib.Path
    path: str
    lines: list[str]

    def __str__(self) -> str:
        return self.path

    @property
    def decoder(self) -> str:
        return next((option for name, option in DECODERS.items() if name in self.path), "--print-data-log")


def dumped_files() -> Iterator[Dumped]:
    for name in DUMPS:
        home = home_of(name)
        for section in (GOLDEN / name).read_text().removeprefix("Dumping ").split("\nDumping "):
            path, *lines = section.removesuffix("\n").split("\n")
            yield Dumped(home, path, lines)


FILES = list(dumped_files())
LOGS = [file for file in FILES if file.path.endswith((".log", ".checkpoint"))]
INDEXES = [
    file for file in FILES if file.path.endswith((".index", ".timeindex")) and file.lines[0] != f"{file.path} is empty."
]


def dump(home: pathlib.Path, *arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        return main(["dump-log", *arguments])


def damaged(tmp_path: pathlib.Path, topic: str = "golden-0") -> pathlib.Path:
    """A copy of a topic's folder, to be damaged."""
    shutil.copytree(DATA / topic, tmp_path / topic)
    return tmp_path / topic


def test_there_is_a_dump_of_each_kind_of_file() -> None:
    suffixes = {pathlib.PurePath(file.path).suffix for file in FILES}
    assert suffixes == {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_what_is_printed_is_what_kafka_prints(file: Dumped, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(file.home, "--files", file.path, file.decoder) == 0
    out, complaints = capsys.readouterr()
    assert out.splitlines() == [f"Dumping {file.path}", *file.lines]
    assert complaints == ""
    assert not MAY_DIFFER


@pytest.mark.parametrize("file", LOGS, ids=str)
def test_without_deep_iteration_there_are_only_batches(file: Dumped, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(file.home, "--files", file.path) == 0
    shallow = [line for line in file.lines if not line.startswith("|")]
    assert capsys.readouterr().out.splitlines() == [f"Dumping {file.path}", *shallow]


@pytest.mark.parametrize("file", LOGS, ids=str)
def test_deep_iteration_alone_shows_no_data(file: Dumped, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(file.home, "--files", file.path, "--deep-iteration") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(file.lines) + 1
    for line, whole in zip(lines[1:], file.lines, strict=True):
        assert line == whole if "key: " not in whole and "payload: " not in whole else whole.startswith(f"{line} ")


@pytest.mark.parametrize("file", INDEXES, ids=str)
def test_a_check_prints_no_entries(file: Dumped, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(file.home, "--files", file.path, "--verify-index-only") == 0
    assert capsys.readouterr() == (f"Dumping {file.path}\n", "")
    assert dump(file.home, "--files", file.path, "--index-sanity-check") == 0
    assert capsys.readouterr() == (f"Dumping {file.path}\n{file.path} passed sanity check.\n", "")


def test_several_files_come_in_the_order_in_which_they_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    files = [file for file in FILES if file.path.startswith("golden-txn-0/")]
    assert dump(DATA, "--files", ",".join(file.path for file in files), "--print-data-log") == 0
    expected = [line for file in files for line in (f"Dumping {file.path}", *file.lines)]
    assert capsys.readouterr().out.splitlines() == expected


def test_dumping_makes_and_changes_no_file(tmp_path: pathlib.Path) -> None:
    folder = damaged(tmp_path)
    (folder / f"{SEGMENT}.index").unlink()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert dump(tmp_path, "--files", f"golden-0/{SEGMENT}.log", "--print-data-log") == 0
    assert dump(tmp_path, "--files", f"golden-0/{SEGMENT}.timeindex") == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_shows_in_its_batch(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = damaged(tmp_path) / f"{SEGMENT}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    assert dump(tmp_path, "--files", f"golden-0/{SEGMENT}.log") == 0
    batches = capsys.readouterr().out.splitlines()[2:]
    assert [line.rpartition(" ")[2] for line in batches] == ["false", "true", "true", "true", "true"]


def test_a_torn_tail_is_counted(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = damaged(tmp_path) / f"{SEGMENT}.log"
    data = log.read_bytes()
    log.write_bytes(data[:-10])
    assert dump(tmp_path, "--files", f"golden-0/{SEGMENT}.log") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"Found {len(data) - 10 - 4626} invalid bytes at the end of {SEGMENT}.log"


def test_what_is_no_batch_ends_the_dump_in_one_sentence(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (damaged(tmp_path) / f"{SEGMENT}.log").write_bytes(bytes(100))
    assert dump(tmp_path, "--files", f"golden-0/{SEGMENT}.log") == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"pykraft: golden-0/{SEGMENT}.log cannot be read: ")
    assert complaint.count("\n") == 1


def test_index_entries_that_point_elsewhere_are_told(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = damaged(tmp_path) / f"{SEGMENT}.index"
    data = bytearray(index.read_bytes())
    data[3], data[11] = 40, 58  # where 39 and 59 were
    index.write_bytes(data)
    assert dump(tmp_path, "--files", f"golden-0/{SEGMENT}.index", "--verify-index-only") == 0
    assert capsys.readouterr().err.splitlines() == [
        f"Mismatches in :golden-0/{SEGMENT}.index",
        "  Index offset: 58, log offset: 59",
        "  Index offset: 40, log offset: 39",
    ]


def test_an_index_entry_before_the_log_ends_the_dump_in_one_sentence(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = damaged(tmp_path) / f"{SEGMENT}.index"
    data = bytearray(index.read_bytes())
    data[4] = 0xFF  # the first position, which is a signed number
    index.write_bytes(data)
    assert dump(tmp_path, "--files", f"golden-0/{SEGMENT}.index") == 1
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"pykraft: golden-0/{SEGMENT}.index cannot be read: there is no byte -")
    assert complaint.count("\n") == 1


def test_a_time_index_entry_that_is_wrong_is_told(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = damaged(tmp_path, "golden-txn-0") / f"{SEGMENT}.timeindex"
    data = bytearray(index.read_bytes())
    data[7] ^= 1  # the first timestamp
    data[23] = 8  # the second offset, 7
    index.write_bytes(data[:36] + data[24:36])
    assert dump(tmp_path, "--files", f"golden-txn-0/{SEGMENT}.timeindex") == 0
    assert capsys.readouterr().err.splitlines() == [
        f"Found timestamp mismatch in :golden-txn-0/{SEGMENT}.timeindex",
        "  Index timestamp: 1795155271516, log timestamp: 1795155271517",
        f"Found out of order timestamp in :golden-txn-0/{SEGMENT}.timeindex",
        "  Index timestamp: 1795155271601, Previously indexed timestamp: 1795155271601",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 8, found log offset: 10",
    ]


def test_an_index_that_no_node_would_trust_fails_the_sanity_check(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = damaged(tmp_path) / f"{SEGMENT}.index"
    index.write_bytes(index.read_bytes() + b"\0")
    assert dump(tmp_path, "--files", f"golden-0/{SEGMENT}.index", "--index-sanity-check") == 1
    assert "33 bytes: entries have 8" in capsys.readouterr().err


def test_the_index_of_a_kafka_that_runs_passes_the_sanity_check(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has grown in advance, so zeros follow its entries; Apache Kafka's own tool lets them pass."""
    index = damaged(tmp_path) / f"{SEGMENT}.index"
    index.write_bytes(index.read_bytes() + bytes(80))
    assert dump(tmp_path, "--files", f"golden-0/{SEGMENT}.index", "--index-sanity-check") == 0
    assert capsys.readouterr().out.endswith(f"golden-0/{SEGMENT}.index passed sanity check.\n")


def test_a_gap_in_the_offsets_is_told(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = damaged(tmp_path, "golden-txn-0") / f"{SEGMENT}.log"
    data = log.read_bytes()
    log.write_bytes(data[:121] + data[199:])  # without the batch of offset 3
    assert dump(tmp_path, "--files", f"golden-txn-0/{SEGMENT}.log", "--deep-iteration") == 0
    complaint = capsys.readouterr().err
    assert complaint == f"Non-consecutive offsets in golden-txn-0/{SEGMENT}.log\n  2 is followed by 4\n"


@pytest.mark.parametrize("name", ["letter", "1_0", "\u0665", "+5"])
def test_a_log_under_another_name_is_refused(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = damaged(tmp_path)
    for kind in ("log", "index", "timeindex"):
        (folder / f"{SEGMENT}.{kind}").rename(folder / f"{name}.{kind}")
        assert dump(tmp_path, "--files", f"golden-0/{name}.{kind}") == 1
        complaint = f"pykraft: golden-0/{name}.{kind} cannot be read: its name says no offset\n"
        assert capsys.readouterr().err == complaint


def test_a_copy_of_a_log_may_have_any_number_for_a_name(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = damaged(tmp_path)
    (folder / f"{SEGMENT}.log").rename(folder / "5.log")
    assert dump(tmp_path, "--files", "golden-0/5.log") == 0
    assert "Log starting offset: 5\n" in capsys.readouterr().out


# --- the other options ------------------------------------------------------------------------------------------------


def test_max_bytes_ends_after_whole_batches(capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(DATA, "--files", f"golden-txn-0/{SEGMENT}.log", "--max-bytes", "200") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + 2


def test_without_their_metadata_records_are_keys_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--print-data-log", "--skip-record-metadata", "--max-bytes", "121")
    assert dump(DATA, "--files", f"golden-txn-0/{SEGMENT}.log", *arguments) == 0
    assert capsys.readouterr().out.splitlines()[3:] == [f"| key: 0-{n} payload: commit 0 {n}" for n in range(3)]


def test_without_its_metadata_a_record_without_a_key_has_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed so by Apache Kafka 4.2.1."""
    arguments = ("--cluster-metadata-decoder", "--skip-record-metadata")
    log = next(file for file in LOGS if "cluster_metadata" in file.path)
    assert dump(log.home, "--files", log.path, *arguments) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "payload: " in line]
    assert lines and all(line.startswith(" payload: {") for line in lines)


def test_who_has_seen_enough_of_a_dump_is_told_nothing() -> None:
    command = [sys.executable, "-m", "pykraft", "dump-log", "--print-data-log", "--files"]
    path = str(DATA / f"golden-0/{SEGMENT}.log")
    with subprocess.Popen([*command, ",".join([path] * 50)], stdout=PIPE, stderr=PIPE, cwd=ROOT) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b"Dumping ")
        process.stdout.close()
        assert process.stderr.read() == b""


def test_the_wrong_decoder_says_what_it_cannot_read_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(DATA, "--files", f"golden-txn-0/{SEGMENT}.log", "--offsets-decoder", "--max-bytes", "121") == 0
    lines = capsys.readouterr().out.splitlines()[3:]
    assert all(" key: Unknown record type 12333 at offset " in line for line in lines)
    assert dump(DATA, "--files", f"golden-txn-0/{SEGMENT}.log", "--cluster-metadata-decoder", "--max-bytes", "121") == 0
    lines = capsys.readouterr().out.splitlines()[3:]
    assert all(f" payload: Error at {n}, skipping. " in line for n, line in enumerate(lines))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--files", "missing.log"], ["missing.log cannot be read", "No such file"]),
        (["--files", "golden-0"], []),
        ([], ["--files"]),
        (["--files", "a.log", "--offsets-decoder", "--transaction-log-decoder"], ["not allowed with"]),
        (["--files", "a.log", "--max-bytes", "many"], ["--max-bytes", "many"]),
        (["--files", f"__cluster_metadata-0/{SEGMENT}.log", "--offsets-decoder"], ["has no key"]),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = dump(DATA, *arguments)
    complaint = capsys.readouterr().err
    if not words:  # only what has a name of a log's files is opened
        assert (code, complaint) == (0, "Ignoring unknown file golden-0\n")
        return
    assert code == 1
    assert complaint.startswith("pykraft: ")
    assert complaint.count("\n") == 1
    assert all(word in complaint for word in words), complaint
