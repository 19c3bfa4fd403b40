"""Rules of access as the controller plans them: what is written, what is refused, and what goes in slices."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykraft.common.acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pykraft.common.core import finish
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.controller.access import acls
from pykraft.controller.access.acls import AclControl
from pykraft.controller.features import METADATA_VERSION, NEW_CLUSTER
from pykraft.metadata.acls import binding
from pykraft.metadata.delta import MetadataDelta
from pykraft.metadata.image import EMPTY_IMAGE, MetadataImage
from pykraft.protocol.messages.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from tests.harness.controllers import ControllerScript
from tests.harness.rules import EVERY, create_acls, delete_acls, rule

ALICE, BOB = rule("allow alice READ TOPIC t"), rule("deny bob ALL TOPIC t...")
OF_GROUP = rule("allow alice READ GROUP g")


class Rules(ControllerScript):
    """A controller that is asked for rules."""

    def add(self, *rules: AclBinding) -> list[tuple[int, str | None]]:
        response = self.answered(self.controller.answer(create_acls(*rules), self.now))
        return [(result.error_code, result.error_message) for result in response.results]

    def remove(self, *filters: Any) -> list[tuple[int, set[str]]]:
        response = self.answered(self.controller.answer(delete_acls(*filters), self.now))
        return [
            (result.error_code, {each.principal for each in result.matching_acls}) for result in response.filter_results
        ]

    @property
    def rules(self) -> set[AclBinding]:
        return set(map(binding, self.image.acls.values()))

    def written(self) -> list[str]:
        kinds = (AccessControlEntryRecord, RemoveAccessControlEntryRecord)
        records = [record for batch in self.heard.batches for record in batch.records if isinstance(record, kinds)]
        return [type(record).__name__ for record in records]


def test_a_rule_that_is_new_becomes_a_record_and_one_that_is_there_does_not() -> None:
    script = Rules()
    assert script.add(ALICE, BOB, ALICE) == [(0, "")] * 3
    assert script.add(BOB) == [(0, "")]
    assert script.rules == {ALICE, BOB}
    assert script.written() == ["AccessControlEntryRecord"] * 2
    assert script.loader.image.acls == script.image.acls, "committed, every image has them"


def test_filters_remove_what_they_find_each_rule_once() -> None:
    script = Rules()
    script.add(ALICE, BOB, OF_GROUP)
    topics = AclBindingFilter(AclResourceType.TOPIC)
    assert script.remove(ALICE, topics) == [(0, {"User:alice"}), (0, {"User:alice", "User:bob"})]
    assert script.rules == {OF_GROUP}
    assert script.written()[3:] == ["RemoveAccessControlEntryRecord"] * 2
    assert script.remove(EVERY, ALICE) == [(0, {"User:alice"}), (0, set())]
    assert not script.rules


def test_a_rule_may_come_back_with_another_id() -> None:
    script = Rules()
    script.add(ALICE)
    first = set(script.image.acls)
    script.remove(ALICE)
    script.add(ALICE)
    assert script.rules == {ALICE}
    assert not first & set(script.image.acls)


NO_COLON = "no colon is present separating the principal type from the principal name"
WRONG = [
    (ALICE._replace(resource_type=AclResourceType.ANY), "Invalid resourceType ANY"),
    (ALICE._replace(resource_type=AclResourceType(99)), "Invalid resourceType UNKNOWN"),
    (rule("allow alice READ CLUSTER t"), "The only valid name for the CLUSTER resource is kafka-cluster"),
    (ALICE._replace(resource_name=""), "Invalid empty resource name"),
    (ALICE._replace(pattern_type=PatternType.MATCH), "Invalid patternType MATCH"),
    (ALICE._replace(operation=AclOperation.ANY), "Invalid operation ANY"),
    (ALICE._replace(permission_type=AclPermissionType.ANY), "Invalid permissionType ANY"),
    (ALICE._replace(principal="me"), f"Could not parse principal from `me` ({NO_COLON})"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_rule_is_refused_and_the_others_of_its_request_hold(wrong: AclBinding, message: str) -> None:
    script = Rules()
    assert script.add(wrong, BOB) == [(ErrorCode.INVALID_REQUEST, message), (0, "")]
    assert script.rules == {BOB}


INVALID, UNSUPPORTED = ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION
HOSTS = [
    (32, "10.1.2.3/8", 0, ""),
    (32, "10.0.0.0/08", 0, ""),
    (32, "2001:db8::1/32", 0, ""),
    (32, "fe80::1%eth0/64", 0, ""),
    (32, "node.example.org", 0, ""),
    (32, "", INVALID, "Host pattern cannot be null or empty"),
    (32, "10.0.0.0/33", INVALID, "Value [33] not in range [0,32]"),
    (32, "256.0.0.0/8", INVALID, "Value [256] not in range [0,255]"),
    (32, "10.0.0/8", INVALID, "Could not parse [10.0.0/8]"),
    (
        32,
        "10.0.0.0/255.0.0.0",
        INVALID,
        "Could not parse [10.0.0.0/255.0.0.0]",
    ),
    (32, "x/y", INVALID, "Could not parse [x/y]"),
    (32, "::1/x", INVALID, "Could not parse [::1/x] - invalid prefix length"),
    (
        32,
        "2001:db8::/129",
        INVALID,
        "Could not parse [2001:db8::/129] - prefix length must be between 0 and 128",
    ),
    (
        32,
        "::ffff:10.0.0.0/104",
        INVALID,
        "Could not parse [::ffff:10.0.0.0] - not an IPv6 address",
    ),
    (31, "10.0.0.0/8", UNSUPPORTED, "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."),
    (31, "10.0.0.1", 0, ""),
]
"""(metadata.version, host, error, what is said, of a range after its name), as Apache Kafka 4.4.0 has it."""


@pytest.mark.parametrize(("level", "host", "error", "message"), HOSTS, ids=lambda value: str(value)[:30])
def test_a_rule_about_a_range_of_addresses_that_is_none_is_refused(
    level: int, host: str, error: int, message: str
) -> None:
    script = Rules(levels={**NEW_CLUSTER, METADATA_VERSION: level})
    if error == INVALID and host:
        message = f"Invalid CIDR notation '{host}': {message}"
    assert script.add(ALICE._replace(host=host), BOB) == [(error, message), (0, "")]
    assert (BOB in script.rules) and (len(script.rules) == 1) is bool(error)


@pytest.mark.parametrize(
    "wrong",
    [
        EVERY._replace(resource_type=AclResourceType(99)),
        EVERY._replace(pattern_type=PatternType(99)),
        EVERY._replace(operation=AclOperation(99)),
        EVERY._replace(permission_type=AclPermissionType(99)),
    ],
)
def test_a_filter_with_an_unknown_code_is_refused_and_the_others_remove_theirs(wrong: AclBindingFilter) -> None:
    script = Rules()
    script.add(ALICE, BOB)
    assert script.remove(wrong, BOB) == [(ErrorCode.INVALID_REQUEST, set()), (0, {"User:bob"})]
    assert script.rules == {ALICE}


def test_filters_that_find_too_many_rules_remove_none(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Rules()
    script.add(ALICE, BOB, OF_GROUP)
    monkeypatch.setattr(acls, "MAX_RECORDS_PER_REQUEST", 2)
    with pytest.raises(KafkaError) as refused:
        script.remove(EVERY)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert len(script.rules) == 3


def test_a_request_of_too_many_rules_or_filters_is_refused_before_they_are_looked_at() -> None:
    script = Rules()
    for request in (create_acls(*[ALICE] * 10_001), delete_acls(*[ALICE] * 2_001)):
        outcome = script.controller.answer(request, script.now).value
        assert outcome.error.code is ErrorCode.POLICY_VIOLATION
    assert not script.rules


def test_a_plan_pauses_at_each_rule_and_filter_and_one_that_is_dropped_leaves_nothing() -> None:
    control, image = AclControl(Random(1)), EMPTY_IMAGE
    rules = [rule(f"allow alice READ TOPIC t{number}") for number in range(50)]
    image = _after(image, finish(control.create_acls(image, create_acls(*rules))).records)
    fresh = AclControl(Random(2))
    dropped = fresh.delete_acls(image, delete_acls(EVERY))
    assert sum(1 for _ in zip(range(20), dropped, strict=False)) == 20
    dropped.close()
    steps = fresh.delete_acls(image, delete_acls(EVERY, rules[0]))
    assert sum(1 for _ in steps) >= 100, "a pause for each rule that is taken up, and for each that is compared"
    result = finish(fresh.delete_acls(image, delete_acls(EVERY)))
    assert len(result.records) == 50
    assert not _after(image, result.records).acls


def test_a_plan_that_was_dropped_halfway_does_not_keep_rules_that_are_gone() -> None:
    control = AclControl(Random(1))
    before = _after(EMPTY_IMAGE, finish(control.create_acls(EMPTY_IMAGE, create_acls(ALICE, OF_GROUP))).records)
    finish(control.create_acls(before, create_acls(BOB)))
    after = _after(EMPTY_IMAGE, finish(AclControl(Random(2)).create_acls(EMPTY_IMAGE, create_acls(BOB))).records)
    dropped = control.create_acls(after, create_acls(BOB))
    next(dropped)
    dropped.close()
    assert len(finish(control.create_acls(after, create_acls(ALICE, OF_GROUP))).records) == 2, "none is there any more"


def _after(image: MetadataImage, records: list[Any]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record, _ in records:
        delta.replay(record)
    return delta.apply(image.provenance)
