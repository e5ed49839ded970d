"""Words on standard output and standard error: lines, tables, JSON, complaints."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Sequence

import typer

LONGEST_COMPLAINT = 2000  # characters
BROKEN_PIPE = 141
"""The exit status after the reader of our output has gone: what a shell shows for a death by SIGPIPE."""


def say(text: str = "") -> None:
    """Print a line on standard output."""
    typer.echo(text)


def say_all(lines: Iterable[str]) -> None:
    """Print lines on standard output."""
    for line in lines:
        typer.echo(line)


def say_table(
    header: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    *,
    right: frozenset[int] = frozenset(),
    below: Sequence[str] = (),
) -> None:
    """Print rows in columns; on a terminal no line of them is longer than it is wide.

    `below`: for each row what stands under it, whole however long it is, or nothing.
    """
    from tui.format import cut
    from tui.plain import table

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for number, line in enumerate(table(header, rows, right=right)):
        typer.echo(line if width is None else cut(line, width))
        if number and below and below[number - 1]:
            typer.echo(f"  {below[number - 1]}")


def say_json(value: object) -> None:
    """Print a struct, or a list or mapping of such, as JSON: indented for a person, on one line for a program."""
    import msgspec

    data = msgspec.json.encode(value, enc_hook=_plain_value)
    typer.echo((msgspec.json.format(data, indent=2) if sys.stdout.isatty() else data).decode())


def complain(text: str) -> None:
    """Print one line on standard error, with the program's name before it."""
    from tui.plain import one_line

    typer.echo(f"taskyard: {one_line(text, LONGEST_COMPLAINT)}", err=True)


def on_terminal() -> bool:
    """Whether a dashboard can be shown: input and output are terminals that can do more than print, or a browser."""
    if os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver"):
        return True
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def tolerate_any_text() -> None:
    """Print a substitute for what the encoding of the output cannot show, instead of failing.

    A stream that the shell has closed (`>&-`) goes nowhere, as to `/dev/null`.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        # PYTHONUNBUFFERED: what cannot be written is gone, and nothing is left that tells so (see `stdout_works`).
        number, encoding = sys.stdout.fileno(), sys.stdout.encoding
        sys.stdout = open(number, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def flush() -> None:
    """Write out what is buffered. Raises BrokenPipeError when nobody reads it."""
    sys.stdout.flush()


def stdout_works() -> bool:
    """Whether what is buffered can be written out: on a full disk it stays in the buffer, and fails again."""
    try:
        flush()
    except OSError:
        return False
    return True


def give_up_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter's own last flush stays quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain_value(value: object) -> object:
    from pathlib import Path

    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")
