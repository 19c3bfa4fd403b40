"""How many calls a warm produce and a warm fetch take is committed, in `request_paths.txt`.

A call costs about as much as the work in it, so a layer more on the path makes every request slower, and no benchmark
is exact enough to show a single one. These numbers are exact: a change that needs more calls raises them in the same
commit and gives its reason; a change that needs fewer lowers them. `-s` prints the table of all paths.
"""

from __future__ import annotations

import sys

import pytest

from pykraft.course.authoring.module_map import BRANCHES, SPINE
from tests.harness.request_paths import COMPARED, RequestPath, Step, committed, table, trace, verdict


@pytest.fixture(scope="module")
def paths() -> dict[str, RequestPath]:
    found = trace()
    sys.stdout.write(f"\n{table(found)}\n")
    return {path.name: path for path in found}


@pytest.mark.parametrize("name", COMPARED)
def test_a_warm_request_takes_exactly_the_committed_number_of_calls(paths: dict[str, RequestPath], name: str) -> None:
    found = verdict(paths[name], committed())
    assert found is None, found


def test_each_path_leads_from_the_frame_over_the_node_to_the_answer(paths: dict[str, RequestPath]) -> None:
    for path in paths.values():
        places = [step.place for step in path.steps]
        assert places[0] == "transport/server_connection.py ServerConnection.go_on", path.name
        handled = places.index("broker/node.py Node.handle")
        sent = places.index("transport/server_connection.py ServerConnection.send_response")
        waited = len(places) - places[::-1].index("broker/node.py Node.poll")
        assert handled < sent and handled < waited, path.name


def test_the_map_lists_what_each_request_enters_and_none_before_it_in_the_order_of_the_trace(
    paths: dict[str, RequestPath],
) -> None:
    ways = (*SPINE, *BRANCHES)
    assert [way.request for way in ways] == list(paths)
    entered: set[str] = set()
    for way in ways:
        files = dict.fromkeys(step.file for step in paths[way.request].steps if step.file is not None)
        assert way.modules == [file for file in files if file not in entered], way.request
        entered |= files.keys()


def test_a_path_is_the_same_when_it_is_traced_again(paths: dict[str, RequestPath]) -> None:
    assert trace("produce", "fetch") == [paths["produce"], paths["fetch"]]


def test_the_verdict_asks_for_a_reason_where_a_path_is_longer() -> None:
    step = Step(0, "a.py f", "a.py")
    path = RequestPath("produce", (step, step, step._replace(file="b.py"), step._replace(file=None)))
    assert verdict(path, {"produce": (4, 2)}) is None
    for longer in ((3, 2), (4, 1), (5, 1)):
        assert "give the reason" in (verdict(path, {"produce": longer}) or ""), longer
    for shorter in ((5, 2), (4, 3), (5, 3)):
        assert "The path is shorter: commit" in (verdict(path, {"produce": shorter}) or ""), shorter
