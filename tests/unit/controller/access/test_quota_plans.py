"""Quotas as the controller plans them: what is written and what is not. What is refused, Apache Kafka has answered in
tests/conformance/test_quotas.py."""

from __future__ import annotations

import math
from typing import Any

from pykraft.common.errors import ErrorCode
from pykraft.metadata.image import MetadataImage
from pykraft.protocol.messages.quotas import AlterClientQuotasRequest
from pykraft.protocol.messages.records import ClientQuotaRecord
from tests.harness.controllers import ControllerScript
from tests.harness.quotas import alter, entry

ALICE, BOB = {"user": "alice"}, {"user": "bob", "client-id": None}
PRODUCER, REQUEST = "producer_byte_rate", "request_percentage"


class Quotas(ControllerScript):
    """A controller that is asked for quotas."""

    def alter(self, request: AlterClientQuotasRequest) -> list[tuple[int, str | None]]:
        response: Any = self.answered(self.controller.answer(request, self.now))
        return [(entry.error_code, entry.error_message) for entry in response.entries]

    def written(self) -> list[tuple[str, float | None]]:
        """The key and new value of each record, None if it takes one away."""
        records = [record for batch in self.heard.batches for record in batch.records]
        found = [record for record in records if isinstance(record, ClientQuotaRecord)]
        return [(record.key, None if record.remove else record.value) for record in found]


def held(image: MetadataImage) -> dict[str, float]:
    return {f"{entity} {key}": record.value for (entity, key), record in image.client_quotas.items()}


def test_a_new_value_is_a_record_and_one_that_holds_already_is_none() -> None:
    script = Quotas()
    assert script.alter(alter((ALICE, {PRODUCER: 5.0}), (BOB, {PRODUCER: 6.0}))) == [(0, None)] * 2
    assert script.alter(alter((ALICE, {PRODUCER: 5.0, REQUEST: 7.0}))) == [(0, None)]
    assert script.written() == [(PRODUCER, 5.0), (PRODUCER, 6.0), (REQUEST, 7.0)]
    assert held(script.loader.image) == held(script.image)
    assert sorted(held(script.image).values()) == [5.0, 6.0, 7.0]


def test_what_is_taken_away_is_a_record_only_if_it_was_there() -> None:
    script = Quotas()
    script.alter(alter((ALICE, {PRODUCER: 5.0})))
    assert script.alter(alter((ALICE, {PRODUCER: None, REQUEST: None}), (BOB, {PRODUCER: None}))) == [(0, None)] * 2
    assert script.written() == [(PRODUCER, 5.0), (PRODUCER, None)]
    assert not script.image.client_quotas


def test_the_order_of_an_entitys_parts_does_not_matter() -> None:
    script = Quotas()
    script.alter(alter(({"user": "bob", "client-id": "x"}, {PRODUCER: 5.0})))
    script.alter(alter(({"client-id": "x", "user": "bob"}, {PRODUCER: 5.0})))
    assert script.written() == [(PRODUCER, 5.0)]


def test_not_a_number_is_a_quota_as_in_kafka_and_is_written_once() -> None:
    script = Quotas()
    for _ in range(2):
        assert script.alter(alter((ALICE, {PRODUCER: math.nan}))) == [(0, None)]
    ((key, value),) = script.written()
    assert key == PRODUCER
    assert value is not None
    assert math.isnan(value)


def test_an_entity_that_is_refused_changes_nothing_and_others_do() -> None:
    script = Quotas()
    (wrong, right) = script.alter(alter((ALICE, {REQUEST: 7.0, PRODUCER: 0.0}), (BOB, {PRODUCER: 6.0})))
    assert wrong == (ErrorCode.INVALID_REQUEST, "Quota producer_byte_rate must be greater than 0")
    assert right == (0, None)
    assert script.written() == [(PRODUCER, 6.0)]


def test_the_first_of_two_entries_about_an_entity_holds_and_the_answer_says_that_the_second_does_not() -> None:
    script = Quotas()
    ((code, message),) = script.alter(alter((ALICE, {PRODUCER: 5.0}), (ALICE, {PRODUCER: 6.0})))
    assert code == ErrorCode.INVALID_REQUEST
    assert message is not None
    assert "duplicate entity" in message
    assert script.written() == [(PRODUCER, 5.0)]


def test_a_key_that_is_named_twice_is_refused() -> None:
    script = Quotas()
    request = AlterClientQuotasRequest(entries=[entry(ALICE, (PRODUCER, 5.0), (PRODUCER, 6.0))])
    ((code, _),) = script.alter(request)
    assert code == ErrorCode.INVALID_REQUEST
    assert not script.written()


def test_what_is_only_validated_is_not_written() -> None:
    script = Quotas()
    assert script.alter(alter((ALICE, {PRODUCER: 5.0}), validate_only=True)) == [(0, None)]
    assert not script.written()


def test_very_many_changes_at_once_are_refused_entity_by_entity() -> None:
    script = Quotas()
    keys = (PRODUCER, REQUEST, "consumer_byte_rate")
    many = alter(*(({"user": f"u{number}"}, dict.fromkeys(keys, 1.0)) for number in range(3400)))
    codes = [code for code, _ in script.alter(many)]
    assert codes.count(0) == 3333
    assert set(codes[3333:]) == {ErrorCode.POLICY_VIOLATION}
