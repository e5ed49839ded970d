"""`taskyard cache`: what the result cache holds and saves, and forgetting some of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from engine.errors import UsageError
from tui.cli.console import say, say_json, say_table
from tui.cli.options import AsJson, CacheDir, Limit
from tui.cli.place import Place, find_place

if TYPE_CHECKING:
    from pathlib import Path

    from engine.store.cache import CacheEntry, ResultCache

app = typer.Typer(help="The result cache: answers that were paid for once. Alone, it prints its figures.")

Task = Annotated[str | None, typer.Option("--task", metavar="ID", help="Only results of this task.")]
Activity = Annotated[
    str | None,
    typer.Option(
        "--activity",
        metavar="NAME",
        help="Only results of planner, implementer, judge, check or outcome.",
    ),
]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Only answers of this model.")]


@app.callback(invoke_without_command=True)
def _alone(context: typer.Context, as_json: AsJson = False) -> int:
    return stats(as_json=as_json) if context.invoked_subcommand is None else 0


@app.command()
def stats(as_json: AsJson = False, cache_dir: CacheDir = None) -> int:
    """Print what the cache holds, and what it has saved since it was begun."""
    from engine.store.cache import CacheStats
    from tui.plain import count, money, size, thousands

    with _opened(cache_dir) as cache:
        found = cache.lifetime_stats() if cache is not None else CacheStats()
    if as_json:
        say_json(found)
        return 0
    rate = (
        f"{found.hit_rate:.0%} of {count(found.hits + found.misses, 'look-up')}"
        if found.hit_rate is not None
        else "no look-up yet"
    )
    limits = f" of {size(found.max_bytes)}" if found.max_bytes else ""
    say(f"entries   {found.entries:,}, {size(found.bytes)}{limits}")
    say(f"hits      {rate} (model answers, checks, landed work)")
    saved = f"{money(found.usd_saved)}, {thousands(found.tokens_saved)} tokens"
    say(f"saved     {saved}, by what was used again; prompt caches and batches: taskyard status")
    say(f"gone      {found.evictions:,} evicted, {found.expirations:,} expired, {found.damaged:,} damaged")
    if found.disabled:
        say(f"disabled  {found.disabled}")
    return 0


@app.command("list")
def list_(
    task: Task = None,
    activity: Activity = None,
    model: Model = None,
    limit: Limit = 50,
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
) -> int:
    """List cached results, last used first."""
    from tui.plain import ago, money, size, thousands

    with _opened(cache_dir) as cache:
        found = (
            cache.entries(activity=activity, task=task, model=model, limit=limit) if cache is not None else ()
        )
    if as_json:
        say_json([_entry_report(entry) for entry in found])
        return 0
    if not found:
        say("nothing is cached" if task is activity is model is None else "nothing cached matches")
        return 0
    now = time.time()
    rows = [
        (
            _name(entry),
            entry.key.task_id,
            entry.key.activity_type,
            entry.key.model_id,
            size(entry.bytes),
            thousands(entry.tokens),
            money(entry.usd),
            f"{ago(now - entry.used)} ago",
        )
        for entry in found
    ]
    header = ("Key", "Task", "Activity", "Model", "Size", "Tokens", "Cost", "Used")
    say_table(header, rows, right=frozenset({4, 5, 6}))
    return 0


@app.command()
def invalidate(
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="A key, or its beginning, as listed.")
    ] = None,
    task: Task = None,
    activity: Activity = None,
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
) -> int:
    """Forget one result, or all of a task or an activity, so that they are computed anew."""
    given = [
        name
        for name, value in (("KEY", key), ("--task", task), ("--activity", activity))
        if value is not None
    ]
    if len(given) != 1:
        problem = f"{' and '.join(given)} together" if given else "nothing to forget was named"
        raise UsageError(
            problem, "give one of KEY, --task ID, --activity NAME; or clear everything: taskyard cache clear"
        )
    with _opened(cache_dir) as cache:
        if cache is None:
            removed = 0
        elif task is not None:
            removed = cache.invalidate_task(task)
        elif activity is not None:
            removed = cache.invalidate_activity(activity)
        else:
            removed = cache.invalidate(_find(cache, key or "").key)
    return _removed(removed, as_json)


@app.command()
def clear(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    cache_dir: CacheDir = None,
) -> int:
    """Forget everything. The next run pays for all its answers again."""
    from tui.plain import count

    with _opened(cache_dir) as cache:
        entries = cache.stats().entries if cache is not None else 0
        if entries and not yes:
            if not sys.stdin.isatty():
                raise UsageError("clearing the cache needs a yes", "say it with: taskyard cache clear --yes")
            typer.confirm(f"Forget {count(entries, 'result')}, and pay for them again?", abort=True)
        removed = cache.clear() if cache is not None else 0
    return _removed(removed, as_json)


@contextmanager
def _opened(cache_dir: Path | None) -> Iterator[ResultCache | None]:
    """The cache of this place, or None where there is none yet: looking must not make one."""
    from engine.store.cache import ResultCache

    place: Place = find_place({"run.cache_dir": None if cache_dir is None else str(cache_dir.absolute())})
    if not place.paths.cache_db.exists():
        yield None
        return
    cache = ResultCache(place.paths.cache_db)
    try:
        yield cache
    finally:
        cache.close()


def _find(cache: ResultCache, name: str) -> CacheEntry:
    found = [
        entry
        for entry in cache.entries(limit=cache.stats().entries)
        if entry.key.digest.hex().startswith(name)
    ]
    if len(found) != 1:
        problem = (
            f"{len(found)} cached results begin with {name}" if found else f"nothing is cached under {name}"
        )
        raise UsageError(problem, "see the keys with: taskyard cache list")
    return found[0]


def _name(entry: CacheEntry) -> str:
    return entry.key.digest.hex()[:12]


def _entry_report(entry: CacheEntry) -> dict[str, object]:
    import msgspec

    return {"digest": entry.key.digest.hex(), **msgspec.to_builtins(entry)}


def _removed(number: int, as_json: bool) -> int:
    from tui.plain import count

    if as_json:
        say_json({"removed": number})
    else:
        say(f"{count(number, 'result')} forgotten")
    return 0
