"""What the README shows works as it stands there."""

from __future__ import annotations

import re

import pytest

from tests.harness.tree import ROOT


def test_the_example_in_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert "node 1 (broker and controller) is dead" in capsys.readouterr().out
