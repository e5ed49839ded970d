"""Look at a project before a run: repository, board, settings and endpoint.

Nothing here writes anything, but that lock files of a git that was killed are removed: over them nothing could be told.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from engine.board import Board, Diagnostic, Stamp, board_stamp, read_board
from engine.board.dependencies import blocked
from engine.committed import Committed, committed_of
from engine.disks import network_file_system
from engine.errors import BoardError, LLMError, PreflightError
from engine.git.preflight import Preflight, preflight
from engine.git.repository import Repository
from engine.git.stale import drop_stale_locks
from engine.llm.client import ModelClient
from engine.llm.endpoint import is_loopback
from engine.model import BoardStatus, Task
from engine.programs import missing_programs, require_agents
from engine.settings import Settings

CONNECT_WITHIN = 10.0  # seconds


class Rows(msgspec.Struct, frozen=True):
    """What the rows of a board are to a run.

    `tasks` are the rows that can run and those that have landed; `refused` says why the others cannot. `reopened` are
    the ids of rows that had landed and ask for something else now, and `uncommitted` of rows that only the checkout
    has.
    """

    tasks: tuple[Task, ...]
    refused: tuple[Diagnostic, ...]
    notices: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()
    uncommitted: frozenset[str] = frozenset()


class Project(msgspec.Struct, frozen=True):
    """A project that a run can start from. `board_path` is the board's path in the repository.

    `stamp` is of the board's file: it is another one as soon as somebody has saved the board since. `missing` says
    which checks begin with a program that is not there.
    """

    settings: Settings
    repository: Repository
    preflight: Preflight
    board: Board
    board_path: str
    rows: Rows
    stamp: Stamp | None = None
    missing: tuple[str, ...] = ()

    async def read(self, board: Board) -> Rows:
        """Look at the board as it stands by now, in the light of the commits that the run began with."""
        return await _rows(self.settings, self.repository, self.preflight, board, self.board_path)


async def open_project(settings: Settings, environ: Mapping[str, str]) -> Project:
    """Check everything a run needs; raises UsageError with one line that says what to mend."""
    _refuse_network(settings)
    repository = await Repository.open(settings.root, environ=environ)
    stale = await drop_stale_locks(repository)
    found = await preflight(
        repository,
        remote=settings.git.remote,
        target=settings.git.target,
        timeout=settings.git.timeout,
        sparse=settings.git.sparse,
        ours=ours(settings),
    )
    if stale:
        text = f"removed lock files of a git that was killed: {', '.join(stale)}"
        found = replace(found, notices=(*found.notices, text))
    stamp = board_stamp(settings.run.board)
    board, board_path, rows = await look_at_board(settings, repository, found)
    if not rows.tasks:
        raise BoardError(_nothing(board, rows.refused), "mend the board, then run again")
    if any(task.status is not BoardStatus.LANDED for task in rows.tasks):
        require_agents(settings, environ)
    missing = await asyncio.to_thread(missing_programs, rows.tasks, settings, environ)
    return Project(settings, repository, found, board, board_path, rows, stamp, missing)


def ours(settings: Settings) -> tuple[Path, ...]:
    """The files of the checkout that are read where they lie, or written there."""
    lessons = settings.lessons.file
    return settings.run.board, *([lessons] if lessons is not None else [])


async def look_at_board(
    settings: Settings, repository: Repository, found: Preflight
) -> tuple[Board, str, Rows]:
    """The board as it stands, its path in the repository, and what its rows are. Raises BoardError without one."""
    board = read_board(settings.run.board)
    board_path = _inside(settings.run.board, repository.root)
    return board, board_path, await _rows(settings, repository, found, board, board_path)


async def _rows(
    settings: Settings, repository: Repository, found: Preflight, board: Board, board_path: str
) -> Rows:
    committed = await committed_of(repository, found, board_path, board)
    landed = committed.landed
    rows = {
        task.id: replace(task, status=BoardStatus.LANDED) if task.id in landed else task
        for task in board.tasks
    }
    runnable, unchecked = _runnable(board, rows, checked=bool(settings.verify.command))
    errors = [each for each in board.diagnostics if each.severity == "error"]
    refused = tuple(sorted((*errors, *unchecked), key=lambda each: each.line))
    tasks = tuple(task for task in rows.values() if task.id in landed or task.id in runnable)
    notices = _notices(board, board_path, found.target, tasks, committed)
    return Rows(
        tasks,
        refused,
        notices,
        committed.reopened,
        committed.unknown - committed.landed,
    )


def _refuse_network(settings: Settings) -> None:
    """Refuse a state where SQLite's write-ahead log would be damaged by another host, or locks would hold nobody."""
    for key, folder in (("state_dir", settings.run.state_dir), ("cache_dir", settings.run.cache_dir)):
        kind = network_file_system(folder) if folder is not None else ""
        if kind:
            raise PreflightError(
                f"[run] {key} {folder} is on a network file system ({kind}), where its databases cannot be kept",
                "name a folder on a disk of this host; what orchestrators share goes by [locks] url",
            )


def _notices(
    board: Board, board_path: str, target: str, tasks: Sequence[Task], committed: Committed
) -> tuple[str, ...]:
    """Say where the checkout's board and the target's tell different things."""
    notices = []
    unmarked = [task.id for task in tasks if task.id in committed.unknown and task.id not in committed.landed]
    if unmarked:
        one = len(unmarked) == 1
        rows = f"1 row of {board_path} is" if one else f"{len(unmarked)} rows of {board_path} are"
        notices.append(_UNCOMMITTED.format(rows, "it runs" if one else "they run"))
    able = {task.id for task in tasks}
    if rewritten := [name for name in committed.rewritten if name in able]:
        notices.append(_REWRITTEN.format(", ".join(rewritten), board_path, target))
    if committed.reopened:
        notices.append(_REOPENED.format(", ".join(committed.reopened), target, board_path))
    if committed.edited:
        notices.append(_EDITED.format(", ".join(committed.edited), target, board_path))
    ahead = [
        task
        for task in board.tasks
        if task.status is not BoardStatus.LANDED and task.id in committed.landed - set(committed.edited)
    ]
    if ahead:
        count = "1 task has" if len(ahead) == 1 else f"{len(ahead)} tasks have"
        notices.append(f"{count} landed on {target} already; merge it to see that on your board")
    return tuple(notices)


_UNCOMMITTED = "{} not committed: {}, but the board cannot be marked; commit it first"
_REWRITTEN = (
    "the edits of {} in {} are not committed: they are worked on, but the board of {} marks the old words; "
    "commit them first"
)
_REOPENED = (
    "{} landed on {} with another scope or verification; {} has it open again, so it is worked on anew"
)
_EDITED = (
    "{} landed on {}; the row was changed since in {}, but not committed and pushed: "
    "do that to have it worked on anew"
)
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


async def shared_name(project: Project) -> str:
    """Give the name of the board that is the same for all who work on it, wherever their clone lies.

    [locks] name, or what all clones have in common: where they push to, and the board's path.
    """
    if project.settings.locks.name:
        return project.settings.locks.name
    repository, found = project.repository, project.preflight
    where = str(repository.common_dir)
    if found.remote is not None:
        where = await repository.line("remote", "get-url", found.remote)
        # By whatever way and whoever's name a host gets there.
        where = re.sub(r"^[a-z+]+://", "", where).rpartition("@")[2].replace(":", "/")
        path = (repository.root / where).resolve()
        where = str(path) if path.exists() else where
    return f"{where.rstrip('/').removesuffix('.git')} {project.board_path}"


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
