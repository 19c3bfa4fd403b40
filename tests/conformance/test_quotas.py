"""DescribeClientQuotas and AlterClientQuotas: which entities and values there may be, and what a filter finds."""

from __future__ import annotations

from pykraft.protocol.messages.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from tests.conformance.dialogue import Dialogue
from tests.conformance.test_quorum import controller, other
from tests.harness.quotas import alter, described_by, entry, of

PRODUCER, REQUEST = "producer_byte_rate", "request_percentage"
ALICE = {"user": "alice"}
LARGE, INFINITE, NAN = 1e308, float("inf"), float("nan")


def test_values_of_quotas(talk: Dialogue) -> None:
    speaker = talk.to()
    for key, kinds in (
        (PRODUCER, ALICE),
        ("consumer_byte_rate", {"client-id": None}),
        (REQUEST, ALICE),
        ("controller_mutation_rate", {"user": None, "client-id": "loader"}),
        ("connection_creation_rate", {"ip": "10.1.2.3"}),
    ):
        for value in (1.0, 0.0, -1.0, 0.5, 0.0001, 1e-7, 2.0**31, 2.0**63, 2.0**64, LARGE, INFINITE, NAN):
            speaker.ask(alter((kinds, {key: value}), validate_only=True), 1, f"{key}={value} of {kinds}")
    for kinds, key in ((ALICE, "x"), (ALICE, ""), (ALICE, "connection_creation_rate"), ({"ip": None}, PRODUCER)):
        speaker.ask(alter((kinds, {key: 1.0}), validate_only=True), 1, f"{key} of {kinds}")


def test_entities_of_quotas(talk: Dialogue) -> None:
    speaker = talk.to()
    for kinds in (
        {},
        {"user": ""},
        {"client-id": ""},
        {"ip": ""},
        {"host": "a"},
        {"": "a"},
        {"user": "alice", "host": "a"},
        {"user": "alice", "ip": "10.1.2.3"},
        {"ip": "10.1.2.3", "client-id": None},
        {"ip": "::1"},
        {"ip": "no address"},
        {"user": "a b/%~", "client-id": "c:d"},
    ):
        for version in (0, 1):
            keys: dict[str, float | None] = {PRODUCER: 7.0, "connection_creation_rate": None}
            speaker.ask(alter((kinds, keys), validate_only=True), version, f"{kinds}")
        speaker.ask(alter((kinds, {}), validate_only=True), 1, f"nothing of {kinds}")
    for name, request in (
        ("a key twice", AlterClientQuotasRequest(entries=[entry(ALICE, (PRODUCER, 1.0), (PRODUCER, 2.0))])),
        ("an entity twice", alter((ALICE, {PRODUCER: 5.0}), (ALICE, {REQUEST: 6.0}))),
        ("a type twice", _twice()),
        ("what is not there", alter(({"user": "nobody"}, {PRODUCER: None}))),
        ("nothing", alter()),
    ):
        speaker.ask(request.replace(validate_only=True), 1, name)
    controller(talk).ask(alter((ALICE, {PRODUCER: 5.0}), validate_only=True), 1)
    other(talk).ask(alter((ALICE, {PRODUCER: 5.0}), validate_only=True), 1)


def _twice() -> AlterClientQuotasRequest:
    found = entry(ALICE, (PRODUCER, 1.0))
    return AlterClientQuotasRequest(entries=[found.replace(entity=[*found.entity, *entry({"user": "bob"}).entity])])


def test_filters_of_quotas(talk: Dialogue) -> None:
    speaker = talk.to()
    carol = {"user": "carol", "client-id": "x"}
    speaker.ask(alter((carol, {REQUEST: 3.0}), validate_only=True), 1, "validated alone")
    speaker.ask(described_by(user="carol"), 1, "before there are any")
    for kinds in ({"user": "carol"}, {"user": "carol", "client-id": None}, carol, {"client-id": "quota filters"}):
        speaker.ask(alter((kinds, {REQUEST: 3.0})), 1)
    talk.until(1, described_by(client_id="quota filters"), 1, lambda answer: len(answer.entries) == 1)
    kind = DescribeClientQuotasRequest.Component
    named = of(user="carol")
    for name, strict, components in (
        ("a user alone", True, named),
        ("a user and a default", True, [*named, *of(client_id="")]),
        ("a user and a default", False, of(user="carol", client_id="")),
        ("any user with a client id", False, of(user=True, client_id="x")),
        ("a client id alone", True, of(client_id="quota filters")),
        ("a name of no type", False, [kind(entity_type="", match_type=0, match="a")]),
        ("an unknown type", False, [kind(entity_type="host", match_type=0, match="a")]),
        ("a type twice", False, [*named, *named]),
        ("an exact null", False, [kind(entity_type="user", match_type=0, match=None)]),
        ("a default with a name", False, [kind(entity_type="user", match_type=1, match="a")]),
        ("any with a name", False, [kind(entity_type="user", match_type=2, match="a")]),
        ("an unknown match", False, [kind(entity_type="user", match_type=3, match=None)]),
        ("an address and a user", False, [*named, *of(ip="10.1.2.3")]),
    ):
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        for version in (0, 1):
            speaker.ask(request, version, f"{name}{', strict' if strict else ''}")
    for kinds in ({"user": "carol"}, {"user": "carol", "client-id": None}, carol, {"client-id": "quota filters"}):
        speaker.ask(alter((kinds, {REQUEST: None})), 1, "away with it")
