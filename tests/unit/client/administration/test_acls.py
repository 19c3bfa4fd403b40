"""What an administrator asks about rules of access, and the command that asks it: requests, answers, each mistake."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from random import Random
from typing import Any

import pytest

from pykraft.client.administration.acls import AclCalls, acl_binding, acl_filter, without_errors, word
from pykraft.client.api_driver import ApiDriver
from pykraft.commands.administration import acls as command
from pykraft.commands.common import CommandError
from pykraft.common.acl import AclBinding, AclBindingFilter, AclOperation, AclResourceType, PatternType
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tests.harness.rules import EVERY, create_acls, delete_acls, describe_acls, rule
from tests.harness.scripted import Script, knowing, settings

ALICE, BOB = rule("allow alice READ TOPIC t"), rule("deny bob ALL GROUP g...")


def asking() -> tuple[AclCalls, Script]:
    config = settings("admin")
    driver = ApiDriver(config, knowing(config, {}), Random(1))
    return AclCalls(driver), Script(driver)


def test_rules_are_listed_as_they_were_made() -> None:
    ask, script = asking()
    promise = ask.describe_acls(EVERY, 60_000)
    script.poll()
    assert script.asked(DescribeAclsRequest) == describe_acls()
    resource = DescribeAclsResponse.Resource
    entry = resource.Acl(principal="User:alice", host="*", operation=3, permission_type=3)
    found = resource(resource_type=2, resource_name="t", pattern_type=3, acls=[entry])
    script.answer(DescribeAclsRequest, DescribeAclsResponse(resources=[found]))
    assert promise.value == [ALICE]


def test_an_error_of_the_whole_list_is_raised() -> None:
    ask, script = asking()
    promise = ask.describe_acls(EVERY, 60_000)
    script.poll()
    script.answer(DescribeAclsRequest, DescribeAclsResponse(error_code=54, error_message="No Authorizer", resources=[]))
    assert isinstance(promise.value, KafkaError)
    assert promise.value.code is ErrorCode.SECURITY_DISABLED


def test_each_rule_and_each_filter_has_its_answer() -> None:
    ask, script = asking()
    made = ask.create_acls([ALICE, BOB], 60_000)
    script.poll()
    assert script.asked(CreateAclsRequest) == create_acls(ALICE, BOB)
    result = CreateAclsResponse.Result
    script.answer(CreateAclsRequest, CreateAclsResponse(results=[result(), result(error_code=42, error_message="no")]))
    assert isinstance(made.value, dict)
    assert made.value[ALICE] is None
    with pytest.raises(KafkaError, match="no"):
        without_errors(made.value)
    gone = ask.delete_acls([EVERY, AclBindingFilter(*BOB)], 60_000)
    script.poll()
    assert script.asked(DeleteAclsRequest) == delete_acls(EVERY, BOB)
    answer = DeleteAclsResponse.FilterResult
    match = answer.MatchingAcl(
        resource_type=2, resource_name="t", principal="User:alice", host="*", operation=3, permission_type=3
    )
    answers = [answer(matching_acls=[match]), answer(error_code=42, error_message="no", matching_acls=[])]
    script.answer(DeleteAclsRequest, DeleteAclsResponse(filter_results=answers))
    assert isinstance(gone.value, dict)
    assert gone.value[EVERY] == [ALICE]
    assert isinstance(gone.value[AclBindingFilter(*BOB)], KafkaError)


def test_words_may_be_text() -> None:
    said: Any = ("topic", "t", "Literal", "User:alice", "*", "read", "ALLOW")
    assert acl_binding(AclBinding(*said)) == ALICE
    assert acl_filter(AclBindingFilter(*said)) == AclBindingFilter(*ALICE) == acl_filter(ALICE)
    assert word(AclOperation, "DescribeConfigs") is word(AclOperation, "describe_configs")


WRONG: list[tuple[Any, str]] = [
    (("topic", "t"), "AclBinding"),
    (AclBindingFilter(*ALICE), "AclBinding"),
    (ALICE._replace(resource_name=None), "text"),  # type: ignore[arg-type]
    (ALICE._replace(operation="fly"), "'fly' is no AclOperation: it is one of any, all, read"),  # type: ignore[arg-type]
    (ALICE._replace(operation=AclOperation.ANY), "which is for filters"),
    (ALICE._replace(pattern_type=PatternType.MATCH), "which is for filters"),
    (ALICE._replace(resource_type=AclResourceType.UNKNOWN), "is no AclResourceType"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_no_rule_is_refused_before_it_is_sent(wrong: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        acl_binding(wrong)


# --- the command ------------------------------------------------------------------------------------------------------


def options(line: str) -> Namespace:
    parser = ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(["--bootstrap-server", "nowhere:1", *line.split()])


def rules_of(line: str) -> set[AclBinding]:
    found = options(line)
    command._check(found)
    return {command._binding(pattern, entry) for pattern, entries in command._rules(found).items() for entry in entries}


ADDED: list[tuple[str, list[str]]] = [
    ("--allow-principal User:a --topic t", ["allow a ALL TOPIC t"]),
    ("--allow-principal User:a --operation Read --topic t --group g", ["allow a READ TOPIC t", "allow a READ GROUP g"]),
    ("--deny-principal User:a --deny-host h --cluster", ["deny a ALL CLUSTER kafka-cluster from h"]),
    (
        "--allow-principal User:a --deny-principal User:b --operation write --topic t --resource-pattern-type prefixed",
        ["allow a WRITE TOPIC t...", "deny b WRITE TOPIC t..."],
    ),
    (
        "--producer --allow-principal User:a --topic t --transactional-id x",
        [
            *(f"allow a {operation} TOPIC t" for operation in ("WRITE", "DESCRIBE", "CREATE")),
            *(f"allow a {operation} TRANSACTIONAL_ID x" for operation in ("WRITE", "DESCRIBE")),
        ],
    ),
    (
        "--producer --idempotent --allow-principal User:a --topic t",
        [
            *(f"allow a {operation} TOPIC t" for operation in ("WRITE", "DESCRIBE", "CREATE")),
            "allow a IDEMPOTENT_WRITE CLUSTER kafka-cluster",
        ],
    ),
    (
        "--consumer --allow-principal User:a --topic t --group g",
        ["allow a READ TOPIC t", "allow a DESCRIBE TOPIC t", "allow a READ GROUP g"],
    ),
]


@pytest.mark.parametrize(("line", "rules"), ADDED, ids=[line for line, _ in ADDED])
def test_options_come_to_rules(line: str, rules: list[str]) -> None:
    assert rules_of(f"--add {line}") == set(map(rule, rules))


MISTAKES = [
    ("--add --topic t", "--add needs --allow-principal or --deny-principal"),
    ("--add --allow-principal User:a", "no resource is named"),
    ("--add --allow-principal a --topic t", "a is no principal"),
    ("--add --allow-principal User:a --topic t --operation fly", "--operation 'fly' is no AclOperation"),
    ("--add --allow-principal User:a --topic t --operation ClusterAction", "only has the operations Read, Write"),
    ("--add --allow-principal User:a --topic t --resource-pattern-type any", "does not go with --add"),
    ("--add --allow-principal User:a --producer --group g", "--producer needs --topic"),
    ("--add --allow-principal User:a --consumer --topic t", "--consumer needs --topic and --group"),
    ("--add --allow-principal User:a --consumer --topic t --group g --cluster", "no --cluster"),
    ("--add --allow-principal User:a --idempotent --topic t", "--idempotent is only available with --producer"),
    ("--add --allow-principal User:a --topic t --producer --operation Read", "--producer does not go with --operation"),
    ("--list --allow-principal User:a", "--list does not go with --allow-principal"),
    ("--remove --principal User:a --topic t", "--principal is only available with --list"),
]


@pytest.mark.parametrize(("line", "message"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_one_sentence(line: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        rules_of(line)


def test_rules_are_removed_without_a_question_only_by_force(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for answer, is_confirmed in (("y", True), ("Y ", True), ("n", False), ("", False)):
        monkeypatch.setattr("builtins.input", lambda answer=answer: answer)
        assert command._is_confirmed(ALICE.pattern, []) is is_confirmed
    assert capsys.readouterr().out.splitlines()[0] == (
        "Are you sure you want to delete all ACLs for resource filter "
        "`ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`? (y/n)"
    )
