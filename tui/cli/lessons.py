"""`taskyard lessons`: what failed before, how often, and what helped."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tui.cli.console import complain, say, say_all, say_json, say_table
from tui.cli.options import AsJson, Limit
from tui.cli.place import find_place

if TYPE_CHECKING:
    from engine.store.lessons import Lesson, LessonQuery, LessonStore

app = typer.Typer(help="What failed before, and what helped.", invoke_without_command=True)

FEW = 5
"""Lessons that are listed where nothing was asked for, and lines that are none of a file that is none."""

LONGEST_HINT = 400
"""Characters of what is said about a search that found nothing."""

PATIENCE = 2.0
"""Seconds that looking inside words may take: somebody who has typed the whole line can wait for all of it."""

Type = Annotated[str, typer.Option("--type", metavar="NAME", help="The type of the task, such as fix_bug.")]
Activity = Annotated[
    str, typer.Option("--stage", "--activity", metavar="NAME", help="The stage that failed, such as verify.")
]
Failure = Annotated[
    str, typer.Option("--failure", metavar="NAME", help="The kind of failure, such as timeout.")
]
Since = Annotated[
    str, typer.Option("--since", metavar="AGE", help='Seen since, such as "7d" or "2026-01-31".')
]


@app.callback()
def _overview(context: typer.Context) -> None:
    if context.invoked_subcommand is not None:
        return
    from tui.plain import count

    with _opened() as store:
        found = store.most_frequent(FEW) if store is not None else ()
        total = store.figures().total if store is not None else 0
    if not found:
        say("there are no lessons yet: a failed attempt of a run writes the first, or `taskyard lessons add`")
        return
    say(f"{count(total, 'lesson')}; seen most often:" if total > FEW else f"{count(total, 'lesson')}:")
    _show(found, as_json=False)
    say()
    say("taskyard lessons search WORDS   find some: words, and type: stage: failure: file: since:")
    say("taskyard lessons show ID        all of one")
    say("taskyard lessons --help         everything else")


@app.command()
def search(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS", help="Words, and filters: type: stage: failure: pattern: file: since: until:"
        ),
    ],
    limit: Limit = 20,
    as_json: AsJson = False,
) -> int:
    """Find lessons, the best first.

    Such as: taskyard lessons search type:fix_bug since:7d connection refused
    """
    from engine.store.lessons import parse_query

    return _search(parse_query(" ".join(words), whole=True), limit, as_json)


@app.command("list")
def list_(
    type_: Type = "",
    activity: Activity = "",
    failure: Failure = "",
    since: Since = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> int:
    """List lessons, seen last first."""
    return _search(_query(type_, activity, failure, since), limit, as_json)


@app.command()
def top(
    type_: Type = "",
    activity: Activity = "",
    failure: Failure = "",
    since: Since = "",
    limit: Limit = 10,
    as_json: AsJson = False,
) -> int:
    """List what fails most often."""
    query = _query(type_, activity, failure, since)
    with _opened() as store:
        found = store.most_frequent(limit, query) if store is not None else ()
        hint = store.search(query, limit=1).hint if store is not None and not found else ""
    return _show(found, as_json, hint)


@app.command()
def show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The lesson's id, as the other commands list it.")],
    as_json: AsJson = False,
) -> int:
    """Print all of a lesson: what helped, what failed, how often and when."""
    from engine.errors import UsageError
    from tui.format import fit, safe_lines, safe_text
    from tui.lesson_rows import NOT_RESOLVED, lesson_facts

    with _opened() as store:
        lesson = store.get(id_) if store is not None else None
    if lesson is None:
        raise UsageError(f"there is no lesson {id_}", "see them with: taskyard lessons list")
    if as_json:
        say_json(lesson)
        return 0
    helped = lesson.resolution or NOT_RESOLVED
    for title, content in (("What helped", helped), ("What failed", lesson.failure_msg)):
        say(title)
        say_all(f"  {line}".rstrip() for line in safe_lines(content))
        say()
    for name, _, value in lesson_facts(lesson, time.time()):
        say(f"{fit(name, 9)} {safe_text(value)}")
    return 0


@app.command()
def add(
    message: Annotated[str, typer.Argument(help="What went wrong, in the words of the failure.")],
    type_: Type = "task",
    activity: Activity = "",
    failure: Failure = "",
    resolution: Annotated[str, typer.Option("--resolution", metavar="TEXT", help="What helped.")] = "",
    file: Annotated[
        list[str] | None, typer.Option("--file", metavar="PATH", help="A file concerned; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Write a lesson down by hand.

    The same failure as before is the same lesson, seen once more.
    """
    from tui.plain import count

    metadata = {"files": " ".join(file)} if file else {}
    with _opened(make=True) as store:
        assert store is not None
        lesson = store.add(type_, activity, failure, message, resolution=resolution, metadata=metadata)
    if as_json:
        say_json(lesson)
    else:
        say(f"{lesson.id}, seen {count(lesson.times_seen, 'time')}")
    return 0


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Another lessons file (JSONL).")],
    as_json: AsJson = False,
) -> int:
    """Take over the lessons of another file.

    Doing it twice changes nothing. Exit status: 1 when it has lines that are no lessons.
    """
    from tui.plain import count

    with _opened(make=True) as store:
        assert store is not None
        report = store.import_file(file, progress=_progress("importing"))
    status = 1 if report.malformed else 0
    if as_json:
        say_json(report)
        return status
    say(f"{report.added:,} added, {report.raised:,} raised, {report.unchanged:,} known already")
    for line in report.malformed[:FEW]:
        complain(f"line {line.line} of {file} is no lesson: {line.reason}")
    if (more := len(report.malformed) - FEW) > 0:
        complain(f"nor {'is' if more == 1 else 'are'} {count(more, 'more line')}")
    return status


