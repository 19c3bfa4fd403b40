"""A node with rules of access: the requests about them, whom it asks, and what it does before it knows them."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.broker.requests.forwarding import _envelope
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.broker.settings.config import read_node_config
from pykraft.common.acl import AclBindingFilter, AclResourceType
from pykraft.common.errors import ConfigError, ErrorCode
from pykraft.protocol.api import ListenerKind
from pykraft.protocol.messages.cluster import MetadataRequest
from tests.harness.controllers import make, new_topic
from tests.harness.lone_node import PROPERTIES, LoneNode
from tests.harness.rules import EVERY, create_acls, delete_acls, describe_acls, described, rule

BROKER, CONTROLLER = ListenerKind.BROKER, ListenerKind.CONTROLLER
NODES, ROOT, ALICE = "User:test", "User:root", "User:alice"
MAY_READ = rule("allow alice READ TOPIC t")
TOO_FEW_VOTERS = "1@node:9093,2@elsewhere:9093"


def guarded(filesystem: Any = None, **settings: str) -> LoneNode:
    """A node whose own principal and root are super users."""
    return LoneNode(filesystem, authorizer_class_name=STANDARD_AUTHORIZER, super_users=f"{NODES};{ROOT}", **settings)


def codes(response: Any) -> list[int]:
    """The error codes of an answer about rules."""
    parts = getattr(response, "results", None) or getattr(response, "filter_results", None) or [response]
    return [part.error_code for part in parts]


@pytest.mark.parametrize("kind", ListenerKind, ids=lambda kind: kind.value)
def test_rules_are_made_listed_and_removed_on_each_listener(kind: ListenerKind) -> None:
    lone = guarded()
    other = rule("deny bob ALL GROUP g...")
    assert codes(lone.ask(create_acls(MAY_READ, other), kind, principal=ROOT)) == [0, 0]
    assert described(lone.ask(describe_acls(), kind, principal=ROOT)) == {MAY_READ, other}
    only = AclBindingFilter(AclResourceType.GROUP)
    assert described(lone.ask(describe_acls(only), kind, principal=ROOT)) == {other}
    assert codes(lone.ask(delete_acls(only), kind, principal=ROOT)) == [0]
    assert described(lone.ask(describe_acls(), kind, principal=ROOT)) == {MAY_READ}


@pytest.mark.parametrize("kind", ListenerKind, ids=lambda kind: kind.value)
def test_a_node_without_an_authorizer_has_no_rules(kind: ListenerKind) -> None:
    lone = LoneNode()
    for request in (describe_acls(), create_acls(MAY_READ), delete_acls(EVERY)):
        answer = lone.ask(request, kind)
        assert codes(answer) == [ErrorCode.SECURITY_DISABLED]


@pytest.mark.parametrize("kind", ListenerKind, ids=lambda kind: kind.value)
def test_a_code_of_zero_closes_the_connection(kind: ListenerKind) -> None:
    lone = guarded()
    every = describe_acls()
    for request in (
        every.replace(operation=0),
        every.replace(pattern_type_filter=0),
        create_acls(MAY_READ._replace(permission_type=0)),  # type: ignore[arg-type]
        delete_acls(EVERY._replace(resource_type=0)),  # type: ignore[arg-type]
    ):
        answer = lone.handle(request, kind, principal=ROOT)
        assert answer.value.hang_up


@pytest.mark.costly
def test_very_many_rules_are_listed_in_slices() -> None:
    lone = guarded()
    rules = {rule(f"allow alice READ TOPIC t{number}") for number in range(1500)}
    assert codes(lone.ask(create_acls(*rules), principal=ROOT)) == [0] * len(rules)
    answer = lone.handle(describe_acls(), principal=ROOT)
    assert not answer.kept, "other requests come between"
    lone.run()
    assert described(answer.value.response) == rules


# --- whom a node asks -------------------------------------------------------------------------------------------------


def may_read(lone: LoneNode, name: str = "t", principal: str = ALICE, address: str = "10.0.0.7") -> bool:
    asked = MetadataRequest(
        topics=[MetadataRequest.Topic(name=name)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    (topic,) = lone.ask(asked, principal=principal, address=address).topics
    return not topic.error_code and bool(topic.topic_authorized_operations >> MAY_READ.operation & 1)


def test_a_rule_holds_from_its_creation_to_its_removal_and_over_a_restart() -> None:
    lone = guarded()
    lone.create("t")
    assert not may_read(lone)
    lone.ask(create_acls(MAY_READ), principal=ROOT)
    assert may_read(lone)
    assert not may_read(lone, principal="User:bob")
    lone.node.close()
    lone = guarded(lone.filesystem)
    assert may_read(lone)
    lone.ask(create_acls(rule("deny alice READ TOPIC t from 10.0.0.7")), principal=ROOT)
    assert not may_read(lone)
    assert may_read(lone, address="10.0.0.8")
    lone.ask(delete_acls(EVERY), principal=ROOT)
    assert not may_read(lone, address="10.0.0.8")


def test_without_rules_everyone_may_do_everything_if_the_file_says_so() -> None:
    lone = LoneNode(authorizer_class_name=STANDARD_AUTHORIZER, allow_everyone_if_no_acl_found="true")
    lone.create("t")
    assert may_read(lone)
    lone.ask(create_acls(rule("allow bob READ TOPIC t")))
    assert not may_read(lone)
    assert may_read(lone, principal="User:bob")


def test_a_broker_that_may_do_everything_lends_its_right_to_no_client() -> None:
    lone = guarded()
    refused = lone.ask(create_acls(MAY_READ), principal=ALICE)
    assert codes(refused) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    made = lone.ask(make(new_topic("new", assignment={0: [1]})), principal=ALICE)
    assert made.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not lone.node.loader.image.acls
    assert "new" not in lone.node.loader.image.topic_ids


def test_an_envelope_from_a_client_is_refused_whoever_it_names() -> None:
    lone = guarded()
    lone.ask(create_acls(rule("allow alice ALTER CLUSTER kafka-cluster")), principal=ROOT)
    request = create_acls(rule("allow alice ALL CLUSTER kafka-cluster"))
    as_root = LoneNode.context(request, principal=ROOT)
    forged = _envelope(request, as_root.api_version, as_root)
    answer = lone.ask(forged, CONTROLLER, principal=ALICE)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert len(lone.node.loader.image.acls) == 1


# --- before the rules are known ---------------------------------------------------------------------------------------


def test_a_controller_that_does_not_know_the_rules_serves_super_users_alone() -> None:
    lone = guarded(controller_quorum_voters=TOO_FEW_VOTERS)
    assert lone.ask(describe_acls(), CONTROLLER, principal=ROOT).error_code == 0
    assert lone.ask(describe_acls(), CONTROLLER, principal=ALICE).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_listener_that_does_not_start_early_waits_for_the_rules() -> None:
    lone = guarded(controller_quorum_voters=TOO_FEW_VOTERS, early_start_listeners="PLAINTEXT")
    waits = lone.handle(describe_acls(), CONTROLLER, principal=ROOT)
    lone.run(1000)
    assert not waits.kept
    alone = guarded(early_start_listeners="PLAINTEXT")
    assert alone.ask(describe_acls(), CONTROLLER, principal=ROOT).error_code == 0


# --- the settings -----------------------------------------------------------------------------------------------------


def test_super_users_are_separated_by_semicolons() -> None:
    config = read_node_config(
        {**PROPERTIES, "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": ";  User:bob  ; User:a;b:c;"}
    )
    assert config.values.as_dict()["super.users"] == ("User:bob", "User:a", "b:c")


REFUSED = [
    ("authorizer.class.name", "com.example.Mine", f"must be {STANDARD_AUTHORIZER}, or empty for no authorizer"),
    ("super.users", "bob;User:alice", "must be principals with semicolons between them: User:NAME;User:NAME"),
    ("allow.everyone.if.no.acl.found", "yes", "must be true or false"),
    ("early.start.listeners", "NOWHERE", "must name listeners of this node or of the controllers"),
]


@pytest.mark.parametrize(("name", "value", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_wrong_setting_is_refused_in_one_sentence(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_node_config({**PROPERTIES, name: value})
    assert str(refused.value).startswith(name)
    assert message in str(refused.value)


def test_listeners_wait_for_the_rules_but_those_of_controllers_or_those_that_are_named() -> None:
    assert read_node_config(PROPERTIES).late_listeners == {"PLAINTEXT"}
    named = read_node_config({**PROPERTIES, "early.start.listeners": "plaintext"})
    assert named.late_listeners == {"CONTROLLER"}
