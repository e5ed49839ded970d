"""`taskyard watch`, `replay` and `status`: look at a run from outside, through its journal alone."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.errors import UsageError
from tui.cli.console import complain, flush, on_terminal, say, say_all, say_json, say_table
from tui.cli.options import AsJson, EventsAsJson, Headless, RunId
from tui.cli.place import find_place, open_journal

if TYPE_CHECKING:
    from engine.events import Event
    from engine.model import TaskState
    from engine.snapshot import Snapshot
    from engine.store.journal_reader import JournalReader
    from engine.store.run_log import RunRow
    from engine.task_view import TaskView

POLL_EVERY = 0.02
"""Seconds between two looks at the journal; each costs 7 µs."""

LOOK_EVERY = 0.5
"""Seconds between two looks at whether the run's process still lives."""

SERVED_HOST, SERVED_PORT = "127.0.0.1", 8000
"""Where `watch --serve` shows the dashboard, unless it is told another place."""

SCHEMA = 2
"""The version of what `status --json` prints; a program may rely on its fields."""


def watch(
    run: RunId = None,
    run_option: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="The same as RUN, for scripts.")
    ] = None,
    headless: Headless = False,
    as_json: EventsAsJson = False,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Show the dashboard in a browser of this machine, to look at only."),
    ] = False,
    host: Annotated[
        str | None,
        typer.Option(
            "--host", metavar="NAME", help=f"With --serve: a name of this machine. [default: {SERVED_HOST}]"
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help=f"With --serve: 0 takes a free one. [default: {SERVED_PORT}]"
        ),
    ] = None,
) -> int:
    """Look on while another process runs the board.

    Where several runs are at work, the dashboard asks which one; w there goes to another.
    """
    wanted = run or run_option
    if not serve and (host is not None or port is not None):
        raise UsageError("--host and --port say where a browser finds the dashboard", "add --serve")
    place = find_place()
    reader = open_journal(place)
    row = choose_run(reader, wanted)
    if serve:
        reader.close()
        from tui.cli.serve import serve_watch

        run_given = None if wanted is None else row.run
        title = f"taskyard: {place.root.name}"
        where, number = host or SERVED_HOST, SERVED_PORT if port is None else port
        return serve_watch(run_given, title=title, host=where, port=number)
    if headless or as_json or not on_terminal():
        return follow(reader, row, as_json=as_json)
    now = time.time()
    several = sum(each.is_alive(now) for each in reader.runs()) > 1
    reader.close()
    from tui.cli.dashboard import show_watch

    return show_watch(place, None if wanted is None else row.run, choose=several and wanted is None)


def replay(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A run's id, or a file of `--json` lines; the newest that did anything if left out.",
        ),
    ] = None,
    speed: Annotated[
        float, typer.Option("--speed", min=0.1, metavar="X", help="X times as fast as it was.")
    ] = 1.0,
    headless: Headless = False,
    as_json: EventsAsJson = False,
) -> int:
    """Show a past run again.

    In the dashboard it goes as it went then; plain lines and JSON are printed at once.
    """
    place = None
    if run is not None and Path(run).is_file():
        events = list(recorded(Path(run)))
    else:
        place = find_place()
        reader = open_journal(place)
        events = [event for _, event in everything(reader, choose_run(reader, run).run, 0)]
        reader.close()
    if headless or as_json or not on_terminal():
        _print(events, as_json=as_json)
        return 0
    from tui.cli.dashboard import show_replay

    return show_replay(place, events, speed)


def status(run: RunId = None, as_json: AsJson = False) -> int:
    """Print where a run stands.

    Its counts, its costs and every task; with --json the snapshot that the dashboard shows.
    """
    from engine.state import RunState
    from tui.plain import ago

    reader = open_journal(find_place())
    row = choose_run(reader, run)
    now = time.time()
    alive = row.is_alive(now)  # before its events are read: one that is gone has told them all
    state = RunState()
    for _, event in everything(reader, row.run, row.resume_after):
        state.apply(event)
    snapshot = state.snapshot()
    newest = reader.runs()[0]
    reader.close()
    if as_json:
        say_json(status_report(snapshot, alive))
    else:
        _say_status(row, snapshot, alive, now)
        if run is None and newest.number > row.number and newest.ended is not None:
            say()
            say(f"run {newest.run} found nothing to do since, {ago(now - newest.started)} ago")
    return 0


