"""Which quota counts for a client: quota_precedence.txt has what Apache Kafka 4.2's ClientQuotaManager says for each
set of quotas that there may be of one user, one client id and the defaults."""

from __future__ import annotations

from pathlib import Path

from pykraft.common.quotas.entities import PRODUCER_BYTE_RATE, entity_key
from pykraft.metadata.client_quotas import QuotaTable, connection_rates, quota_tables
from tests.harness.quotas import Parts, image_of

GOLDEN = Path(__file__).with_name("quota_precedence.txt")
CLIENTS = [("alice", "loader"), ("alice", "other"), ("bob", "loader"), ("bob", "other"), ("alice", "")]
ENTITIES: list[Parts] = [
    {"user": "alice", "client-id": "loader"},
    {"user": "alice", "client-id": None},
    {"user": "alice"},
    {"user": None, "client-id": "loader"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "loader"},
    {"client-id": None},
]
"""The quota of the first is 1, of the second 2, and so on."""


def table_of(mask: int) -> QuotaTable:
    made = [(parts, {PRODUCER_BYTE_RATE: number + 1.0}) for number, parts in enumerate(ENTITIES) if mask >> number & 1]
    return quota_tables(image_of(*made))[PRODUCER_BYTE_RATE]


def answer(table: QuotaTable, user: str, client_id: str) -> str:
    shared, limit = table.find(user, client_id)
    return "-" if limit is None else f"{shared.user}/{shared.client_id}={limit:g}"


def test_the_most_specific_quota_counts_and_its_owners_share_it_as_in_kafka() -> None:
    lines = GOLDEN.read_text().splitlines()
    assert len(lines) == 1 << len(ENTITIES)
    for line in lines:
        mask, *expected = line.split()
        table = table_of(int(mask))
        assert [answer(table, *client) for client in CLIENTS] == expected, line


def test_a_table_is_true_if_there_is_any_quota() -> None:
    assert not table_of(0)
    assert table_of(1)


def test_quotas_of_addresses_are_apart_from_those_of_clients() -> None:
    rate = "connection_creation_rate"
    image = image_of(({"ip": "10.0.0.1"}, {rate: 5.0}), ({"ip": None}, {rate: 7.0}), ({"user": "alice"}, {"x": 1.0}))
    assert connection_rates(image) == {"10.0.0.1": 5, None: 7}
    assert not any(quota_tables(image).values())


def test_a_rate_of_connections_that_is_no_number_or_next_to_nothing_is_zero_as_in_kafka() -> None:
    rate = "connection_creation_rate"
    image = image_of(({"ip": "10.0.0.1"}, {rate: float("nan")}), ({"ip": None}, {rate: 1e-7}))
    assert connection_rates(image) == {"10.0.0.1": 0, None: 0}


def test_an_entity_is_the_same_in_whatever_order_its_parts_come() -> None:
    assert entity_key([("user", "a"), ("client-id", None)]) == entity_key([("client-id", None), ("user", "a")])
    assert entity_key([("user", None)]) != entity_key([("user", "")])
