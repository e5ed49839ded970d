"""TOML that people write: every mistake told by its line and column, with the line itself."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from engine.errors import SettingsError

LONGEST = 60  # characters of what is shown of a file

_WITHOUT_QUOTES = ("Invalid value", "Expected newline or end of document after a statement")
"""What the parser says of a text that stands in no quotes."""


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Read TOML text; `name` is the file's in errors. Raises SettingsError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(str(error), text, name) from None


def shown(text: str) -> str:
    """What somebody wrote, as an error shows it: not all of a long text, and no password in an address."""
    text = re.sub(r"//[^/]*@", "//…@", text)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "…"


def _no_toml(message: str, source: str, name: str) -> SettingsError:
    lines = source.rstrip().splitlines() or [""]
    what, _, place = message.removesuffix(")").rpartition(" (at ")
    numbers = re.fullmatch(r"line (\d+), column (\d+)", place)
    # Else it is "end of document": something was left open.
    line, column = (int(numbers[1]), int(numbers[2])) if numbers else (len(lines), len(lines[-1]) + 1)
    text = lines[min(line, len(lines)) - 1]
    hint = f"the line reads {shown(text.strip())}" if text.strip() else "mend that line"
    if what in _WITHOUT_QUOTES and text[column - 1 :].strip():
        hint += "; text stands in quotes"
    return SettingsError(f"{name}:{line}:{column}: no valid TOML ({what})", hint)
