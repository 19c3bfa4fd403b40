"""Notebook 06 must turn red when a broker answers the future with less, or what it cannot read at all."""

from __future__ import annotations

import pytest

from pykraft.course.authoring.execute import NotebookFailed
from tests.notebooks.sections import NOTEBOOK, run

PATH = NOTEBOOK.parent / "06_protocol_by_hand.ipynb"

THE_FUTURE_GETS_NO_RANGE = """
from pykraft.protocol.messages.cluster import ApiVersionsResponse
from pykraft.transport import server_channel

server_channel.refusal_of_versions = lambda kind, error: ApiVersionsResponse(error_code=error, api_keys=[])
"""

AN_UNKNOWN_API_IS_ANSWERED = """
from pykraft.transport.server_channel import ServerChannel

ServerChannel._header_of_unknown = lambda channel, frame: 1
"""


@pytest.mark.parametrize(
    ("plant", "heading", "claim"),
    [
        (THE_FUTURE_GETS_NO_RANGE, "5. ", "A broker answers ApiVersions from the future"),
        pytest.param(
            AN_UNKNOWN_API_IS_ANSWERED, "Where ", "A broker answers a broken frame with silence", marks=pytest.mark.long
        ),
    ],
    ids=["the future gets no range", "an unknown API is answered"],
)
def test_a_broken_broker_turns_the_notebook_red(plant: str, heading: str, claim: str) -> None:
    with pytest.raises(NotebookFailed, match=f"this does not hold: {claim}"):
        run(heading, path=PATH, before=plant)
