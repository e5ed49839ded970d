"""Where a command works: the repository around the current directory, its settings, and where its state lies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import PreflightError, UsageError

if TYPE_CHECKING:
    from engine.paths import StatePaths
    from engine.settings import Settings
    from engine.store.journal_reader import JournalReader

JOURNAL_ROOM = 10**6  # bytes that have to be free: a journal begins with a tenth of it


@dataclass(frozen=True, slots=True)
class Place:
    """A checkout with its settings. `common_dir` is the git folder that all worktrees of the repository share."""

    root: Path
    common_dir: Path
    settings: Settings
    paths: StatePaths


def find_place(
    overrides: Mapping[str, object] | None = None,
    *,
    start: Path | None = None,
    board: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Place:
    """Find the checkout around `start` (the current directory) and load its settings.

    `overrides` are settings by dotted name; `board` is a path as typed, relative to the current directory. Raises
    PreflightError outside a checkout, SettingsError for settings that do not hold.
    """
    from engine.paths import StatePaths
    from engine.settings import load_settings

    root, common_dir = find_checkout(start or Path.cwd(), environ)
    given = dict(overrides or {})
    if board is not None:
        given["run.board"] = str(board.absolute())
    settings = load_settings(root, overrides=given, environ=environ)
    paths = StatePaths.of(
        common_dir,
        environ,
        state_dir=settings.run.state_dir,
        worktree_dir=settings.run.worktree_dir,
        cache_dir=settings.run.cache_dir,
    )
    for path in (paths.state, paths.worktrees):
        _require_text(path)
    return Place(root, common_dir, settings, paths)


def find_checkout(start: Path, environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Give the top of the checkout around `start`, and the repository's common git folder; both absolute."""
    import subprocess

    from engine.git.environment import clean_environment
    from engine.git.versions import INSTALL

    command = ["git", "-C", str(start), "rev-parse", "--show-toplevel", "--git-common-dir"]
    try:
        done = subprocess.run(command, capture_output=True, env=clean_environment(environ))
    except FileNotFoundError:
        raise PreflightError("git is not installed", INSTALL) from None
    if done.returncode == 0:
        root, _, common_dir = os.fsdecode(done.stdout).removesuffix("\n").partition("\n")
        found = Path(root), (start / common_dir).resolve()
        for path in found:
            _require_text(path)
        return found
    said = done.stderr.decode(errors="replace")
    if "dubious ownership" in said:
        hint = f"if you trust it: git config --global --add safe.directory {start}"
        raise PreflightError(f"git does not trust {start}, which belongs to another user", hint)
    if "work tree" in said:
        raise PreflightError(f"{start} is a bare repository or a .git folder", "start in a checkout of it")
    raise PreflightError(
        f"{start} is not in a git repository", "change to your project, or make it one with: git init"
    )


def _require_text(path: Path) -> None:
    """Raise PreflightError for a path that neither JSON nor SQLite takes, or that is no single line."""
    for part in path.parts:
        if part.splitlines() != [part] or part != part.encode(errors="replace").decode():
            raise PreflightError(f"{part!r} in {path} is no name that can be told", "rename the folder")


def open_journal(place: Place) -> JournalReader:
    """Open the journal of the place for reading. Raises UsageError when nothing was ever run there."""
    from engine.store.journal_reader import JournalReader
    from engine.store.state_db import has_tables

    if not has_tables(place.paths.state_db):
        raise UsageError(f"nothing was run in {place.root} yet", "start with: taskyard run")
    return JournalReader(place.paths.state_db, place.paths.archive)


def require_writable(place: Place) -> None:
    """Raise PreflightError unless the folders for the state and the worktrees can be written to, or made.

    There must be room for a journal, too.
    """
    for folder, setting in ((place.paths.state, "state_dir"), (place.paths.worktrees, "worktree_dir")):
        closed = read_only_above(folder)
        if closed is not None:
            hint = f"mend its permissions, or set [run] {setting} to another folder"
            raise PreflightError(f"{closed} cannot be written to", hint)
    free = free_bytes(place.paths.state)
    if free is not None and free < JOURNAL_ROOM:
        raise PreflightError(
            f"the disk is full: no room for the journal in {place.paths.state}", "free some space"
        )


def free_bytes(path: Path) -> int | None:
    """The room on the disk that holds `path`, or the nearest folder above it that is there; None where none is told."""
    existing = next(each for each in (path, *path.parents) if each.exists())
    disk = shutil.disk_usage(existing)
    return disk.free if disk.total else None


def read_only_above(path: Path) -> Path | None:
    """The folder that keeps `path` from being made or written in, or None when nothing does."""
    while not path.exists():
        path = path.parent
    return None if os.access(path, os.W_OK | os.X_OK) else path
