"""``storage format``: which kind of quorum a file and its options mean, and what is written for it."""

from __future__ import annotations

import base64
import pathlib
import re

import pytest

from pykraft import Cluster
from pykraft.cli import main
from pykraft.common.settings.config import format_properties
from pykraft.common.types import ZERO_UUID, Endpoint, OffsetAndEpoch, Uuid
from pykraft.protocol.messages.records import MetadataRecord, UserScramCredentialRecord
from pykraft.raft.log.history import SnapshotFolder, read_snapshot
from pykraft.raft.log.voters import VOTERS_IN_LOG
from pykraft.security.scram import ScramMechanism, keys_of, salted_password
from pykraft.storage.disk.checkpoint import read_meta_properties
from pykraft.storage.disk.filesystem import OsFileSystem

CLUSTER_ID = "quorum-of-the-tests-00"
STATIC = {"controller.quorum.voters": "1@127.0.0.1:9093"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
BROKER = {
    "process.roles": "broker",
    "node.id": "2",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
}
VOTER = f"1@127.0.0.1:9093:{Uuid(bytes(range(16)))}"


def format_node(home: pathlib.Path, settings: dict[str, str], *options: str) -> int:
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(home / "data"),
        **settings,
    }
    file = home / "server.properties"
    file.write_text(format_properties(values))
    return main(["storage", "format", "-t", CLUSTER_ID, "-c", str(file), *options])


@pytest.mark.parametrize("options", [(), ("--feature", "kraft.version=0")], ids=["by default", "asked for"])
def test_a_file_with_static_voters_gets_nothing_of_rafts_state(
    tmp_path: pathlib.Path, options: tuple[str, ...]
) -> None:
    assert format_node(tmp_path, STATIC, *options) == 0
    assert sorted(path.name for path in (tmp_path / "data").rglob("*")) == ["bootstrap.checkpoint", "meta.properties"]


@pytest.mark.parametrize("options", [(), ("--feature", "kraft.version=1")], ids=["by default", "asked for"])
def test_a_standalone_controller_is_the_only_first_voter(tmp_path: pathlib.Path, options: tuple[str, ...]) -> None:
    assert format_node(tmp_path, DYNAMIC, "--standalone", *options) == 0
    directory = tmp_path / "data"
    properties = read_meta_properties(OsFileSystem(), str(directory))
    snapshot = SnapshotFolder(OsFileSystem(), f"{directory}/__cluster_metadata-0").newest()
    assert snapshot is not None and properties is not None
    assert (snapshot.id, snapshot.kraft_version) == (OffsetAndEpoch(0, 0), VOTERS_IN_LOG)
    assert snapshot.voters.keys == [(1, properties.directory_id)]
    assert snapshot.voters.voters[1].endpoints == {"CONTROLLER": Endpoint("127.0.0.1", 9093)}


@pytest.mark.parametrize("name", ["data", "data/below"])
def test_a_file_in_the_place_of_a_directory_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "data").write_text("")
    assert format_node(tmp_path, {**STATIC, "log.dirs": str(tmp_path / name)}) == 1
    assert f"{tmp_path / name} is a file, or below one, but must be a directory" in capsys.readouterr().err


def test_a_controller_without_initial_controllers_has_no_voters(tmp_path: pathlib.Path) -> None:
    assert format_node(tmp_path, DYNAMIC, "--no-initial-controllers") == 0
    properties = read_meta_properties(OsFileSystem(), str(tmp_path / "data"))
    assert properties is not None
    assert properties.directory_id != ZERO_UUID
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["bootstrap.checkpoint", "meta.properties"]


