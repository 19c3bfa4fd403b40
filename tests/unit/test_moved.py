"""Modules that have moved: whatever names one by its old name is brought to the new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.moved import main, moved, outdated, rewritten
from tests.harness.tree import ROOT

TABLE = moved()


def test_each_new_name_is_that_of_a_module() -> None:
    homes = (ROOT.joinpath(*new.split(".")) for new in TABLE.values())
    assert [
        home for home in homes if not home.with_suffix(".py").exists() and not (home / "__init__.py").exists()
    ] == []


def test_no_old_name_is_that_of_a_module() -> None:
    """Else a second run would move a module that is where it belongs."""
    homes = (ROOT.joinpath(*old.split(".")) for old in TABLE)
    assert [home for home in homes if home.with_suffix(".py").exists() or (home / "__init__.py").exists()] == []
    packages = {".".join(new.split(".")[:length]) for new in TABLE.values() for length in range(2, new.count(".") + 2)}
    assert packages.isdisjoint(TABLE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import pykraft.server.node", "import pykraft.broker.node"),
        ("from pykraft.server.node import Node", "from pykraft.broker.node import Node"),
        ("from pykraft.server import faults", "from pykraft.broker import faults"),
        ("from pykraft.client import config as keys", "from pykraft.client import config as keys"),
        ("from pykraft.client import sender as mine", "from pykraft.client.producing import sender as mine"),
        (
            "    from pykraft.server import node, slices",
            "    from pykraft.broker import node\n    from pykraft.broker.turns import slices",
        ),
        (
            "from pykraft.storage import (\n    cleaner,\n    log,\n)\n",
            "from pykraft.storage.upkeep import cleaner\nfrom pykraft.storage import log\n",
        ),
        ('"pykraft.client.producer.partition_of_key"', '"pykraft.client.producing.producer.partition_of_key"'),
        ('place = "pykraft.server"', 'place = "pykraft.broker"'),
        ("+++ b/pykraft/storage/retention.py", "+++ b/pykraft/storage/upkeep/retention.py"),
        ("(../pykraft/server/apis/fetch.py)", "(../pykraft/broker/requests/data/fetch.py)"),
        ("see server/node.py, line 3", "see broker/node.py, line 3"),
        ("see `client.fetcher`", "see `client.consuming.fetcher`"),
        ("`server.properties`, `server.faults.Fault`", "`server.properties`, `broker.faults.Fault`"),
        ("pykraft.producer, pykraft.clients.x, my.pykraft.server.node", None),
        ("`client.id`, client/server, kafka/server/node.py", None),
    ],
)
def test_a_name_is_brought_up_to_date_in_each_form(old: str, new: str | None) -> None:
    expected = old if new is None else new
    assert rewritten(old, TABLE) == expected
    assert rewritten(expected, TABLE) == expected


def test_a_folder_is_rewritten_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text("from pykraft.client.partitioner import murmur2\n")
    (tmp_path / "picture.png").write_bytes(b"pykraft.server.node")
    (tmp_path / "latin.txt").write_bytes(b"pykraft.server.node \xff")
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "mine.py"), "1 files changed"]
    assert (tmp_path / "mine.py").read_text() == "from pykraft.client.producing.partitioner import murmur2\n"
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "0 files changed\n"


def test_a_folder_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nowhere"]) == 1
    assert "nowhere is no folder" in capsys.readouterr().out


@pytest.mark.costly
@pytest.mark.parametrize("folder", ["pykraft", "labs", "notebooks", "tests", "binder"])
def test_the_repository_names_no_module_by_its_old_name(folder: str) -> None:
    assert [path for path, _ in outdated(ROOT / folder, TABLE)] == []
