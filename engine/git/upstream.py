"""The target branch where it counts: on the remote, or here when there is none."""

from __future__ import annotations

import asyncio
import re

from engine.errors import GitError, PushRejectedError
from engine.git.names import in_space, slug
from engine.git.registry import checked_out_at, drop_half_made
from engine.git.repository import Repository

FETCHES = 3  # tries, where another process is in the way
_SLOW = "see whether the remote answers, and raise [git] timeout if it is only slow"


class Upstream:
    """Fetch the target's tip and move it by one push. `remote` None: the local branch is the target.

    `target` is a branch name without `refs/heads/`; `timeout` bounds one fetch or push, in seconds. The fetched tip is
    kept in the ref `copy`. Those who work on the same branch at once have one each, by their `space`: else one would
    take what the other has fetched for its own.
    """

    def __init__(
        self, repository: Repository, remote: str | None, target: str, *, timeout: float, space: str = ""
    ) -> None:
        self._repository = repository
        self._timeout = timeout
        self._fetching = asyncio.Lock()
        self.remote = remote
        self.target = target
        self.ref = f"refs/heads/{target}"
        self.copy = f"refs/taskyard/upstream/{in_space(slug(target), space)}"

    async def fetch(self) -> str | None:
        """Give the tip of the target, fetched; None while it does not exist.

        Raises PushRejectedError of kind unreachable when the remote does not answer.
        """
        if self.remote is None:
            return await self._repository.commit_of(self.ref)
        async with self._fetching:  # Two at once would be in each other's way at the ref.
            for _ in range(FETCHES):
                try:
                    fetched = await self._repository.run(
                        "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
                        "--recurse-submodules=no", "--refmap=", self.remote, f"+{self.ref}:{self.copy}",
                        check=False, timeout=self._timeout,
                    )  # fmt: skip
                except GitError as error:
                    raise PushRejectedError(error.message, _SLOW, kind="unreachable") from error
                if "bad object worktrees/" in fetched.stderr:
                    # Git reads the HEADs of all worktrees, also of one that is being made, or whose making was killed.
                    await drop_half_made(self._repository)
                elif "cannot lock ref" not in fetched.stderr:
                    break  # Else another that is being started has moved the copy, and needs not do so again.
        if "couldn't find remote ref" in fetched.stderr:
            return None
        if fetched.status != 0:
            raise self._unreachable(fetched.stderr)
        return await self._repository.commit_of(self.copy)

    async def push(self, tip: str, *, expected: str | None) -> None:
        """Move the target from `expected` (None: it does not exist) to `tip`, by one push and never by force.

        Raises PushRejectedError; of kind unknown when nobody can say whether the remote took it: fetch, and ask.
        """
        if self.remote is None:
            place = await checked_out_at(self._repository, self.ref)
            if place is not None:
                raise PushRejectedError(
                    f"{self.target} is checked out in {place}, and is never moved there",
                    "switch to another branch there and land again; the commits are kept",
                    kind="checked_out",
                )
            moved = await self._repository.run("update-ref", self.ref, tip, expected or "", check=False)
            if moved.status != 0:
                raise PushRejectedError(f"{self.target} moved meanwhile", kind="moved", stderr=moved.stderr)
            return
        try:
            pushed = await self._repository.run(
                "push",
                "--porcelain",
                "--atomic",
                self.remote,
                f"{tip}:{self.ref}",
                check=False,
                hooks=True,
                timeout=self._timeout,
            )
        except GitError as error:
            raise PushRejectedError(error.message, _SLOW, kind="unknown") from error
        if pushed.status != 0:
            raise self._refused(f"{pushed.stdout}\n{pushed.stderr}")

    def _refused(self, words: str) -> PushRejectedError:
        said = "\n".join(
            line.removeprefix("remote:").strip() for line in words.splitlines() if line.startswith("remote:")
        )
        if (
            re.search(r"\[(?:remote )?rejected\].*\((?:fetch first|non-fast-forward|stale info)", words)
            or "fetch first" in words
        ):
            return PushRejectedError(f"{self.target} moved on {self.remote}", kind="moved", stderr=words)
        if (
            "failed to update ref" in words
            or "atomic transaction failed" in words
            or "cannot lock ref" in words
        ):
            return PushRejectedError(f"{self.remote} is busy", kind="locked", stderr=words)
        if "rejected]" in words or "hook declined" in words or "pre-push" in words:
            reason = said.splitlines()[0] if said else _reason(words)
            return PushRejectedError(
                f"{self.remote} refused the push: {reason}",
                "the commits are kept; mend it and land again",
                kind="hook",
                stderr=said or words,
            )
        return self._unreachable(words)

    def _unreachable(self, words: str) -> PushRejectedError:
        line = next(
            (x for x in words.splitlines() if x.startswith(("fatal:", "error:", "ssh:"))),
            words.strip()[-200:],
        )
        return PushRejectedError(
            f"{self.remote} cannot be reached ({line})",
            "the commits are kept; check the remote and land again",
            kind="unreachable",
            stderr=words,
        )


def _reason(words: str) -> str:
    found = re.search(r"rejected\]\s*(?:\((.*)\))?", words)
    return (found[1] if found and found[1] else words.strip().splitlines()[-1])[:200]
