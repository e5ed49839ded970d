"""The settings file that `taskyard init` writes."""

from __future__ import annotations

_STARTER = """\
# Taskyard's settings. Everything here is optional: what is commented out shows the default.
# An option of the command beats an environment variable (TASKYARD_RUN_MAX_CONCURRENCY=4), which beats this file.

[run]
# board = "tasks/board.md"
# follow_board = "ask"         # edits during a run: the dashboard asks; "always" takes them in, "never" leaves them
# max_concurrency = 10         # tasks at once
# max_attempts = 3             # attempts at a task before it counts as failed
# max_log = "20MB"             # of one log of an attempt: of longer ones the middle is left out
# type_limits = { docs = 2 }   # tasks at once by the board's Type
# lane_limits = { fast = 5 }   # and by its Lane

# Who plays each role: "anthropic" (a Claude model; needs ANTHROPIC_API_KEY), "command" (any agent program, which
# gets its prompt on stdin and works in the task's worktree) or, for planner and judge, "none".
# The last JSON object that such a program prints is the planner's or the judge's answer.

[roles.planner]
# kind = "anthropic"
# model = "claude-opus-5-5"
#                              # a command answers {"steps": ["…"], "files": ["…"], "type": "fix_bug"}

[roles.implementer]
# kind = "anthropic"
# model = "claude-sonnet-5-5"
#
# kind = "command"
# command = ["claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits",
#            "--allowedTools", "Bash"]
# env = ["ANTHROPIC_API_KEY"]  # secrets that it may see (default: none)
# timeout = "30m"              # of one whole turn
# idle_timeout = "5m"          # without a word of output

[roles.judge]
# kind = "anthropic"
# model = "claude-opus-5-5"
# thinking = "off"             # or "adaptive", or a number of tokens
#                              # a command answers {"approved": true or false, "reason": "…", "findings": ["…"]}

[verify]
# command = "pytest -q"        # for rows without their own; also run on the combined result before it is pushed
# timeout = "10m"

[git]
# remote = "origin"            # "" keeps everything on this machine
# target = "taskyard/board"    # the branch that work lands on; "main" lands there directly
# max_batch = 10               # finished tasks in one push
# max_age = "5s"               # how long a finished task waits for company
# sparse = ["src", "tests"]    # of a very large repository, the folders that tasks need (default: all of it)
# max_worktrees = 100          # beyond these, idle worktrees of earlier runs go; what they hold is kept
# max_worktree_bytes = "20GB"

[llm]
# base_url = "https://…"       # another endpoint of the same protocol
# batch = "auto"               # half-price batches: "off", "auto" (the economy lane), "always"
# max_tokens = 16000           # of one answer
# prices = "prices.toml"       # your own price table, over the built-in one

[budget]
# usd = 10.0                   # a call that could pass it is not made (default: no limit)
# task_usd = 1.0

[lessons]
# file = "tasks/lessons.jsonl" # to share them in the repository (default: in the state folder)
# max_tokens = 800             # of lessons in one prompt, about

[history]
# max_bytes = "100MB"
# max_age = "24h"
# max_entries = 1000

[locks]
# shared = true                # work beside other runs of this board on this machine (or: taskyard run --join)
# url = "redis://host:6379/0"  # and over many machines
# lease = "30s"                # how long the tasks of a dead run stay with it
# name = "shop"                # one name for the board on all machines (default: remote, target and path)

[notify]
# bell = true                  # when the run ends or needs you
# command = ["notify-send", "Taskyard"]
"""


def starter_settings() -> str:
    """Return a settings file that changes nothing and explains everything most people change."""
    return _STARTER
