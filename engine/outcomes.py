"""What earlier runs landed, by everything that led to it: a board run a second time over the same tree asks no model.

The key covers the starting tree, the task's row and the rows of all it waits for, the roles and the prompts. The value
is the landed patch with its plan and verdict, so that it can be applied and verified anew, in whatever order this run's
trains happen to leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from engine.activities import Recalled
from engine.model import Task
from engine.settings import Settings
from engine.store.cache import CacheKey, Json, ResultCache, digest

OUTCOME_FORMAT = 1


class Outcomes:
    """Look up and keep outcomes for one run. `prompts` is a digest over all prompt templates."""

    def __init__(
        self,
        cache: ResultCache,
        settings: Settings,
        tasks: Iterable[Task],
        *,
        tree: str,
        prompts: str,
        endpoint: str,
    ) -> None:
        self._cache = cache
        self._tasks = {task.id: task for task in tasks}
        self._basis: dict[str, Json] = {
            "format": OUTCOME_FORMAT,
            "tree": tree,
            "prompts": prompts,
            "endpoint": endpoint,
            "roles": _plain(settings.roles),
            "verify": settings.verify.command,
            "max_tokens": settings.llm.max_tokens,
            "batch": settings.llm.batch,
        }

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
    """Give the tasks with their recalled needs added to `after`, leaving out any need that would close a circle."""
    after = {task.id: set(task.after) for task in tasks}

    def reaches(start: str, goal: str) -> bool:
        seen: set[str] = set()
        left = [start]
        while left:
            name = left.pop()
            if name == goal:
                return True
            if name not in seen:
                seen.add(name)
                left.extend(after.get(name, ()))
        return False

    for task_id, names in needs.items():
        for name in names:
            if name in after and task_id in after and not reaches(name, task_id):
                after[task_id].add(name)
    return tuple(
        msgspec.structs.replace(task, after=(*task.after, *sorted(after[task.id] - set(task.after))))
        for task in tasks
    )
