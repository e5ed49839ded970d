"""The moments of a run that screens are drawn for, in tests and in pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from engine import events as ev
from engine.figures import PeerFigures
from engine.model import (
    BoardStatus,
    LessonGiven,
    Plan,
    Stage,
    Task,
    TaskState,
    Verdict,
    Verification,
)
from engine.rows import BoardChange, EditKind, RowEdit
from tests.tui import sample_run
from tests.tui.stage import Control
from tui.source import Health, Lookups, RecordedSource

BEGIN = sample_run.BEGIN
HOSTILE = "[/] [red]list[int][/red] \x1b[31mESC\x1b[2J a\rb 漢字 👩‍💻 \u202eabc " + "very long " * 40


def empty() -> RecordedSource:
    """No run yet."""
    return RecordedSource([], now=BEGIN)


def at(seconds: float, *more: ev.Event, now: float | None = None) -> RecordedSource:
    """So many seconds after the start."""
    source = RecordedSource(sample_run.events_until(seconds), now=now or BEGIN + seconds, control=Control())
    source.play(*more)
    return source


def running() -> RecordedSource:
    """In the middle."""
    return at(170)


def failed() -> RecordedSource:
    """A task was given up."""
    return at(290)


def paused() -> RecordedSource:
    """Somebody paused it."""
    return at(170, ev.DispatchChanged(at=BEGIN + 170, mode="paused", max_concurrency=6))


def told() -> RecordedSource:
    """Of each kind there is something to tell."""

    def notice(seconds: float, level: str, words: str, task: str = "") -> ev.Noticed:
        return ev.Noticed(at=BEGIN + seconds, level=level, text=words, task=task)

    return at(
        290,
        notice(252, "info", "prompt judge_task was edited and is in use"),
        notice(
            263,
            "info",
            "T2.19 has begun, and keeps the words it began with: a retry takes the new ones",
            "T2.19",
        ),
        notice(
            277,
            "warning",
            "the history is not archived, and keeps more than it should: no space left on disk",
        ),
        notice(288, "error", "train 4: the remote does not answer; it departs again in 20 s"),
    )


def finished() -> RecordedSource:
    """It is over."""
    return at(600, sample_run.finished(BEGIN + 330))


def budget() -> RecordedSource:
    """The budget is used up."""
    return at(
        290,
        ev.BudgetReached(
            at=BEGIN + 290, scope="run", limit_usd=3.0, spent_usd=2.95, next_usd=0.2, task="T2.15"
        ),
    )


def stale() -> RecordedSource:
    """A watched run that is silent."""
    return RecordedSource(
        sample_run.events_until(170), now=BEGIN + 182, mode="WATCH", health=Health(True, 12.0, "stale 12 s")
    )


def died() -> RecordedSource:
    """A watched run whose process is gone."""
    health = Health(False, 40.0, "the run has died; take it up with: taskyard run")
    return RecordedSource(sample_run.events_until(170), now=BEGIN + 210, mode="WATCH", health=health)


def shared(*more: ev.Event) -> RecordedSource:
    """Two others work on the same board; one of them has gone, and what it had is taken over."""
    return at(170, *beside_others(), *more)


def beside_others() -> list[ev.Event]:
    """What a run hears of two others by then."""
    now = BEGIN + 170
    run = sample_run.RUN

    def landed(task: str, by: str) -> ev.TaskLanded:
        return ev.TaskLanded(at=now - 20, task=task, commit=f"{task[-2:]}77d0b13e", train=0, by=by)

    def elsewhere(task: str, host: str, pid: int) -> ev.TaskElsewhere:
        return ev.TaskElsewhere(at=now - 30, task=task, host=host, pid=pid)

    peers = (
        PeerFigures("ada", 4242, run, BEGIN, now, working=13, landed=5, pushes=1, usd=1.45),
        PeerFigures("build-02", 917, "r2", BEGIN + 4, now, working=3, landed=1, pushes=1, usd=0.62),
        PeerFigures("cyd", 31_337, "r3", BEGIN + 9, now - 40, False, 2, 1, 1, usd=0.31),
    )
    return [
        landed("T2.24", "build-02:917"),
        landed("T2.23", "cyd:31337"),
        elsewhere("T2.20", "build-02", 917),
        elsewhere("T2.21", "cyd", 31_337),
        elsewhere("T2.21", "build-02", 917),
        elsewhere("T2.22", "build-02", 917),
        ev.Measured(at=now, peers=peers),
    ]


def locks_away() -> RecordedSource:
    """The server of the locks does not answer."""
    problem = "the lock server redis://locks:6379/0 does not answer (Connection refused)"
    return shared(ev.LocksChanged(at=BEGIN + 170, problem=problem))


def edited() -> RecordedSource:
    """Somebody edited the board: every kind of edit, and a mistake."""
    tasks = {task.id: task for task in sample_run.board()}

    def edit(kind: EditKind, name: str, **fields: object) -> RowEdit:
        return RowEdit(kind, replace(tasks[name], **fields), tasks[name])

    new = Task(
        "T2.25",
        "Tell the customer which coupon was used",
        command="pytest -q tests/test_coupon.py",
        acceptance="The receipt names the coupon.",
        after=("T2.03",),
    )
    change = BoardChange(
        (
            RowEdit(EditKind.ADDED, new),
            edit(EditKind.CHANGED, "T2.20", scope="Keep quantities positive, and whole", priority=5),
            edit(EditKind.LATER, "T2.10", command="pytest -q tests/test_10.py tests/test_csv.py"),
            edit(EditKind.REMOVED, "T2.23"),
            edit(EditKind.KEPT, "T2.11"),
            edit(EditKind.LANDED, "T2.12", status=BoardStatus.LANDED),
            edit(EditKind.GIVEN_UP, "T2.24", status=BoardStatus.FAILED),
            edit(EditKind.RETRIED, "T2.04"),
            edit(EditKind.NEXT_RUN, "T2.01", scope="Round prices half even at the end of a sum"),
        ),
        ("line 31: T2.26 waits for T9, which the board does not have",),
    )
    return at(170, ev.BoardOffered(at=BEGIN + 170, number=1, change=change))


def hostile() -> RecordedSource:
    """Every text from outside tries to do something."""
    tasks = tuple(
        Task(
            id=f"{HOSTILE[:14]}{n}",
            scope=HOSTILE,
            branch=HOSTILE,
            command=HOSTILE,
            acceptance=HOSTILE,
            type=HOSTILE,
        )
        for n in range(6)
    )
    begin = next(e for e in sample_run.events() if isinstance(e, ev.RunStarted))
    first = tasks[0].id
    common = {"task": first, "attempt": 1}
    return RecordedSource(
        [
            replace(begin, board=HOSTILE, run=HOSTILE, tasks=tasks, remote=HOSTILE),
            ev.AttemptStarted(
                at=BEGIN,
                branch=HOSTILE,
                base=HOSTILE,
                lessons=(LessonGiven(HOSTILE, HOSTILE),),
                worktree=HOSTILE,
                **common,
            ),  # type: ignore[arg-type]
            ev.StageStarted(at=BEGIN, stage=Stage.PLAN, **common),  # type: ignore[arg-type]
            ev.StageFinished(at=BEGIN + 1, stage=Stage.PLAN, ok=False, note=HOSTILE, **common),  # type: ignore[arg-type]
            ev.PlanMade(at=BEGIN + 1, plan=Plan((HOSTILE,), (HOSTILE,), HOSTILE), **common),  # type: ignore[arg-type]
            ev.Verified(at=BEGIN + 2, verification=Verification(HOSTILE, 1, 2.0, HOSTILE), **common),  # type: ignore[arg-type]
            ev.Judged(at=BEGIN + 2, verdict=Verdict(False, HOSTILE, (HOSTILE,)), **common),  # type: ignore[arg-type]
            ev.LessonRecorded(at=BEGIN + 2, task=first, lesson=HOSTILE, text=HOSTILE),
            ev.Noticed(at=BEGIN + 2, level="error", text=HOSTILE, task=first),
            ev.BoardOffered(
                at=BEGIN + 2,
                number=1,
                change=BoardChange(
                    (RowEdit(EditKind.CHANGED, replace(tasks[2], scope=HOSTILE[::-1]), tasks[2]),), (HOSTILE,)
                ),
            ),
            ev.TaskEnded(at=BEGIN + 3, task=first, state=TaskState.FAILED, reason=HOSTILE),
            ev.Progressed(at=BEGIN + 3, task=tasks[1].id, text=HOSTILE),
        ],
        now=BEGIN + 3,
    )


def many(count: int = 10_000) -> RecordedSource:
    """A board of ten thousand tasks, some of them moving."""
    begin = next(e for e in sample_run.events() if isinstance(e, ev.RunStarted))
    tasks = tuple(Task(id=f"T{n:05}", scope=f"Task number {n}") for n in range(count))
    moving: list[ev.Event] = [replace(begin, tasks=tasks)]
    for n in range(40):
        moving.append(ev.AttemptStarted(at=BEGIN + n, task=tasks[n].id, attempt=1, branch="", base=""))
        moving.append(ev.StageStarted(at=BEGIN + n, task=tasks[n].id, attempt=1, stage=Stage.IMPLEMENT))
    return RecordedSource(moving, now=BEGIN + 60)


def logging(folder: Path, task: str = "T2.10") -> RecordedSource:
    """In the middle; the task's Implementer writes to `implement.log` in the folder."""
    source = at(95)
    source.play(*sample_run.begins_to_log(folder, task, source.now()))
    return source


