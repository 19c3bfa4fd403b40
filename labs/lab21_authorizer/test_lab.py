"""What lab 21 asks of an authorizer. Answers are compared with those of pykraft's own index of rules."""

import pytest

from pykraft.common.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from pykraft.common.types import Uuid
from pykraft.metadata.acls import EVERYTHING, AclIndex
from pykraft.protocol.messages.records import AccessControlEntryRecord

ALICE, BOB, HERE, THERE = "User:alice", "User:bob", "10.0.0.7", "10.0.0.8"
OPERATIONS = ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
NAMES = ("flights", "flight", "flights-2", "*", "f", "other")


def rule(impl, permission="ALLOW", principal=ALICE, host="*", operation="READ", type_="TOPIC", name="flights",
         pattern="LITERAL"):  # fmt: skip
    return impl.Rule(permission, principal, host, operation, type_, name, pattern)


def question(impl, principal=ALICE, host=HERE, operation="READ", type_="TOPIC", name="flights"):
    return impl.Question(principal, host, operation, type_, name)


def record(number, each):
    return AccessControlEntryRecord(
        id=Uuid(number.to_bytes(16, "big")),
        resource_type=AclResourceType[each.resource_type],
        resource_name=each.name,
        pattern_type=PatternType[each.pattern],
        principal=each.principal,
        host=each.host,
        operation=AclOperation[each.operation],
        permission_type=AclPermissionType[each.permission],
    )


def pykrafts(rules, asked, super_users=(), default=False):
    """The answer of pykraft's own rules."""
    if asked.principal in super_users:
        return True
    index = AclIndex(EVERYTHING if default else 0)
    index.follow({each.id: each for each in map(record, range(len(rules)), rules)})
    rights = index.rights(asked.principal, asked.host, AclResourceType[asked.resource_type], asked.name)
    return rights >> AclOperation[asked.operation] & 1 == 1


def check(impl, rules, asked, super_users=(), default=False):
    """Compare one answer; the message says what was asked."""
    wanted = pykrafts(rules, asked, super_users, default)
    found = impl.is_allowed(rules, asked, super_users, default)
    said = "; ".join(
        f"{r.permission} {r.principal} from {r.host} {r.operation} {r.resource_type} {r.pattern} {r.name}"
        for r in rules
    )
    assert found is wanted, (
        f"may {asked.principal} from {asked.host} {asked.operation} the {asked.resource_type} {asked.name}? {wanted}, "
        f"and you say {found}: the rules are: {said or 'none'}; super users {list(super_users)}, default {default}"
    )


def say(impl, function, wanted, *arguments):
    found = getattr(impl, function)(*arguments)
    assert found is wanted, f"{function}{arguments} is {wanted}, and you say {found}"


# --- task 21.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("21.1", points=2)
def test_a_literal_rule_means_one_name(impl):
    """A literal rule about flights, and names that begin with it or are its beginning."""
    for name in NAMES:
        say(impl, "means", name == "flights", rule(impl), "TOPIC", name)


@pytest.mark.task("21.1", points=2)
def test_a_prefixed_rule_means_all_names_that_begin_with_its_own(impl):
    """A prefixed rule about flight: flight, flights and flights-2, and not f or a name that has it in the middle."""
    prefixed = rule(impl, name="flight", pattern="PREFIXED")
    for name in (*NAMES, "my-flight"):
        say(impl, "means", name.startswith("flight"), prefixed, "TOPIC", name)


@pytest.mark.task("21.1", points=2)
def test_the_wildcard_is_a_literal_name(impl):
    """A literal star, and a prefixed one, which means names that begin with a star."""
    for name in NAMES:
        say(impl, "means", True, rule(impl, name="*"), "TOPIC", name)
        say(impl, "means", name == "*", rule(impl, name="*", pattern="PREFIXED"), "TOPIC", name)


@pytest.mark.task("21.1", points=1)
def test_a_rule_means_one_type_of_resource(impl):
    """Rules about a topic, asked about a group of the same name."""
    for each in (rule(impl), rule(impl, name="*"), rule(impl, name="fl", pattern="PREFIXED")):
        say(impl, "means", True, each, "TOPIC", "flights")
        say(impl, "means", False, each, "GROUP", "flights")


# --- task 21.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("21.2", points=2)
def test_a_rule_is_of_its_principal_or_of_everyone(impl):
    """Rules of alice, of everyone, and of a user whose name begins like hers."""
    say(impl, "is_of", True, rule(impl), ALICE, HERE)
    say(impl, "is_of", False, rule(impl), BOB, HERE)
    say(impl, "is_of", True, rule(impl, principal="User:*"), BOB, HERE)
    say(impl, "is_of", False, rule(impl, principal="User:ali"), ALICE, HERE)


@pytest.mark.task("21.2", points=2)
def test_a_rule_is_of_its_host_or_of_all(impl):
    """The rule's host, another one, and a star."""
    for principal in (ALICE, "User:*"):
        say(impl, "is_of", True, rule(impl, principal=principal, host=HERE), ALICE, HERE)
        say(impl, "is_of", False, rule(impl, principal=principal, host=HERE), ALICE, THERE)
        say(impl, "is_of", True, rule(impl, principal=principal), ALICE, THERE)


