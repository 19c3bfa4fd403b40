"""A user's mistake is answered in one sentence that names it, with exit code 1, and before any cluster is asked; and
help comes fast, since only the verb that is asked for is loaded."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykraft.cli import COMMANDS, main
from pykraft.commands.common import BOOTSTRAP, client_settings

NOBODY = ["--bootstrap-server", "127.0.0.1:1", "--command-property", "default.api.timeout.ms=300"]

E2E = ["e2e-latency", "--topic", "t", "--num-records", "1", "--record-size", "1"]
SET_PASSWORD = ["configs", *NOBODY, "--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config"]
SHA_256_OF_X = "SCRAM-SHA-256=[password=x]"
RESET = [*NOBODY, "--reset-offsets", "--group", "g"]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["COMMAND", "--help"]),
        (["topcis"], ["topcis", "topics"]),
        (["kafka-topics.sh", "--list"], ["there is no command kafka-topics.sh: did you mean topics?"]),
        (["kafka-console-producer"], ["did you mean produce?"]),
        (["nonsense"], ["there are up, server"]),
        (["topics", *NOBODY, "--list", "--topik", "t"], ["unrecognized arguments: --topik t. Did you mean --topic?"]),
        (["transactions", *NOBODY, "list", "--durations=5"], ["Did you mean --duration-filter?"]),
        (["groups", *NOBODY], ["--list"]),
        (["groups", *NOBODY, "--list", "--group-type", "x"], ["--group-type is x", "classic, share, streams"]),
        (["groups", *NOBODY, "--list", "--consumer", "--protocol", "p"], ["--consumer, --protocol cannot be said tog"]),
        ([*E2E, "--producer-acks", "0"], ["--producer-acks is 0, but must be 1 or all"]),
        ([*E2E, "--producer-acks", "1", "--num-headers", "-1"], ["--num-headers is -1, but must be 0 or more"]),
        (["topics", *NOBODY], ["--list", "--describe", "--create", "--delete"]),
        (["topics", *NOBODY, "--list", "--delete"], ["--delete", "not allowed with"]),
        (["topics", *NOBODY, "--create"], ["--create needs --topic"]),
        (["topics", *NOBODY, "--alter"], ["--alter needs --topic"]),
        (["topics", *NOBODY, "--alter", "--topic", "t"], ["--alter needs --partitions", "in all"]),
        (["topics", *NOBODY, "--alter", "--topic", "t", "--partitions", "0"], ["--partitions is 0", "at least 1"]),
        (["topics", *NOBODY, "--alter", "--topic", "t", "--config", "a=b"], ["--config is for --create, not for"]),
        (["reassign-partitions", *NOBODY], ["--generate", "--execute", "--verify", "--cancel", "--list"]),
        (["reassign-partitions", *NOBODY, "--execute"], ["--execute needs --reassignment-json-file"]),
        (["reassign-partitions", *NOBODY, "--generate"], ["--generate needs --topics-to-move-json-file"]),
        (["reassign-partitions", *NOBODY, "--list", "--additional"], ["--additional is for --execute, not for --list"]),
        (["topics", *NOBODY, "--delete"], ["--delete needs --topic"]),
        (["topics", *NOBODY, "--delete", "--topic", ""], ["--delete needs --topic"]),
        (
            ["topics", *NOBODY, "--delete", "--topic", "t", "--partitions", "3"],
            ["--partitions is for --create and --alter, not for"],
        ),
        (["topics", *NOBODY, "--list", "--if-exists"], ["--if-exists is for --describe and --alter and --delete"]),
        (["topics", *NOBODY, "--list", "--topic", "a{99999999999}"], ["a{99999999999} is no regular expression"]),
        (["topics", *NOBODY, "--list", "--topic", "(" * 9999], ["is no regular expression"]),
        (["topics", *NOBODY, "--create", "--topic", "t", "--partitions", "0"], ["--partitions is 0", "at least 1"]),
        (["topics", *NOBODY, "--create", "--topic", "t", "--partitions", "two"], ["--partitions", "two"]),
        (["topics", *NOBODY, "--create", "--topic", "t", "--replication-factor", "40000"], ["40000", "1 to 32767"]),
        (["topics", *NOBODY, "--create", "--topic", "t", "--config", "retention"], ["retention is no KEY=VALUE"]),
        (["topics", *NOBODY, "--create", "--topic", "t", "--replica-assignment", "1:a"], ["1:2,2:3,3:1"]),
        (["topics", *NOBODY, "--create", "--topic", "t", "--replica-assignment", "1:1"], ["twice", "partition 0"]),
        (
            ["topics", *NOBODY, "--create", "--topic", "t", "--replica-assignment", "1:2,3"],
            ["1 replicas", "partition 1"],
        ),
        (
            ["topics", *NOBODY, "--create", "--topic", "t", "--replica-assignment", "1", "--partitions", "1"],
            ["leave out --partitions"],
        ),
        (
            ["topics", *NOBODY, "--list"],
            ["no broker has answered at 127.0.0.1:1 (Connection refused): is"],
        ),
        (["topics", "--bootstrap-server", "here", "--list"], ["'here' is no host:port"]),
        (["topics", *NOBODY, "--list", "--command-property", "colour=red"], ["colour is no setting of this client"]),
        (
            ["consume", *NOBODY, "--topic", "t", "--command-property", "key_deserialiser=x"],
            ["key.deserialiser is no se"],
        ),
        (["topics", *NOBODY, "--list", "--command-config", "none.properties"], ["none.properties cannot be read"]),
        (
            ["produce", *NOBODY, "--topic", "t", "--command-property", "transactional.id=x"],
            ["transactional.id is set, but produce begins no transaction"],
        ),
        (["topics", *NOBODY, "--topics-with-overrides"], ["--list", "--describe"]),
        (["configs", *NOBODY], ["--describe", "--alter"]),
        (["configs", *NOBODY, "--describe"], ["--topic NAME", "--broker-defaults"]),
        (["configs", *NOBODY, "--describe", "--topic", "t", "--broker", "1"], ["whose settings are meant"]),
        (["configs", *NOBODY, "--describe", "--topic", "t", "--entity-type", "topics"], ["leave out the short ways"]),
        (["configs", *NOBODY, "--describe", "--entity-name", "t"], ["--entity-type must be"]),
        (["configs", *NOBODY, "--describe", "--entity-type", "client-metrics"], ["client-metrics is not built"]),
        (["configs", *NOBODY, "--alter", "--user", "a", "--ip", "b", "--add-config", "c=d"], ["users and clients"]),
        (["configs", *NOBODY, "--alter", "--entity-type", "users", "--add-config", "c=d"], ["a name for each kind"]),
        (["configs", *NOBODY, "--alter", "--user", "a", "--user-defaults", "--add-config", "c=d"], ["named once"]),
        ([*SET_PASSWORD, "SCRAM-SHA-256=secret"], ["SCRAM-SHA-256=[iterations=8192,password=PASSWORD]"]),
        ([*SET_PASSWORD, "SCRAM-SHA-256=password=secret"], ["'SCRAM-SHA-256'", "key=[value,value]"]),
        ([*SET_PASSWORD, "SCRAM-SHA-256=[iterations=5,password=secret]"], ["5 iterations", "4096 to 16384"]),
        ([*SET_PASSWORD, "SCRAM-SHA-256=[password=]"], ["empty password"]),
        ([*SET_PASSWORD, "SCRAM-SHA-256=[password=x],request_percentage=5"], ["change it by itself"]),
        ([*SET_PASSWORD[:-3], "--entity-default", "--add-config", "SCRAM-SHA-256=[password=x]"], ["one user's"]),
        (
            ["configs", *NOBODY, "--alter", "--client", "a", "--add-config", "SCRAM-SHA-256=[password=x]"],
            ["users alone"],
        ),
        (["configs", *NOBODY, "--describe", "--entity-type", "topics", "--entity-default"], ["--broker-defaults"]),
        (["configs", *NOBODY, "--describe", "--broker", "one"], ["by its number", "one"]),
        (["configs", *NOBODY, "--alter", "--broker", "", "--add-config", "a=b"], ["by its number", "''"]),
        (["configs", *NOBODY, "--describe", "--entity-type", "brokers", "--entity-name", ""], ["by its number", "''"]),
        (["configs", *NOBODY, "--describe", "--topic", "t", "--add-config", "a=b"], ["--describe changes nothing"]),
        (["configs", *NOBODY, "--alter", "--topic", "t"], ["--add-config", "--delete-config"]),
        (["configs", *NOBODY, "--alter", "--entity-type", "brokers", "--add-config", "a=b"], ["--broker ID"]),
        (["configs", *NOBODY, "--alter", "--topic", "t", "--add-config", "a"], ["'a'", "key=[value,value]"]),
        (["configs", *NOBODY, "--alter", "--topic", "t", "--add-config", "a=[b,c],d"], ["'d'"]),
        (["configs", *NOBODY, "--alter", "--topic", "t", "--add-config", "ä=b"], ["'ä' is not the name"]),
        (["configs", *NOBODY, "--alter", "--topic", "t", "--add-config-file", "none"], ["none cannot be read"]),
        (["configs", *NOBODY, "--alter", "--topic", "t", "--add-config", "a=b", "--all"], ["--all"]),
        (["produce", *NOBODY], ["--topic"]),
        (["produce", *NOBODY, "--topic", "t", "--reader-property", "x=y"], ["x says nothing about lines"]),
        (["produce", *NOBODY, "--topic", "t", "--request-required-acks", "2"], ["acks", "'2'"]),
        (["produce", *NOBODY, "--topic", "t", "--compression-codec", "rar"], ["rar", "zstd"]),
        (["consume", *NOBODY], ["--topic", "--include"]),
        (["consume", *NOBODY, "--topic", "t", "--include", "t"], ["not allowed with"]),
        (["consume", *NOBODY, "--include", "t", "--partition", "1"], ["--partition needs --topic"]),
        (["consume", *NOBODY, "--topic", "t", "--offset", "3"], ["--offset needs --partition"]),
        (["consume", *NOBODY, "--topic", "t", "--partition", "0", "--offset", "-3"], ["--offset"]),
        (["consume", *NOBODY, "--topic", "t", "--partition", "0", "--offset", "last"], ["--offset is last"]),
        (
            ["consume", *NOBODY, "--topic", "t", "--partition", "0", "--offset", str(1 << 63)],
            ["0 to 9223372036854775807"],
        ),
        (["consume", *NOBODY, "--topic", "t", "--partition", "0", "--offset", "9" * 5000], ["--offset is 99"]),
        (
            ["consume", *NOBODY, "--topic", "t", "--partition", "0", "--offset", "3", "--from-beginning"],
            ["leave one out"],
        ),
        (["consume", *NOBODY, "--topic", "t", "--group", "g", "--partition", "0"], ["--group and --partition exclude"]),
        (
            ["consume", *NOBODY, "--topic", "t", "--group", "g", "--command-property", "group.id=h"],
            ["--group is g", "another group: h"],
        ),
        (["consume", *NOBODY, "--topic", "t", "--formatter-property", "print"], ["print is no KEY=VALUE"]),
        (["get-offsets", *NOBODY, "--time", "noon"], ["--time is noon"]),
        (
            ["get-offsets", *NOBODY, "--time", str(1 << 63)],
            ["--time is 9223372036854775808", "milliseconds since 1970"],
        ),
        (["get-offsets", *NOBODY, "--topic-partitions", "a:b"], ["a:b"]),
        (["get-offsets", *NOBODY, "--topic-partitions", "a:" + "9" * 5000], ["--topic-partitions has a:99"]),
        (
            ["topics", *NOBODY, "--describe", "--topics-with-overrides", "--unavailable-partitions"],
            ["about topics, not partitions"],
        ),
        (["topics", *NOBODY, "--create", "--topic", "t", "--partitions", "9" * 20], ["to create topics", "be sent"]),
        (["consumer-groups", *NOBODY], ["--list", "--describe", "--reset-offsets", "--delete-offsets"]),
        (["consumer-groups", *NOBODY, "--list", "--describe"], ["not allowed with"]),
        (["consumer-groups", *NOBODY, "--list", "--group", "g"], ["--group is for --describe", "not for --list"]),
        (["consumer-groups", *NOBODY, "--list", "--to-latest"], ["--to-latest is for --reset-offsets, not for --list"]),
        (
            ["consumer-groups", *NOBODY, "--list", "--state", "idle"],
            ["Invalid state list 'idle'", "Stable, Dead, Empty"],
        ),
        (
            ["consumer-groups", *NOBODY, "--list", "--type", "share"],
            ["Invalid types list 'share'", "Classic, Consumer"],
        ),
        (["consumer-groups", *NOBODY, "--describe"], ["--describe needs --group or --all-groups"]),
        (["consumer-groups", *NOBODY, "--describe", "--group", "g", "--all-groups"], ["leave one out"]),
        (["consumer-groups", *NOBODY, "--describe", "--all-groups", "--state", "Empty"], ["a value for --state"]),
        (["consumer-groups", *NOBODY, "--describe", "--all-groups", "--state", "--members"], ["at most one of"]),
        (["consumer-groups", *NOBODY, "--delete"], ["--delete needs --group or --all-groups"]),
        (
            ["consumer-groups", *NOBODY, "--delete", "--group", "g", "--topic", "t"],
            ["--topic is for", "not for --delete"],
        ),
        (
            ["consumer-groups", *NOBODY, "--delete-offsets", "--group", "g"],
            ["--delete-offsets needs --group and --topic"],
        ),
        (["consumer-groups", *RESET], ["--to-earliest, --to-latest", "--from-file"]),
        (["consumer-groups", *RESET, "--to-latest"], ["--all-topics, --topic"]),
        (["consumer-groups", *RESET, "--to-latest", "--to-earliest"], ["not allowed with"]),
        (["consumer-groups", *RESET, "--execute", "--dry-run"], ["not allowed with"]),
        (["consumer-groups", *RESET, "--to-latest", "--topic", "t:x"], ["Invalid partition 'x'", "topic arg 't:x'"]),
        (["consumer-groups", *RESET, "--to-latest", "--topic", "t:0:1"], ["Invalid topic arg 't:0:1'"]),
        (["consumer-groups", *RESET, "--to-offset", "1" + "0" * 19, "--all-topics"], ["which is no offset"]),
        (["consumer-groups", *RESET, "--to-datetime", "noon", "--all-topics"], ["noon", "2026-03-01T00:00:00.000"]),
        (["consumer-groups", *RESET, "--by-duration", "1 day", "--all-topics"], ["1 day", "P7D or PT1H30M"]),
        (["consumer-groups", *RESET, "--from-file", "none.csv"], ["none.csv cannot be read"]),
        (["dump-log"], ["--files"]),
        (["storage"], ["COMMAND"]),
        (["storage", "format"], ["-t/--cluster-id", "-c/--config"]),
        (["server"], ["file"]),
        (["server", "none.properties"], ["none.properties cannot be read: No such file"]),
        (["simulate", "seven"], ["seven"]),
        (["simulate", "--count", "0"], ["--count is at least 1"]),
        (["simulate", "--trace", "-1"], ["--trace at least 0"]),
        (["simulate", "7", "--count", "2", "--story", "x.html"], ["--story with --count 2", "one seed"]),
        (["simulate", "7", "--count", "2", "--trail", "x.txt"], ["--trail", "--count 2", "one seed"]),
        (["simulate", "7", "--compare", "no-such-file"], ["no-such-file", "No such file"]),
        (["simulate", "7", "--act", "900 kill leader"], ["--act without --story"]),
        (["simulate", "--bug", "a_bug_of_none"], ["--bug a_bug_of_none", "--bugs lists them all"]),
        (["simulate", "--patch", "no-such-file"], ["no-such-file", "No such file"]),
        (["simulate", "7", "--explain", "--count", "2"], ["--explain", "leave out --count"]),
        (["simulate", "--jobs", "-1"], ["--jobs at least 0"]),
        (["simulate", "pykraft/0.0.1/seed-7/7"], ["pykraft 0.0.1"]),
        (["simulate", "seed-7", "--patch", "x.diff"], ["SEED is 'seed-7'", "begins at a number"]),
        (["simulate", "7", "--story", "no-such-folder/x.html"], ["there is no folder no-such-folder"]),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    out, complaint = capsys.readouterr()
    assert out == ""
    assert complaint.startswith("pykraft: ")
    assert complaint.count("\n") == 1
    assert all(word in complaint for word in words), complaint


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", *NOBODY, "--list", "--command-config"],
        ["configs", *NOBODY, "--alter", "--topic", "t", "--add-config-file"],
        ["delete-records", *NOBODY, "--offset-json-file"],
        ["server"],
        ["storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c"],
        ["demo"],
    ],
)
def test_a_file_that_holds_no_text_is_named(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    assert main([*arguments, str(file)]) == 1
    out, complaint = capsys.readouterr()
    assert (out + complaint).startswith("pykraft: ")
    assert (out + complaint).count("\n") == 1
    assert f"{file} cannot be read" in out + complaint


@pytest.mark.costly
def test_who_has_no_standard_streams_is_served_all_the_same() -> None:
    command = f"{sys.executable} -m pykraft"
    for line in (f"{command} storage random-uuid >&-", f"{command} produce {' '.join(NOBODY)} --topic t <&-"):
        assert shell(line) == (0, "", ""), line
    assert shell(f"{command} storage format 2>&-") == (1, "", ""), "a complaint is no output"


@pytest.mark.costly
def test_output_that_cannot_be_written_is_told_once() -> None:
    for said in ("storage random-uuid", "storage --help"):
        full = f"{sys.executable} -m pykraft {said} >/dev/full"
        assert shell(full) == (1, "", "pykraft: [Errno 28] No space left on device\n"), said


def shell(line: str) -> tuple[int, str, str]:
    """Exit code, output and complaints of a shell's line; output waits in buffers, as it does for people."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False, env=environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.costly
