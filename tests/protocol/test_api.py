"""The table of APIs agrees with the declarations, and with what Apache Kafka answers: 4.2 in the frames of a cluster,
4.4 in the answers of tests/conformance."""

import json
from pathlib import Path

import pytest

from pykraft.protocol import api
from pykraft.protocol.api import ListenerKind, advertised, apis, requests, served, table
from pykraft.protocol.header import decode_response
from pykraft.protocol.messages.cluster import ApiVersionsResponse
from pykraft.protocol.messages.data import ProduceRequest

FRAMES = Path(__file__).parent.parent / "golden/kraft3/frames.jsonl"
SINCE_4_2 = {18: (0, 5), 28: (0, 6), 35: (1, 5), 42: (0, 3), 63: (0, 2), 94: (0, 0)}
"""The ranges of what Kafka 4.3 and 4.4 have added to."""
BROKER, CONTROLLER = ListenerKind.BROKER, ListenerKind.CONTROLLER


@pytest.mark.parametrize("row", apis.values(), ids=lambda row: row.name)
def test_each_row_agrees_with_the_declaration(row: api.Api) -> None:
    assert row.key == row.request.api == row.request.response.api
    assert row.request.__name__ == f"{row.name}Request"
    assert row.request.response.__name__ == f"{row.name}Response"
    assert row.request.versions == row.request.response.versions
    if row.request is not ProduceRequest:
        assert row.advertised == row.request.versions


def test_produce_is_advertised_from_version_0_and_served_from_version_3() -> None:
    assert (0, 0, 13) in advertised(BROKER)
    assert [version for version in range(-1, 16) if served(BROKER, 0, version)] == [*range(3, 14)]


def test_a_request_is_served_on_its_own_listener_only() -> None:
    assert served(CONTROLLER, 52, 2)
    assert not served(BROKER, 52, 2)
    assert served(BROKER, 3, 13)
    assert not served(CONTROLLER, 3, 13)
    assert served(BROKER, 18, 4)
    assert served(CONTROLLER, 18, 4)


@pytest.mark.parametrize(("key", "version"), [(3, 14), (3, -1), (1, 3), (4, 0), (93, 0), (-1, 0), (32767, 0)])
def test_an_unknown_key_or_version_is_served_nowhere(key: int, version: int) -> None:
    assert not served(BROKER, key, version)
    assert not served(CONTROLLER, key, version)


def test_what_is_advertised_is_served() -> None:
    for listener in ListenerKind:
        rows = advertised(listener)
        assert rows == sorted(rows)
        for key, low, high in rows:
            assert served(listener, key, high)
            assert served(listener, key, low) or key == ProduceRequest.api


def test_what_is_not_served_yet_can_be_read_but_is_not_advertised() -> None:
    unserved = {name for _, name, _, _, listeners in apis.values() if not listeners}
    assert not unserved
    assert requests.keys() == apis.keys()


def test_the_ranges_are_those_that_kafka_advertises() -> None:
    rows = [json.loads(line) for line in FRAMES.read_text().splitlines()]
    answers = [
        decode_response(ApiVersionsResponse, row["version"], memoryview(bytes.fromhex(row["frame"])))[1]
        for row in rows
        if row["kind"] == "resp" and row["key"] == ApiVersionsResponse.api
    ]
    kafkas = {(x.api_key, x.min_version, x.max_version) for answer in answers for x in answer.api_keys}
    since = {(key, low, high) for key, (low, high) in SINCE_4_2.items()}
    assert {*advertised(BROKER), *advertised(CONTROLLER)} - since <= kafkas
    known = {key: high for key, _, high in kafkas}
    assert all(known.get(key, -1) < high for key, _, high in since)


def test_the_table_shows_each_api_in_a_line() -> None:
    lines = [" ".join(line.split()) for line in table().splitlines()]
    assert len(lines) == len(apis)
    assert lines[0] == "0 Produce 0 to 13 broker"
    assert "55 DescribeQuorum 0 to 2 broker and controller" in lines
    assert "59 FetchSnapshot 0 to 1 controller" in lines
    assert "70 ControllerRegistration 0 to 0 controller" in lines
    assert "80 AddRaftVoter 0 to 1 broker and controller" in lines


def test_what_a_broker_may_forward_is_served_by_both_listeners() -> None:
    forwardable = {api.name for api in apis.values() if api.request.forwardable}
    assert forwardable <= {api.name for api in apis.values() if api.listeners == (BROKER, CONTROLLER)}
    assert {"CreateTopics", "IncrementalAlterConfigs", "DescribeQuorum"} <= forwardable
    assert not {"Fetch", "ApiVersions", "DescribeConfigs"} & forwardable