@pytest.mark.task("21.2", points=2)
def test_an_operation_is_its_own_and_all_is_every_one(impl):
    """Each operation and ALL, in rules that allow and that deny, asked about the operation itself and about CREATE."""
    for permission in ("ALLOW", "DENY"):
        for operation in OPERATIONS:
            say(impl, "decides", True, rule(impl, permission, operation=operation), operation)
            say(impl, "decides", True, rule(impl, permission, operation="ALL"), operation)
            say(impl, "decides", operation == "CREATE", rule(impl, permission, operation=operation), "CREATE")


@pytest.mark.task("21.2", points=3)
def test_some_operations_bring_describe_with_them(impl):
    """Each operation in a rule that allows, asked about DESCRIBE and DESCRIBE_CONFIGS."""
    for operation in OPERATIONS:
        allows = rule(impl, operation=operation)
        brings = operation in ("READ", "WRITE", "DELETE", "ALTER", "DESCRIBE")
        say(impl, "decides", brings, allows, "DESCRIBE")
        say(impl, "decides", operation in ("ALTER_CONFIGS", "DESCRIBE_CONFIGS"), allows, "DESCRIBE_CONFIGS")


@pytest.mark.task("21.2", points=2)
def test_a_rule_that_denies_brings_nothing_with_it(impl):
    """Each operation in a rule that denies, asked about DESCRIBE and DESCRIBE_CONFIGS."""
    for operation in OPERATIONS:
        denies = rule(impl, "DENY", operation=operation)
        for asked in ("DESCRIBE", "DESCRIBE_CONFIGS"):
            say(impl, "decides", operation == asked, denies, asked)


# --- task 21.3 --------------------------------------------------------------------------------------------------------


@pytest.mark.task("21.3", points=2)
def test_a_super_user_may_do_everything(impl):
    """A super user, and another one, where a rule denies, and where none is."""
    denies = rule(impl, "DENY", operation="ALL")
    for rules in ((), (denies,), (rule(impl), denies)):
        for principal in (ALICE, BOB):
            check(impl, rules, question(impl, principal), super_users=("User:admin", ALICE))


@pytest.mark.task("21.3", points=3)
def test_a_rule_that_denies_beats_each_rule_that_allows(impl):
    """A rule that denies before, between and after two that allow; literal and prefixed; of alice and of everyone."""
    allows = (rule(impl, principal="User:*"), rule(impl, operation="ALL"))
    denials = (
        rule(impl, "DENY"),
        rule(impl, "DENY", principal="User:*", name="fl", pattern="PREFIXED"),
        rule(impl, "DENY", operation="ALL", name="*"),
    )
    for denial in denials:
        for place in range(3):
            check(impl, (*allows[:place], denial, *allows[place:]), question(impl))


@pytest.mark.task("21.3", points=2)
def test_a_denial_of_others_does_not_matter(impl):
    """Rules that deny another user, another host, another operation or another topic."""
    for denial in (
        rule(impl, "DENY", principal=BOB),
        rule(impl, "DENY", host=THERE),
        rule(impl, "DENY", operation="WRITE"),
        rule(impl, "DENY", name="flights-2", pattern="PREFIXED"),
    ):
        check(impl, (rule(impl), denial), question(impl))


@pytest.mark.task("21.3", points=3)
def test_the_default_is_of_resources_without_any_rule(impl):
    """Both defaults: no rule, a rule about another topic, a rule about this topic and another user or operation."""
    for default in (True, False):
        for rules in (
            (),
            (rule(impl, name="other"),),
            (rule(impl, type_="GROUP"),),
            (rule(impl, principal=BOB),),
            (rule(impl, operation="WRITE"),),
            (rule(impl, "DENY", principal=BOB, name="*"),),
        ):
            check(impl, rules, question(impl), default=default)


@pytest.mark.task("21.3", points=3)
def test_many_rules_get_pykrafts_answers(impl, chance):
    """500 questions to up to six rules of all kinds."""
    for _ in range(500):
        rules = [
            rule(
                impl,
                chance.choice(("ALLOW", "ALLOW", "DENY")),
                chance.choice((ALICE, BOB, "User:*")),
                chance.choice((HERE, "*", "*")),
                chance.choice((*OPERATIONS, "ALL")),
                chance.choice(("TOPIC", "TOPIC", "GROUP")),
                chance.choice(NAMES),
                chance.choice(("LITERAL", "PREFIXED")),
            )
            for _ in range(chance.randrange(7))
        ]
        asked = question(impl, chance.choice((ALICE, BOB)), chance.choice((HERE, THERE)), chance.choice(OPERATIONS),
                         name=chance.choice(NAMES))  # fmt: skip
        check(impl, rules, asked, super_users=chance.choice(((), (BOB,))), default=chance.random() < 0.5)
