"""The harness of Kafka's client tests: the cluster that they ask for, the report that they leave, and its verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pykraft import Admin, ConfigResource, ConfigResourceType
from tests.harness.kafka_client_tests import Listed, Result, complaints, listed, results
from tests.harness.outside_cluster import read_wanted, serve

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="JUnit Jupiter" tests="3" skipped="1" failures="1" errors="1">
<properties><property name="file.separator" value="/"/></properties>
<testcase name="testWell()[1]" classname="T" time="1.5"><system-out><![CDATA[ unimportant ]]></system-out></testcase>
<testcase name="testWrong()[1]"><failure message="expected: 1" type="E"><![CDATA[trace]]></failure></testcase>
<testcase name="testThrows()[1]" classname="T"><error message="no cluster" type="E"><![CDATA[trace]]></error></testcase>
<testcase name="testAborted()[1]" classname="T"><skipped><![CDATA[it needs a broker's object]]></skipped></testcase>
</testsuite>
"""


def test_a_report_of_junit_says_what_became_of_each_test() -> None:
    assert results(REPORT) == {
        "testWell()[1]": Result("passed"),
        "testWrong()[1]": Result("failed", "expected: 1"),
        "testThrows()[1]": Result("failed", "no cluster"),
        "testAborted()[1]": Result("aborted", "it needs a broker's object"),
    }


LIST = """\
# A comment.
clients.WellTest 2
clients.admin.OtherTest 3  # one of them runs twice
    testTakesABroker()[1]  object: it stops a broker of its JVM
    testRaces()[1]         kafka: it fails there, too
clients.ShareTest needs ShareFetch
"""


def test_the_list_has_the_number_of_tests_of_a_class_and_the_reasons_of_those_that_do_not_pass() -> None:
    assert listed(LIST) == {
        "clients.WellTest": Listed(2, {}),
        "clients.admin.OtherTest": Listed(
            3,
            {
                "testTakesABroker()[1]": "object: it stops a broker of its JVM",
                "testRaces()[1]": "kafka: it fails there, too",
            },
        ),
        "clients.ShareTest": Listed(0, {}, "ShareFetch"),
    }


@pytest.mark.parametrize("reason", ["because", "because: of that", "later:", "? expected: 1"])
def test_a_reason_is_of_a_kind_and_has_words(reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape("testX()[1]: a reason is one of class, object, kafka, later")):
        listed(f"clients.WellTest 2\n    testX()[1]  {reason}\n")


OTHER = listed(LIST)["clients.admin.OtherTest"]
AS_LISTED = {
    "testWell()[1]": Result("passed"),
    "testTakesABroker()[1]": Result("aborted", "it needs a broker's object"),
    "testRaces()[1]": Result("failed", "expected: 1"),
}


@pytest.mark.parametrize(
    ("against", "changed", "complaint"),
    [
        ("pykraft", {}, ""),
        ("pykraft", {"testWell()[1]": Result("failed", "oh")}, "testWell()[1] failed, and is not listed: oh"),
        ("pykraft", {"testWell()[1]": Result("aborted", "oh")}, "testWell()[1] aborted, and is not listed: oh"),
        (
            "pykraft",
            {"testTakesABroker()[1]": Result("passed")},
            "testTakesABroker()[1] passed, and is listed (object: it stops a broker of its JVM)",
        ),
        ("pykraft", {"testNew()[1]": Result("passed")}, "4 tests were found, not 3"),
        ("kafka", {}, ""),
        ("kafka", {"testTakesABroker()[1]": Result("passed")}, ""),
        (
            "kafka",
            {"testRaces()[1]": Result("passed")},
            "testRaces()[1] passed, and is listed (kafka: it fails there, too)",
        ),
        ("kafka", {"testWell()[1]": Result("failed", "oh")}, "testWell()[1] failed, and is not listed: oh"),
    ],
)
def test_a_failure_that_is_not_listed_and_a_listed_test_that_passes_are_wrong(
    against: str, changed: dict[str, Result], complaint: str
) -> None:
    found = complaints(OTHER, AS_LISTED | changed, against=against)
    assert found == ([complaint] if complaint else [])


def test_a_listed_test_that_is_not_there_is_wrong() -> None:
    gone = {name: result for name, result in AS_LISTED.items() if name != "testRaces()[1]"}
    wrong = ["2 tests were found, not 3", "testRaces()[1] is listed, and is no test"]
    assert complaints(OTHER, gone) == wrong


class Asker:
    """Plays the process that asks for a cluster; its questions may depend on the answers."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.seen: list[dict[int, str]] = []

    def questions(self) -> Iterator[str]:
        yield from ("brokers 2\n", "controllers 1\n", "isolated\n", "disks 1\n", "feature metadata.version 31\n")
        yield from ("feature transaction.version 1\n", "set num.partitions=3\n", "set a.setting.of.a.later.kafka=1\n")
        # What is stopped may come back when its session is over.
        yield from ("set broker.session.timeout.ms=1000\n", "set broker.heartbeat.interval.ms=100\n")
        yield from ("set-of 1 num.partitions=5\n", "\n")
        yield "settle\n"
        self.look()
        yield "stop 1\n"
        yield "start 1\n"
        self.look()

    def look(self) -> None:
        servers, controllers = self.answers[0].split()
        assert (servers.count(":"), controllers.count(":")) == (2, 1)
        with Admin(bootstrap_servers=servers) as admin:
            brokers = [broker.id for broker in admin.describe_cluster().brokers]
            settings = {n: self.partitions_of_new_topics(admin, n) for n in brokers}
            assert [voter.replica_id for voter in admin.describe_quorum().voters] == [3000]
            assert admin.describe_features().finalized_features["transaction.version"] == 1
        self.seen.append(settings)

    @staticmethod
    def partitions_of_new_topics(admin: Admin, broker_id: int) -> str | None:
        (settings,) = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, str(broker_id))]).values()
        return settings["num.partitions"].value


def test_a_cluster_is_started_asked_and_ended_line_by_line() -> None:
    asker = Asker()
    serve("pykraft", asker.questions(), asker.answers.append)
    assert asker.answers[1:] == ["done", "done", "done"]
    assert asker.seen == [{0: "3", 1: "5"}] * 2


def test_combined_controllers_have_the_ids_of_the_first_brokers() -> None:
    wanted = read_wanted(iter(["brokers 3", "controllers 2", "combined", ""]))
    assert (wanted.broker_ids, wanted.controller_ids) == ([0, 1, 2], [0, 1])


def test_a_cluster_that_cannot_be_had_is_refused_with_the_reason() -> None:
    answers: list[str] = []
    serve("pykraft", iter(["feature share.version 1\n", "\n"]), answers.append)
    (answer,) = answers
    assert answer.startswith("cannot ") and "share.version" in answer


def test_an_unknown_question_ends_the_cluster() -> None:
    with pytest.raises(KeyError, match="burn"):
        serve("pykraft", iter(["\n", "burn 1\n"]), lambda answer: None)
