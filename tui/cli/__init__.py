"""The command `taskyard`: one module for each family of commands, and `main`, which every error passes through.

Nothing heavy is imported here or in the modules of the commands before a command runs: `taskyard --help` must be quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from engine.errors import TaskyardError
from tui.cli import cache, demo, doctor, history, init, lessons, locks, look, prices, run, simulate, worktrees
from tui.cli.console import BROKEN_PIPE, complain, flush, give_up_stdout, stdout_works, tolerate_any_text

app = typer.Typer(
    help="A control room for AI coding work: reads a task board, runs its tasks side by side, checks and lands them.",
    epilog="`taskyard` alone is `taskyard run`. Try `taskyard demo`: it needs no key and no project.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.command("run")(run.run)
app.command("demo")(demo.demo)
app.command("init")(init.init)
app.command("watch")(look.watch)
app.command("replay")(look.replay)
app.command("status")(look.status)
app.command("doctor")(doctor.doctor)
app.add_typer(cache.app, name="cache")
app.add_typer(lessons.app, name="lessons")
app.add_typer(history.app, name="history")
app.command("prices")(prices.prices)
app.command("locks")(locks.locks)
app.command("worktrees")(worktrees.worktrees)
app.command("simulate")(simulate.simulate)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"taskyard {version('taskyard')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None: ...


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line (`args` without the program's name) and give the exit status."""
    tolerate_any_text()
    try:
        status = _run(list(sys.argv[1:] if args is None else args))
        flush()
    except BrokenPipeError:
        give_up_stdout()
        return BROKEN_PIPE
    except OSError as error:
        if stdout_works():
            return _scarce(error)
        give_up_stdout()
        complain(f"standard output cannot be written ({error})")
        return 1
    return status


def _scarce(error: OSError) -> int:
    """Tell what the machine has run out of; raises the error where it is none of that."""
    from engine.scarcity import scarcity

    scarce = scarcity(error)
    if scarce is None:
        raise error
    complain(str(scarce))
    return scarce.exit_status


def _run(args: list[str]) -> int:
    try:
        status = app(_with_command(args), prog_name="taskyard", standalone_mode=False)
    except typer.TyperException as error:
        complain(_usage(error))
        return 2
    except TaskyardError as error:
        complain(str(error))
        return error.exit_status
    except UnicodeEncodeError:
        # Paths may hold any bytes; names, which are looked up in databases, are text.
        odd = next((each for each in args if not _is_text(each)), None)
        if odd is None:
            raise
        complain(f"{odd} is no text in UTF-8")
        return 2
    except FileNotFoundError:
        if _stands_somewhere():
            raise
        complain("the current directory is gone: change to one that is there")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except SystemExit as exit_:
        # Nothing of ours exits so. Typer does: after completing for a shell, and when a write met a broken pipe.
        if _COMPLETING in os.environ:
            return int(exit_.code or 0)
        raise BrokenPipeError from None
    return status if isinstance(status, int) else 0


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stands_somewhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


_COMPLETING = "_TASKYARD_COMPLETE"
_OWN_OPTIONS = frozenset({"--help", "-h", "--version", "--install-completion", "--show-completion"})


def _with_command(args: list[str]) -> list[str]:
    """Put `run` first where no command is named: `taskyard`, `taskyard --headless`, `taskyard tasks/board.md`."""
    if _COMPLETING in os.environ:
        return args
    first = args[0] if args else ""
    is_option = first.startswith("-") and first not in _OWN_OPTIONS
    if not first or is_option or first.endswith(".md"):
        return ["run", *args]
    return args


def _usage(error: typer.TyperException) -> str:
    """What is wrong with the command line, and where to read how it goes."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "taskyard"
    return f"{message.rstrip('.')}: see {path} --help"
