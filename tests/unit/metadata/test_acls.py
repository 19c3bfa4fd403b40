"""The rules of access as Kafka's StandardAuthorizer has them: a table of rules and questions, and a law.

The law compares the index with a plain reading of every rule, on random rules, also while rules come and go.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from pykraft.broker.requests.standard_authorizer import StandardAuthorizer
from pykraft.common.acl import (
    ANY_PRINCIPAL,
    WILDCARD,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.metadata.acls import EVERYTHING, AclIndex, java_address
from pykraft.protocol.messages.cluster import MetadataRequest
from pykraft.sim.laws.rule_laws import plainly
from tests.harness.lone_node import LoneNode
from tests.harness.rules import records, rule

HOME, AWAY = "192.168.1.1", "192.168.1.2"
CLIENT = "127.0.0.1"

PRECEDENCE = [
    "deny alice ALL TOPIC foo",
    "allow alice READ TOPIC foo...",
    "deny * ALL TOPIC foo",
    "allow * DESCRIBE TOPIC foo...",
]
HOSTS = [
    f"deny alice READ TOPIC foo from {HOME}",
    "allow alice READ TOPIC foo",
    f"allow bob READ TOPIC bar from {AWAY}",
    f"allow * DESCRIBE TOPIC bar from {CLIENT}",
]
MANY = [
    "allow * READ TOPIC green2",
    "allow bob READ TOPIC green...",
    "allow bob READ TOPIC betamax",
    "allow * READ TOPIC alpha...",
    "deny bob READ TOPIC alp...",
    "allow bob WRITE GROUP *",
    "deny * WRITE GROUP wheel",
]
IMPLIED = [f"allow {operation.lower()} {operation} TOPIC t" for operation in ("READ", "WRITE", "DELETE", "ALTER")]
TABLE: list[tuple[str, list[str], str, bool]] = [
    ("nothing is allowed without a rule", [], "alice READ TOPIC t", False),
    ("a rule allows", ["allow alice READ TOPIC t"], "alice READ TOPIC t", True),
    ("a rule is about its principal", ["allow alice READ TOPIC t"], "bob READ TOPIC t", False),
    ("a rule is about its operation", ["allow alice READ TOPIC t"], "alice WRITE TOPIC t", False),
    ("a rule is about its type", ["allow alice READ TOPIC t"], "alice READ GROUP t", False),
    ("a literal name is no prefix", ["allow alice READ TOPIC t"], "alice READ TOPIC tt", False),
    ("a prefix is no longer than the name", ["allow alice READ TOPIC tt..."], "alice READ TOPIC t", False),
    ("a prefix is the beginning of a name", ["allow alice READ TOPIC b..."], "alice READ TOPIC ab", False),
    ("a prefix may be the whole name", ["allow alice READ TOPIC t..."], "alice READ TOPIC t", True),
    ("a prefix means longer names", ["allow alice READ TOPIC t..."], "alice READ TOPIC tea", True),
    ("a star means every name", ["allow alice READ TOPIC *"], "alice READ TOPIC t", True),
    ("a prefix of a star is no star", ["allow alice READ TOPIC *..."], "alice READ TOPIC t", False),
    ("a star in a name is a letter", ["allow alice READ TOPIC t*"], "alice READ TOPIC tt", False),
    ("User:* is everyone", ["allow * READ TOPIC t"], "bob READ TOPIC t", True),
    ("ALL is every operation", ["allow alice ALL TOPIC t"], "alice ALTER_CONFIGS TOPIC t", True),
    ("a denial goes first", ["allow alice READ TOPIC t", "deny alice READ TOPIC t"], "alice READ TOPIC t", False),
    ("... also a wide one", ["allow alice READ TOPIC t", "deny * ALL TOPIC *"], "alice READ TOPIC t", False),
    ("... and a prefix", ["allow alice READ TOPIC tea", "deny alice READ TOPIC t..."], "alice READ TOPIC tea", False),
    ("a denial is about its operation", ["allow a ALL TOPIC t", "deny a WRITE TOPIC t"], "a READ TOPIC t", True),
    *((f"{who} implies DESCRIBE", IMPLIED, f"{who} DESCRIBE TOPIC t", True) for who in ("read", "write", "alter")),
    ("DELETE implies DESCRIBE", IMPLIED, "delete DESCRIBE TOPIC t", True),
    ("CREATE implies nothing", ["allow a CREATE TOPIC t"], "a DESCRIBE TOPIC t", False),
    ("DESCRIBE implies nothing", ["allow a DESCRIBE TOPIC t"], "a READ TOPIC t", False),
    ("READ does not imply DESCRIBE_CONFIGS", ["allow a READ TOPIC t"], "a DESCRIBE_CONFIGS TOPIC t", False),
    ("ALTER_CONFIGS implies it", ["allow a ALTER_CONFIGS TOPIC t"], "a DESCRIBE_CONFIGS TOPIC t", True),
    ("... and not DESCRIBE", ["allow a ALTER_CONFIGS TOPIC t"], "a DESCRIBE TOPIC t", False),
    ("to deny READ denies no more", ["deny a READ TOPIC t", "allow a DESCRIBE TOPIC t"], "a DESCRIBE TOPIC t", True),
    ("... of settings", ["deny a ALTER_CONFIGS TOPIC t", "allow a ALL TOPIC t"], "a DESCRIBE_CONFIGS TOPIC t", True),
    ("alice, all denied", PRECEDENCE, "alice DESCRIBE TOPIC foo", False),
    ("alice, beyond the name", PRECEDENCE, "alice READ TOPIC foobar", True),
    ("bob, all denied", PRECEDENCE, "bob DESCRIBE TOPIC foo", False),
    ("bob, beyond the name", PRECEDENCE, "bob DESCRIBE TOPIC foobaz", True),
    ("bob may not read there", PRECEDENCE, "bob READ TOPIC foobaz", False),
    ("alice from here", HOSTS, "alice READ TOPIC foo", True),
    ("alice from home", HOSTS, f"alice READ TOPIC foo from {HOME}", False),
    ("alice from away", HOSTS, f"alice READ TOPIC foo from {AWAY}", True),
    ("bob from here", HOSTS, "bob READ TOPIC bar", False),
    ("bob from here describes", HOSTS, "bob DESCRIBE TOPIC bar", True),
    ("bob from away", HOSTS, f"bob READ TOPIC bar from {AWAY}", True),
    ("bob from away describes", HOSTS, f"bob DESCRIBE TOPIC bar from {AWAY}", True),
    ("many: a prefix", MANY, "bob READ TOPIC green1", True),
    ("many: a denial beside a star", MANY, "bob WRITE GROUP wheel", False),
    ("many: a star", MANY, "bob WRITE GROUP arbitrary", True),
    ("many: a prefix denies", MANY, "bob READ TOPIC alpha", False),
    ("many: not for others", MANY, "fred READ TOPIC alpha", True),
    ("many: no rule fits", MANY, "bob READ TOPIC ala", False),
    ("IPv6 as Java writes it", ["allow a READ TOPIC t from 0:0:0:0:0:0:0:1"], "a READ TOPIC t from ::1", True),
]  # fmt: skip


def index(rules: Iterable[str], default: int = 0) -> AclIndex:
    found = AclIndex(default)
    found.follow(records(map(rule, rules)))
    return found


def allows(found: AclIndex, question: str) -> bool:
    who, operation, kind, name, *rest = question.split()
    host = rest[1] if rest else CLIENT
    return bool(found.rights(f"User:{who}", host, AclResourceType[kind], name) >> AclOperation[operation] & 1)


@pytest.mark.parametrize(("rules", "question", "allowed"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_is_allowed(rules: list[str], question: str, allowed: bool) -> None:
    assert allows(index(rules), question) is allowed


RANGES = [
    "allow a READ TOPIC t from 10.1.0.0/16",
    "deny * READ TOPIC t from 10.1.2.0/24",
    "allow b READ TOPIC t from x/8",
]


@pytest.mark.parametrize(
    ("question", "allowed"),
    [
        ("a READ TOPIC t from 10.1.0.7", True),
        ("a READ TOPIC t from 10.1.2.7", False),
        ("a READ TOPIC t from 10.2.0.7", False),
        ("a READ TOPIC t from ::1", False),
        ("a READ TOPIC t from nowhere", False),
        ("b READ TOPIC t from 10.1.0.7", False),
    ],
)
def test_from_level_32_on_a_host_may_be_a_range_of_addresses(question: str, allowed: bool) -> None:
    found = AclIndex()
    kept = records(map(rule, RANGES))
    found.follow(kept, has_ranges=True)
    assert allows(found, question) is allowed
    found.follow(kept)
    assert not allows(found, question), "below it is a name that no client has"


def test_the_default_holds_for_resources_without_rules_only() -> None:
    open_ = index(["allow alice READ TOPIC t", "allow alice READ TOPIC pre..."], EVERYTHING)
    questions = ["bob READ TOPIC t", "bob READ TOPIC prefixed", "bob READ TOPIC u", "bob ALTER CLUSTER kafka-cluster"]
    assert [allows(open_, question) for question in questions] == [False, False, True, True]
    assert not allows(index([]), "bob READ TOPIC u")


# --- the same questions, read from every rule -------------------------------------------------------------------------


def drawn(random: Random) -> AclBinding:
    return AclBinding(
        random.choice([AclResourceType.TOPIC, AclResourceType.GROUP]),
        random.choice(["*", "a", "ab", "abc", "b"]),
        random.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        random.choice(["User:x", "User:y", ANY_PRINCIPAL]),
        random.choice([WILDCARD, HOME]),
        random.choice([operation for operation in AclOperation if operation > AclOperation.ANY]),
        random.choice([AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY]),
    )


def test_the_index_says_what_a_look_at_each_rule_says_while_rules_come_and_go() -> None:
    random = Random(7)
    found, rules = AclIndex(), dict[AclBinding, None]()
    kept = records([])
    for _ in range(60):
        for each in random.sample(list(rules), min(len(rules), random.randrange(4))):
            del rules[each]
        rules.update(dict.fromkeys(drawn(random) for _ in range(random.randrange(5))))
        kept = {key: kept.get(key, record) for key, record in records(rules).items()}
        found.follow(kept)
        for _ in range(40):
            who, host = random.choice(["User:x", "User:z"]), random.choice([HOME, AWAY])
            operation, kind = random.choice(list(AclOperation)[3:]), random.choice(list(AclResourceType)[2:4])
            name = random.choice(["a", "ab", "abcd", "c", "*"])
            rights = found.rights(who, host, kind, name)
            assert bool(rights >> operation & 1) is plainly(rules, who, host, operation, kind, name)


# --- any resource of a type (KIP-679) ---------------------------------------------------------------------------------

SOME: list[tuple[list[str], bool]] = [
    ([], False),
    (["allow a WRITE TOPIC t"], True),
    (["allow a WRITE TOPIC t..."], True),
    (["allow a READ TOPIC t"], False),
    (["allow a WRITE GROUP t"], False),
    (["allow b WRITE TOPIC t"], False),
    (["allow a WRITE TOPIC t", "deny a WRITE TOPIC t"], False),
    (["allow a WRITE TOPIC t...", "deny a WRITE TOPIC t"], True),
    (["allow a WRITE TOPIC tea", "deny a ALL TOPIC t..."], False),
    (["allow a WRITE TOPIC tea...", "deny a ALL TOPIC t..."], False),
    (["allow a WRITE TOPIC tea...", "deny a ALL TOPIC tea-..."], True),
    (["allow a WRITE TOPIC *", "deny a WRITE TOPIC t..."], True),
    (["allow a WRITE TOPIC t", "deny * WRITE TOPIC *"], False),
    (["allow a WRITE TOPIC t", f"deny a WRITE TOPIC * from {HOME}"], True),
]


@pytest.mark.parametrize(("rules", "allowed"), SOME, ids=[" and ".join(rules) or "nothing" for rules, _ in SOME])
def test_something_of_a_type_is_allowed_unless_all_that_is_allowed_is_denied(rules: list[str], allowed: bool) -> None:
    found = index(rules).allows_some("User:a", CLIENT, AclOperation.WRITE, AclResourceType.TOPIC)
    assert found is allowed


# --- the authorizer of a node -----------------------------------------------------------------------------------------


def test_a_super_user_may_do_what_is_denied_to_everyone_even_before_the_rules_are_loaded() -> None:
    rules = records([rule("deny * ALL TOPIC *")])
    loaded: list[bool] = []
    authorizer = StandardAuthorizer(lambda: rules, super_users=["User:root"], is_loaded=lambda: bool(loaded))
    question = AclOperation.READ, AclResourceType.TOPIC, "t"
    root = LoneNode.context(MetadataRequest(topics=None), principal="User:root")
    other = LoneNode.context(MetadataRequest(topics=None), principal="User:other")
    assert authorizer.allows(root, *question)
    with pytest.raises(KafkaError) as refused:
        authorizer.allows(other, *question)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    loaded.append(True)
    assert not authorizer.allows(other, *question)
    assert authorizer.allows_some(root, AclOperation.WRITE, AclResourceType.TOPIC)


def test_long_names_are_not_remembered_and_many_questions_do_not_fill_the_memory() -> None:
    found = index(["allow a READ GROUP g..."])
    for number in range(10_001):
        found.rights("User:a", CLIENT, AclResourceType.GROUP, f"g{number}")
    assert found.rights("User:a", CLIENT, AclResourceType.GROUP, "g" * 10_000) >> AclOperation.READ & 1
    (known,) = found._known.values()
    assert len(known) <= 10_000
    assert max(len(name) for _, _, name in known) < 10


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::a0:1%eth0", "fe80:0:0:0:0:0:a0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("node-1", "node-1"),
    ],
)
def test_an_address_is_compared_as_java_writes_it(address: str, written: str) -> None:
    assert java_address(address) == written


# --- filters ----------------------------------------------------------------------------------------------------------

ON_T = rule("allow alice READ TOPIC t")
FILTERS: list[tuple[AclBindingFilter, str, bool]] = [
    (AclBindingFilter(), "allow alice READ TOPIC t", True),
    (AclBindingFilter(AclResourceType.GROUP), "allow alice READ TOPIC t", False),
    (AclBindingFilter(principal="User:bob"), "allow alice READ TOPIC t", False),
    (AclBindingFilter(host="10.0.0.1"), "allow alice READ TOPIC t", False),
    (AclBindingFilter(operation=AclOperation.ALL), "allow alice READ TOPIC t", False),
    (AclBindingFilter(permission_type=AclPermissionType.DENY), "allow alice READ TOPIC t", False),
    (AclBindingFilter(resource_name="t"), "allow alice READ TOPIC t...", True),
    (AclBindingFilter(resource_name="tea"), "allow alice READ TOPIC t...", False),
    (AclBindingFilter(resource_name="tea", pattern_type=PatternType.MATCH), "allow alice READ TOPIC t...", True),
    (AclBindingFilter(resource_name="t", pattern_type=PatternType.MATCH), "allow alice READ TOPIC tea...", False),
    (AclBindingFilter(resource_name="t", pattern_type=PatternType.MATCH), "allow alice READ TOPIC *", True),
    (AclBindingFilter(resource_name="t", pattern_type=PatternType.LITERAL), "allow alice READ TOPIC *", False),
    (AclBindingFilter(pattern_type=PatternType.PREFIXED), "allow alice READ TOPIC t", False),
    (AclBindingFilter(*ON_T), "allow alice READ TOPIC t", True),
]


@pytest.mark.parametrize(("wanted", "text", "is_found"), FILTERS)
def test_a_filter_finds_what_it_describes(wanted: AclBindingFilter, text: str, is_found: bool) -> None:
    assert wanted.matches(rule(text)) is is_found


def test_a_filter_that_says_everything_means_one_rule() -> None:
    assert AclBindingFilter(*ON_T).exact == ON_T
    assert AclBindingFilter(*ON_T)._replace(host=None).exact is None
    assert AclBindingFilter(*ON_T)._replace(pattern_type=PatternType.MATCH).exact is None
    assert AclBindingFilter(*ON_T)._replace(operation=AclOperation.ANY).exact is None


def test_a_code_that_is_not_known_reads_as_unknown_and_grants_nothing() -> None:
    strange = rule("allow alice READ TOPIC t")._replace(operation=AclOperation(99))
    assert strange.operation is AclOperation.UNKNOWN
    found = AclIndex(EVERYTHING)
    (record,) = records([strange]).values()
    record = record.replace(operation=99)
    found.follow({record.id: record})
    assert found.rights("User:alice", CLIENT, AclResourceType.TOPIC, "t") == 0
