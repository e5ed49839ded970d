"""What the dashboard does not do: work for what nobody sees change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.style import Style
from textual.app import App, ComposeResult
from textual.geometry import Region

from engine import events as ev
from engine.model import Task, TaskState
from engine.snapshot import Snapshot
from engine.task_view import TaskView
from tests.tui import moments
from tests.tui.test_keys import WIDE, open_log, ready, until
from tui.app import FRAMES, FRAMES_IN_CALM, DashboardApp
from tui.estimates import Forecast, _longest_chain
from tui.line import text
from tui.order import Group, GroupHead, Listing, Order, group_of
from tui.panels.dispatch import DispatchPanel
from tui.pulse import Pulse
from tui.screens.task import TaskScreen
from tui.widgets.pager import Pager
from tui.widgets.row_view import Brush, RowView
from tui.widgets.task_body import TaskBody


class Reader(App[None]):
    def compose(self) -> ComposeResult:
        yield Pager()


async def test_a_log_that_is_followed_is_neither_laid_out_anew_nor_its_scrollbar_drawn(
    tmp_path: Path,
) -> None:
    (tmp_path / "implement.log").write_text("".join(f"line {n}\n" for n in range(3000)))
    async with open_log(tmp_path) as pilot:
        app = pilot.app
        pager = app.screen.query_one(Pager)
        await until(lambda: pager.total == 3000)
        await pilot.pause()
        layouts: list[object] = []
        app.screen.screen_layout_refresh_signal.subscribe(pager, layouts.append)
        bar = pager.vertical_scrollbar
        bars: list[object] = []
        pager.watch(bar, "position", bars.append, init=False)
        pager.splice(0, 3000, [text(f"line {n}") for n in range(3000, 3100)])
        await pilot.pause()
        assert isinstance(app.screen, TaskScreen)
        assert _seen(pager)[-1] == "line 3099"
        assert pager.scroll_y == pager.max_scroll_y == 3100 - pager.size.height
        assert bar.position == pager.max_scroll_y
        assert bar.window_virtual_size == 3100
        assert (layouts, bars) == ([], [])


async def test_what_comes_faster_than_it_can_be_read_is_drawn_half_as_often(tmp_path: Path) -> None:
    log = tmp_path / "implement.log"
    log.write_text("first\n")
    async with open_log(tmp_path) as pilot:
        app = pilot.app
        body = app.screen.query_one(TaskBody)
        await until(lambda: body.total == 1)
        body._looks.stop()
        totals = []
        for lines in (100, 100, 0, 1, 1):
            with log.open("a") as file:
                file.write("line\n" * lines)
            await body._read_log()
            totals.append(body.total)
        assert totals == [101, 101, 201, 201, 203]


def _seen(view: RowView) -> list[str]:
    return [strip.text.strip() for strip in view.render_lines(Region(0, 0, *view.outer_size))]


async def test_rows_that_move_are_not_drawn_again() -> None:
    app = DashboardApp(moments.many())
    async with app.run_test(size=WIDE) as pilot:
        tasks = await ready(app)
        await pilot.pause()
        whole = Region(0, 0, *tasks.outer_size)
        before = set(map(id, tasks.render_lines(whole)))
        tasks.scroll_to(y=1, animate=False)
        moved = [strip for strip in tasks.render_lines(whole) if id(strip) not in before]
        assert len(moved) <= 1


def test_a_line_is_drawn_into_exactly_its_cells() -> None:
    brush = Brush(Style(color="#ffffff", bgcolor="#000000"), True, 6, left=1, before=1, after=2)
    assert brush.draw((("ab漢字cd", "text"),)).text == " b漢字c  "
    assert brush.draw((("漢b", "text"),)).text == "  b      "
    assert brush.draw(()).cell_length == 9
    assert brush.draw((("a\x1bb", "text"),)).text.isprintable()
    row = Brush(Style(color="#ffffff", bgcolor="#000000"), True, 9).draw((("ab", "bad"), ("cd", "text")))
    assert [segment.text for segment in row] == ["ab", "cd     "], "a terminal is told once of each colour"


async def test_other_words_in_the_border_of_a_panel_draw_only_its_edges() -> None:
    app = DashboardApp(moments.running())
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        await pilot.pause()
        panel = app.screen.query_one(DispatchPanel)
        panel._exchange_repaint_regions()
        panel.head("another title", "another foot")
        width, height = panel.outer_size
        assert set(panel._exchange_repaint_regions()) == {
            Region(0, 0, width, 1),
            Region(0, height - 1, width, 1),
        }
        await pilot.pause()
        assert "another title" in panel.render_lines(Region(0, 0, width, height))[0].text


class Beats:
    """A heart that says what it is told to, and remembers when it was asked."""

    def __init__(self, wanted: int, news: bool = False) -> None:
        self.news = news
        self.at: list[float] = []
        self.enough = asyncio.Event()
        self._wanted = wanted

    def __call__(self) -> bool:
        self.at.append(asyncio.get_running_loop().time())
        if len(self.at) == self._wanted:
            self.enough.set()
        return self.news


async def test_the_pulse_beats_until_it_is_stopped_and_makes_up_for_nothing() -> None:
    beats = Beats(3)
    pulse = Pulse(beats, quick=1000, calm=1000)
    pulse.start()
    async with asyncio.timeout(30):
        await beats.enough.wait()
    pulse.stop()
    count = len(beats.at)
    pulse.hurry()
    await asyncio.sleep(0.02)
    assert len(beats.at) == count


async def test_the_pulse_is_quick_where_there_is_news_or_somebody_waits() -> None:
    news = Beats(4, news=True)
    busy = Pulse(news, quick=1000, calm=0.01)
    busy.start()
    async with asyncio.timeout(30):
        await news.enough.wait()
    busy.stop()
    silence = Beats(4)
    calm = Pulse(silence, quick=1000, calm=0.01)
    calm.start()
    await asyncio.sleep(0.02)
    assert len(silence.at) == 1
    calm.hurry()
    async with asyncio.timeout(30):
        await silence.enough.wait()
    calm.stop()


async def test_the_dashboard_looks_less_often_while_nothing_happens_and_at_once_for_whoever_is_there() -> (
    None
):
    source = moments.running()
    app = DashboardApp(source)
    async with app.run_test(size=WIDE) as pilot:
        await ready(app)
        assert (app._pulse._quick, app._pulse._calm) == (1 / FRAMES, 1 / FRAMES_IN_CALM)
        await until(lambda: app.source.latest() is app.frame.snapshot and not app._beat())
        source.play(ev.Progressed(at=source.now(), task="T2.10", text="a word"))
        assert app._beat(), "what happened in the run is news"
        await until(lambda: not app._beat())
        source._now = float(int(source._now)) + 1
        assert not app._beat(), "a second that passed is shown, but is none"
        await until(lambda: app.frame.now == source._now)
        app._pulse._lively_until = 0.0
        await pilot.press("j")
        assert app._pulse._lively_until > 0


async def test_a_silent_log_costs_one_question_a_look(tmp_path: Path) -> None:
    log = tmp_path / "implement.log"
    log.write_text("first\n")
    async with open_log(tmp_path) as pilot:
        body = pilot.app.screen.query_one(TaskBody)
        await until(lambda: body.total == 1)
        body._looks.stop()
        assert body._reader is not None
        reads: list[int] = []
        read = body._reader.tail.read

        def counted() -> bool:
            reads.append(body.total)
            return read()

        body._reader.tail.read = counted  # type: ignore[method-assign]
        body._look()
        await pilot.pause()
        assert reads == []
        with log.open("a") as file:
            file.write("second\n")
        body._look()
        await until(lambda: body.total == 2)
        assert reads == [1]


async def test_rows_that_change_draw_neither_the_scrollbar_nor_what_is_blank_beside_it() -> None:
    app = Reader()
    async with app.run_test(size=(20, 6)) as pilot:
        pager = app.query_one(Pager)
        pager.show([text(f"line {n}") for n in range(20)])
        await pilot.pause()
        assert pager.show_vertical_scrollbar
        pager._exchange_repaint_regions()
        pager.scroll_to(y=4, animate=False)
        await until(lambda: pager.scroll_offset.y == 4)
        cells = pager.scrollable_content_region.width
        assert set(pager._exchange_repaint_regions()) <= {Region(0, 0, cells, 6)}


_STATES = st.sampled_from(list(TaskState))
_CHANGES = st.lists(st.tuples(st.integers(0, 11), _STATES, st.sampled_from(["", "sent", "back"])), max_size=8)


@given(
    st.sampled_from(list(Order)),
    st.sampled_from(["", "sent", "task 1"]),
    st.booleans(),
    st.lists(_CHANGES, max_size=4),
)
@settings(max_examples=200, deadline=None)
def test_a_list_that_follows_changes_is_as_one_made_anew(
    order: Order, words: str, problems: bool, rounds: list[list[tuple[int, TaskState, str]]]
) -> None:
    views = [TaskView(task=Task(f"T{n}", f"task {n}"), state=TaskState.WAITING) for n in range(12)]
    followed = Listing()
    folded = {Group.LANDED}
    for changes in [[], *rounds]:
        for at, state, last in changes:
            views[at] = replace(
                views[at], state=state, last=last, usd=float(at % 3), sent_back=last == "sent"
            )
        how: dict[str, Any] = {"filter_text": words, "problems_only": problems, "folded": folded}
        rows = followed.rows(tuple(views), order, 0.0, **how)
        assert rows == Listing().rows(tuple(views), order, 0.0, **how)
        heads = [row for row in rows if isinstance(row, GroupHead)]
        assert order is Order.GROUPS or not heads
        if heads:
            members = [sum(group_of(v) is head.group for v in views) for head in heads]
            assert words or problems or [head.count for head in heads] == members
            assert sum(0 if h.folded else h.count for h in heads) == len(rows) - len(heads)


def test_the_longest_chain_is_found_in_any_order_and_past_circles() -> None:
    def task(name: str, *after: str) -> TaskView:
        return TaskView(task=Task(name, "", after=after), state=TaskState.WAITING)

    backwards = [task(f"T{n}", f"T{n + 1}") for n in range(5000)] + [task("T5000")]
    assert _longest_chain(backwards, {view.id: 1.0 for view in backwards}) == 5001.0
    circle = [task("A", "B"), task("B", "A"), task("C", "D"), task("D")]
    assert _longest_chain(circle, {view.id: 2.0 for view in circle}) == 4.0


def test_a_forecast_is_made_once_a_second_and_goes_with_a_pause() -> None:
    snapshot: Snapshot = moments.running().latest()
    now = float(int(snapshot.at))
    forecast = Forecast()
    first = forecast.at(snapshot, now + 0.1)
    assert first is not None
    assert forecast.at(snapshot, now + 0.9) is first
    assert forecast.at(snapshot, now + 1.1) is not first
    paused = replace(snapshot, run=replace(snapshot.run, dispatch="paused"))
    assert forecast.at(paused, now + 1.2) is None