def choose_run(reader: JournalReader, wanted: str | None) -> RunRow:
    """The run with this id or this only beginning of an id. Raises UsageError.

    Where none is named, the newest at work, else the newest that did anything.
    """
    rows = reader.runs()
    if not rows:
        raise UsageError("nothing was run here yet", "start with: taskyard run")
    if wanted is None:
        return reader.shown_run(time.time()) or rows[0]
    found = [row for row in rows if row.run == wanted] or [row for row in rows if row.run.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(row.run for row in (found or rows)[:5])
    problem = f"there is no run {wanted}" if not found else f"{len(found)} runs begin with {wanted}"
    raise UsageError(problem, f"the newest are {known}")


def everything(reader: JournalReader, run: str, after: int) -> Iterator[tuple[int, Event]]:
    """All events of a run after one, in order."""
    while page := reader.poll(run, after):
        yield from page
        after = page[-1][0]


def follow(reader: JournalReader, row: RunRow, *, as_json: bool) -> int:
    """Print the events of a run as they come, until it ends; gives its exit status, or 1 when its process died."""
    from engine.events import RunFinished, RunResumed

    after, ended, gone = row.resume_after, None, False
    tell = _teller(as_json)
    looked = 0.0
    while True:
        if reader.changed() or gone:
            before = after
            for seq, event in everything(reader, row.run, after):
                after = seq
                tell(event)
                if isinstance(event, RunFinished | RunResumed):
                    ended = event if isinstance(event, RunFinished) else None
            flush()
            if ended is not None:
                return ended.exit_status
            if gone and after == before:
                complain(
                    f"the run has died: its process {row.owner.pid} is gone; take it up with: taskyard run"
                )
                return 1
            gone = False
        elif time.monotonic() - looked >= LOOK_EVERY:
            looked = time.monotonic()
            row = reader.run(row.run) or row
            # Only then is it known that it tells no more: what it told last is read first.
            gone = not row.is_alive(time.time())
        time.sleep(0 if gone else POLL_EVERY)


def recorded(path: Path) -> Iterator[Event]:
    """The events of a file of `--json` lines. Raises UsageError naming the line that is none, or when there is none."""
    import msgspec

    from engine.events import decode

    hint = "name a run, or a file from: taskyard run --json"
    lines = path.read_bytes().splitlines()
    if not lines:
        raise UsageError(f"{path} is empty", hint)
    for number, line in enumerate(lines, 1):
        try:
            yield decode(line)
        except msgspec.DecodeError as error:
            raise UsageError(f"line {number} of {path} is no event ({error})", hint) from None


def status_report(snapshot: Snapshot, alive: bool) -> dict[str, Any]:
    """What `status --json` prints: the snapshot's fields, the version of their form, and whether it is at work."""
    import msgspec

    return {"schema": SCHEMA, "alive": alive, **msgspec.to_builtins(snapshot, str_keys=True)}


def _print(events: list[Event], *, as_json: bool) -> None:
    tell = _teller(as_json)
    for event in events:
        tell(event)


def _teller(as_json: bool) -> Any:
    from engine.events import encode
    from tui.headless import ProgressLines

    if as_json:
        return lambda event: say(encode(event).decode())
    lines = ProgressLines()
    return lambda event: say_all(lines.of(event))


def _say_status(row: RunRow, snapshot: Snapshot, alive: bool, now: float) -> None:
    from engine.blocked import blocked
    from engine.model import TaskState
    from tui.plain import count, duration, money, one_line
    from tui.sums import (
        answers_in_words,
        end_in_words,
        plus_unpriced,
        pushes_in_words,
        rows_listed,
        rows_not_run,
        savings_by_cause,
        why_stopped,
    )
    from tui.waiting import BLOCKED

    run, totals = snapshot.run, snapshot.totals
    state: str
    if run.finished is not None:
        why = one_line(why_stopped(snapshot))
        state, until = end_in_words(run.finished) + (f" by: {why}" if why else ""), run.finished.at
    elif alive:
        state, until = f"at work, process {row.owner.pid} on {row.owner.host}", now
    else:
        gone = f"process {row.owner.pid} on {row.owner.host} is gone"
        state, until = f"died: {gone}; take it up with: taskyard run", snapshot.at or row.started
    at_work = alive and run.finished is None
    say(f"run {row.run} of {row.board}, {duration(run.elapsed(until))}: {state}")
    if not snapshot.tasks:
        return
    numbers = {each: snapshot.count(each) for each in TaskState}
    numbers[TaskState.CANCELLED] -= snapshot.removed
    stuck = blocked(snapshot)
    numbers[TaskState.WAITING] -= len(stuck)
    counts = [f"{number} {_word(each, at_work)}" for each, number in numbers.items() if number]
    counts += [f"{len(stuck)} {BLOCKED}"] if stuck else []
    counts += [f"{snapshot.removed} removed"] if snapshot.removed else []
    counts += [left] if (left := rows_not_run(len(snapshot.refused))) else []
    say(f"{count(snapshot.total, 'task')}: {', '.join(counts)}")
    budget = f" of {money(run.budget_usd)}" if run.budget_usd is not None and not snapshot.others else ""
    causes = ", ".join(savings_by_cause(totals, partial(money, among=totals.usd_saved)))
    spent = f"{money(totals.usd)}{budget} spent{plus_unpriced(totals.unpriced)}"
    say(f"{spent}, {money(totals.usd_saved)} saved" + (f" ({causes})" if causes else ""))
    say(f"{answers_in_words(totals)}; {pushes_in_words(snapshot)}")
    _say_crew(snapshot, at_work)
    if run.locks_away and at_work:
        say(f"{run.locks_away}: no task is claimed and nothing lands until it is back")
    say_all(f"not run: {one_line(text)}" for text in rows_listed(snapshot.refused))
    say()
    known = {view.id: view for view in snapshot.tasks}
    rows = [_status_row(view, until, at_work, known, stuck) for view in snapshot.tasks]
    say_table(("ID", "State", "Attempt", "Elapsed", "Cost", "Last"), rows, right=frozenset({2, 3, 4}))


def _say_crew(snapshot: Snapshot, at_work: bool) -> None:
    """Say who shares the board, and what each has done; nothing when the run is alone."""
    from tui.peers import TITLES, cells_of, crew_of, headcount
    from tui.plain import count, money

    crew = crew_of(snapshot)
    if not crew:
        return
    limit = snapshot.run.budget_usd
    budget = f" of {money(limit)}" if limit is not None else ""
    who = f"{headcount(crew)} at work" if at_work else f"{count(len(crew), 'orchestrator')} took part"
    say(f"{money(snapshot.usd_of_all)}{budget} spent by all; {who}")
    say()
    header = ("Orchestrator", *(title.capitalize() for title in TITLES))
    say_table(header, cells_of(snapshot), right=frozenset({1, 2, 3, 4}))


def _word(state: TaskState, at_work: bool) -> str:
    """What to call a state: nothing runs once the run has stopped."""
    from engine.model import TaskState

    return "interrupted" if state is TaskState.RUNNING and not at_work else state.value.replace("_", " ")


def _status_row(
    view: TaskView, now: float, at_work: bool, known: Mapping[str, TaskView], stuck: Container[str]
) -> tuple[str, ...]:
    from engine.model import TaskState
    from tui.plain import duration, money
    from tui.rows import LANDED_BEFORE
    from tui.sums import lacking
    from tui.waiting import BLOCKED, awaited

    if at_work and view.state is TaskState.RUNNING and view.stage is not None:
        state = view.stage.value
    elif view.sent_back and not view.state.ended:
        state = "sent back"
    else:
        state = BLOCKED if view.id in stuck else _word(view.state, at_work)
    last = view.problem or view.last
    if view.state is TaskState.WAITING:
        last = awaited(view, known.get, stuck) or last
    elif view.state is TaskState.LANDED and not view.attempt:
        last = last or LANDED_BEFORE
    begun = view.started is not None
    return (
        view.id,
        state,
        str(view.attempt) if view.attempt else "",
        duration(view.elapsed(now)) if begun else "",
        lacking(money(view.usd), view.unpriced) if begun else "",
        last,
    )
