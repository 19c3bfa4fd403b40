"""Colours: the eight of Okabe and Ito, which people with any kind of colour vision tell apart, and what may stand on
them.

A figure does not know the colour of the page behind it. Its own text is therefore ``currentColor``: dark on a light
page, light on a dark one. It may be made fainter only as far as it stays readable on both (`FAINT`). Text inside a
filled shape has the ink that goes with the filling (`ink_on`). The law is WCAG's: contrast at least 4.5 to 1.
"""

BLUE = "#0072B2"
SKY = "#56B4E9"
ORANGE = "#E69F00"
VERMILLION = "#D55E00"
GREEN = "#009E73"
YELLOW = "#F0E442"
PURPLE = "#CC79A7"

WHITE = "#FFFFFF"
DARK_INK = "#000000"

TEXT_ON_LIGHT = "#1A1A1A"
TEXT_ON_DARK = "#ECECEC"
PAGES = (("#FFFFFF", TEXT_ON_LIGHT), ("#111111", TEXT_ON_DARK))
"""The pages that a figure must be readable on, each with the text colour it gives: light, then dark."""

FAINT = 0.7
"""The least opacity of text."""
ENOUGH = 4.5


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def luminance(colour: str) -> float:
    """Relative luminance of #RRGGBB, 0 to 1."""
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in _channels(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def mix(one: str, other: str, share: float) -> str:
    """`share` of the other colour, the rest of the first: also what a half-transparent colour looks like on a page."""
    pairs = zip(_channels(one), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


def ink_on(filling: str) -> str:
    """The text colour to be used on this filling."""
    return max((WHITE, DARK_INK), key=lambda ink: contrast(ink, filling))


def shade(share: float) -> str:
    """A colour from light to dark for a share from 0 to 1: lightness alone tells the order."""
    light, middle, dark = "#E8F3FA", BLUE, "#04304C"
    share = min(1.0, max(0.0, share))
    return mix(light, middle, share / 0.6) if share < 0.6 else mix(middle, dark, (share - 0.6) / 0.4)
