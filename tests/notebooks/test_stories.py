"""The stories of notebooks 00, 18 and 19 stand right before the failure, and go on as the text says."""

from __future__ import annotations

import re

from pykraft.course.rigs.stories import answer_on_its_way, marker_on_its_way, records_on_their_way
from pykraft.story.story import Story


def on_its_way(story: Story, words: str) -> str:
    (found,) = [str(message) for message in story.messages if words in str(message)]
    return found


def test_a_leader_that_is_cut_off_loses_its_tail_and_its_strip_explains_each_sign_once() -> None:
    story = records_on_their_way()
    leader = story.view.leader("t", 0)
    strip = story.play(["cut leader of t-0; next election; next election", "heal; next truncation; next truncation"])
    assert re.search(rf"node {leader} truncates t-0 to \d+: [2-9] records are gone", strip.text)
    explained = [box.text for box in strip.boxes]
    assert explained.count("not in the leader's log: will be truncated") == 1
    assert explained.count("high watermark: committed up to here") == 1


def test_a_lost_answer_is_repeated_and_appends_nothing() -> None:
    story = answer_on_its_way()
    answer = on_its_way(story, "Produce response")
    assert answer.endswith("to producer-0: t-0, at offset 0")
    branch = story.drop(story.messages[0])
    assert branch.until("Produce request") is not None
    assert on_its_way(branch, "Produce response") == answer
    leader = branch.view.leader("t", 0)
    assert leader is not None
    assert branch.view.nodes[leader].partitions[0].log_end_offset == 1


def test_the_coordinators_successor_writes_the_marker_of_a_committed_transfer() -> None:
    story = marker_on_its_way()
    marker = story.messages[0]
    assert (marker.name, marker.is_response) == ("WriteTxnMarkers", False)
    branch = story.drop(marker).kill(marker.sender)
    request = branch.until("WriteTxnMarkers request")
    assert request is not None and f"node {marker.receiver} receives" in str(request)
    assert f"of node {marker.sender}" not in str(request)
    assert branch.until("WriteTxnMarkers response") is not None
