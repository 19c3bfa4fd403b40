"""What an administrator asks about quotas, as requests, and what is no question at all."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykraft.client.administration.quotas import (
    DEFAULT,
    ClientQuotaEntity,
    ClientQuotaFilter,
    QuotaCalls,
    quota_changes,
    quota_filter,
)
from pykraft.client.api_driver import ApiDriver
from pykraft.commands.administration.quota_configs import java_double
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    altered,
)
from tests.harness.quotas import alter, described_by
from tests.harness.scripted import Script, knowing, settings

ALICE, RATE = ClientQuotaEntity(user="alice"), "producer_byte_rate"


def asking() -> tuple[QuotaCalls, Script]:
    config = settings("admin")
    driver = ApiDriver(config, knowing(config, {}), Random(1))
    return QuotaCalls(driver), Script(driver)


def test_quotas_are_listed_by_entity_and_a_default_has_the_empty_name() -> None:
    ask, script = asking()
    promise = ask.describe(ClientQuotaFilter(user="alice", client_id=True, strict=True), 60_000)
    script.poll()
    assert script.asked(DescribeClientQuotasRequest) == described_by(strict=True, user="alice", client_id=True)
    kind = DescribeClientQuotasResponse.Entry
    parts = [
        kind.Entity(entity_type="client-id", entity_name=None),
        kind.Entity(entity_type="user", entity_name="alice"),
    ]
    found = kind(entity=parts, values=[kind.Value(key=RATE, value=5.0)])
    script.answer(DescribeClientQuotasRequest, DescribeClientQuotasResponse(entries=[found]))
    assert promise.value == {ClientQuotaEntity(user="alice", client_id=DEFAULT): {RATE: 5.0}}


def test_each_entity_has_its_answer() -> None:
    ask, script = asking()
    everyone = ClientQuotaEntity(user=DEFAULT)
    promise = ask.alter({ALICE: {RATE: 5.0}, everyone: {RATE: None}}, False, 60_000)
    script.poll()
    asked = alter(({"user": "alice"}, {RATE: 5.0}), ({"user": None}, {RATE: None}))
    assert script.asked(AlterClientQuotasRequest) == asked
    answers = [altered(asked.entries[0], ErrorCode.INVALID_REQUEST, "why"), altered(asked.entries[1])]
    script.answer(AlterClientQuotasRequest, AlterClientQuotasResponse(entries=answers))
    found: Any = promise.value
    assert isinstance(found[ALICE], KafkaError)
    assert found[everyone] is None


@pytest.mark.parametrize("wrong", ["alice", {"user": "alice"}, ClientQuotaFilter(user=False), ClientQuotaFilter(ip=7)])  # type: ignore[arg-type]
def test_a_filter_that_names_no_entity_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        quota_filter(wrong)


@pytest.mark.parametrize("wrong", [{"alice": {RATE: 1}}, {ALICE: {RATE: "1"}}, {ALICE: {RATE: True}}])
def test_a_change_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        quota_changes(wrong)


def test_an_entity_means_itself_as_a_filter() -> None:
    assert quota_filter(ALICE) == ClientQuotaFilter(user="alice", strict=True)


def test_numbers_are_printed_as_java_prints_them() -> None:
    numbers = (7.0, 0.5, 0.001, 0.0001, 9999999.0, 1e7, 1048576000.0, 1e308, float("inf"), float("nan"))
    assert [java_double(number) for number in numbers] == [
        *("7.0", "0.5", "0.001", "1.0E-4", "9999999.0", "1.0E7", "1.048576E9", "1.0E308", "Infinity", "NaN")
    ]
