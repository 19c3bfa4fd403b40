"""Muted connections in a film: a broker does not read from a client that has used up its quota.

It answers at once, with a throttle time in the answer, and reads the next request when that time is over (KIP-219). So
an answer on its way says from when until when its connection is muted.
"""

from collections.abc import Iterator

from pykraft.cluster_view import MessageInFlight
from pykraft.protocol.messages.data import FetchResponse, ProduceResponse
from pykraft.story.story import Story
from pykraft.viz.player.lanes import Row

KIND = "quota"
"""The kind of a mark that says that a connection is muted."""


class MuteBook:
    """Which connections are muted, and when."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        """[client, node, since, until]"""
        self._seen: set[int] = set()

    def look(self, story: Story, messages: tuple[MessageInFlight, ...]) -> None:
        """Take note of the answers among these messages."""
        for message in messages:
            if message.is_response and message.id not in self._seen and isinstance(message.receiver, str):
                self._seen.add(message.id)
                frame = story.sent_in(message.id)
                answer = frame.message() if frame is not None and frame.name in ("Produce", "Fetch") else None
                if isinstance(answer, (ProduceResponse, FetchResponse)) and answer.throttle_time_ms:
                    until = message.sent_ms + answer.throttle_time_ms
                    self.rows.append([message.receiver, message.sender, message.sent_ms, until])

    @property
    def marks(self) -> Iterator[Row]:
        for client, node, since, until in self.rows:
            text = f"node {node} answers {client} and mutes its connection for {until - since:,.0f} ms"
            yield [since, KIND, text, node]

    @property
    def figures(self) -> Iterator[Row]:
        """What is muted, from one change to the next."""
        for ms in sorted({0.0, *(ms for row in self.rows for ms in row[2:])}):
            muted = [row for row in self.rows if row[2] <= ms < row[3]]
            said = [f"{client} is muted until {until:,.0f} ms" for client, _, _, until in muted]
            yield [ms, " · ".join(said) or "no connection is muted", ""]
