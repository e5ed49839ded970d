"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
EventsAsJson = Annotated[
    bool, typer.Option("--json", help="Print one event a line as JSON; implies --headless.")
]
Headless = Annotated[
    bool, typer.Option("--headless", help="Print progress as plain lines, without the dashboard.")
]
Concurrency = Annotated[
    int | None,
    typer.Option("--max-concurrency", "-j", min=1, metavar="N", help="Work on at most N tasks at once."),
]
CacheDir = Annotated[
    Path | None, typer.Option("--cache-dir", metavar="DIR", help="Keep the result cache there, to share it.")
]
RunId = Annotated[
    str | None, typer.Argument(metavar="RUN", help="A run's id; the newest that did anything if left out.")
]
MOST_SHOWN = 10**9
"""The greatest `--limit`: databases know no number of any length."""

Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=MOST_SHOWN, metavar="N", help="Show at most N.")
]
