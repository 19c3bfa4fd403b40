"""Notebook 07 turns red when the queue has no bound, when connections are not muted, or when files stay open."""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "07_one_request.ipynb"

A_QUEUE_WITHOUT_A_BOUND = """
from pykraft.network.stages import RequestQueue

def put(self, request):
    with self._has_room:
        self._requests.append(request)
        self._has_requests.notify()

RequestQueue.put = put
"""

A_CONNECTION_THAT_IS_NOT_MUTED = """
from pykraft.transport.server_channel import ServerChannel
from pykraft.transport.server_connection import ServerConnection

take, go_on = ServerChannel.next_request, ServerConnection.go_on

def next_request(channel, recorder=None):
    channel._in_hand = None
    return take(channel, recorder)

def all_at_once(connection):
    for _ in range(20):
        go_on(connection)

ServerChannel.next_request, ServerConnection.go_on = next_request, all_at_once
ServerChannel.done = lambda channel, context, throttled=False: None
"""

DESCRIPTORS_WITHOUT_A_BOUND = """
from pykraft.storage.disk.open_files import OpenFiles

OpenFiles._close_one = lambda self: None
OpenFiles.limit = property(lambda self: 1 << 20, lambda self, limit: None)
"""


@pytest.mark.parametrize(
    ("plant", "heading", "claim"),
    [
        (A_QUEUE_WITHOUT_A_BOUND, "2. ", "A full queue stops the network threads"),
        pytest.param(
            A_CONNECTION_THAT_IS_NOT_MUTED, "3. ", "Of twenty pipelined requests of one", marks=pytest.mark.long
        ),
        pytest.param(DESCRIPTORS_WITHOUT_A_BOUND, "Where ", "Thirty partitions with ninety", marks=pytest.mark.long),
    ],
    ids=["a queue without a bound", "a connection that is not muted", "descriptors without a bound"],
)
def test_a_broken_broker_turns_the_notebook_red(plant: str, heading: str, claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: {claim}"):
        run(heading, path=PATH, before=plant)
