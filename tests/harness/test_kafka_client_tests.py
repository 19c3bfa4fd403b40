"""The harness of Kafka's client tests: the cluster that they ask for, and the report that they leave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykraft import Admin
from tests.harness.kafka_client_tests import Result, results
from tests.harness.outside_cluster import serve

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


class Asker:
    """Plays the process that asks for a cluster; its questions may depend on the answers."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.brokers_seen: list[int] = []

    def questions(self) -> Iterator[str]:
        yield from ("1\n", "num.partitions=3\n", "a.setting.of.a.later.kafka=1\n", "\n")
        yield "settle\n"
        self.see_brokers()
        yield "stop 1\n"
        yield "start 1\n"
        self.see_brokers()

    def see_brokers(self) -> None:
        servers, controllers = self.answers[0].split()
        assert servers.count(":") == controllers.count(":") == 1
        with Admin(bootstrap_servers=servers) as admin:
            self.brokers_seen.append(len(admin.describe_cluster().brokers))


def test_a_cluster_is_started_asked_and_ended_line_by_line() -> None:
    asker = Asker()
    serve(asker.questions(), asker.answers.append)
    assert asker.answers[1:] == ["done", "done", "done"]
    assert asker.brokers_seen == [1, 1]


def test_an_unknown_question_ends_the_cluster() -> None:
    with pytest.raises(KeyError, match="burn"):
        serve(iter(["1\n", "\n", "burn 1\n"]), lambda answer: None)
