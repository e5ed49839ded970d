"""Who waits for whom: a task may begin when all that it waits for is over."""

from __future__ import annotations

from collections.abc import Collection, Set

_NOBODY: frozenset[str] = frozenset()


class Waits:
    """The tasks that wait, by id, for others that need not be known."""

    def __init__(self) -> None:
        self._awaited: dict[str, set[str]] = {}
        self._waiting: dict[str, dict[str, None]] = {}

    def of(self, task_id: str) -> Set[str]:
        """Those that the task waits for."""
        return self._awaited.get(task_id, _NOBODY)

    def put(self, task_id: str, names: Collection[str]) -> None:
        """Let the task wait for these, and for nobody else."""
        for name in self._awaited.pop(task_id, ()):
            del self._waiting[name][task_id]
        if names:
            self._awaited[task_id] = set(names)
            for name in names:
                self._waiting.setdefault(name, {})[task_id] = None

    def over(self, name: str) -> tuple[str, ...]:
        """Let nobody wait for it any more; gives those who wait for nobody now, who began to wait first going first."""
        freed = []
        for task_id in self._waiting.pop(name, ()):
            awaited = self._awaited[task_id]
            awaited.remove(name)
            if not awaited:
                del self._awaited[task_id]
                freed.append(task_id)
        return tuple(freed)
