"""A project of two tasks whose agent is a line of shell."""

from __future__ import annotations

BOARD = """\
| ID | Scope | Status | Branch | Verification |
|---|---|---|---|---|
| A | one | [ ] | | `test -s A.txt` |
| B | two | [ ] | | `test -s B.txt` |
"""


def settings(script: str, more: str = "") -> str:
    """The Implementer is this script for `sh`, which gets the prompt on its stdin; there are no other roles."""
    return (
        '[roles.planner]\nkind = "none"\n[roles.judge]\nkind = "none"\n'
        f"[roles.implementer]\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\n{more}"
    )
