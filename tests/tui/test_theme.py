"""The colours of both themes."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.theme import Theme

from tui.theme import DARK, LIGHT

READABLE = 4.4
"""Contrast from which on small text is read with ease: 4.5 by the guidelines for the web, but for rounding."""
NO_TEXT = frozenset({"line", "here"})


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_text_of_every_tone_can_be_read(theme: Theme) -> None:
    assert theme.background is not None
    background = Color.parse(theme.background)
    tones = {
        name.removeprefix("tone-"): colour for name, colour in theme.variables.items() if "tone-" in name
    }
    found = {
        name: round(_contrast(Color.parse(colour), background), 2)
        for name, colour in tones.items()
        if name not in NO_TEXT
    }
    assert {name: ratio for name, ratio in found.items() if ratio < READABLE} == {}


def _contrast(one: Color, other: Color) -> float:
    """How far apart two colours are, 1 to 21, as the guidelines for the web count it."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Color) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