@pytest.mark.parametrize("command", COMMANDS)
def test_every_verb_says_what_can_be_said(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m pykraft {command}")


def test_help_loads_no_verb() -> None:
    look = (
        "import sys, pykraft.cli; pykraft.cli._parser([]); print(*(m for m in sys.modules if m.startswith('pykraft')))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) == {
        "pykraft",
        "pykraft.cli",
        "pykraft.commands",
        "pykraft.commands.common",
        "pykraft.commands.verbs",
        "pykraft.extras",
        "pykraft.common",
        "pykraft.common.settings",
        "pykraft.common.settings.config",
        "pykraft.common.settings.java_text",
        "pykraft.common.errors",
        "pykraft.common.version",
    }


def test_without_servers_a_command_asks_those_of_the_environment_else_kafkas_usual_port(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(BOOTSTRAP, raising=False)
    said = argparse.Namespace(bootstrap_server=None, command_config=None, command_property=[])
    assert client_settings(said) == {"bootstrap.servers": "127.0.0.1:9092"}
    said.command_property = ["bootstrap.servers=there:1"]
    assert client_settings(said) == {"bootstrap.servers": "there:1"}
    monkeypatch.setenv(BOOTSTRAP, "127.0.0.1:1")
    assert client_settings(said) == {"bootstrap.servers": "there:1"}
    assert main(["topics", "--list", "--command-property", "default.api.timeout.ms=300"]) == 1
    assert "no broker has answered at 127.0.0.1:1" in capsys.readouterr().err


def test_the_usage_has_the_name_that_was_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for typed, shown in (("/usr/bin/pykraft", "pykraft"), ("/x/pykraft/__main__.py", "python -m pykraft")):
        monkeypatch.setattr(sys, "argv", [typed])
        assert main(["topics", *NOBODY]) == 1
        assert f"({shown} topics --help shows" in capsys.readouterr().err


def test_help_names_what_a_line_may_have(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, names in (("produce", ("parse.key", "null.marker")), ("consume", ("print.key", "null.literal"))):
        assert main([verb, "--help"]) == 0
        said = capsys.readouterr().out
        assert [name for name in names if name not in said] == []
