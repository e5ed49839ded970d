"""The task screen: its sections, its logs as they grow, what is found in them, and the tries before the newest."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from engine import events as ev
from engine.log_times import LogTimes
from engine.model import BoardStatus, Role, Stage, Task, TaskState
from engine.task_view import AttemptView, StageSpan, TaskView
from tests import recorded_demo
from tests.tui import moments, sample_run
from tests.tui.test_keys import WIDE, open_log, ready, shown, until
from tui.app import DashboardApp
from tui.bill import nobody_asked
from tui.line import plain
from tui.log_tail import LogTail
from tui.rows import why as told_last
from tui.screens.main import MainScreen
from tui.screens.task import TaskScreen
from tui.sections import lesson_lines, timeline_lines
from tui.source import Lookups, RecordedSource
from tui.widgets.key_bar import KeyBar
from tui.widgets.pager import Pager
from tui.widgets.task_body import SECTIONS, TaskBody


async def test_every_section_of_the_task_screen_opens() -> None:
    app = DashboardApp(moments.failed())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, TaskScreen))
        for number in range(1, len(SECTIONS) + 1):
            await pilot.press(str(number))
            await pilot.pause()
            await until(lambda: shown(app, "#body") != "")
        await pilot.press("J", "escape")
        await until(lambda: isinstance(app.screen, MainScreen))


async def test_a_running_log_is_followed(tmp_path: Path) -> None:
    log = tmp_path / "implement.log"
    log.write_text("first line\n")
    async with open_log(tmp_path) as pilot:
        app = pilot.app
        await until(lambda: "first line" in shown(app, "#body"))
        with open(log, "a") as file:
            file.write("\x1b[31msecond\x1b[0m [/] line\n")
        await until(lambda: "second [/] line" in shown(app, "#body"))


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """A log is read for as long as it takes: one event says that its lines are being taken in, the other lets them."""
    begun, go_on = threading.Event(), threading.Event()
    time_of = LogTail._time_of

    def slowly(tail: LogTail, offset: int) -> float | None:
        if tail.times and not begun.is_set():  # a line is there already, and its time is not
            begun.set()
            go_on.wait(30)
        return time_of(tail, offset)

    monkeypatch.setattr(LogTail, "_time_of", slowly)
    yield begun, go_on
    go_on.set()


async def test_a_log_that_is_read_slowly_does_not_come_into_another_section(
    tmp_path: Path, reading: tuple[threading.Event, threading.Event]
) -> None:
    begun, go_on = reading
    (tmp_path / "implement.log").write_text("a line of the log\n" * 10_000)
    async with open_log(tmp_path) as pilot:
        app = pilot.app
        await until(begun.is_set)
        await pilot.press("1")
        timeline = shown(app, "#body")
        go_on.set()
        await pilot.pause()
        await app.workers.wait_for_complete()
        assert shown(app, "#body") == timeline
        await pilot.press("5")
        await until(lambda: "a line of the log" in shown(app, "#body"))


async def test_times_that_are_asked_for_as_a_log_is_read_come_with_its_lines(
    tmp_path: Path, reading: tuple[threading.Event, threading.Event]
) -> None:
    begun, go_on = reading
    log = tmp_path / "implement.log"
    log.write_text("a line of the log\n" * 10_000)
    LogTimes(log).note(0, 0.0)
    async with open_log(tmp_path) as pilot:
        app = pilot.app
        await until(begun.is_set)
        await pilot.press("T", "T", "T")
        go_on.set()
        await until(lambda: "a line of the log" in shown(app, "#body"))
        hidden = shown(app, "#body").startswith("a line")
        await pilot.press("T")
        await until(lambda: shown(app, "#body").startswith("a line") is not hidden)


async def test_a_log_that_is_not_followed_stays_and_counts_what_is_new(tmp_path: Path) -> None:
    log = tmp_path / "implement.log"
    log.write_text("".join(f"line {n}\n" for n in range(100)))
    async with open_log(tmp_path) as pilot:
        app = pilot.app
        body = app.screen.query_one(Pager)
        await until(lambda: "following" in shown(app, "#place") and body.is_vertical_scroll_end)
        await pilot.press("k")
        await until(lambda: "f follows" in shown(app, "#place"))
        top = body.top
        with open(log, "a") as file:
            file.write("more\nand more\n")
        await until(lambda: "2 new lines: f follows" in shown(app, "#place"))
        assert body.top == top
        await pilot.press("f")
        await until(lambda: "following" in shown(app, "#place") and body.is_vertical_scroll_end)


async def test_a_log_tells_when_its_lines_arrived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    log = tmp_path / "implement.log"
    log.write_text("one\ntwo\nthree\n")
    times = LogTimes(log)
    times.note(0, 1_800_000_000.0)
    times.note(8, 1_800_000_061.0)
    async with open_log(tmp_path) as pilot:
        app = pilot.app
        lines = ["08:00:00 one", "         two", "08:01:01 three"]
        await until(lambda: shown(app, "#body").splitlines() == lines)
        await pilot.press("T")
        await until(lambda: shown(app, "#body").splitlines() == ["one", "two", "three"])


async def test_text_is_found_in_a_section_while_it_grows(tmp_path: Path) -> None:
    log = tmp_path / "implement.log"
    log.write_text("".join(f"{'error' if n % 40 == 7 else 'fine'} {n}\n" for n in range(200)))
    async with open_log(tmp_path, size=(80, 24)) as pilot:
        app = pilot.app
        body = app.screen.query_one(Pager)
        await until(lambda: "error 167" in shown(app, "#body"))
        await pilot.press("g", "slash", *"ERR", "enter")
        assert "not found" in shown(app, "#place")
        await pilot.press("slash", "escape", "slash", *"err", "enter")
        assert "1 of 5 found" in shown(app, "#place")
        await pilot.press("n", "n")
        assert "3 of 5 found" in shown(app, "#place")
        await until(lambda: body.top <= 87 < body.top + body.size.height)
        await pilot.press("N", "N", "N")
        assert "5 of 5 found" in shown(app, "#place")
        with open(log, "a") as file:
            file.write("one more error\n")
        await until(lambda: "5 of 6 found" in shown(app, "#place"))


@pytest.mark.parametrize(
    ("events", "check"),
    [
        # What a run tells of a failed check now, and what one told when its reason was the last line of the output.
        (
            recorded_demo.events(),
            ("exit 1: AssertionError: Money(cents=12", "AssertionError: Money(cents=12"),
        ),
        (
            recorded_demo.events_before(),
            ("exit 1: FAILED (failures=1)", "AssertionError: Money(cents=12, currency='EUR') != Money("),
        ),
    ],
    ids=["now", "before"],
)
async def test_why_an_earlier_try_failed_stands_in_the_timeline(
    events: Sequence[ev.AnyEvent], check: tuple[str, ...]
) -> None:
    app = DashboardApp(RecordedSource(events, now=events[-1].at))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        for task, reasons in (
            ("CART-2", ("clashes with CART-1: cartwright/summary.py",)),
            ("CART-3", check),
            ("CART-4", ("refused: Expired codes still give a discount", "- No test covers an expired code")),
        ):
            app.open_task(task)
            await pilot.pause()
            await until(lambda: "attempt 2" in shown(app, "#body"))
            first_attempt = shown(app, "#body").partition("attempt 2")[0]
            assert [reason for reason in reasons if first_attempt.count(reason) != 1] == []


async def test_what_the_judge_said_is_told_once() -> None:
    app = DashboardApp(RecordedSource(recorded_demo.events()))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        app.open_task("CART-4")
        await pilot.press("6", "less_than_sign")
        await until(lambda: "✗ refused" in shown(app, "#body"))
        own, _, next_try = shown(app, "#body").partition("what the next")
        assert own.count("Expired codes still give a discount") == 1
        assert "Expired codes still give a discount" in next_try


def test_a_try_that_no_stage_tells_of_says_why_it_ended() -> None:
    bad = AttemptView(1, problem="[b]nothing[/] was\x1b[2J changed")
    view = TaskView(
        Task("T1", "scope"),
        TaskState.QUEUED,
        attempt=1,
        ended_badly=(bad,),
        spans=(StageSpan(1, Stage.IMPLEMENT, 1, 2),),
    )
    assert "      [b]nothing[/] was changed" in [plain(line) for line in timeline_lines(view, 9.0, 80)]


async def test_earlier_tries_are_one_key_away() -> None:
    app = DashboardApp(moments.at(290))
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        app.open_task(sample_run.REFUSED)
        await pilot.pause()
        await pilot.press("6")
        assert "approved" in shown(app, "#body")
        assert "attempt 2 of 2" in shown(app, "#place")
        await pilot.press("less_than_sign")
        await until(lambda: "attempt 1 of 2" in shown(app, "#place"))
        assert "refused" in shown(app, "#body")
        assert "what the next attempt is told" in shown(app, "#body")
        await pilot.press("1", "6")
        assert "attempt 1 of 2" in shown(app, "#place")
        await pilot.press("greater_than_sign")
        await until(lambda: "attempt 2 of 2" in shown(app, "#place"))
        await pilot.press("3")
        await until(lambda: "call" in shown(app, "#place"))


@pytest.mark.parametrize(
    ("ended", "source"),
    [(None, "agent…"), ("", "agent"), ("agent ended with status 7: no credits", "failed")],
)
async def test_the_prompt_of_an_agent_is_shown_as_it_went_to_its_stdin(
    tmp_path: Path, ended: str | None, source: str
) -> None:
    record = tmp_path / "c1.prompt"
    record.write_bytes(
        "Role: implementer\nTask: T2.10\n\n[b]Round[/b] \x1b[2Jprices 世界 \n- ".encode()
        + b"long " * 60
        + b"\xff"
    )
    moment = moments.at(95)
    moment.play(asked := agent_asked(moment.now(), str(record)))
    if ended is not None:
        moment.play(ev.AgentEnded(at=moment.now(), call=asked.call, task=asked.task, error=ended))
    app = DashboardApp(moment)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        app.open_task("T2.10")
        await pilot.pause()
        await pilot.press("3")
        await until(lambda: "Task: T2.10" in shown(app, "#body"))
        assert "  [b]Round[/b] prices 世界" in shown(app, "#body")
        assert (ended or "") in shown(app, "#body")
        rows = [row[:8] for row in shown(app, "#body").splitlines() if "long long" in row]
        assert rows[:2] == ["  - long", "    long"]
        assert f"implementer, {source}, codex" in shown(app, "#place")
        body = app.screen.query_one(TaskBody)
        assert body.whole() == record
        await pilot.press("8")
        await until(lambda: "codex" in shown(app, "#body"))
        row = next(line for line in shown(app, "#body").splitlines() if "codex" in line)
        assert row.split()[:6] == ["1", "implementer", source, "?", "?", "?"]


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (TaskView(Task("T1", "scope"), TaskState.WAITING), "no model or agent was asked yet"),
        (TaskView(Task("T1", "scope"), TaskState.RUNNING, attempt=1), "no model or agent was asked yet"),
        (TaskView(Task("T1", "scope"), TaskState.FAILED, attempt=3), "no record was kept of its calls"),
        (TaskView(Task("T1", "scope"), TaskState.LANDED), "no model or agent was asked"),
    ],
)
def test_why_there_is_no_prompt_is_told_by_what_the_task_went_through(view: TaskView, words: str) -> None:
    assert nobody_asked(view) == words


@pytest.mark.parametrize("missing", ["gone", "never"])
async def test_a_prompt_that_is_not_there_is_told_in_words(tmp_path: Path, missing: str) -> None:
    moment = moments.at(95)
    moment.play(agent_asked(moment.now(), str(tmp_path / "gone.prompt") if missing == "gone" else ""))
    app = DashboardApp(moment)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        app.open_task("T2.10")
        await pilot.pause()
        await pilot.press("3")
        words = (
            "cannot be read: No such file" if missing == "gone" else "no record could be kept of this prompt"
        )
        await until(lambda: words in shown(app, "#body"))


def agent_asked(at: float, record: str) -> ev.AgentAsked:
    return ev.AgentAsked(
        at=at, call="c1", task="T2.10", attempt=1, role=Role.IMPLEMENTER, model="codex", record=record
    )


def test_the_lessons_that_a_task_taught_stand_below_those_it_was_given() -> None:
    source = moments.failed()
    task = source.latest().tasks[0].id
    source.play(
        ev.LessonRecorded(at=source.now(), task=task, lesson="Lone", text="check_failed: one cent"),
        ev.LessonRecorded(at=source.now(), task=task, lesson="Ltwo", text="timeout: [/] for ever"),
        ev.LessonResolved(at=source.now(), task=task, lesson="Ltwo"),
    )
    view = source.latest().task(task)
    assert view is not None
    told = [plain(line) for line in lesson_lines(AttemptView(1), 80, view.taught)]
    assert told == [
        "no lesson was given to this attempt",
        "",
        "taught by this task",
        f"Lone  attempt {view.attempt}  + not resolved",
        "  check_failed: one cent",
        "",
        f"Ltwo  attempt {view.attempt}  ✓ resolved",
        "  timeout: [/] for ever",
    ]
    for changed, why in (
        (False, "landed since with attempt 2; its agent did not say what helped"),
        (True, "landed since with attempt 2, after the row, its check or the roles had been changed: "),
    ):
        left = ev.LessonLeftOpen(at=source.now(), task=task, lesson="Lone", attempt=2, changed=changed)
        source.play(left)
        view = source.latest().task(task)
        assert view is not None
        told = [plain(line) for line in lesson_lines(AttemptView(1), 160, view.taught)]
        assert told[4].startswith(f"  {why}")
    assert [plain(line) for line in lesson_lines(None, 80)] == ["the task has not started"]


class OneRun(Lookups):
    """Knows of one task which run has landed it."""

    async def landed_in(self, repository: str, target: str, task_id: str) -> str:
        return "cd8867a5ab32" if task_id == "OLD-1" else ""


async def test_of_a_task_that_had_landed_before_the_run_that_did_it_is_named() -> None:
    source = moments.failed()
    source.lookups = OneRun()
    old = [Task(id=f"OLD-{n}", scope="Old", status=BoardStatus.LANDED) for n in (1, 2)]
    source.play(ev.TasksAdded(at=source.now(), tasks=tuple(old)))
    app = DashboardApp(source)
    async with app.run_test(size=WIDE):
        await ready(app)
        for task, words in (
            ("OLD-1", "✓ landed in run cd8867a5ab32 (replay with: taskyard replay cd8867a5ab32)"),
            ("OLD-2", "✓ landed before this run"),
        ):
            await app.push_screen(TaskScreen(task))
            await until(lambda words=words: words in shown(app, "#body"))
            app.pop_screen()


async def test_a_task_that_had_landed_before_the_run_says_so_wherever_it_stands() -> None:
    source = moments.failed()
    source.play(ev.TasksAdded(at=source.now(), tasks=(Task("OLD", "Old", status=BoardStatus.LANDED),)))
    old = source.latest().task("OLD")
    assert old is not None
    assert told_last(old, {}, {})[0] == "landed before this run"
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        app.open_task("OLD")
        for key in "2345678":
            await pilot.press(key)
            if SECTIONS[int(key) - 1] != "Cost":
                await until(lambda: shown(app, "#body") == "landed before this run")
        bar = app.screen.query_one(KeyBar)
        await until(lambda: "esc back" in bar.render_line(0).text)
        assert "attempt" not in bar.render_line(0).text
