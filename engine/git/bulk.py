"""Merge many commits that touch different files in a handful of git commands, where a merge each would take hundreds.

When every member only adds or changes files, no two touch the same one, and none touches what the other side changed
since, each merge is certain: it takes the member's files. Anything else is left to real merges.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from engine.git.repository import Repository

LEAST = 4  # members: fewer are merged as quickly one by one
MOST_BASES = 8  # commits that the members may have begun from


class Entry(msgspec.Struct, frozen=True):
    """One changed file as it is afterwards. `status` is git's letter: A added, M modified, D deleted, T other."""

    status: str
    mode: str
    blob: str
    path: str


class Member(msgspec.Struct, frozen=True):
    """A commit to merge, and the message of its merge."""

    commit: str
    message: str


async def merge_in_bulk(
    repository: Repository, onto: str, members: Sequence[Member], ref: str
) -> tuple[str, ...] | None:
    """Give the merge commits of the members, in their order, the first onto `onto`; None where real merges are needed.

    The merges are the same as `git merge --no-ff` makes. `ref` is set to the last of them.
    """
    if len(members) < LEAST:
        return None
    changes = await _certain_changes(repository, onto, members)
    if changes is None:
        return None
    author = await repository.line("var", "GIT_AUTHOR_IDENT")
    committer = await repository.line("var", "GIT_COMMITTER_IDENT")
    with tempfile.TemporaryDirectory(prefix="taskyard-") as folder:
        marks = Path(folder) / "marks"
        lines = _stream(ref, onto, members, changes, f"author {author}\ncommitter {committer}\n")
        done = await repository.run(
            "fast-import", "--quiet", "--force", "--done", f"--export-marks={marks}",
            input="".join(lines).encode("utf-8", "surrogateescape"), check=False,
        )  # fmt: skip
        if done.status != 0:
            return None
        made = dict(line.split() for line in marks.read_text().splitlines())
    return tuple(made[f":{number}"] for number in range(1, len(members) + 1))


async def _certain_changes(
    repository: Repository, onto: str, members: Sequence[Member]
) -> list[tuple[Entry, ...]] | None:
    """Give what each member changes, or None when its merge is not certain."""
    commits = "".join(f"{member.commit}\n" for member in members).encode()
    listing = await repository.run("rev-list", "--no-walk=unsorted", "--parents", "--stdin", input=commits)
    parents = {first: rest for first, *rest in (line.split() for line in listing.stdout.splitlines())}
    bases = {rest[0] for rest in parents.values() if rest}
    if len(parents) < len(members) or len(bases) > MOST_BASES or any(len(p) != 1 for p in parents.values()):
        return None
    for base in bases:
        if base != onto and not await repository.is_ancestor(base, onto):
            return None
    pairs = [*((onto, base) for base in bases), *((m.commit, parents[m.commit][0]) for m in members)]
    diffs = await _diffs(repository, pairs)
    theirs = dict(zip(bases, diffs, strict=False))
    mine = diffs[len(bases) :]
    # A deleted file may be half of a renamed folder, into which a real merge would bring what others add.
    if any(entry.status not in "AM" for diff in diffs for entry in diff):
        return None
    taken = _Paths()
    for member, diff in zip(members, mine, strict=True):
        others = _Paths(entry.path for entry in theirs[parents[member.commit][0]])
        if any(taken.meets(entry.path) or others.meets(entry.path) for entry in diff):
            return None
        for entry in diff:
            taken.add(entry.path)
    # Such a name would have to be quoted.
    if any("\n" in entry.path or entry.path.startswith('"') for diff in mine for entry in diff):
        return None
    return mine


async def _diffs(repository: Repository, pairs: Sequence[tuple[str, str]]) -> list[tuple[Entry, ...]]:
    """Give what changed from the second to the first commit of each pair."""
    asked = "".join(f"{after} {before}\n" for after, before in pairs).encode()
    result = await repository.run(
        "diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--always", input=asked
    )
    diffs: list[list[Entry]] = []
    words = iter(result.stdout.split("\0"))
    for word in words:
        if word.startswith(":"):
            _, mode, _, blob, status = word[1:].split(" ")
            diffs[-1].append(Entry(status, mode, blob, next(words)))
        elif word:
            diffs.append([])
    return [tuple(diff) for diff in diffs]


class _Paths:
    """A set of files that also knows their folders: a file in the place of another's folder is no less a conflict."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()
        for path in paths:
            self.add(path)

    def add(self, path: str) -> None:
        self._files.add(path)
        self._folders.update(map(str, PurePosixPath(path).parents))

    def meets(self, path: str) -> bool:
        if path in self._files or path in self._folders:
            return True
        return any(str(parent) in self._files for parent in PurePosixPath(path).parents)


def _stream(
    ref: str, onto: str, members: Sequence[Member], changes: Sequence[Sequence[Entry]], people: str
) -> Iterator[str]:
    """The merges in the language of `git fast-import`."""
    before = onto
    for number, (member, diff) in enumerate(zip(members, changes, strict=True), 1):
        size = len(member.message.encode("utf-8", "surrogateescape"))
        yield f"commit {ref}\nmark :{number}\n{people}data {size}\n{member.message}\n"
        yield f"from {before}\nmerge {member.commit}\n"
        yield from (f"M {entry.mode} {entry.blob} {entry.path}\n" for entry in diff)
        before = f":{number}"
    yield "done\n"