def test_two_standalone_controllers_have_different_directory_ids(tmp_path: pathlib.Path) -> None:
    ids = set()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        assert format_node(tmp_path / name, DYNAMIC, "--standalone") == 0
        properties = read_meta_properties(OsFileSystem(), str(tmp_path / name / "data"))
        assert properties is not None
        ids.add(properties.directory_id)
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("settings", "options", "sentence"),
    [
        (STATIC, ("--standalone",), "server.properties names the voters with controller.quorum.voters"),
        (
            STATIC,
            ("--initial-controllers", VOTER),
            "for one of kraft.version 1 put controller.quorum.bootstrap.servers",
        ),
        (STATIC, ("--feature", "kraft.version=1"), "kraft.version=1 needs a file without controller.quorum.voters"),
        (DYNAMIC, ("--feature", "kraft.version=0"), "kraft.version=0 needs controller.quorum.voters in"),
        (DYNAMIC, ("--standalone", "--feature", "kraft.version=0"), "needs controller.quorum.voters in"),
        (DYNAMIC, (), "so --initial-controllers must name the first voters, --standalone make this node the only"),
        (STATIC, ("--no-initial-controllers",), "names the voters with controller.quorum.voters"),
        (DYNAMIC | BROKER, ("--standalone",), "server.properties is of no controller"),
        (STATIC, ("--feature", "kraft.version=2"), "kraft.version must be 0 to 1"),
    ],
)
def test_a_file_and_options_that_mean_different_quorums_are_refused(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    settings: dict[str, str],
    options: tuple[str, ...],
    sentence: str,
) -> None:
    """As kafka-storage.sh refuses them."""
    assert format_node(tmp_path, settings, *options) == 1
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_controller_whose_quorum_is_static_must_know_its_voters_at_each_start(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(1, directory=tmp_path, features={"kraft.version": 0}):
        pass
    file = tmp_path / "node-1.properties"
    said = file.read_text()
    assert "controller.quorum.voters=1@" in said
    file.write_text(said.replace("controller.quorum.voters=1@", "controller.quorum.bootstrap.servers="))
    assert main(["server", str(file)]) == 1
    assert "controller.quorum.voters must name them" in capsys.readouterr().err


def test_credentials_are_records_of_the_first_snapshot(tmp_path: pathlib.Path) -> None:
    """As Kafka's tool writes them; the salted password may be given in place of the password."""
    salt, salted = b"pepper", salted_password(ScramMechanism.SCRAM_SHA_512, b"secret", b"pepper", 8192)
    said = f"salt={base64.b64encode(salt).decode()},iterations=8192"
    known = f'SCRAM-SHA-512=[name=bob,{said},saltedpassword="{base64.b64encode(salted).decode()}"]'
    both = ("--add-scram", 'SCRAM-SHA-256=[name=alice,password="secret"]', "--add-scram", known)
    assert format_node(tmp_path, STATIC, *both) == 0
    log = tmp_path / "data" / "bootstrap.checkpoint"
    records = [record for record in metadata_records(log) if isinstance(record, UserScramCredentialRecord)]
    assert [(record.name, record.mechanism, record.iterations) for record in records] == [
        ("alice", 1, 4096),
        ("bob", 2, 8192),
    ]
    for record in records:
        mechanism = ScramMechanism(record.mechanism)
        salted = salted_password(mechanism, b"secret", record.salt, record.iterations)
        assert (record.stored_key, record.server_key) == keys_of(mechanism, salted)
    assert b"secret" not in log.read_bytes()


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("SCRAM-SHA-1=[name=a,password=secret]", "'SCRAM-SHA-1', but must name one of SCRAM-SHA-256, SCRAM-SHA-512"),
        ("SCRAM-SHA-256", "the brackets are missing|must name one of"),
        ("SCRAM-SHA-256=name=a,password=secret", "the brackets are missing"),
        ("SCRAM-SHA-256=[password=secret]", "You must supply 'name'"),
        ("SCRAM-SHA-256=[name=a]", "one of 'password' or 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=AAAA]", "You must supply 'salt' with"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=secret?,salt=AAAA]", "a saltedpassword that is not in base 64"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=4095]", "iterations=4095, but must have 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=many]", "iterations=many"),
        ("SCRAM-SHA-256=[name=a,password=secret,color=red]", "and no more"),
        ("SCRAM-SHA-256=[name=a,secret]", "each with =VALUE"),
    ],
)
def test_a_credential_that_cannot_be_read_is_refused_without_the_password(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], said: str, wrong: str
) -> None:
    assert format_node(tmp_path, STATIC, "--add-scram", said) == 1
    shown = capsys.readouterr().err
    assert re.search(wrong, shown), shown
    assert "secret" not in shown
    assert not (tmp_path / "data").exists()


def test_an_older_release_has_no_credentials(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ("--add-scram", "SCRAM-SHA-256=[name=a,password=x]")
    assert format_node(tmp_path, STATIC, *said, "--release-version", "3.4") == 1
    assert "needs metadata.version 11 (3.5-IV2)" in capsys.readouterr().err


def metadata_records(file: pathlib.Path) -> list[MetadataRecord]:
    """What a snapshot of the metadata says."""
    snapshot = read_snapshot(OsFileSystem(), str(file))
    assert snapshot is not None
    return [record for batch in snapshot.decoded() for record in batch.records]
