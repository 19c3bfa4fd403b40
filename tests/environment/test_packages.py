"""One list of packages, told three times: pyproject.toml, both environment.yml, requirements.lock."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.harness.tree import ROOT

PYPROJECT = (ROOT / "pyproject.toml").read_text()
PROJECT = tomllib.loads(PYPROJECT)["project"]
BUILD: list[str] = tomllib.loads(PYPROJECT)["build-system"]["requires"]
CORE: list[str] = PROJECT["dependencies"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def of_extra(extra: str) -> list[str]:
    """The packages of an extra, without the extra that it includes."""
    return [requirement for requirement in EXTRAS[extra] if not requirement.startswith("pykraft[")]


DEPENDENCIES = CORE + of_extra("spark") + of_extra("course")
"""What the course needs."""
FOR_TESTS = of_extra("test")
LOCK = (ROOT / "requirements.lock").read_text()
GIVEN = {"jupyterlab", "ipywidgets", "plotly", "mmh3", "lz4", "pyspark", "nbval", "pytest"}


def names(requirements: list[str]) -> list[str]:
    return [canonicalize_name(Requirement(requirement).name) for requirement in requirements]


def locked() -> dict[str, list[tuple[str, int]]]:
    """Per package of the lock its versions, each with its number of hashes."""
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    packages: dict[str, list[tuple[str, int]]] = {}
    for entry in entries:
        name, _, rest = entry.partition("==")
        version = re.match(r"[\w.+!]+", rest)
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}(?=\s|$)", entry)
        packages.setdefault(name, []).append((version[0] if version else "", len(hashes)))
    return packages


def test_both_environment_files_hold_the_same() -> None:
    assert (ROOT / "environment.yml").read_bytes() == (ROOT / "binder" / "environment.yml").read_bytes()


def test_the_environment_is_python_311_of_conda_forge_and_the_packages_of_pyproject() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["name"] == "pykraft"
    assert environment["channels"] == ["conda-forge"]
    assert environment["dependencies"] == ["python=3.11", "pip", {"pip": DEPENDENCIES}]


def test_the_given_packages_are_dependencies() -> None:
    assert set(names(DEPENDENCIES)) >= GIVEN


def test_every_dependency_says_in_a_line_what_it_is_for() -> None:
    project, _, _ = PYPROJECT.partition("[tool.")
    justified = re.findall(r'^    "([^"]+)",\s+# \S.{8,}$', project, re.MULTILINE)
    needed = [*BUILD, *CORE, *EXTRAS["spark"], *EXTRAS["course"], *EXTRAS["test"]]
    assert sorted(justified) == sorted(needed)


def test_each_extra_includes_the_one_before() -> None:
    assert list(EXTRAS) == ["spark", "course", "test"]
    assert EXTRAS["course"][0] == "pykraft[spark]" and EXTRAS["test"][0] == "pykraft[course]"


def test_the_lock_pins_each_package_with_hashes_and_says_nothing_else() -> None:
    for name, versions in locked().items():
        assert name == canonicalize_name(name), f"{name} is not the name of a package"
        for version, hashes in versions:
            assert version and hashes, f"{name} {version} has {hashes} hashes"


def test_the_lock_names_no_registry() -> None:
    assert not re.findall(r"\w+://|^-.*$|^[^#\n]* @ .*$|^.*file:.*$", LOCK, re.MULTILINE)


@pytest.mark.parametrize("requirement", DEPENDENCIES + FOR_TESTS)
def test_the_lock_satisfies(requirement: str) -> None:
    wanted = Requirement(requirement)
    versions = [version for version, _ in locked().get(canonicalize_name(wanted.name), [])]
    assert versions and all(wanted.specifier.contains(version) for version in versions), versions
