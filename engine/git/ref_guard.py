"""Look after the user's branches and tags while agents work: all worktrees of a repository share them.

The user, too, may move them at that time. So a change is put back only where it is the agent's beyond doubt: the commit
was made in the attempt's own worktree, or the worktree stands on a branch that was not there before. A worktree's own
log of HEAD tells which commits were made or checked out in it, and which in the user's checkouts.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from msgspec.structs import replace

from engine.git.keeping import KEPT
from engine.git.repository import Repository

_TASKS = "refs/heads/task/"


class RefChange(msgspec.Struct, frozen=True):
    """A branch or tag, by its full name, that changed from one commit to another; empty where it was not there.

    Where it is `put_back`, `kept` is the ref that keeps the agent's commit; otherwise it may have been anybody.
    """

    ref: str
    old: str
    new: str
    kept: str = ""

    @property
    def put_back(self) -> bool:
        """Whether the ref is again as it was before."""
        return bool(self.kept)


class _Ref(msgspec.Struct, frozen=True):
    """What a ref holds: an object, and the commit it stands for (another, for an annotated tag)."""

    object: str
    commit: str


class _Work(msgspec.Struct, frozen=True):
    """One program at work in a worktree, with what was before: the length of the log of HEAD, and all commits."""

    worktree: Path
    git_dir: Path
    log_size: int
    known: frozenset[str]


class RefGuard:
    """Serves all programs of a run: each is at work between `begin` and `end`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._lock = asyncio.Lock()
        self._at_work: list[_Work] = []
        self._all: dict[str, _Ref] = {}
        self._log_sizes: dict[Path, int] = {}

    async def begin(self, worktree: Path) -> object:
        """Remember how the refs are; gives what `end` is to be called with."""
        async with self._lock:
            sizes = self._sizes_of_logs()
            now = await self._read()
            if not self._at_work:
                self._all, self._log_sizes = now, sizes
            found = await self._repository.run("rev-parse", "--absolute-git-dir", cwd=worktree, check=False)
            git_dir = Path(found.stdout.strip() or worktree / ".git").resolve()
            known = frozenset(each.commit for each in now.values())
            work = _Work(worktree, git_dir, _size(_log(git_dir)), known)
            self._at_work.append(work)
            return work

    async def end(self, work: object) -> tuple[RefChange, ...]:
        """Put back what this program changed; gives that, and what moved or went by somebody unknown."""
        assert isinstance(work, _Work)
        async with self._lock:
            self._at_work.remove(work)
            sizes = self._sizes_of_logs()
            now = await self._read()
            by_hand = self._made_by_hand(work)
            found = []
            for ref in sorted(now.keys() | self._all.keys()):
                before, after = self._all.get(ref), now.get(ref)
                if before == after or not _is_guarded(ref):
                    continue
                if await self._is_of_others(ref, before, after):
                    # It is looked at when that program has ended, which may undo it itself.
                    _set(now, ref, before)
                    continue
                change = RefChange(ref, before.commit if before else "", after.commit if after else "")
                if change.new not in by_hand and after and await self._is_of(work, ref, before, after):
                    kept = await self._put_back(work, ref, before, after)
                    if kept:
                        _set(now, ref, before)
                        change = replace(change, kept=kept)
                    found.append(change)
                elif before and not await self._is_explained(work, change, by_hand):
                    found.append(change)
            self._all, self._log_sizes = now, sizes
            return tuple(found)

    async def _is_of_others(self, ref: str, before: _Ref | None, after: _Ref | None) -> bool:
        for work in self._at_work:
            if await self._is_of(work, ref, before, after):
                return True
        return False

    async def _is_of(self, work: _Work, ref: str, before: _Ref | None, after: _Ref | None) -> bool:
        """Whether a change is beyond doubt that of the program in this worktree."""
        if after is None:
            return False
        if before is None and _head(work.git_dir) == f"ref: {ref}":
            return True
        if after.commit not in _logged(_log(work.git_dir), work.log_size):
            return False
        # Not what was only checked out there: the commit was in no ref before, nor is it in a remote's.
        known = "".join(f"^{commit}\n" for commit in work.known)
        new = await self._repository.run(
            "rev-list", "--max-count=1", "--stdin", after.commit, "--not", "--remotes",
            input=known.encode(), check=False,
        )  # fmt: skip
        return new.stdout.strip() == after.commit

    async def _is_explained(self, work: _Work, change: RefChange, by_hand: set[str]) -> bool:
        """Whether the user did it in a checkout, or a train of ours or of another run did."""
        if change.new in by_hand:
            return change.new not in _logged(_log(work.git_dir), work.log_size)
        if not change.new:
            return False
        said = await self._repository.run(
            "log", "-1", "--format=%(trailers:key=Taskyard-Run,valueonly)", change.new, check=False
        )
        return bool(said.stdout.strip())

    async def _put_back(self, work: _Work, ref: str, before: _Ref | None, after: _Ref) -> str:
        """Put the ref back if nobody has moved it since; gives the ref that keeps its commit, else nothing."""
        kept = f"{KEPT}/{work.worktree.name}/{after.commit[:12]}"
        if _head(work.git_dir) == f"ref: {ref}":
            # What the worktree holds stays as it is, over the same commit.
            await self._repository.run(
                "update-ref", "--no-deref", "HEAD", after.commit, cwd=work.worktree, check=False
            )
        change = (
            f"update {ref} {before.object} {after.object}\n" if before else f"delete {ref} {after.object}\n"
        )
        done = await self._repository.run(
            "update-ref", "--stdin", input=f"update {kept} {after.commit}\n{change}".encode(), check=False
        )
        return kept if done.status == 0 else ""

    async def _read(self) -> dict[str, _Ref]:
        listing = await self._repository.run(
            "for-each-ref", "--format=%(refname) %(objectname) %(*objectname) %(symref)", check=False
        )
        if listing.status != 0:
            return dict(self._all)
        found = {}
        for line in listing.stdout.splitlines():
            ref, object_, peeled, symref = line.split(" ", 3)
            if not symref:
                found[ref] = _Ref(object_, peeled or object_)
        return found

    def _sizes_of_logs(self) -> dict[Path, int]:
        common = self._repository.common_dir
        return {log: _size(log) for log in (_log(common), *(common / "worktrees").glob("*/logs/HEAD"))}

    def _made_by_hand(self, work: _Work) -> set[str]:
        """The commits that came up in checkouts other than those that our programs work in."""
        ours = {_log(each.git_dir) for each in (work, *self._at_work)}
        return {
            commit
            for log in self._sizes_of_logs()
            if log not in ours
            for commit in _logged(log, self._log_sizes.get(log, 0))
        }


def _set(refs: dict[str, _Ref], ref: str, value: _Ref | None) -> None:
    if value is None:
        refs.pop(ref, None)
    else:
        refs[ref] = value


def _is_guarded(ref: str) -> bool:
    return ref.startswith(("refs/heads/", "refs/tags/")) and not ref.startswith(_TASKS)


def _log(git_dir: Path) -> Path:
    return git_dir / "logs" / "HEAD"


def _head(git_dir: Path) -> str:
    try:
        return (git_dir / "HEAD").read_text().strip()
    except OSError:
        return ""


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def _logged(log: Path, since: int) -> set[str]:
    """The commits that HEAD came to, after the first `since` bytes of its log."""
    try:
        with log.open("rb") as file:
            file.seek(since)
            lines = file.read().decode("ascii", "replace").splitlines()
    except OSError:
        return set()
    return {fields[1] for line in lines if len(fields := line.split(" ", 2)) == 3}
