"""What earlier runs landed, by everything that led to it: a board run a second time over the same tree asks no model.

The key covers the starting tree, the task's row and the rows of all it waits for, the roles, the prompts and the tools.
The value is the landed patch with its plan and verdict, so that it can be applied and verified anew, in whatever order
this run's trains happen to leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from engine.activities import Recalled
from engine.model import Task
from engine.settings import Settings
from engine.store.cache import CacheKey, Json, ResultCache, digest

OUTCOME_FORMAT = 1  # raise it when what is stored for a task changes its form


class Outcomes:
    """Look up and keep outcomes for one run.

    `prompts` is a digest over all prompt templates, `tools` over the tools and answers that models are offered.
    """

    def __init__(
        self,
        cache: ResultCache,
        settings: Settings,
        tasks: Iterable[Task],
        *,
        tree: str,
        prompts: str,
        tools: str,
        endpoint: str,
    ) -> None:
        self._cache = cache
        self._tasks = {task.id: task for task in tasks}
        self._basis: dict[str, Json] = {
            "format": OUTCOME_FORMAT,
            "tree": tree,
            "prompts": prompts,
            "tools": tools,
            "endpoint": endpoint,
            "roles": _plain(settings.roles),
            "verify": settings.verify.command,
            "max_tokens": settings.llm.max_tokens,
            "batch": settings.llm.batch,
        }

    def know(self, tasks: Iterable[Task]) -> None:
        """Take rows in, or in other words, than there were when the run began."""
        self._tasks.update((task.id, task) for task in tasks)

    def recall(self, task: Task) -> Recalled | None:
        """Give what was landed for this very task over this very tree, or None."""
        data = self._cache.get(self._key(task))
        return msgspec.json.decode(data, type=Recalled) if data is not None else None

    def remember(self, task: Task, outcome: Recalled) -> None:
        """Keep what landed. The saved tokens and dollars are those the outcome cost."""
        self._cache.set(
            self._key(task), msgspec.json.encode(outcome), tokens=outcome.usage.total, usd=outcome.usd
        )

    def _key(self, task: Task) -> CacheKey:
        rows: list[Json] = [_row(self._tasks[name]) for name in sorted(self._closure(task))]
        return CacheKey(
            activity_type="outcome",
            task_id=task.id,
            input_hash=digest({**self._basis, "rows": rows}),
            model_id="",
        )

    def _closure(self, task: Task) -> set[str]:
        """The task and all it waits for, directly or not."""
        seen: set[str] = set()
        left = [task.id]
        while left:
            name = left.pop()
            if name not in seen and name in self._tasks:
                seen.add(name)
                left.extend(self._tasks[name].after)
        return seen


def _row(task: Task) -> dict[str, Json]:
    """The row without what does not change the work: where it stands in the file, its state and priority."""
    row = _plain(task)
    for name in ("line", "status", "priority", "branch"):
        row.pop(name, None)
    return row


def _plain(value: object) -> dict[str, Json]:
    plain: dict[str, Json] = msgspec.to_builtins(value, enc_hook=str)
    return plain


def built_on(paths: Sequence[str], landed: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Name the landed tasks that touched any of the same files: a patch over theirs needs theirs under it."""
    mine = set(paths)
    return tuple(task for task, theirs in landed.items() if mine.intersection(theirs))


def order(tasks: Sequence[Task], needs: Mapping[str, Sequence[str]]) -> tuple[Task, ...]:
    """Give the tasks with their recalled needs added to `after`, leaving out any need that would close a circle.

    A need that follows from others is left out too: a hundred tasks over one file are a chain, not a web.
    """
    after = {task.id: dict.fromkeys(task.after) for task in tasks}
    before: dict[str, set[str]] = {}
    for task in tasks:
        for name in task.after:
            before.setdefault(name, set()).add(task.id)
    for task_id, names in needs.items():
        if task_id not in after:
            continue
        waiting = _reach(task_id, before)
        had = _reach(task_id, after)
        # The newest first, for it may need the older ones itself.
        for name in reversed(names):
            if name in after and name not in waiting and name not in had:
                after[task_id][name] = None
                before.setdefault(name, set()).add(task_id)
                had |= _reach(name, after)
    return tuple(msgspec.structs.replace(task, after=tuple(after[task.id])) for task in tasks)


def _reach(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    """All that can be reached from `start`, itself included."""
    seen = {start}
    left = [start]
    while left:
        for name in edges.get(left.pop(), ()):
            if name not in seen:
                seen.add(name)
                left.append(name)
    return seen
