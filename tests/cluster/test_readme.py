"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.test_processes import Server, free_ports
from tests.harness.tree import ROOT

README = (ROOT / "README.md").read_text()


EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SAID = {
    "kafka.kill(": ["node 1 (broker and controller) is dead"],
    "kafka.fault(": ["Produce version ", "b'one' b'one'"],
    "record_frames(": ["<Produce v", "ProduceRequest, version", "FetchRequest: which version has which field"],
}
"""What an example prints, by what stands in it."""


@pytest.mark.parametrize("call", SAID)
def test_the_examples_in_python_run(call: str, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = [example for example in EXAMPLES if call in example]
    exec(compile(code, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert [words for words in SAID[call] if words not in said] == []


def test_the_lines_for_a_shell_run_one_after_the_other(tmp_path: Path) -> None:
    broker, controller = map(str, free_ports(2))
    here = README.replace("9092", broker).replace("9093", controller)
    properties, *_ = re.findall(r"```properties\n(.*?)```", here, re.DOTALL)
    (tmp_path / "server.properties").write_text(properties)
    starting, using = re.findall(r"```\n((?:python -m pykraft storage|alias kafka).*?)```", here, re.DOTALL)
    said = {}

    def run(line: str) -> None:
        # An alias is for the eyes of people: a shell that runs a script knows none.
        line = line.replace("kafka ", "python -m pykraft ").replace("python", shlex.quote(sys.executable))
        done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        said[line.split(" -m pykraft ")[-1].split()[0]] = done.stdout

    format_line, server_line = starting.splitlines()
    assert server_line == "python -m pykraft server server.properties"
    run(format_line)
    server = Server(tmp_path / "server.properties", cwd=tmp_path)
    server.wait_until_running()
    try:
        for line in using.splitlines()[1:]:
            run(line)
    finally:
        assert server.end(signal.SIGTERM) == 0, server.said
    assert said["topics"] == "Created topic flights.\n"
    assert sorted(said["consume"].split()) == ["1", "2", "3", "4", "5"]
    assert said["configs"] == "Completed updating config for topic flights.\n"
    ends = [int(line.rpartition(":")[2]) for line in said["get-offsets"].splitlines()]
    assert len(ends) == 2 and sum(ends) == 5
    lags = [line.split()[5] for line in said["consumer-groups"].splitlines()[2:]]
    assert [int(lag) for lag in lags] == ends
    assert f"flights-0\tlow_watermark: {ends[0]}" in said["delete-records"]
    assert '"partition":"flights-1"' in said["log-dirs"]
    assert said["dump-log"].count("| offset: ") == ends[1]
