"""Each case runs twice: against pykraft, and against Apache Kafka where that can be started."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.conformance.dialogue import Dialogue, judge
from tests.conformance.servers import ApacheServer, PykraftServer, Server
from tests.harness import apache_kafka


@pytest.fixture(scope="session", params=["pykraft", "apache"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Three nodes; whoever kills one brings it back."""
    if request.param == "apache" and (reason := apache_kafka.available()):
        pytest.skip(reason)
    started: Server = PykraftServer() if request.param == "pykraft" else ApacheServer()
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
