"""DescribeAcls, CreateAcls and DeleteAcls of a cluster without an authorizer. Clusters that have one are compared in
tests/judges/test_rules_of_access.py."""

from __future__ import annotations

from tests.conformance.dialogue import Dialogue
from tests.conformance.test_quorum import controller, other
from tests.harness.rules import EVERY, create_acls, delete_acls, describe_acls, rule

RULE = rule("allow alice READ TOPIC t")


def test_rules_of_a_cluster_without_an_authorizer(talk: Dialogue) -> None:
    for version in (1, 3):
        for speaker in (talk.to(), controller(talk)):
            speaker.ask(describe_acls(), version)
            speaker.ask(create_acls(RULE, RULE), version)
            speaker.ask(delete_acls(EVERY), version)
            speaker.ask(create_acls(), version, "of nothing")
    other(talk).ask(create_acls(RULE), 3)
    for request in (describe_acls().replace(operation=0), create_acls(RULE._replace(resource_type=0))):
        talk.to().ask(request, 3, "with a code of 0")
