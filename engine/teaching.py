"""What a run's failures teach: written down so that any other task has use of it, and chosen for a task that begins.

The ids of tasks mean nothing on another board: a lesson says what was to be done, what went wrong, and in which files.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

from msgspec import UNSET

from engine import events as ev
from engine.bus import Bus
from engine.errors import StageFailedError
from engine.landing import SentBack
from engine.model import Change, LessonGiven, Plan, Stage, Task
from engine.roles.json_answers import BAD_ANSWER
from engine.rows import words
from engine.store.lessons import Lesson, LessonQuery, LessonStore, failed_check
from engine.task_view import TaskView

MOST_GIVEN = 4
"""Lessons that an attempt is given at most, however short they are."""

MAX_OUTPUT = 1500
"""Characters of a check's output in a lesson, from its end, where the reason stands."""

MAX_LINE = 200
"""Characters of a lesson in the list of what a run has learned."""

_CHECKED = ("check_failed", "timeout")
"""Failures by the verification command, whose report tells more than their message."""

_OF_THE_TASK = ("timeout", "no_change")
"""Failures that say nothing by themselves: what helped one task is of no use to another."""

_PATH = re.compile(r"(?<![\w@+-])[\w@+-]++(?:(?:/[\w@.+-]+)+|\.[a-z]{1,5}\b)")
"""What a task's text has for files, as long as no plan names them. Each word is looked at once, however long."""


_WORD = re.compile(r"[^\W\d_]{2,}")

_COMMONPLACE = frozenset(
    "agent all and are as at been change changed changes commit committed complete completed created done "
    "edited everything file files finished for from good has have implemented in is it job now of ok okay on "
    "ready run successful successfully task that the there this to updated was were with work worked working "
    "wrote".split()
)
"""Words that an agent may end with whatever it did."""


class Teaching:
    """The lessons of one run. `max_tokens` bounds what one prompt is given (see `estimated_tokens`).

    `terms` gives a digest of what an attempt at a task runs under now (see `engine.terms`).
    """

    def __init__(
        self,
        lessons: LessonStore,
        bus: Bus,
        run: str,
        *,
        max_tokens: int,
        terms: Callable[[Task], str] = words,
    ) -> None:
        self._lessons = lessons
        self._bus = bus
        self._run = run
        self._max_tokens = max_tokens
        self._terms = terms

    async def choose(self, task: Task, plan: Plan) -> tuple[LessonGiven, ...]:
        """Give the best few lessons for a task: by its type, its files and its words."""
        found = await asyncio.to_thread(
            self._lessons.for_task,
            type=task_type(task, plan),
            files=plan.files or _files_in(task.scope),
            text=f"{task.scope} {task.acceptance}",
            limit=MOST_GIVEN,
            max_tokens=self._max_tokens,
        )
        return tuple(LessonGiven(lesson.id, lesson.brief()) for lesson in found)

    async def learn(self, task: Task, plan: Plan, stage: Stage, failure: StageFailedError) -> None:
        """Keep what a stage of an attempt failed by."""
        kind, message, about = failure.failure_type, failure.message, ""
        if kind == BAD_ANSWER:
            return  # It tells of a command in the settings, and nothing that an Implementer could do better.
        if kind in _CHECKED:
            about, _ = failed_check(failure.feedback)
        if about or kind == "check_failed":
            message = _cut(failure.feedback)
        elif kind in _OF_THE_TASK:
            message, about = f"{message}, at work on {_quoted(task)}", task.scope
        view = self._bus.state.find(task.id)
        made = view.change.paths if view is not None and view.change is not None else ()
        paths = tuple(dict.fromkeys((*(plan.files or _files_in(task.scope)), *made)))
        await self._record(task, plan, stage, kind, message, paths, about)

    async def learn_from_return(self, view: TaskView, answer: SentBack) -> None:
        """Keep why the train sent a task back, by the scopes of both that do not fit."""
        other = self._bus.state.find(answer.other) if answer.other else None
        with_whom = _quoted(other.task) if other is not None else "what had landed meanwhile"
        mine = _quoted(view.task)
        if answer.paths:
            kind = "conflict"
            where = ", ".join(answer.paths)
            message = f"clash in {where}: {mine} and {with_whom} changed the same lines"
        else:
            kind = "breaks_combination"
            together = f" merged with {with_whom}" if other is not None else " merged onto the newest tip"
            message = f"passes its check alone, and fails it{together}: {mine}\n{_cut(answer.output)}"
        paths = answer.paths or (view.change.paths if view.change is not None else ())
        about = "\n".join((failed_check(answer.output)[0], *sorted(paths)))
        await self._record(view.task, view.plan or Plan(), Stage.LAND, kind, message, paths, about)

    async def resolve(self, view: TaskView, change: Change) -> None:
        """Fill in what helped: what the Implementer said in closing of the change that landed.

        Where that tells nothing of how, and where a person has changed the row, its check or the roles since the
        failure, the lessons stay open, and those of this run are told why. What earlier runs learned from the same
        task, the same words under the same id, has waited for it too.
        """
        helped = change.summary if change.said is UNSET else change.said
        silent = _tells_nothing(helped, view)
        terms = await asyncio.to_thread(self._terms, view.task)
        own = []
        for each in view.taught:
            changed = each.terms != terms
            if each.resolved or each.landed_with:
                continue
            if changed or silent:
                self._leave_open(view, each.id, changed)
            else:
                own.append(each.id)
        if silent:
            return
        earlier = await asyncio.to_thread(self._left_open, view.task, terms)
        for lesson in dict.fromkeys((*own, *earlier)):
            await asyncio.to_thread(self._lessons.resolve, lesson, helped)
            self._bus.emit(ev.LessonResolved(at=self._bus.clock(), task=view.id, lesson=lesson))

    def _leave_open(self, view: TaskView, lesson: str, changed: bool) -> None:
        self._bus.emit(
            ev.LessonLeftOpen(
                at=self._bus.clock(), task=view.id, lesson=lesson, attempt=view.attempt, changed=changed
            )
        )

    def _left_open(self, task: Task, terms: str) -> list[str]:
        """The ids of the lessons of this very task that nothing has helped yet, of this run and of earlier ones."""
        scope = _short(task.scope)
        found = self._lessons.search(LessonQuery(text=f"{task.id} {scope}"))
        return [
            lesson.id
            for lesson in found.lessons
            if not lesson.resolution
            and (lesson.metadata.get("task"), lesson.metadata.get("scope"), lesson.metadata.get("terms"))
            == (task.id, scope, terms)
        ]

    async def _record(
        self,
        task: Task,
        plan: Plan,
        stage: Stage,
        kind: str,
        message: str,
        paths: Sequence[str],
        about: str,
    ) -> None:
        terms = await asyncio.to_thread(self._terms, task)
        lesson = await self._lessons.record(
            task_type(task, plan),
            str(stage),
            kind,
            message,
            about=about,
            metadata={
                "task": task.id,
                "scope": _short(task.scope),
                "run": self._run,
                "files": " ".join(paths),
                "terms": terms,
            },
        )
        self._bus.emit(
            ev.LessonRecorded(
                at=self._bus.clock(),
                task=task.id,
                lesson=lesson.id,
                text=_in_a_line(lesson),
                times_seen=lesson.times_seen,
                terms=terms,
            )
        )


