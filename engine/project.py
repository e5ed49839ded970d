"""Look at a project before a run: repository, board, settings and endpoint. Nothing here writes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from engine.board import Board, Diagnostic, parse_board, read_board
from engine.board.dependencies import blocked
from engine.errors import BoardError, LLMError, PreflightError
from engine.git.preflight import Preflight, preflight
from engine.git.repository import Repository
from engine.llm.client import ModelClient, is_loopback
from engine.model import BoardStatus, Task
from engine.settings import Settings

CONNECT_WITHIN = 10.0


class Project(msgspec.Struct, frozen=True):
    """A project that a run can start from. `board_path` is the board's path in the repository.

    `tasks` are the rows that can run and those that have landed; `refused` says why the others cannot.
    """

    settings: Settings
    repository: Repository
    preflight: Preflight
    board: Board
    board_path: str
    tasks: tuple[Task, ...]
    refused: tuple[Diagnostic, ...]


async def open_project(settings: Settings, environ: Mapping[str, str]) -> Project:
    """Check everything a run needs; raises UsageError with one line that says what to mend."""
    repository = await Repository.open(settings.root, environ=environ)
    found = await preflight(
        repository, remote=settings.git.remote, target=settings.git.target, timeout=settings.git.timeout
    )
    board = read_board(settings.run.board)
    board_path = _inside(settings.run.board, repository.root)
    landed = await _landed_rows(repository, found, board_path, board)
    rows = {
        task.id: replace(task, status=BoardStatus.LANDED) if task.id in landed else task
        for task in board.tasks
    }
    runnable, unchecked = _runnable(board, rows, checked=bool(settings.verify.command))
    errors = [each for each in board.diagnostics if each.severity == "error"]
    refused = tuple(sorted((*errors, *unchecked), key=lambda each: each.line))
    tasks = tuple(task for task in rows.values() if task.id in landed or task.id in runnable)
    if not tasks:
        raise BoardError(_nothing(board, refused), "mend the board, then run again")
    return Project(settings, repository, found, board, board_path, tasks, refused)


_NO_CHECK = (
    "{} has no verification command: put one into its Verification cell in backticks, or set [verify] command"
)


def _runnable(board: Board, rows: Mapping[str, Task], *, checked: bool) -> tuple[set[str], list[Diagnostic]]:
    """The ids of the tasks that can run, and why others of the board's runnable rows cannot.

    `checked` says that a row needs no command of its own.
    """
    able = {task.id for task in board.runnable if rows[task.id].status is not BoardStatus.LANDED}
    unchecked = {id for id in able if not checked and rows[id].command is None}
    kept_back = unchecked | {
        id for id, task in rows.items() if id not in able and task.status is not BoardStatus.LANDED
    }
    reasons = {id: _NO_CHECK.format(id) for id in unchecked}
    for id, reason in blocked(rows, kept_back):
        if id in able:
            reasons.setdefault(id, reason)
    found = [Diagnostic(rows[id].line, "error", reason, id) for id, reason in reasons.items()]
    return able - reasons.keys(), found


def _nothing(board: Board, refused: tuple[Diagnostic, ...]) -> str:
    if not refused:
        return f"{board.path} has no tasks"
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return f"nothing on {board.path} can run: {refused[0]}{more}"


def _inside(board: Path, root: Path) -> str:
    try:
        return board.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        raise BoardError(
            f"the board {board} is outside the repository {root}", "keep it in the repository"
        ) from None


async def _landed_rows(
    repository: Repository, found: Preflight, board_path: str, board: Board
) -> frozenset[str]:
    """The tasks that have landed: by this checkout's board, or by that of the target branch, which may be ahead."""
    landed = {task.id for task in board.tasks if task.status is BoardStatus.LANDED}
    if found.tip:
        result = await repository.run("cat-file", "blob", f"{found.tip}:{board_path}", check=False)
        if result.status == 0:
            try:
                there = parse_board(result.stdout.encode("utf-8", "surrogateescape"), board.path)
            except BoardError:
                there = None
            if there is not None:
                landed |= {task.id for task in there.tasks if task.status is BoardStatus.LANDED}
    return frozenset(landed)


async def check_endpoint(client: ModelClient, environ: Mapping[str, str]) -> None:
    """Find out before the run whether models can be asked; raises PreflightError.

    Where a key is given, a connection tells enough, and does not wait seconds for the SDK to load. Whether there is a
    key elsewhere, or a proxy leads to the service, only the SDK can say.
    """
    has_key = bool(environ.get("ANTHROPIC_API_KEY")) or is_loopback(client.endpoint)
    by_proxy = any(environ.get(name) for name in _PROXIES) and not is_loopback(client.endpoint)
    if has_key and not by_proxy:
        await _connect(client.endpoint)
        return
    try:
        await client.check()
    except LLMError as error:
        raise PreflightError(error.message, error.hint) from error


_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


async def _connect(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    try:
        port = parts.port or (80 if parts.scheme == "http" else 443)
        async with asyncio.timeout(CONNECT_WITHIN):
            _, writer = await asyncio.open_connection(parts.hostname or "", port)
    except (OSError, ValueError, TimeoutError) as error:
        reason = getattr(error, "strerror", None) or str(error) or f"no answer within {CONNECT_WITHIN:g} s"
        raise PreflightError(
            f"{endpoint} cannot be reached ({reason})", "check the network and [llm] base_url"
        ) from error
    writer.close()
