"""Ten seeds have the same trail on every Python that is here: other versions of CPython, and Pyodide with its words of
32 bits, each with other hash seeds, and without any of the libraries that compress.
"""

from __future__ import annotations

import functools
import pathlib
import sys

import pytest

from tests.harness import elsewhere
from tests.harness.apache_kafka import Unavailable
from tests.sim.digests import KINDS

pytestmark = pytest.mark.limit(3600)

SEEDS = (0, 1, 2, 105, 412, *KINDS)
GIVEN = tuple(f"{seed}:0" for seed in SEEDS)
"""Whole histories."""
HASH_SEEDS = ("0", "1", "random")


@functools.cache
def here() -> list[str]:
    return elsewhere.digests_of(pathlib.Path(sys.executable), GIVEN, "random")


def test_ten_seeds_have_the_same_trail_on_every_version_of_cpython() -> None:
    pythons = elsewhere.pythons()
    if not pythons:
        pytest.skip("there is no other CPython")
    for number, (version, python) in enumerate(sorted(pythons.items())):
        assert elsewhere.digests_of(python, GIVEN, HASH_SEEDS[number % len(HASH_SEEDS)]) == here(), version


def test_ten_seeds_have_the_same_trail_under_pyodide() -> None:
    try:
        found = elsewhere.digests_of_pyodide(GIVEN, "1")
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert len(found) == len(SEEDS) == 10
    assert found == here()
