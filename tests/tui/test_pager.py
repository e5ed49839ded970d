"""A long text: what is shown is what is there, whatever came and went, at any width."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from tests.tui.test_keys import until
from tui.line import Line, hard_wrapped, marked, plain, text, width
from tui.widgets.pager import Pager

_WORDS = st.text(alphabet="ab 漢é", min_size=0, max_size=60)


class _Reader(App[None]):
    def compose(self) -> ComposeResult:
        yield Pager()


def _rows(pager: Pager) -> list[str]:
    """What would be seen if the screen were as high as the text."""
    return [plain(pager._row(row)) for row in range(pager.virtual_size.height)]


async def test_rows_are_the_wrapped_lines_after_any_changes_at_any_width() -> None:
    app = _Reader()
    async with app.run_test(size=(20, 6)) as pilot:
        pager = app.query_one(Pager)
        pager.show([text(f"{n} " + "word " * n) for n in range(8)])
        pager.splice(0, 8, [text("漢字" * 30)])
        pager.splice(3, 7, [text("seven anew"), text("eight"), text("nine " * 9)])
        for cells in (20, 11, 40):
            await pilot.resize_terminal(cells, 6)
            await pilot.pause()
            kept: list[Line] = [text(f"{n} " + "word " * n) for n in range(3, 7)]
            kept += [text("seven anew"), text("eight"), text("nine " * 9)]
            room = pager.scrollable_content_region.width
            assert _rows(pager) == [plain(row) for line in kept for row in hard_wrapped(line, room)]
        pager.set_wrap(False)
        assert _rows(pager) == [plain(line) for line in kept]


async def test_what_is_read_stays_where_it_is_while_the_oldest_lines_go() -> None:
    app = _Reader()
    async with app.run_test(size=(20, 6)) as pilot:
        pager = app.query_one(Pager)
        pager.show([text(f"line {n}") for n in range(50)])
        await pilot.pause()
        pager.jump(30)
        pager.splice(10, 50, [text(f"line {n}") for n in range(50, 60)])
        await pilot.pause()
        assert plain(pager.lines[pager.top]) == "line 30"
        assert pager.unseen == 10


async def test_a_log_that_is_followed_stays_where_it_was_scrolled_sideways() -> None:
    app = _Reader()
    async with app.run_test(size=(20, 6)) as pilot:
        pager = app.query_one(Pager)
        pager.show([text("0123456789" * 5)] * 20)
        pager.set_wrap(False)
        pager.set_follow(True)
        await pilot.pause()
        await pilot.press("tab", "l")
        await until(lambda: pager.scroll_x == 8)
        pager.splice(0, 20, [text("abcdefghij" * 5)] * 3)
        await pilot.pause()
        assert (pager.scroll_x, pager.scroll_y) == (8, pager.max_scroll_y)
        assert plain(pager.row(22)[0]).startswith("abc")
        await pilot.press("h")
        await until(lambda: pager.scroll_x == 0)
        pager.set_wrap(True)
        await pilot.pause()
        assert pager.scroll_y == pager.max_scroll_y > 23, "wrapped, the end is further down"


@given(_WORDS, _WORDS, st.text(alphabet="ab 漢", min_size=1, max_size=3))
def test_marking_changes_no_character(first: str, second: str, words: str) -> None:
    line = ((first, "text"), (second, "bad"))
    shown = marked(line, re.compile(re.escape(words)))
    assert (plain(shown), width(shown)) == (plain(line), width(line))
    found = [content for content, tone in shown if tone.endswith(" marked")]
    assert sum(map(len, found)) == plain(line).count(words) * len(words)
