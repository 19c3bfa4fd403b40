"""Each case runs against pykraft, and against Apache Kafka where that can be started.

A dialogue is compared with the answers that Apache Kafka's newest release gave when they were recorded. It is held with
that release and with our base again in a long run, as `make judges` does, and when it is recorded: pykraft's answers do
not depend on that.

Our clients and commands meet pykraft and our base in every run, and the newest release in a long one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.conformance.dialogue import REWRITE, Dialogue, judge
from tests.conformance.servers import ApacheServer, PykraftServer, Server
from tests.harness import apache_kafka


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "newest: asks in versions that only the newest release of Apache Kafka has")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    too_new = [item for item in items if item.get_closest_marker("newest") and _asks(item, apache_kafka.VERSION)]
    items[:] = [item for item in items if item not in too_new]
    config.hook.pytest_deselected(items=too_new)
    for item in items:
        if not REWRITE and _is_for_a_long_run(item):
            item.add_marker(pytest.mark.long)


def _is_for_a_long_run(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or "server" not in item.fixturenames or _asks(item, "pykraft"):
        return False
    return "talk" in item.fixturenames or not _asks(item, apache_kafka.VERSION)


def _asks(item: pytest.Item, server: str) -> bool:
    return isinstance(item, pytest.Function) and item.callspec.params.get("server") == server


@pytest.fixture(scope="session", params=dict.fromkeys(["pykraft", apache_kafka.NEWEST, apache_kafka.VERSION]))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Three nodes; a test that kills one brings it back."""
    if request.param != "pykraft" and (reason := apache_kafka.available(request.param)):
        pytest.skip(reason)
    started: Server = PykraftServer() if request.param == "pykraft" else ApacheServer(request.param)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture
def talk(server: Server, request: pytest.FixtureRequest) -> Iterator[Dialogue]:
    """A conversation that will be compared."""
    case = request.node.originalname.removeprefix("test_")
    dialogue = Dialogue(server, case)
    yield dialogue
    dialogue.close()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> Generator[None, Any, Any]:
    """The comparison is part of the case, not of its tear-down: a case that answers otherwise has failed."""
    result = yield
    dialogue = pyfuncitem.funcargs.get("talk")
    if dialogue is not None:
        judge(dialogue, pyfuncitem.module.__name__.rpartition(".")[2].removeprefix("test_"))
    return result
