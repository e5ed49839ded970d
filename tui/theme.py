"""Two calm themes, and the tones that lines are written in. Colour only supports: states have glyphs and words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rich.style import Style
from textual.theme import Theme

_TONES_DARK = {
    "text": "#c9d1d9",
    "muted": "#8b949e",
    "faint": "#727c87",
    "good": "#7fb889",
    "bad": "#ef7c76",
    "warn": "#dbab5c",
    "accent": "#6cb6ff",
    "info": "#7fc4c4",
    "batch": "#b8a1e3",
    "line": "#30363d",
    "here": "#1d2733",
}
_TONES_LIGHT = {
    "text": "#24292f",
    "muted": "#57606a",
    "faint": "#6e7781",
    "good": "#1a7f37",
    "bad": "#cf222e",
    "warn": "#9a6700",
    "accent": "#0969da",
    "info": "#1b7c83",
    "batch": "#7a4fc0",
    "line": "#d0d7de",
    "here": "#e6f0fb",
}
_SYNTAX = {
    "added": "good",
    "removed": "bad",
    "hunk": "info",
    "keyword": "batch",
    "string": "good",
    "number": "warn",
    "comment": "faint",
    "name": "accent",
}


def _theme(name: str, tones: Mapping[str, str], *, dark: bool, background: str, surface: str) -> Theme:
    return Theme(
        name=name,
        primary=tones["accent"],
        secondary=tones["info"],
        accent=tones["accent"],
        warning=tones["warn"],
        error=tones["bad"],
        success=tones["good"],
        foreground=tones["text"],
        background=background,
        surface=surface,
        panel=surface,
        dark=dark,
        variables={f"tone-{tone}": colour for tone, colour in tones.items()}
        | {
            "scrollbar": tones["line"],
            "scrollbar-hover": tones["faint"],
            "scrollbar-active": tones["accent"],
            "scrollbar-background": background,
            "scrollbar-background-hover": background,
            "scrollbar-background-active": background,
        },
    )


DARK = _theme("taskyard-dark", _TONES_DARK, dark=True, background="#0d1117", surface="#161b22")
LIGHT = _theme("taskyard-light", _TONES_LIGHT, dark=False, background="#ffffff", surface="#f6f8fa")

DEFAULT_VARIABLES = {f"tone-{tone}": colour for tone, colour in _TONES_DARK.items()}
"""What other themes lack."""


def theme_for(environ: Mapping[str, str]) -> str:
    """The theme for a terminal: light where COLORFGBG tells of a light background."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT.name if background in ("7", "15") else DARK.name


@lru_cache(maxsize=512)
def style_of(tone: str, dark: bool, here: bool = False) -> Style:
    """The style of a tone: a colour by name, and perhaps "strong", "underlined" or "marked"."""
    tones = _TONES_DARK if dark else _TONES_LIGHT
    name, *extras = tone.split(" ")
    colour = tones[_SYNTAX.get(name, name)]
    background = tones["here"] if here else None
    return Style(
        color=colour,
        bgcolor=background,
        bold="strong" in extras or None,
        underline="underlined" in extras or None,
        reverse="marked" in extras or None,
    )
