"""What a model may do to the files of one worktree: the guarded hands of the Implementer.

Paths are relative to the worktree. Whatever would leave it (absolute, `..`, a symlink), touch git's own files or the
task board is refused with words the model can act on. Listings and searches are sorted, so that the same worktree
always gives the same answer.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from engine.errors import TaskyardError
from engine.git.repository import Repository

MAX_FILE = 200_000
MAX_LISTED = 2_000
MAX_FOUND = 200


class RefusedError(TaskyardError):
    """The model asked for something it may not do, or that cannot be done; its text goes back to the model."""


class Workspace:
    """The files of one worktree. `board` is the board's path in the repository, which nobody edits here."""

    def __init__(self, root: Path, repository: Repository, board: str) -> None:
        self.root = root
        self._repository = repository
        self._board = PurePosixPath(board)

    def _resolve(self, path: str, *, writing: bool = False) -> Path:
        pure = PurePosixPath(path.replace("\\", "/").removeprefix("./") or ".")
        if "\0" in path or pure.is_absolute() or ".." in pure.parts:
            raise RefusedError(f"{path!r} is outside the repository", "give a path relative to its root")
        if any(part.lower() == ".git" for part in pure.parts):
            raise RefusedError(f"{path!r} belongs to git", "version control is looked after for you")
        full = self.root.joinpath(*pure.parts)
        root = self.root.resolve()
        inside = full.resolve()
        if not inside.is_relative_to(root):
            raise RefusedError(
                f"{path!r} leads out of the repository through a link", "edit the files inside"
            )
        if ".git" in inside.relative_to(root).parts:
            raise RefusedError(f"{path!r} belongs to git", "version control is looked after for you")
        if writing:
            if pure == self._board or inside == (self.root / self._board).resolve():
                raise RefusedError(f"{path!r} is the task board", "its states are looked after for you")
            if full.is_symlink():
                raise RefusedError(f"{path!r} is a symbolic link", "edit the file it points to")
            if full.is_dir():
                raise RefusedError(f"{path!r} is a folder", "give the path of a file")
        return full

    def read(self, path: str) -> str | None:
        """Give the text of a file, or None when there is none. Raises RefusedError for what is no readable text."""
        full = self._resolve(path)
        try:
            with full.open("rb") as file:
                data = file.read(MAX_FILE + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise RefusedError(f"cannot read {path!r}: {error.strerror}") from None
        if len(data) > MAX_FILE:
            raise RefusedError(f"{path!r} is larger than {MAX_FILE} bytes", "search in it instead")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise RefusedError(f"{path!r} is not UTF-8 text") from None

    def write(self, path: str, content: str) -> None:
        """Make the file hold `content`; folders are made as needed, and the mode of an existing file is kept."""
        full = self._resolve(path, writing=True)
        try:
            full.parent.mkdir(parents=True, exist_ok=True)
            with full.open("w", encoding="utf-8", newline="") as file:
                file.write(content)
        except (OSError, UnicodeEncodeError) as error:
            raise RefusedError(f"cannot write {path!r}: {error}") from None

    def edit(self, path: str, old: str, new: str) -> None:
        """Put `new` where `old` stands, which must be exactly once."""
        text = self.read(path)
        if text is None:
            raise RefusedError(f"{path!r} does not exist", "write it whole to make it")
        count = text.count(old) if old else 0
        if count != 1:
            where = "is empty" if not old else "does not occur" if count == 0 else f"occurs {count} times"
            raise RefusedError(
                f"the old text {where} in {path!r}", "read the file and give a text that occurs exactly once"
            )
        self.write(path, text.replace(old, new))

    async def list(self, path: str = ".") -> str:
        """Give the files under `path`, one a line, without what git ignores."""
        self._resolve(path)
        result = await self._repository.run(
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
            "--",
            _pathspec(path),
            cwd=self.root,
            check=False,
        )
        names = sorted(
            {name for name in result.stdout.split("\0") if name and os.path.lexists(self.root / name)}
        )
        return _shown(names, MAX_LISTED, "files") or "(no files)"

    async def search(self, pattern: str, path: str = ".") -> str:
        """Give the lines that match an extended regular expression, as `path:line:text`."""
        self._resolve(path)
        result = await self._repository.run(
            "grep",
            "--untracked",
            "-nIE",
            "--no-color",
            "-e",
            pattern,
            "--",
            _pathspec(path),
            cwd=self.root,
            check=False,
            timeout=30.0,
        )
        if result.status > 1:
            raise RefusedError(f"cannot search for {pattern!r}", result.stderr.strip())
        return (
            _shown([line[:400] for line in result.stdout.splitlines()], MAX_FOUND, "lines")
            or "(nothing found)"
        )


def _pathspec(path: str) -> str:
    return "." if path in ("", ".") else f":(literal){path}"


def _shown(lines: list[str], limit: int, what: str) -> str:
    more = len(lines) - limit
    return "\n".join(lines[:limit]) + (f"\n({more} more {what})" if more > 0 else "")
