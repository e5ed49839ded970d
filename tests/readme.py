"""Keep the README true: its short table of keys is made from the bindings. `python -m tests.readme` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

from tui.screens.help import key_groups

README = Path(__file__).parents[1] / "README.md"
SHOWN = {
    "Tasks": ("enter", "space"),
    "Dashboard": ("/", "e", "s", "r", "x", "p", "X", "+", "esc"),
    "Task screen": ("f", "o", "J", "esc"),
    "Everywhere": ("?", "n", "ctrl+p", "q"),
}
"""The keys that a newcomer needs, by the place where they work; the help of the dashboard lists all."""


def key_table() -> str:
    """The keys as a Markdown table."""
    lines = ["| | Key | |", "|---|---|---|"]
    for place, rows in key_groups("LIVE"):
        chosen = [(keys.split(), words) for keys, words in rows if keys.split()[0] in SHOWN.get(place, ())]
        for index, (keys, words) in enumerate(chosen):
            shown = " ".join(f"`{key}`" for key in keys)
            lines.append(f"| {'**' + place + '**' if index == 0 else ''} | {shown} | {words} |")
    return "\n".join(lines)


def with_keys(text: str) -> str:
    """The README with the table of keys as it should be."""
    return re.sub(
        r"(<!-- keys -->\n).*?(<!-- /keys -->)",
        lambda m: f"{m[1]}{key_table()}\n{m[2]}",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    README.write_text(with_keys(README.read_text("utf-8")), "utf-8")
