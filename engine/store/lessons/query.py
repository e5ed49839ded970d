"""What to look for: words and filters, as typed in one line or put together by a program.

parse_query("type:fix_bug failure:timeout since:7d connection refused")
LessonQuery(text="connection refused", task_type="fix_bug", failure_type="timeout")
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

FILTERS = {
    "type": "task_type",
    "stage": "activity_type",
    "failure": "failure_type",
    "pattern": "pattern",
}
"""The filters by a name, as typed, each with the field that it looks at."""

NAMES = (*FILTERS, "file", "since", "until")
"""All filters, as typed."""

_ALSO = {"activity": "stage"}
"""Other names for filters, which were theirs in earlier versions."""

_FILTER = re.compile(rf"({'|'.join((*NAMES, *_ALSO))}):(\S*)\Z")
_AGE = re.compile(r"(\d{1,6})(s|m|h|d|w)\Z")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class LessonQuery(msgspec.Struct, frozen=True):
    """All conditions must hold; empty ones hold always. Times are seconds since the epoch, both ends included.

    `text` is data, never syntax: each of its words, divided by blanks, must stand in the lesson as it is, upper and
    lower case alike. A filter by type, stage, failure or pattern takes the exact name where there is such a
    name, else all names that begin so (which is what somebody has typed so far), else those that hold it. A file is
    one of those that the lesson tells of (by path, name or folder); where no lesson does, its words name it.
    """

    text: str = ""
    task_type: str = ""
    activity_type: str = ""
    failure_type: str = ""
    pattern: str = ""
    file: str = ""
    since: float | None = None
    until: float | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the text, each once, in their order."""
        return tuple(dict.fromkeys(self.text.split()))

    @property
    def only_words(self) -> bool:
        """Whether it has words and no filter."""
        return bool(self.words) and self == LessonQuery(text=self.text)

    @property
    def empty(self) -> bool:
        """Whether every lesson satisfies it."""
        return self == LessonQuery(text=self.text) and not self.words


def parse_query(typed: str, *, clock: Callable[[], float] = time.time, whole: bool = False) -> LessonQuery:
    """Read one typed line, all of it where `whole`, else as far as somebody is. What is no filter is text, so this
    never raises.

    Filters: `type:` `stage:` `failure:` `pattern:` `file:` with a name, `since:` and `until:` with an age
    (`90s`, `30m`, `24h`, `7d`, `2w`) or a day (`2026-01-31`, UTC, which `until:` includes whole). A filter without a
    value yet is left out, and so is a time that may still be typed on; the last of two equal filters counts.
    """
    names: dict[str, str] = {}
    times: dict[str, float] = {}
    words = []
    for word in typed.split():
        found = _FILTER.match(word)
        if found is None:
            words.append(word)
            continue
        key, value = _ALSO.get(found[1], found[1]), found[2]
        if key not in ("since", "until"):
            names[key] = value
        elif (moment := _moment(value, clock(), end=key == "until")) is not None:
            times[key] = moment
        elif value and (whole or not _looks_unfinished(value)):
            words.append(word)
    return LessonQuery(
        " ".join(words),
        **{field: names.get(name, "") for name, field in FILTERS.items()},
        file=names.get("file", ""),
        since=times.get("since"),
        until=times.get("until"),
    )


def _moment(value: str, now: float, *, end: bool) -> float | None:
    if age := _AGE.match(value):
        return now - int(age[1]) * _UNITS[age[2]]
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return None
    try:
        day = datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return day + 86_400 - 0.001 if end else day


def _looks_unfinished(value: str) -> bool:
    return re.fullmatch(r"[\d-]{1,9}", value) is not None  # ten are a whole day, and this one is none