def lessons(folder: Path) -> Lookups:
    """A real store of a few lessons to look in."""
    # As late as the program loads them: other moments are to start as fast as it does.
    from engine.store.lessons import LessonStore
    from tui.cli.dashboard import LessonSearch

    clock = lambda: BEGIN - 2 * 86_400  # noqa: E731
    store = LessonStore(folder / "lessons.jsonl", folder / "lessons.db", clock=clock)
    for _ in range(4):
        store.add(
            "fix_bug",
            "verify",
            "check_failed",
            "cart total is rounded twice",
            resolution="round once, at the end",
        )
    store.add("fix_bug", "verify", "timeout", "the cart fixture sleeps", resolution="use the fake clock")
    store.add("feature", "judge", "verdict_refused", "bankers' rounding", resolution="ROUND_HALF_UP")
    store.most_frequent()  # waits until the index has them all: a list of these is of what that has
    return Lookups(lambda: LessonSearch(store))


def with_lessons(source: RecordedSource, folder: Path) -> RecordedSource:
    """The source with these lessons."""
    source.lookups = lessons(folder)
    return source


MOMENTS: dict[str, Callable[[], RecordedSource]] = {
    "empty": empty,
    "running": running,
    "failed": failed,
    "paused": paused,
    "shared": shared,
    "locks away": locks_away,
    "edited": edited,
    "stale": stale,
    "died": died,
    "finished": finished,
    "budget": budget,
    "hostile": hostile,
    "many": many,
}
SIZES = {"narrow": (40, 12), "normal": (80, 24), "wide": (120, 40)}
