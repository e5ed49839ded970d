"""`taskyard history`: the executions of tasks, the newest live and the older ones in the archive."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from engine.errors import UsageError
from tui.cli.console import say, say_json, say_table
from tui.cli.options import AsJson, Limit
from tui.cli.place import find_place, open_journal

if TYPE_CHECKING:
    from engine.store.history import HistoryReader, TaskHistory
    from engine.store.history_archive import HistoryArchive

app = typer.Typer(help="Past executions of tasks, live and archived. Alone, it lists the live ones.")
archive_app = typer.Typer(help="Compressed segments of older executions.")
app.add_typer(archive_app, name="archive")

Status = Annotated[
    Literal["running", "interrupted", "to_land", "landed", "failed", "cancelled"] | None,
    typer.Option("--state", "--status", help="Only executions in this state."),
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="AGE", help='Only those begun since, such as "24h".')
]


@app.callback(invoke_without_command=True)
def _alone(context: typer.Context, as_json: AsJson = False) -> int:
    return list_(as_json=as_json) if context.invoked_subcommand is None else 0


@app.command("list")
def list_(
    status: Status = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Only executions of this run.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", help="Only executions of this task.")
    ] = None,
    since: Since = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> int:
    """List live executions, started last first."""
    from engine.model import TaskState

    unended = status in ("running", "interrupted")
    state = None if status is None else TaskState.RUNNING if unended else TaskState(status)
    start = None if since is None else time.time() - _seconds(since)
    with _opened() as history:
        if history is None:
            return _show((), as_json, none="nothing was run yet; start with: taskyard run")
        most = -1 if unended else limit
        found = history.find(status=state, run=run, task=task, since=start, limit=most)
    at_work = _at_work()
    if unended:
        found = tuple(each for each in found if _standing(each, at_work) == status)[:limit]
    return _show(found, as_json, at_work)


@app.command()
def runs(limit: Limit = 20, as_json: AsJson = False) -> int:
    """List the runs, the newest first: how each ended, what landed, and what it cost.

    Any of them plays again: taskyard replay RUN
    """
    from engine.store.state_db import has_tables
    from tui.plain import duration, money, when
    from tui.source import Runs, end_of
    from tui.sums import lacking, state_in_words

    place = find_place()
    if not has_tables(place.paths.state_db):
        say_json(()) if as_json else say("nothing was run yet; start with: taskyard run")
        return 0
    source = Runs(place.paths.state_db, place.paths.archive)
    try:
        listing = source.list()
        found = [(run, source.progress(run.run)) for run in listing.runs[:limit]]
    finally:
        source.close()
    rows = []
    for run, progress in found:
        end = progress.finished
        stands = end_of(run, progress)
        took = end.duration_s if end is not None else run.until - run.started - progress.idle
        rows.append((run, progress, stands, state_in_words(stands, end), max(0.0, took)))
    if as_json:
        say_json(
            [
                {
                    "run": run.run,
                    "board": run.board,
                    "started": run.started,
                    "state": stands,
                    "landed": progress.landed,
                    "total": progress.total,
                    "usd": progress.usd,
                    "unpriced": progress.unpriced,
                    "duration_s": took,
                    "worked": progress.worked,
                }
                for run, progress, stands, _, took in rows
            ]
        )
        return 0
    say_table(
        ("Run", "Started", "State", "Landed", "Elapsed", "Cost", "Board"),
        [
            (
                run.run,
                when(run.started),
                state if progress.worked or stands == "running" else f"{state}, nothing to do",
                f"{progress.landed:,}/{progress.total:,}",
                duration(took),
                lacking(money(progress.usd), progress.unpriced),
                run.board,
            )
            for run, progress, stands, state, took in rows
        ],
        right=frozenset({3, 4, 5}),
    )
    return 0


@app.command()
def stats(as_json: AsJson = False) -> int:
    """Print how full the live store is, what was pruned, and what it takes."""
    import msgspec

    from engine.model import TaskState
    from engine.store.history import HistoryStats
    from tui.plain import ago, count, size

    with _opened() as history:
        found = history.stats() if history is not None else HistoryStats()
        unended = history.find(status=TaskState.RUNNING, limit=-1) if history is not None else ()
    standings = Counter({state.value: number for state, number in found.by_status.items()})
    if unended:
        at_work = _at_work()
        standings += Counter(_standing(each, at_work) for each in unended)
        standings -= Counter(each.status.value for each in unended)
    if as_json:
        say_json(msgspec.to_builtins(found) | {"by_status": standings})
        return 0
    say(f"entries   {found.entries:,} of {found.max_entries:,}")
    say(f"bytes     {size(found.bytes)} of {size(found.max_bytes)}")
    if found.oldest_at is not None:
        say(f"oldest    {ago(time.time() - found.oldest_at)} of {ago(found.max_age)}")
    say(f"archived  {found.archived:,} in {count(found.segments, 'segment')}, {size(found.archived_bytes)}")
    say(f"pruned    {count(found.prunes, 'time')}")
    say(f"journal   {size(found.journal_bytes)}")
    if standings:
        say("state     " + ", ".join(f"{number:,} {word}" for word, number in standings.items()))
    if found.problem:
        say(f"problem   {found.problem}")
    return 0


@archive_app.command("list")
def archive_list(as_json: AsJson = False) -> int:
    """List the archive's segments, oldest first."""
    from tui.plain import size, when

    found = _archive().segments()
    if as_json:
        say_json(found)
        return 0
    if not found:
        say("nothing is archived yet")
        return 0
    rows = [
        (
            str(each.number),
            f"{each.entries:,}",
            when(each.first),
            when(each.last),
            size(each.bytes),
            each.path,
        )
        for each in found
    ]
    header = ("Segment", "Entries", "From", "To", "Size", "File")
    say_table(header, rows, right=frozenset({0, 1, 4}))
    return 0


