"""What a model may do to the files of one worktree: the guarded hands of the Implementer.

Paths are relative to the worktree. Whatever would leave it (absolute, `..`, a symlink), touch git's own files or the
task board is refused with words the model can act on. Listings and searches are sorted, so that the same worktree
always gives the same answer.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePath, PurePosixPath

from engine.errors import GitError, TaskyardError
from engine.git.repository import Repository
from engine.git.sparse import bring, is_inside

MAX_FILE = 200_000  # bytes that one read gives
MAX_LISTED = 2_000  # file names of one listing
MAX_FOUND = 200  # lines of one search
SEARCH_TIMEOUT = 30.0  # seconds: a pattern may take for ever


class RefusedError(TaskyardError):
    """The model asked for something it may not do, or that cannot be done; its text goes back to the model."""


class Workspace:
    """The files of one worktree. `board` is the board's path in the repository, which nobody edits here.

    `folders` are those that are checked out, if not all are; see `bring`.
    """

    def __init__(self, root: Path, repository: Repository, board: str, folders: Sequence[str] = ()) -> None:
        self.root = root
        self._repository = repository
        self._board = PurePosixPath(board)
        self._folders = folders

    def _resolve(self, path: str, *, writing: bool = False) -> Path:
        pure = _pure(path)
        try:
            return self._guarded(path, pure, writing=writing)
        except (OSError, RuntimeError, ValueError) as error:  # too long a name, a circle of links, no text
            raise RefusedError(f"{path!r} cannot be a path here: {error}") from None

    def _guarded(self, path: str, pure: PurePosixPath, *, writing: bool) -> Path:
        full = self.root.joinpath(*pure.parts)
        root = self.root.resolve()
        inside = full.resolve()
        if not inside.is_relative_to(root):
            raise RefusedError(
                f"{path!r} leads out of the repository through a link", "edit the files inside"
            )
        if _is_gits(inside.relative_to(root)):
            raise RefusedError(f"{path!r} belongs to git", "version control is looked after for you")
        if full.exists() and not (full.is_file() or full.is_dir()):
            raise RefusedError(f"{path!r} is neither a file nor a folder")  # a pipe would hold us for ever
        if writing:
            if pure == self._board or inside == (self.root / self._board).resolve():
                raise RefusedError(f"{path!r} is the task board", "its states are looked after for you")
            if full.is_symlink():
                raise RefusedError(f"{path!r} is a symbolic link", "edit the file it points to")
            if full.is_dir():
                raise RefusedError(f"{path!r} is a folder", "give the path of a file")
        return full

    async def bring(self, *paths: str) -> None:
        """Check out those of the files that the worktree's folders leave out."""
        missing = []
        for path in paths:
            with contextlib.suppress(RefusedError):
                full, pure = self._resolve(path), str(_pure(path))
                if not is_inside(pure, self._folders) and not os.path.lexists(full):
                    missing.append(pure)
        if missing:
            await bring(self._repository, self.root, missing)

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
            data = content.encode()  # before the file is opened, which empties it
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(data)
        except OSError as error:
            raise RefusedError(f"cannot write {path!r}: {error.strerror}") from None
        except UnicodeEncodeError as error:
            raise RefusedError(f"the content for {path!r} is no text: {error}") from None

    def edit(self, path: str, old: str, new: str) -> None:
        """Put `new` where `old` stands, which must be exactly once. A file of CRLF lines keeps them."""
        text = self.read(path)
        if text is None:
            raise RefusedError(f"{path!r} does not exist", "write it whole to make it")
        if "\r\n" in text and text.count("\n") == text.count("\r\n"):
            # A model writes \n, whatever the lines it was shown end in.
            old, new = re.sub("\r?\n", "\r\n", old), re.sub("\r?\n", "\r\n", new)
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
        names = {
            name
            for name in result.stdout.split("\0")
            if name and (os.path.lexists(self.root / name) or not is_inside(name, self._folders))
        }
        return _shown(sorted(map(_text, names)), MAX_LISTED, "files") or "(no files)"

    async def search(self, pattern: str, path: str = ".") -> str:
        """Give the lines that match an extended regular expression, as `path:line:text`."""
        self._resolve(path)
        try:
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
                timeout=SEARCH_TIMEOUT,
            )
        except (GitError, ValueError) as error:  # it took too long, or the pattern is no argument at all
            raise RefusedError(f"cannot search for {pattern!r}: {error}", "try a simpler one") from None
        if result.status > 1:
            raise RefusedError(f"cannot search for {pattern!r}", _text(result.stderr.strip()))
        lines = [line[:400] for line in _text(result.stdout).split("\n") if line]
        return _shown(lines, MAX_FOUND, "lines") or "(nothing found)"


def _pure(path: str) -> PurePosixPath:
    """Give the path as the repository knows it. Raises RefusedError for what lies elsewhere, or in git's own folder."""
    pure = PurePosixPath(path.replace("\\", "/"))
    if "\0" in path or pure.is_absolute() or ".." in pure.parts:
        raise RefusedError(f"{path!r} is outside the repository", "give a path relative to its root")
    if _is_gits(pure):
        raise RefusedError(f"{path!r} belongs to git", "version control is looked after for you")
    return pure


def _is_gits(path: PurePath) -> bool:
    return any(part.lower() == ".git" for part in path.parts)


def _pathspec(path: str) -> str:
    pure = _pure(path)
    return f":(literal){pure}" if pure.parts else "."


def _text(output: str) -> str:
    """Git's words as text: what is no UTF-8 has no place in a prompt."""
    return output.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _shown(lines: list[str], limit: int, what: str) -> str:
    more = len(lines) - limit
    return "\n".join(lines[:limit]) + (f"\n({more} more {what})" if more > 0 else "")
