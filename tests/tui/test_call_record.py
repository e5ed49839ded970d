"""The record of a call, as the task screen shows it."""

from __future__ import annotations

from tests.recorded_demo import LOGS
from tui.call_record import record_lines
from tui.line import plain, width


def test_what_does_not_fit_goes_on_below_its_own_words() -> None:
    record = next(path for path in sorted(LOGS.rglob("*.json")) if "Implementer" in path.read_text("utf-8"))
    lines = record_lines(record, 60)
    assert max(map(width, lines)) <= 60
    rows = [plain(line) for line in lines]
    at = next(n for n, row in enumerate(rows) if row.startswith("  - Read before you edit."))
    assert len(rows[at + 1]) - len(rows[at + 1].lstrip()) == len("  - ")
    told = " ".join(row.strip() for row in rows[at : at + 2])
    assert told == "- Read before you edit. Follow the plan, unless the code shows that it is wrong."
    heads = {row.split()[0] for row in rows if row and not row.startswith(" ")}
    assert heads <= {"tools", "system", "user", "assistant", "answer", "stopped:"}


def test_what_a_tool_is_given_is_shown_as_it_is_meant() -> None:
    records = [path for path in sorted(LOGS.rglob("*.json")) if "write_file" in path.read_text("utf-8")]
    shown = ["\n".join(plain(line) for line in record_lines(path, 100)) for path in records]
    assert any(
        '  path: cartwright/discounts.py\n  content:\n    """Discount codes."""\n' in all_ for all_ in shown
    )
    assert not any('{"path"' in all_ for all_ in shown)
