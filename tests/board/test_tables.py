"""Our tables are GitHub's, by the word of another implementation of its rules."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from engine.board.tables import find_tables, unescape_pipes

# Left out is where we are kinder on purpose: indented rows, pipes inside backticks, tables of one column.
LINES = [
    "|a|b|", "|-|-|", "|:-:|--|", "x", "", "# h", "```", "~~~", "|1|2|", "| 1 | 2", "1|2|", "a|b", "-|-", "---", "***",
    "<!-- x", "-->", "|a\\|c|d|", "| |b|", "   |a|b|", "|a|b|c|", "===",
]  # fmt: skip

_MARKDOWN = MarkdownIt("commonmark").enable("table")


def theirs(text: str) -> list[list[list[str]]]:
    """The cells of the rows of the tables, as markdown-it finds them."""
    tables: list[list[list[str]]] = []
    tokens = _MARKDOWN.parse(text)
    for token, content in itertools.pairwise(tokens):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif token.type in ("th_open", "td_open"):
            tables[-1][-1].append(content.content)
    return tables


def ours(text: str) -> list[list[list[str]]]:
    """The same from us, rows filled up or cut to the width of their header, as GitHub shows them."""
    tables = []
    for table in find_tables(text):
        width = len(table.header.cells)
        rows = [[unescape_pipes(cell) for cell in row.cells] for row in (table.header, *table.rows)]
        if table.well_formed:
            tables.append([(row + [""] * width)[:width] for row in rows])
    return tables


@settings(max_examples=400)
@given(st.lists(st.sampled_from(LINES), min_size=2, max_size=7).map("\n".join))
def test_the_same_tables_are_found(text: str) -> None:
    assert ours(text) == theirs(text)


def test_a_header_that_does_not_fit_hides_no_table_below() -> None:
    assert ours("|a|b|c|\n|-|-|\n|-|-|\n|1|2|\n") == [[["-", "-"], ["1", "2"]]]
    assert [table.well_formed for table in find_tables("|a|b|c|\n|-|-|\n")] == [False]
