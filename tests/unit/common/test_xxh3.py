"""XXH3 against the implementation that Kafka uses, with lengths on both sides of each limit of the algorithm."""

from __future__ import annotations

import pytest

from pykraft.common.xxh3 import xxh3_64

HASHED_BY_HASH4J = [
    (0, 3244421341483603138),
    (1, 1433843135270481901),
    (3, 12180141160879835164),
    (4, 7895465118229274323),
    (8, 6941064856527638883),
    (9, 18374517719163151272),
    (16, 13314990914799711621),
    (17, 8163341949877205007),
    (32, 1873302701886544469),
    (33, 4486878507168070088),
    (64, 2917965298538373825),
    (65, 9408609914592003654),
    (96, 17331232145433315139),
    (97, 2137665177113230204),
    (128, 7440608504995537343),
    (129, 14295761343243267012),
    (160, 15496299788031539331),
    (200, 8389308914288017243),
    (240, 7229805477010515663),
    (241, 10082113959289486871),
    (256, 4339360625268998362),
    (512, 17690705279202729245),
    (1024, 11205349619999208113),
    (1025, 9253807012321506678),
    (1088, 3424848841118183642),
    (2048, 12386592778227166929),
    (4000, 13135954912175427254),
    (5001, 5701031303161382071),
]
"""(length, hash) of bytes that go up in sevens from 3, from com.dynatrace.hash4j 0.22."""


@pytest.mark.parametrize(("length", "expected"), HASHED_BY_HASH4J)
def test_the_hash_is_the_one_that_kafka_computes(length: int, expected: int) -> None:
    assert xxh3_64(bytes((7 * i + 3) % 256 for i in range(length))) == expected
