"""Colours that all readers tell apart, and text that they can read: WCAG's contrast, on light and dark pages."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pykraft.viz.drawing import palette

FILLINGS = [palette.BLUE, palette.SKY, palette.ORANGE, palette.VERMILLION, palette.GREEN, palette.YELLOW]


def test_contrast_is_that_of_wcag() -> None:
    assert palette.contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert palette.contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)  # WCAG's famous near miss
    assert palette.contrast("#123456", "#123456") == pytest.approx(1)


@pytest.mark.parametrize("filling", [*FILLINGS, *(palette.shade(step / 20) for step in range(21))])
def test_text_inside_a_filled_shape_is_readable(filling: str) -> None:
    assert palette.contrast(palette.ink_on(filling), filling) >= palette.ENOUGH


@pytest.mark.parametrize(("page", "text"), palette.PAGES)
def test_the_faintest_text_is_readable_on_light_and_dark_pages(page: str, text: str) -> None:
    assert palette.contrast(palette.mix(page, text, palette.FAINT), page) >= palette.ENOUGH


def test_a_darker_shade_is_a_larger_value_without_any_colour_vision() -> None:
    lightness = [palette.luminance(palette.shade(step / 20)) for step in range(21)]
    assert all(after < before for before, after in pairwise(lightness))


def _as_seen_without_red_cones(colour: str) -> tuple[float, float, float]:
    """Viénot, Brettel and Mollon (1999), in linear light."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (channel**2.2 for channel in (red, green, blue))
    return 0.11238 * red + 0.88762 * green, 0.11238 * red + 0.88762 * green, 0.00401 * (red - green) + blue


def test_leader_follower_and_mark_differ_for_those_who_do_not_see_red() -> None:
    seen = [_as_seen_without_red_cones(colour) for colour in (palette.BLUE, palette.SKY, palette.ORANGE)]
    for index, one in enumerate(seen):
        for other in seen[index + 1 :]:
            assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5 > 0.2
