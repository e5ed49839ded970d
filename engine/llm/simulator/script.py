"""Which of a scenario's answers a request gets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec

from engine.llm.simulator.scenario import Answer


class Script:
    """The answers of a scenario, found by task, role, attempt and what the model has seen."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._exact: dict[str, list[Answer]] = {}
        self._patterns: list[Answer] = []
        for answer in answers:
            if any(sign in answer.task for sign in "*?["):
                self._patterns.append(answer)
            else:
                self._exact.setdefault(answer.task, []).append(answer)

    def find(self, task: str, role: str, attempt: int, seen: str) -> Answer | None:
        """Give the answer that fits best: the task's own before a pattern's, the latest attempt, `when` before none."""
        fitting = [answer for answer in self._exact.get(task, ()) if _fits(answer, role, attempt, seen)]
        if not fitting:
            fitting = [
                answer
                for answer in self._patterns
                if fnmatchcase(task, answer.task) and _fits(answer, role, attempt, seen)
            ]
        if not fitting:
            return None
        return _filled(max(fitting, key=lambda answer: (answer.attempt, bool(answer.when))), task)


def slug_of(task: str) -> str:
    """Give a task's id as a Python name."""
    return re.sub(r"[^0-9a-z]+", "_", task.lower()).strip("_") or "task"


def _fits(answer: Answer, role: str, attempt: int, seen: str) -> bool:
    return (
        answer.role in (None, role) and answer.attempt <= attempt and (not answer.when or answer.when in seen)
    )


def _filled(answer: Answer, task: str) -> Answer:
    """Put the task's id where the answer says so."""
    data = msgspec.json.encode(answer)
    if b"{task}" not in data and b"{slug}" not in data:
        return answer
    for mark, value in ((b"{task}", task), (b"{slug}", slug_of(task))):
        data = data.replace(mark, msgspec.json.encode(value)[1:-1])
    return msgspec.json.decode(data, type=Answer)
