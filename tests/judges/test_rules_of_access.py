"""Rules of access, judged by Apache Kafka: its brokers refuse what the table of denials says, its tool kafka-acls and
librdkafka manage pykraft's rules, and pykraft's command those of Apache Kafka.

A row of the table is asked from an address of its own, and the rules deny that address what the row says. No
other client is denied anything, not even the one that makes the rules.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import admin as librdkafka

from pykraft import Admin, Cluster
from pykraft.broker.settings.authorizer_config import STANDARD_AUTHORIZER
from pykraft.cli import main
from pykraft.client.administration.acls import AclBinding, AclBindingFilter
from pykraft.common.acl import AclResourceType
from pykraft.common.errors import ErrorCode, KafkaError
from pykraft.common.types import Uuid
from pykraft.protocol.api import ListenerKind
from tests.conformance.servers import _listener
from tests.harness import apache_kafka
from tests.harness.apache_kafka import QUICK_START, ApacheKafka
from tests.harness.asking import UNDISTURBED
from tests.harness.connection import Closed, Connection
from tests.harness.kafka_tools import run_tool
from tests.harness.rules import rule
from tests.harness.waiting import wait_until
from tests.unit.broker.requests.test_authorization import ROWS, SOME, Question, Row

pytestmark = [pytest.mark.long, pytest.mark.limit(300)]

PROPERTIES = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
    **UNDISTURBED,
}
SINCE_4_4 = tuple(map(int, apache_kafka.VERSION.split(".")[:2])) >= (4, 4)
TOOL = "org.apache.kafka.tools.AclCommand"
HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"
FREE = [f"allow * ALL {kind}" for kind in ("TOPIC *", "GROUP *", "TRANSACTIONAL_ID *", "CLUSTER kafka-cluster")]
MADE = ("v", "new", "other")
"""Topics that some rows make."""


class Server(NamedTuple):
    """One node of either kind."""

    name: str
    broker: str
    controller: str


def pykraft_server() -> Iterator[Server]:
    with Cluster(1, properties=PROPERTIES) as cluster:
        yield Server("pykraft", cluster.bootstrap_servers, _listener(cluster.properties(1), "CONTROLLER"))


def apache_server() -> Iterator[Server]:
    with ApacheKafka(1, PROPERTIES, heap="384m", java_options=QUICK_START) as kafka:
        yield Server("apache", kafka.bootstrap_servers, kafka.controller_addresses[0])


KINDS: dict[str, Callable[[], Iterator[Server]]] = {"pykraft": pykraft_server, "apache": apache_server}


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if reason := apache_kafka.available():
        pytest.skip(reason)
    yield from KINDS[request.param]()


@pytest.fixture
def admin(server: Server) -> Iterator[Admin]:
    with Admin(bootstrap_servers=server.broker) as client:
        yield client
        client.delete_acls([AclBindingFilter()])


# --- the table of denials ---------------------------------------------------------------------------------------------


def denials(denied: tuple[Question, ...]) -> list[AclBinding]:
    """Rules that deny these things to the address of the rows."""
    found = []
    for operation, kind, name in denied:
        said = "*" if name == SOME else name
        found.append(rule(f"deny * {operation.name} {kind.name} {said} from {ELSEWHERE}"))
    return found


def seen(server: Server, row: Row, topic_id: Uuid) -> Any:
    """What the client of a row sees; the text of what kept it from an answer."""
    address = server.broker if row.kind is ListenerKind.BROKER else server.controller
    request = row.request(topic_id)
    try:
        with Connection(address, source_host=ELSEWHERE) as connection:
            return row.look(connection.ask(request, request.versions[1] if row.version is None else row.version))
    except (Closed, TimeoutError) as error:
        return repr(error)


REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
ANSWERED_OTHERWISE: dict[str, Any] = {
    # There are coordinators by now; and the last version of OffsetCommit names topics by their ids.
    "transactions": [("w", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), ("x", REFUSED)],
    "transactional offsets of a topic": [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_PRODUCER_ID_MAPPING],
    "offsets are committed": [("", ErrorCode.GROUP_AUTHORIZATION_FAILED)],
}
"""What a cluster says to these rows, and a lone node does not."""


UNANSWERED = ("SCRAM",) if SINCE_4_4 else ()
"""A broker of Kafka 4.4 fails at a refusal of the question for all users, which names none, and sends no answer."""


def in_any_order(answer: Any) -> Any:
    """Topics come in the order of the question here, in Apache Kafka in that of a hash map."""
    is_named = isinstance(answer, list) and all(isinstance(each, tuple) for each in answer)
    return sorted(answer, key=lambda each: str(each[0])) if is_named else answer


def test_a_denial_is_answered_as_the_table_says(server: Server, admin: Admin) -> None:
    admin.create_acls(map(rule, FREE))
    ids = {name: admin.create_topic(name, 1, 1) for name in ("t", "u")}
    wrong = []
    for row in ROWS:
        rules = denials(row.denied)
        admin.create_acls(rules)
        wait_until(lambda rules=rules: set(rules) <= set(admin.describe_acls()), "the broker has the rules", 10)
        is_unanswered = server.name == "apache" and row.name in UNANSWERED
        answer = row.seen if is_unanswered else seen(server, row, ids["t"])
        admin.delete_acls(rules)
        for name in MADE:
            if name in admin.list_topics():
                admin.delete_topics([name])
        expected = ANSWERED_OTHERWISE.get(row.name, row.seen)
        if in_any_order(answer) != in_any_order(expected):
            wrong.append(f"{row.kind.value}: {row.name}: {answer!r}, and not {expected!r}")
    assert not wrong, "\n".join(wrong)


# --- Kafka's tool, and ours -------------------------------------------------------------------------------------------

CALLS = [
    "--add --allow-principal User:alice --allow-principal User:bob --operation Read --operation describe --topic t",
    "--add --deny-principal User:eve --deny-host 10.0.0.9 --group g --resource-pattern-type prefixed",
    "--list",
    "--add --producer --consumer --allow-principal User:p --topic t2 --group g --transactional-id x",
    "--list --principal User:p --topic t2",
    "--list --topic t2 --resource-pattern-type any",
    "--list --group gg --resource-pattern-type match",
    "--remove --allow-principal User:alice --operation Read --topic t --force",
    "--remove --group gg --resource-pattern-type match --force",
    "--list",
    "--add --allow-principal User:a --topic t --operation Read --resource-pattern-type match",
    "--add --allow-principal User:a --topic t --operation ClusterAction",
    "--add --allow-principal User:a --topic t --producer --operation Read",
    "--add --topic t --operation Read",
]


def blocks(text: str) -> list[str]:
    """What was printed, without the order of sets."""
    parts = [part for part in text.replace("\n \t", "\n\t").split("\n\n") if part.strip()]
    return sorted("\n".join(sorted(part.strip("\n").splitlines())) for part in parts)


def test_our_command_prints_what_kafkas_tool_prints(
    server: Server, admin: Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run_tool(TOOL, [["--bootstrap-server", server.broker, *shlex.split(call)] for call in CALLS])
    kept = set(admin.describe_acls())
    admin.delete_acls([AclBindingFilter()])
    capsys.readouterr()
    for call, (theirs, complaints) in zip(CALLS, told, strict=True):
        code = main(["acls", "--bootstrap-server", server.broker, *shlex.split(call)])
        ours = capsys.readouterr()
        if code:
            assert complaints or "Error" in theirs, f"{call}: refused only here: {ours.err}"
        else:
            assert blocks(ours.out) == blocks(theirs), call
    assert set(admin.describe_acls()) == kept


def test_librdkafka_makes_lists_and_removes_rules(server: Server, admin: Admin) -> None:
    client = librdkafka.AdminClient({"bootstrap.servers": server.broker})
    kind, pattern = librdkafka.ResourceType, librdkafka.ResourcePatternType
    operation, permission = librdkafka.AclOperation, librdkafka.AclPermissionType
    made = librdkafka.AclBinding(kind.TOPIC, "pre", pattern.PREFIXED, "User:c", "*", operation.READ, permission.ALLOW)
    wrong = librdkafka.AclBinding(kind.BROKER, "x", pattern.LITERAL, "User:c", "*", operation.READ, permission.ALLOW)
    results = client.create_acls([made, wrong])
    assert results[made].result(20) is None
    with pytest.raises(Exception, match="The only valid name for the CLUSTER resource is kafka-cluster"):
        results[wrong].result(20)
    fits = librdkafka.AclBindingFilter(kind.TOPIC, "prefixed", pattern.MATCH, None, None, operation.ANY, permission.ANY)
    wait_until(lambda: client.describe_acls(fits).result(20) == [made], "the rule is listed", 10)
    assert client.delete_acls([fits])[fits].result(20) == [made]


def test_our_admin_client_hears_the_same_refusals(server: Server, admin: Admin) -> None:
    wrong = rule("allow a READ TOPIC t")
    said = []
    for each in (
        wrong._replace(resource_name=""),
        wrong._replace(resource_type=AclResourceType.CLUSTER),
        wrong._replace(principal="alice"),
        wrong._replace(principal=""),
        wrong._replace(host=""),
        wrong._replace(principal="Group:a:b"),
    ):
        try:
            admin.create_acls([each])
            said.append("made")
        except KafkaError as error:
            said.append(f"{error.code.name}: {error.detail}")
    assert said == said_by(server)


_NO_COLON = "(no colon is present separating the principal type from the principal name)"


def said_by(server: Server) -> list[str]:
    """Since 4.4 a rule names an address."""
    no_host = "INVALID_REQUEST: Host pattern cannot be null or empty"
    is_older = server.name == "apache" and not SINCE_4_4
    return [
        "INVALID_REQUEST: Invalid empty resource name",
        "INVALID_REQUEST: The only valid name for the CLUSTER resource is kafka-cluster",
        f"INVALID_REQUEST: Could not parse principal from `alice` {_NO_COLON}",
        f"INVALID_REQUEST: Could not parse principal from `` {_NO_COLON}",
        "made" if is_older else no_host,
        "made",
    ]
