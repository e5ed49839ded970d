"""A lesson, and the line that tells of it in the lessons file.

The file is append-only JSONL. A line is a whole record and never changes; several lines with one id are one lesson:
`times_seen` of a line counts the sightings that this line adds, so that two orchestrators may append at once, and
branches may be merged by union, without losing a count. Of the other fields the newest line that fills them counts,
except that the message of the first sighting stays.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from engine.model import LATEST
from engine.store.lessons.fingerprint import failed_check
from engine.telling import Told, find_telling

MAX_SIGHTINGS = 10**9
"""No line may claim more sightings than this."""


_UNITS = (1.0, 1e-3, 1e-6, 1e-9)
"""Seconds, and what other writers count in; none of their todays is another's before the year 9999."""

_IN_A_SENTENCE = frozenset({"breaks_combination", "conflict", "no_change", "timeout", "verdict_refused"})
"""Failures whose message begins with what they are; of the others, it may be the whole output of a tool."""


class Lesson(msgspec.Struct, frozen=True, gc=False):
    """One failure and what resolved it. Times are seconds since the epoch; an empty `resolution` means: still open.

    `metadata["files"]` holds the files concerned, repository-relative, separated by spaces.
    """

    id: str
    task_type: str = ""
    activity_type: str = ""
    failure_type: str = ""
    failure_msg: str = ""
    resolution: str = ""
    pattern: str = ""
    times_seen: int = 1
    first_seen: float = 0.0
    last_seen: float = 0.0
    metadata: dict[str, str] = {}

    @property
    def files(self) -> tuple[str, ...]:
        """The files concerned, repository-relative."""
        return tuple(self.metadata.get("files", "").split())

    @property
    def told(self) -> Told:
        """Where in `failure_msg` the line stands that says what failed."""
        message = self.failure_msg
        _, head = failed_check(message)
        if self.failure_type not in _IN_A_SENTENCE:
            told = find_telling(message[head:])
            if told.start < told.end:
                return Told(head + told.start, head + told.end, told.of)
        end = message.find("\n", head)
        end = len(message) if end < 0 else end
        return Told(message.rfind("\n", 0, head) + 1, end)

    @property
    def headline(self) -> str:
        """What failed, in one line."""
        told = self.told
        return f"{self.failure_msg[told.start : told.end]}{told.of}"

    def brief(self, max_chars: int = 600) -> str:
        """The lesson as a prompt tells it: what went wrong, and what helped, in at most `max_chars` characters."""
        seen = f", seen {self.times_seen} times" if self.times_seen > 1 else ""
        label = self.failure_type or "failure"
        message = " ".join(self.failure_msg.split())
        resolution = " ".join(self.resolution.split())
        helped = f" What helped: {resolution}" if resolution else ""
        head = f"{label}{seen}: "
        # What helped is worth more than a long message, and the end of that more than its start: there is the reason.
        message = _cut_inside(message, max(max_chars - len(head) - min(len(helped), max_chars // 2), 0))
        return _cut(f"{head}{message}{helped}", max_chars)


def estimated_tokens(text: str) -> int:
    """About how many tokens a text takes in a prompt, rather too many: a third of its bytes as UTF-8.

    English and code take three and a half to four bytes a token, Chinese and Japanese about three.
    """
    return -(-len(text.encode("utf-8", "replace")) // 3)


class MalformedLineError(ValueError):
    """A line of the lessons file is not a lesson; the text says why."""


class _Line(msgspec.Struct):
    # Lenient where other writers differ (times as text, metadata of numbers), strict where counts could be spoilt.
    id: str = ""
    task_type: str = ""
    activity_type: str = ""
    failure_type: str = ""
    failure_msg: str = ""
    resolution: str | None = ""
    pattern: str | None = ""
    times_seen: int = 1
    first_seen: float | str | None = None
    last_seen: float | str | None = None
    metadata: dict[str, object] | None = None


_decoder = msgspec.json.Decoder(_Line)
_encoder = msgspec.json.Encoder()


def decode_line(line: bytes) -> Lesson:
    """The lesson of a line, whose `id` is empty when the line has none; raises MalformedLineError."""
    try:
        found = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedLineError(str(error)) from None
    if not found.id and not found.failure_msg:
        raise MalformedLineError("it has neither an id nor a failure_msg")
    if not 0 <= found.times_seen <= MAX_SIGHTINGS:
        raise MalformedLineError(f"times_seen is {found.times_seen}")
    last = _seconds(found.last_seen)
    first = _seconds(found.first_seen)
    return Lesson(
        found.id,
        found.task_type,
        found.activity_type,
        found.failure_type,
        found.failure_msg,
        found.resolution or "",
        found.pattern or "",
        found.times_seen,
        first or last,
        last or first,
        {key: value if type(value) is str else _plain(value) for key, value in found.metadata.items()}
        if found.metadata
        else {},
    )


def encode_line(lesson: Lesson) -> bytes:
    """The line of the lessons file that adds `lesson.times_seen` sightings, with its newline."""
    return _encoder.encode(lesson) + b"\n"


def merge(known: Lesson, line: Lesson) -> Lesson:
    """The lesson after one more line about it."""
    return Lesson(
        known.id,
        line.task_type or known.task_type,
        line.activity_type or known.activity_type,
        line.failure_type or known.failure_type,
        known.failure_msg or line.failure_msg,
        line.resolution or known.resolution,
        line.pattern or known.pattern,
        min(known.times_seen + line.times_seen, MAX_SIGHTINGS),
        min(known.first_seen or line.first_seen, line.first_seen or known.first_seen),
        max(known.last_seen, line.last_seen),
        _merged_metadata(known.metadata, line.metadata),
    )


def _merged_metadata(known: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    if not new or new == known:
        return known
    merged = {**known, **new}
    if "files" in known and "files" in new:
        merged["files"] = " ".join(dict.fromkeys([*known["files"].split(), *new["files"].split()]))
    return merged


def _seconds(value: float | str | None) -> float:
    if value is None:
        return 0.0
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise MalformedLineError(f"{value[:40]!r} is no time") from None
        told = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        # Some write the first day of the calendar for no time, and its last for never.
        return min(max(0.0, told), LATEST - 1)
    for unit in _UNITS:
        if value * unit < LATEST:
            return max(0.0, value * unit)
    raise MalformedLineError(f"{value:g} is no time")


def _plain(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return _encoder.encode(value).decode()


def _cut_inside(text: str, limit: int) -> str:
    if len(text) <= limit or limit < 8:
        return _cut(text, limit)
    start = limit // 4
    return f"{text[:start].rstrip()} … {text[start + 3 - limit :].lstrip()}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"
