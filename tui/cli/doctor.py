"""`taskyard doctor`: look at everything a run needs, and say of each thing whether it is well and what to do if not."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING

from engine.errors import SettingsError, TaskyardError, UsageError
from tui.cli.boards import read_board_of
from tui.cli.console import say, say_json
from tui.cli.findings import Finding, Level, of_error
from tui.cli.lock_findings import examine_locks
from tui.cli.options import AsJson
from tui.cli.place import JOURNAL_ROOM, Place, find_place, free_bytes, read_only_above
from tui.room import ENOUGH

if TYPE_CHECKING:
    from engine.git.preflight import Preflight
    from engine.git.repository import Repository
    from engine.llm.client import ModelClient
    from engine.model import Role
    from engine.settings import RoleSettings, Settings

LEAST_FREE = 10**9  # bytes


def doctor(as_json: AsJson = False) -> int:
    """Check that a run could start, and say what to mend.

    Writes nothing and asks no model. Exit status: 0 when nothing is in the way of a run, else 1.
    """
    import asyncio

    findings: list[Finding] = []

    async def look() -> None:
        async for finding in examine(os.environ):
            findings.append(finding)
            if not as_json:
                say(str(finding))

    asyncio.run(look())
    if as_json:
        say_json([finding.report() for finding in findings])
    return 1 if any(finding.level == "error" for finding in findings) else 0


async def examine(environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """All findings, in the order in which they are worth mending."""
    yield _git()
    for finding in _terminal(environ):
        yield finding
    try:
        place = find_place(environ=environ)
    except UsageError as error:
        yield of_error("settings" if isinstance(error, SettingsError) else "repository", error)
        return
    file = place.settings.file
    yield Finding("ok", "settings", str(file) if file else "all as by default: there is no taskyard.toml")
    async for finding in _repository(place, environ):
        yield finding
    async for finding in _roles(place.settings, environ):
        yield finding
    async for finding in examine_locks(place):
        yield finding
    for finding in _folders(place):
        yield finding
    for finding in _journal(place):
        yield finding


def _git() -> Finding:
    import re
    import subprocess

    from engine.git.versions import INSTALL, MERGE_TREE, NEEDED, named

    try:
        said = subprocess.run(["git", "--version"], capture_output=True, text=True).stdout
    except FileNotFoundError:
        return Finding("error", "git", "is not installed", INSTALL)
    found = re.search(r"(\d+)\.(\d+)[\d.]*", said)
    if found is None:
        return Finding("warning", "git", f"tells no version: {said.strip()}", INSTALL)
    version = int(found[1]), int(found[2])
    if version < NEEDED:
        return Finding("error", "git", f"{found[0]} is too old", INSTALL)
    if version < MERGE_TREE:
        hint = f"nothing is missing, but git {named(MERGE_TREE)} or newer lands faster"
        return Finding("warning", "git", f"{found[0]} lands work through a checkout", hint)
    return Finding("ok", "git", found[0])


def _terminal(environ: Mapping[str, str]) -> Iterator[Finding]:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield Finding("warning", "terminal", "none here", "run prints plain lines then, as with --headless")
        return
    columns, lines = shutil.get_terminal_size()
    size = f"{columns}×{lines}, {environ.get('TERM') or 'TERM is not set'}"
    if environ.get("TERM", "") in ("", "dumb"):
        yield Finding("warning", "terminal", size, "set TERM, such as xterm-256color, for the dashboard")
    elif columns < ENOUGH[0] or lines < ENOUGH[1]:
        yield Finding("warning", "terminal", size, "the dashboard needs at least {}×{}".format(*ENOUGH))
    else:
        yield Finding("ok", "terminal", size)
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        yield Finding(
            "warning", "encoding", f"{sys.stdout.encoding}", "set LANG to a UTF-8 locale, such as C.UTF-8"
        )


async def _repository(place: Place, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    from engine.git.preflight import preflight
    from engine.git.repository import Repository
    from engine.project import ours

    settings = place.settings
    git = settings.git
    try:
        repository = await Repository.open(place.root, environ=environ)
        found = await preflight(
            repository,
            remote=git.remote,
            target=git.target,
            timeout=git.timeout,
            sparse=git.sparse,
            ours=ours(settings),
        )
    except TaskyardError as error:
        yield of_error("repository", error)
        return
    where = f"pushed to {found.remote}" if found.remote else "kept local, for there is no remote"
    yield Finding("ok", "repository", f"{place.root}: work lands on {found.target}, {where}")
    for notice in found.notices:
        yield Finding("warning", "repository", notice)
    async for finding in _board(place, repository, found, environ):
        yield finding


async def _board(
    place: Place, repository: Repository, found: Preflight, environ: Mapping[str, str]
) -> AsyncIterator[Finding]:
    from engine.model import BoardStatus
    from engine.programs import missing_programs
    from engine.project import look_at_board
    from tui.plain import count

    try:
        read_board_of(place)
        board, name, rows = await look_at_board(place.settings, repository, found)
    except TaskyardError as error:
        yield of_error("board", error)
        return
    landed = sum(task.status is BoardStatus.LANDED for task in rows.tasks)
    counts = [count(len(board.tasks), "task"), f"{landed} landed" if landed else ""]
    counts.append(f"{len(rows.tasks) - landed} can run")
    level: Level = "ok" if rows.tasks or not rows.refused else "error"
    yield Finding(level, "board", f"{name}: {', '.join(part for part in counts if part)}")
    for diagnostic in rows.refused:
        yield Finding("error", "board", f"{name}, {diagnostic}")
    for diagnostic in board.diagnostics:
        if diagnostic.severity == "warning":
            yield Finding("warning", "board", f"{name}, {diagnostic}")
    for notice in rows.notices:
        yield Finding("warning", "board", notice)
    for text in missing_programs(rows.tasks, place.settings, environ):
        yield Finding("warning", "checks", text)


async def _roles(settings: Settings, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    from engine.model import Role

    roles: dict[str, RoleSettings] = {
        name: getattr(settings.roles, name) for name in ("planner", "implementer", "judge")
    }
    for name, role in roles.items():
        if role.kind == "command":
            yield _agent(Role(name), settings, environ)
        elif role.kind == "none":
            yield Finding("ok", name, "none, as set")
    budget = settings.budget
    if any(role.kind == "command" for role in roles.values()) and (budget.usd or budget.task_usd):
        yield Finding(
            "warning",
            "budget",
            "of an agent command it knows only what that reports of a turn that has ended: claude, opencode and aider "
            "report dollars, codex only tokens",
        )
    models = {name: role.model for name, role in roles.items() if role.kind == "anthropic"}
    if models:
        async for finding in _service(settings, environ, models):
            yield finding


def _agent(role: Role, settings: Settings, environ: Mapping[str, str]) -> Finding:
    from engine.programs import find_agent

    try:
        return Finding("ok", role.value, find_agent(role, settings, environ))
    except TaskyardError as error:
        return of_error(role.value, error)


async def _service(
    settings: Settings, environ: Mapping[str, str], models: Mapping[str, str]
) -> AsyncIterator[Finding]:
    from engine.llm.client import ModelClient
    from engine.llm.prices import load_prices
    from engine.llm.sdk import Deadlines
    from engine.model import Usage

    quick = Deadlines(connect=5.0, quick=15.0)
    key = environ.get("ANTHROPIC_API_KEY")
    try:
        client: ModelClient = ModelClient(settings.llm.base_url, key, deadlines=quick, environ=environ)
        try:
            known = await client.check()
        finally:
            await client.close()
    except TaskyardError as error:
        yield of_error("models", error)
        return
    yield Finding("ok", "models", f"{client.endpoint} answers and takes the key")
    prices = load_prices(settings.llm.prices)
    for role, model in models.items():
        if known and model not in known:
            yield Finding(
                "warning", role, f"{client.endpoint} does not list {model}", f"set [roles.{role}] model"
            )
        elif prices.price(model, Usage()) is None:
            yield Finding(
                "warning", role, f"the price of {model} is not known", "add it to a table: [llm] prices"
            )
        else:
            yield Finding("ok", role, model)


def _journal(place: Place) -> Iterator[Finding]:
    """What keeps the journal of earlier runs from being read: a run could not begin, either."""
    from engine.store.state_db import has_tables

    try:
        has_tables(place.paths.state_db)
    except TaskyardError as error:
        yield of_error("state", error)


def _folders(place: Place) -> Iterator[Finding]:
    from tui.plain import size

    folders = (
        ("state", place.paths.state, "state_dir"),
        ("worktrees", place.paths.worktrees, "worktree_dir"),
    )
    for about, folder, setting in folders:
        closed = read_only_above(folder)
        if closed is not None:
            hint = f"mend its permissions, or set [run] {setting} to another folder"
            yield Finding("error", about, f"{closed} cannot be written to", hint)
        else:
            yield Finding("ok", about, str(folder))
        free = free_bytes(folder)
        if free is not None and free < LEAST_FREE:
            level: Level = "error" if about == "state" and free < JOURNAL_ROOM else "warning"
            yield Finding(level, "disk", f"only {size(free)} free at {folder}", "free some space")
