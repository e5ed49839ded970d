"""The names of the locks that orchestrators share: built here, and read back for people.

`kind:board:about`, the board quoted, so that what it is about may hold anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import quote, unquote

Kind = Literal["member", "session", "landing", "limit", "claim"]
"""One that takes part; joining; the train's way to the target; a place under a limit; a task."""

KINDS: tuple[str, ...] = get_args(Kind)


def lock_name(kind: Kind, board: str, *about: str) -> str:
    """The name of a lock of this board: `lock_name("claim", board, "T1")`. An empty `about` gives the prefix of all."""
    return ":".join((kind, quote(board, safe=""), *about))


@dataclass(frozen=True, slots=True)
class LockName:
    """What a lock is for. `about`: the task, the place's number and its limit's name, or the member's id."""

    kind: str
    board: str
    about: str = ""

    @classmethod
    def read(cls, name: str) -> LockName | None:
        """Read a name back; None when it is no lock of a board."""
        kind, _, rest = name.partition(":")
        board, _, about = rest.partition(":")
        return cls(kind, unquote(board), about) if kind in KINDS and board else None
