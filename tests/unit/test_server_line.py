"""Which requests may wait for their replicas together: batches that nobody numbers, and nothing else."""

from __future__ import annotations

import pytest

from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.protocol.schema import Request
from pykraft.server.line import may_wait_in_line
from tests.harness.asking import batch, fetch, produce

NUMBERED = batch(producer=(7, 0, 0))


@pytest.mark.parametrize(
    ("request_", "may"),
    [
        (produce("t", batch(), acks=-1), True),
        (produce("t", batch(), batch(), acks=-1), True),
        (produce("t", batch(), acks=1), False),
        (produce("t", batch(), acks=0), False),
        (produce("t", NUMBERED, acks=-1), False),
        (produce("t", batch(), NUMBERED, acks=-1), False),
        (produce("t", None, acks=-1), True),
        (produce("t", b"", b"short", acks=-1), True),
        (fetch("t", 0), False),
        (MetadataRequest(topics=[]), False),
    ],
    ids=[
        "a batch",
        "two partitions",
        "acks=1 is answered at once",
        "acks=0 may end the connection",
        "an idempotent producer's batch",
        "one of two is numbered",
        "no records",
        "no batch at all",
        "a fetch",
        "metadata",
    ],
)
def test_who_may_wait_in_line(request_: Request, may: bool) -> None:
    assert may_wait_in_line(request_) is may
