"""Every setting with its default, as one frozen tree: what is read as `settings.git.max_age` is written

    [git]
    max_age = "5s"

in taskyard.toml. Durations are seconds, sizes bytes, money US dollars, paths absolute once they are loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from engine.settings.values import (
    Command,
    Count,
    Duration,
    File,
    Folders,
    Lease,
    Limits,
    Money,
    Names,
    RedisUrl,
    Size,
    Switch,
    Text,
    Thinking,
    Timeout,
)


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How tasks are dispatched. Limits by type and lane hold besides `max_concurrency`.

    `state_dir` None: `taskyard/` in the repository's common git folder; `worktree_dir` None: below
    `$XDG_STATE_HOME/taskyard/`; `cache_dir` None: in the state folder. Clones can share a cache by naming one folder.

    `follow_board` says what becomes of edits of the board while the run goes on. Where nobody can be asked, "ask"
    means "never": the next run takes them in. Of a log longer than `max_log` (one stage of an attempt) the middle goes.
    """

    board: File = Path("tasks/board.md")
    follow_board: Literal["ask", "always", "never"] = "ask"
    max_concurrency: Count = 10
    max_attempts: Count = 3
    max_log: Size = 20_000_000
    type_limits: Limits = {}
    lane_limits: Limits = {}
    state_dir: File | None = None
    worktree_dir: File | None = None
    cache_dir: File | None = None


class RoleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who plays a role: a Claude model, an agent command, or nobody.

    `model`, `max_tokens` (None: that of `[llm]`) and `thinking` are for the kind anthropic; `command`, `env` and
    `idle_timeout` for the kind command; `timeout` bounds one whole turn of either. A command's environment holds no
    keys and passwords but those that `env` names.
    """

    kind: Literal["anthropic", "command", "none"] = "anthropic"
    model: Text = "claude-opus-5-5"
    command: Command = ()
    env: Names = ()
    timeout: Timeout = 1800.0
    idle_timeout: Timeout = 300.0
    max_tokens: Count | None = None
    thinking: Thinking = "off"

    @property
    def described(self) -> str:
        """Who plays the role, in a word: the model, the agent command's name, or none."""
        if self.kind == "anthropic":
            return self.model
        return Path(self.command[0]).name if self.kind == "command" else "none"


class RolesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The three roles. The Implementer spends most tokens, so its model is the one of the better price."""

    planner: RoleSettings = RoleSettings()
    implementer: RoleSettings = RoleSettings(model="claude-sonnet-5-5")
    judge: RoleSettings = RoleSettings()


class VerifySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The check for rows without their own, also run on the combined tree of a train. Empty: there is none."""

    command: Text = ""
    timeout: Timeout = 600.0


class GitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where work lands, and when a train leaves. An empty `remote` keeps everything local.

    An empty `target` becomes `taskyard/<name of the board>` on loading. `timeout` bounds a fetch or push.

    A task's worktree holds the whole tree, or of a very large one only the folders in `sparse` and the files directly
    in those above them; the train's check always sees all of it. Beyond `max_worktrees`, or `max_worktree_bytes` in
    those that nobody works in, the ones idle longest go when a run starts; what they hold is kept.
    """

    remote: Text = "origin"
    target: Text = ""
    max_batch: Count = 10
    max_age: Duration = 5.0
    timeout: Timeout = 120.0
    sparse: Folders = ()
    max_worktrees: Count = 100
    max_worktree_bytes: Size = 20_000_000_000


class LLMSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The model service. `base_url` None leaves the choice to the SDK's own rules.

    `endpoint` is what the service is called in cache keys (None: its address): give it a name when one service is
    reached at changing addresses.

    `batch`: which lanes go through Message Batches (auto: economy). A batch leaves with `batch_size` requests, or
    when its oldest has waited for `batch_age`. `max_concurrency` bounds the calls to one class of models.
    """

    base_url: Text | None = None
    endpoint: Text | None = None
    batch: Literal["off", "auto", "always"] = "auto"
    batch_size: Count = 1000
    batch_age: Duration = 5.0
    max_concurrency: Count = 8
    max_tokens: Count = 16000
    timeout: Timeout = 900.0
    idle_timeout: Timeout = 120.0
    prices: File | None = None


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a run and a task may cost at most, in US dollars. None: no limit."""

    usd: Money | None = None
    task_usd: Money | None = None


class LessonsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where lessons are kept; None: in the state folder. A path in the repository shares them.

    `max_tokens` bounds the lessons in one prompt, by an estimate of three bytes to a token.
    """

    file: File | None = None
    max_tokens: Count = 800


class HistorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the past stays in the live store; what goes is archived first."""

    max_bytes: Size = 100_000_000
    max_age: Timeout = 86400.0
    max_entries: Count = 1000


class LocksSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How orchestrators share a board: by a Redis address over many hosts, or with `shared` over one host's file locks.

    `lease` is how long the tasks of a dead orchestrator stay with it, in seconds. `name` names the board alike on all
    hosts; by default the remote's address and the board's path do.
    """

    url: RedisUrl | None = None
    shared: Switch = False
    lease: Lease = 30.0
    name: Text = ""

    @property
    def sharing(self) -> bool:
        """Whether a run works beside others on the same board."""
        return self.shared or self.url is not None


class NotifySettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a person is told that the run ended or needs them."""

    bell: Switch = True
    command: Command = ()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of one project. `root` is the folder that relative paths start from, `file` what was read."""

    root: Path
    file: Path | None = None
    run: RunSettings = RunSettings()
    roles: RolesSettings = RolesSettings()
    verify: VerifySettings = VerifySettings()
    git: GitSettings = GitSettings()
    llm: LLMSettings = LLMSettings()
    budget: BudgetSettings = BudgetSettings()
    lessons: LessonsSettings = LessonsSettings()
    history: HistorySettings = HistorySettings()
    locks: LocksSettings = LocksSettings()
    notify: NotifySettings = NotifySettings()

    @property
    def economy(self) -> bool:
        """Whether a task may choose the cheaper lane: a model is asked, and its row says how."""
        roles = (self.roles.planner, self.roles.implementer, self.roles.judge)
        return self.llm.batch == "auto" and any(role.kind == "anthropic" for role in roles)
