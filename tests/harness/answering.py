"""What the handler of a list comes to, without a dispatcher."""

from __future__ import annotations

from types import GeneratorType
from typing import Any

from pykraft.broker.turns.slices import ItemByItem
from pykraft.common.core import finish


def answered(listed: ItemByItem, now: int = 0) -> Any:
    """Each item is answered without a pause, and the answers are put together."""
    found = [listed.answer(item, now) for item in listed.items]
    return listed.gather([finish(each) if type(each) is GeneratorType else each for each in found], now)
