"""The transactional calls of a `Producer` that no broker answers: what they say, and which call comes next."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pykraft import ClientTimeoutError, ConsumerGroupMetadata, Producer, TopicPartition

INIT_TIMED_OUT = r"init_transactions\(\) timed out, and must be called again"


@pytest.fixture
def producer() -> Iterator[Producer]:
    """Its only broker takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with Producer(bootstrap_servers=address, transactional_id="x-1", max_block_ms=50) as producer:
            yield producer


def test_a_call_that_timed_out_must_be_called_again(producer: Producer) -> None:
    for _ in range(2):
        with pytest.raises(ClientTimeoutError, match=r"init_transactions\(\) was not done in 50 ms: no broker has ans"):
            producer.init_transactions()
    for call in (producer.begin_transaction, producer.commit_transaction, lambda: producer.send("t", b"x")):
        with pytest.raises(RuntimeError, match=INIT_TIMED_OUT):
            call()


def test_the_first_call_is_init_transactions(producer: Producer) -> None:
    with pytest.raises(RuntimeError) as error:
        producer.send("t", b"x")
    assert str(error.value) == "send() of x-1 is not possible now: call init_transactions() first"


def test_a_member_of_a_group_has_an_id(producer: Producer) -> None:
    with pytest.raises(ValueError, match="group metadata with generation 3 has no member id"):
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, ConsumerGroupMetadata("g", 3))


def test_a_producer_without_a_transactional_id_has_no_transactions() -> None:
    with Producer(bootstrap_servers="127.0.0.1:1") as producer:
        for call in (producer.init_transactions, producer.begin_transaction, producer.commit_transaction):
            with pytest.raises(RuntimeError, match=r"needs a transactional producer: set transactional\.id"):
                call()
