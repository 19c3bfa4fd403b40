"""A large request is refused piece by piece: what comes of it is the refusal of the whole."""

from __future__ import annotations

import pytest

from pykraft.broker.requests import long_answers
from pykraft.broker.requests.long_answers import refuse_in_steps
from pykraft.common.core import finish
from pykraft.common.errors import ErrorCode, KafkaError
from tests.flood.generator import Flood, Target, fill, variants
from tests.flood.order import ordered
from tests.flood.vocabulary import State

ERROR = KafkaError(ErrorCode.POLICY_VIOLATION, "too many")
TARGETS = list({(target.api.name, target.path): target for target in ordered()}.values())
ENTRIES = 2 * long_answers._AT_ONCE - 50


@pytest.mark.parametrize("target", TARGETS, ids=map(str, TARGETS))
def test_the_pieces_of_a_refusal_are_the_refusal(target: Target) -> None:
    state = State()
    for role in ("topic", "topic_id", "partition", "group", "transactional id", "producer id", "broker", "member"):
        state.names.setdefault(role, [0] if role in ("partition", "broker", "producer id") else ["name"])
    request = fill(Flood(target, "strangers", ENTRIES, variants(target)[0]), state)
    steps = refuse_in_steps(request, ERROR)
    assert finish(steps) == request.refusal(ERROR)