@app.command()
def check(as_json: AsJson = False) -> int:
    """List the lines of the lessons file that are no lessons.

    They are passed over, so they do no harm. Exit status: 1 when there are any.
    """
    from tui.plain import count, one_line, size

    with _opened() as store:
        found = store.check() if store is not None else ()
        stats = store.stats() if store is not None else None
    if as_json:
        say_json({"malformed": found, "stats": stats})
        return 1 if found else 0
    for line in found:
        say(f"line {line.line}: {line.reason}: {one_line(line.text, 60)}")
    if stats is None:
        say("there are no lessons yet")
    else:
        seen = f"seen {count(stats.sightings, 'time')}, {stats.resolved:,} resolved"
        stored = f"{size(stats.file_bytes)}, and {size(stats.index_bytes)} of index"
        say(f"{count(stats.total, 'lesson')}, {seen}; {stored}")
    return 1 if found else 0


@app.command()
def rebuild() -> int:
    """Make the index anew from the lessons file.

    Only needed when the index cannot be read; it follows the file by itself. An interrupted one goes on next time.
    """
    from tui.plain import count

    with _opened() as store:
        if store is None:
            say("there are no lessons yet")
            return 0
        store.rebuild(progress=_progress("indexing"))
        total = store.figures().total
    say(f"{count(total, 'lesson')} indexed")
    return 0


@contextmanager
def _opened(*, make: bool = False) -> Iterator[LessonStore | None]:
    """The lessons of this place, or None where there are none yet: looking must not make any."""
    from engine.store.lessons import LessonStore, secrets_of

    place = find_place()
    file = place.settings.lessons.file or place.paths.lessons
    if not make and not file.exists():
        yield None
        return
    place.paths.state.mkdir(parents=True, exist_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    with LessonStore(file, place.paths.lessons_index, secrets=secrets_of(os.environ)) as store:
        store.catch_up(progress=_progress("indexing"))
        yield store


def _query(type_: str, activity: str, failure: str, since: str) -> LessonQuery:
    from engine.errors import UsageError
    from engine.store.lessons import LessonQuery, parse_query

    start = parse_query(f"since:{since}").since if since else None
    if since and start is None:
        raise UsageError(f"{since!r} is no age and no day", 'write it as "24h", "7d" or "2026-01-31"')
    return LessonQuery(task_type=type_, activity_type=activity, failure_type=failure, since=start)


def _search(query: LessonQuery, limit: int, as_json: bool) -> int:
    import msgspec

    from engine.store.lessons import SearchResult
    from tui.plain import count, one_line

    with _opened() as store:
        found = (
            store.search(query, limit=limit, budget=PATIENCE)
            if store is not None
            else SearchResult((), 0, 0.0)
        )
        total = store.figures().total if store is not None else 0
    if as_json:
        hits = [{"lesson": hit.lesson, "score": hit.score, "spans": hit.spans} for hit in found.hits]
        say_json({**msgspec.structs.asdict(found), "hits": hits})
        return 0
    more = "more than " if found.more else ""
    say(f"{more}{count(found.total, 'hit')} of {total:,} in {found.took_s * 1000:.1f} ms")
    if found.hint:
        say(one_line(found.hint, LONGEST_HINT))
    return _show(found.lessons, as_json) if found.hits else 0


def _show(lessons: Sequence[Lesson], as_json: bool, hint: str = "") -> int:
    from tui.lesson_rows import LONGEST
    from tui.plain import ago, one_line

    if as_json:
        say_json(lessons)
        return 0
    if not lessons:
        say(one_line(hint, LONGEST_HINT) if hint else "there are no such lessons")
        return 0
    now = time.time()
    rows = [
        (
            lesson.id,
            lesson.task_type,
            lesson.failure_type,
            f"{lesson.times_seen:,}×",
            f"{ago(now - lesson.last_seen)} ago" if lesson.last_seen else "",
            lesson.headline,
        )
        for lesson in lessons
    ]
    helped = [f"→ {one_line(lesson.resolution, LONGEST)}" if lesson.resolution else "" for lesson in lessons]
    say_table(("ID", "Type", "Failure", "Seen", "Last", "Lesson"), rows, right=frozenset({3}), below=helped)
    return 0


def _progress(doing: str) -> Callable[[int, int], None] | None:
    """What tells on a terminal how far a long job is; None where nobody looks. Bytes."""
    if not sys.stderr.isatty():
        return None
    long = False

    def tell(done: int, total: int) -> None:
        nonlocal long
        if done < total or long:
            long = True
            typer.echo(f"\r{doing} {done / max(total, 1):.0%} ", err=True, nl=done >= total)

    return tell
