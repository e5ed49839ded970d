"""The board that `taskyard init` writes."""

from __future__ import annotations

_STARTER = """\
# Task board

One row is one task. Taskyard reads this table, does the open rows side by side, each in a worktree and on a branch
of its own, runs the row's command over the result, and lands what passes. It changes nothing here but the Status:

- `[ ]` open, `[x]` landed, `[!]` failed (the next run tries it again)

| Column | What it says |
| --- | --- |
| ID | short and unique; other rows name it in After |
| Scope | what is to be done, as you would tell a colleague |
| Branch | for your notes; the work is done on the branch `task/<ID>` (optional) |
| Verification | a command in backticks that must succeed, then what the Judge is to look for |
| After | ids of the tasks that must have landed before, with commas (optional) |
| Type | the kind of work, so that lessons reach the right tasks: feature, fix_bug, docs, test … (optional) |
| Lane | `fast`, or `economy` for work that may wait for half-price batches (optional) |
| Priority | a whole number; the higher, the sooner (optional) |

A pipe inside a cell is written `\\|`. You may add columns, change their order, and write anything around the table.

## Tasks

| ID | Scope | Status | Branch | Verification | After | Type | Lane | Priority |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| T1 | Describe the first task here, then delete these two rows | [ ] | | `true` | | docs | fast | |
| T2 | A task that waits for T1 and may take its time | [ ] | | `true` every paragraph is true | T1 | docs | economy | |
"""


def starter_board() -> str:
    """Return a board to start from: how a board works, and two rows to replace."""
    return _STARTER