@archive_app.command("read")
def archive_read(
    segment: Annotated[
        int | None, typer.Argument(metavar="SEGMENT", help="One segment; all if left out.")
    ] = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
) -> int:
    """Print archived executions, oldest first."""
    from itertools import islice

    archive = _archive()
    if segment is not None and segment not in archive.numbers():
        raise UsageError(f"there is no segment {segment}", "see them with: taskyard history archive list")
    return _show(tuple(islice(archive.entries(segment), limit)), as_json)


@archive_app.command("search")
def archive_search(
    text: Annotated[str, typer.Argument(help="What to look for in any field, upper and lower case alike.")],
    limit: Limit = 50,
    as_json: AsJson = False,
) -> int:
    """Find archived executions that mention a text, the newest first."""
    return _show(_archive().search(text, limit=limit), as_json)


@contextmanager
def _opened() -> Iterator[HistoryReader | None]:
    """The history of this place, for reading only, or None where nothing was run yet: looking must not make one."""
    from engine.store.database import ReadOnlyDatabase
    from engine.store.history import HistoryReader, PrunePolicy
    from engine.store.state_db import has_tables

    place = find_place()
    if not has_tables(place.paths.state_db):
        yield None
        return
    limits = place.settings.history
    policy = PrunePolicy(place.paths.archive, limits.max_bytes, limits.max_age, limits.max_entries)
    database = ReadOnlyDatabase(place.paths.state_db)
    try:
        yield HistoryReader(database, policy)
    finally:
        database.close()


def _archive() -> HistoryArchive:
    from engine.store.history_archive import HistoryArchive

    return HistoryArchive(find_place().paths.archive)


def _at_work() -> frozenset[str]:
    """The runs that a process is at work on."""
    reader = open_journal(find_place())
    try:
        return frozenset(row.run for row in reader.runs() if row.is_alive(time.time()))
    finally:
        reader.close()


def _standing(entry: TaskHistory, at_work: Collection[str]) -> str:
    """How the execution stands: nothing runs once its run has stopped."""
    return entry.status.value if entry.ended is not None or entry.run in at_work else "interrupted"


def _show(
    found: Sequence[TaskHistory],
    as_json: bool,
    at_work: Collection[str] = (),
    *,
    none: str = "no execution matches",
) -> int:
    """Print the executions. `at_work`: the runs of those that may not have ended; `none`: what is said without any."""
    import msgspec

    from tui.plain import duration, money, when
    from tui.sums import lacking

    if as_json:
        say_json([msgspec.to_builtins(each) | {"status": _standing(each, at_work)} for each in found])
        return 0
    if not found:
        say(none)
        return 0
    rows = [
        (
            entry.task,
            _standing(entry, at_work).replace("_", " "),
            str(entry.attempts),
            when(entry.started),
            duration(entry.duration) if entry.duration is not None else "",
            # Of one that has not ended, what it cost is known once its run has.
            lacking(money(entry.usd), entry.unpriced)
            if entry.ended is not None or entry.usd or entry.unpriced
            else "",
            entry.run,
            entry.reason or entry.commit[:7],
        )
        for entry in found
    ]
    header = ("Task", "State", "Attempts", "Started", "Elapsed", "Cost", "Run", "How it ended")
    say_table(header, rows, right=frozenset({2, 4, 5}))
    return 0


def _seconds(age: str) -> float:
    from engine.settings import parse_duration

    try:
        return parse_duration(age)
    except ValueError:
        raise UsageError(f"{age!r} is no age", 'write it as "90s", "30m", "24h" or "7d"') from None