def task_type(task: Task, plan: Plan) -> str:
    """The type that the board gives, else the one that the Planner found."""
    return task.type if task.type != "task" else plan.type


def _files_in(scope: str) -> tuple[str, ...]:
    """The files that a task's text names; `e.g.` is none."""
    return tuple(dict.fromkeys(path for path in _PATH.findall(scope) if not re.fullmatch(r"\w\.\w", path)))


def _tells_nothing(helped: str, view: TaskView) -> bool:
    """Whether what an Implementer said tells nothing of how it came to land.

    That is so where it only repeats what was to be done or what everybody says in closing, and where an attempt that
    failed has said the same.
    """
    task = view.task
    asked = " ".join((task.id, task.scope, task.acceptance, task.command or ""))
    if _words_in(helped) <= _words_in(asked) | _COMMONPLACE:
        return True
    changes = [each.change for each in view.ended_badly if each.change is not None]
    return any(change.said is not UNSET and _alike(change.said, helped) for change in changes)


def _words_in(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _alike(one: str, other: str) -> bool:
    """Whether two texts differ in nothing but numbers and spacing."""
    return _WORD.findall(one.lower()) == _WORD.findall(other.lower())


def _cut(report: str) -> str:
    """The report of a check with the end of its output, and which command it was, however long the output is."""
    _, head = failed_check(report)
    if len(report) <= head + MAX_OUTPUT:
        return report
    return f"{report[:head]}\n…\n{report[-MAX_OUTPUT:]}" if head else report[-MAX_OUTPUT:]


def _quoted(task: Task) -> str:
    """The task's scope in quotes, and none within: what is in quotes does not tell one failure from another."""
    scope = _short(task.scope).replace('"', "'")
    return f'"{scope}"'


def _in_a_line(lesson: Lesson) -> str:
    line = f"{lesson.failure_type}: {lesson.headline}"
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"


def _short(scope: str) -> str:
    scope = " ".join(scope.split())
    return scope if len(scope) <= 120 else f"{scope[:119]}…"
