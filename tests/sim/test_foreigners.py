"""Histories in which strangers send every API in every version, with rights and without, while nodes fall: each request
is answered, nothing is done without a right, no other law is broken; and each planted bug breaks one."""

from __future__ import annotations

import pytest

from pykraft.common.errors import ErrorCode
from pykraft.protocol.header import encode_response
from pykraft.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from pykraft.sim.bugs import foreigners
from pykraft.sim.laws.foreign_laws import LONGEST_MS, Question, check_answer, check_closed, check_in_time
from pykraft.sim.laws.invariants import Violation
from pykraft.sim.trouble.foreigners import FOREIGN_SEEDS
from tests.sim.floors import Floors, check_deaths, hold_floors

FLOORS = Floors(
    short=(8078,),
    long=FOREIGN_SEEDS,
    short_floors={"foreign_answers": 300},
    long_floors={"foreign_answers": 50_000, "topics_deleted": 100},
)


@pytest.mark.limit(3600)
def test_no_law_is_broken_though_strangers_ask_for_everything(request: pytest.FixtureRequest) -> None:
    hold_floors(FLOORS, request)


@pytest.mark.limit(900)
def test_each_planted_bug_dies_in_its_recorded_history(request: pytest.FixtureRequest) -> None:
    check_deaths(foreigners, FOREIGN_SEEDS, request)


def asked(has_rights: bool = True, version: int = 3) -> Question:
    return Question(ListGroupsRequest(), version, 7, "node-1 as a broker", 0, 1, has_rights)


def answer(response: ListGroupsResponse, version: int = 3, correlation_id: int = 7) -> bytes:
    return b"".join(encode_response(response, version, correlation_id))[4:]


GROUP = ListGroupsResponse.Group(group_id="g", protocol_type="consumer")


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (answer(ListGroupsResponse(groups=[]), correlation_id=8), "correlation id"),
        (answer(ListGroupsResponse(groups=[])) + b"\0", "bytes come after"),
        (answer(ListGroupsResponse(groups=[]))[:-1], "ends too soon"),
        (answer(ListGroupsResponse(groups=[GROUP]), version=5), "after its answer|ends too soon|written again"),
        (answer(ListGroupsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, groups=[])), "nothing expected"),
    ],
)
def test_an_answer_that_is_none_of_its_request_breaks_the_law(frame: bytes, why: str) -> None:
    with pytest.raises(Violation, match=why):
        check_answer(asked(), frame)


def test_a_client_without_rights_may_see_an_empty_list_and_nothing_in_it() -> None:
    check_answer(asked(has_rights=False), answer(ListGroupsResponse(groups=[])))
    with pytest.raises(Violation, match="is answered with"):
        check_answer(asked(has_rights=False), answer(ListGroupsResponse(groups=[GROUP])))


def test_a_node_that_lives_on_answers_and_in_time() -> None:
    question = asked()
    check_closed(question, [question], has_lived_on=False)
    with pytest.raises(Violation, match="closed instead"):
        check_closed(question, [question], has_lived_on=True)
    check_in_time(question, LONGEST_MS)
    with pytest.raises(Violation, match="not answered"):
        check_in_time(question, LONGEST_MS + 1)
