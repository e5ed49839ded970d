"""Keep the README true: its table of keys is made from the bindings. `python -m tests.readme` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

from tui.screens.help import key_groups

README = Path(__file__).parents[1] / "README.md"
SHOWN = ("Tasks", "Dashboard", "Task screen", "Everywhere")


def key_table() -> str:
    """The keys as a Markdown table, by the place where they work."""
    lines = ["| | Key | |", "|---|---|---|"]
    for place, rows in key_groups():
        if place in SHOWN:
            for index, (keys, words) in enumerate(rows):
                shown = " ".join(f"`{key}`" if key != "|" else "`\\|`" for key in keys.split())
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
