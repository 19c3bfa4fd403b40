"""What `pip install pykraft` brings: a wheel in an empty environment runs a node and its clients, with five packages.

The processes here do not get PYTHONPATH: with it they would find the checkout instead of the wheel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import venv
import zipfile
from pathlib import Path

import pytest

from pykraft import __version__
from pykraft.extras import ExtraNotInstalledError, require
from pykraft.records import walk
from tests.environment.test_binder import copy_project
from tests.environment.test_packages import CORE, names
from tests.harness.tree import ROOT

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
HEAVY = ("numpy", "pandas", "pyarrow", "pyspark", "jupyterlab", "ipywidgets", "plotly", "psutil", "pytest")

ONE_RECORD = """
    import sys
    import pykraft

    with pykraft.Cluster(nodes=1) as cluster:
        with pykraft.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("wheels", b"round")
        with pykraft.Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([pykraft.TopicPartition("wheels", 0)])
            values = []
            while not values:
                values = [record.value for records in consumer.poll(1000).values() for record in records]
    print(values, [name for name in sys.argv[1].split(",") if name in sys.modules])
"""


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def said(*command: str | Path, fails: bool = False, **environment: str) -> str:
    """What a command prints, on standard error if it is to fail."""
    done = subprocess.run(
        [str(part) for part in command],
        check=False,
        cwd=Path(sys.prefix),
        env=ENVIRONMENT | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert bool(done.returncode) == fails, done.stderr
    return (done.stderr if fails else done.stdout).strip()


def run(python: Path | str, code: str, *arguments: str) -> str:
    """What these lines print."""
    return said(python, "-c", textwrap.dedent(code), *arguments)


def test_nodes_and_clients_import_nothing_heavy() -> None:
    assert run(sys.executable, ONE_RECORD, ",".join(HEAVY)) == "[b'round'] []"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The interpreter of an environment with nothing but the wheel, and what it requires. What can be compiled is so in
    a long run; in each run it is where this environment was set up."""
    folder = tmp_path_factory.mktemp("wheel")
    source = copy_project(folder / "source")
    pure = {} if request.config.getoption("--long") else {"PYKRAFT_PURE": "1"}
    said(*PIP, "wheel", "--no-deps", "--wheel-dir", folder, source, **pure)
    (wheel,) = folder.glob("pykraft-*.whl")
    venv.create(folder / "empty", with_pip=False)
    python = folder / "empty" / "bin" / "python"
    said(*PIP, "--python", python, "install", "--no-compile", wheel)
    return python


WHERE = "from pykraft.records import walk; print(walk.__file__)"


@pytest.mark.long
def test_the_walk_over_records_is_compiled(installed: Path) -> None:
    if not str(walk.__file__).endswith(".so"):
        pytest.skip("this machine has no C compiler, or pykraft was not installed")
    assert run(installed, WHERE).endswith(".so")


def test_the_walk_over_records_runs_as_python_where_it_was_not_compiled(
    installed: Path, request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--long"):
        assert run(installed, WHERE).endswith(".py")


@pytest.mark.long
def test_a_wheel_for_every_platform_is_made_without_a_compiler(tmp_path: Path) -> None:
    source = copy_project(tmp_path / "source")
    command = [*PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, source]
    subprocess.run(command, check=True, env=ENVIRONMENT | {"PYKRAFT_PURE": "1"}, timeout=300)
    (wheel,) = tmp_path.glob("pykraft-*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as files:
        assert "pykraft/records/walk.py" in files.namelist()


LISTED = "import pkgutil; print([each.name for each in pkgutil.iter_modules() if each.name.startswith('pyspark_')])"
"""So Spark looks for data sources, in its workers."""


def test_spark_finds_the_source_of_an_installed_checkout() -> None:
    """It is installed as `make setup` does, and README's line for conda: editable."""
    assert run(sys.executable, LISTED) == "['pyspark_pykraft']"


def test_spark_finds_the_source_of_the_wheel(installed: Path) -> None:
    assert run(installed, LISTED) == "['pyspark_pykraft']"


def test_the_wheel_brings_what_nodes_and_clients_need_and_nothing_else(installed: Path) -> None:
    found = json.loads(said(*PIP, "--python", installed, "list", "--format", "json"))
    assert {package["name"] for package in found} == {"pykraft", *names(CORE)}


def test_a_node_of_the_wheel_serves_its_clients(installed: Path) -> None:
    assert run(installed, ONE_RECORD, ",".join(HEAVY)) == "[b'round'] []"


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("import pykraft.spark", "pykraft.spark needs pyspark, pyarrow, numpy, pandas: pip install 'pykraft[spark]'"),
        ("import pykraft.course", "pykraft.course needs psutil, pytest, "),
        ("import pykraft.datasets; pykraft.datasets.table('flights')", "they are in the folder datasets of a checkout"),
    ],
)
def test_what_an_extra_brings_is_missed_in_one_sentence(installed: Path, statement: str, sentence: str) -> None:
    code = f"""
        try:
            {statement}
        except Exception as error:
            print(error)
    """
    found = run(installed, code)
    assert sentence in found and "\n" not in found


def test_data_sets_are_found_where_an_environment_variable_says(installed: Path) -> None:
    """They are: what is missing then is what reads them."""
    code = """
        import os, sys
        os.environ["PYKRAFT_DATASETS"] = sys.argv[1]
        import pykraft.datasets
        try:
            pykraft.datasets.table("flights")
        except Exception as error:
            print(error)
    """
    found = run(installed, code, str(ROOT / "datasets"))
    assert found.startswith("pykraft.datasets needs pyarrow, numpy: pip install")


def test_its_command_says_which_version_it_is(installed: Path) -> None:
    assert said(installed.parent / "pykraft", "--version") == f"pykraft {__version__}"


def test_a_command_of_an_extra_is_refused_in_one_sentence(installed: Path) -> None:
    refusal = said(installed.parent / "pykraft", "demo", "x.ipynb", fails=True)
    assert refusal.startswith("pykraft: pykraft.course needs psutil")
    assert refusal.endswith("pip install 'pykraft[course]'")


def test_what_is_there_is_not_missed() -> None:
    require("the library", "core", "json")
    with pytest.raises(ExtraNotInstalledError, match=r"it needs no_such_library: pip install 'pykraft\[test\]'"):
        require("it", "test", "json", "no_such_library")
