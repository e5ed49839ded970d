"""What a long run tells: tasks with three model calls each, of the lengths and with the randomness of real ones."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

from engine import events as ev
from engine.model import AnswerSource, Change, Plan, Role, Stage, Task, Usage, Verdict, Verification
from tests.samples import started

ROLES = {Stage.PLAN: Role.PLANNER, Stage.IMPLEMENT: Role.IMPLEMENTER, Stage.JUDGE: Role.JUDGE}
STATE = "/home/someone/projects/parser/.git/taskyard"


def long_run(tasks: int, *, seed: int = 1) -> Iterator[ev.Event]:
    """The events of a run of that many tasks, one after the other, up to the last landing."""
    chance = random.Random(seed)
    at = 1_790_000_000.0

    def now() -> float:
        nonlocal at
        at += chance.random()
        return at

    board = tuple(_task(f"T{number}") for number in range(tasks))
    yield started(*board, at=at, repository="/home/someone/projects/parser", max_concurrency=64)
    for number in range(tasks):
        task = f"T{number}"
        commit = hashlib.sha1(task.encode()).hexdigest()
        logs = f"{STATE}/logs/r1/{task}/1"
        yield ev.AttemptStarted(
            at=now(), task=task, attempt=1, branch=f"task/{task}", base="b" * 40,
            worktree=f"/home/someone/.local/state/taskyard/parser/{task}", logs=logs,
        )  # fmt: skip
        for stage in (Stage.PLAN, Stage.IMPLEMENT, Stage.VERIFY, Stage.JUDGE):
            yield ev.StageStarted(at=now(), task=task, attempt=1, stage=stage)
            if stage in ROLES:
                yield from _call(task, ROLES[stage], logs, chance, now(), now())
            log = f"{logs}/{stage}.log"
            yield ev.StageFinished(at=now(), task=task, attempt=1, stage=stage, ok=True, note="done", log=log)
            if stage is Stage.PLAN:
                plan = Plan(
                    (f"read the parser for case {number}", "add the case", "test it"), (f"src/{task}.py",)
                )
                yield ev.PlanMade(at=now(), task=task, attempt=1, plan=plan)
            elif stage is Stage.IMPLEMENT:
                change = Change(commit, "b" * 40, 1, 12, 3, f"Parse case {number}", (f"src/{task}.py",))
                yield ev.ChangeCommitted(at=now(), task=task, attempt=1, change=change)
        verification = Verification(f"pytest -q tests/test_{task}.py", 0, chance.random(), "1 passed")
        yield ev.Verified(at=now(), task=task, attempt=1, verification=verification)
        yield ev.Judged(at=now(), task=task, attempt=1, verdict=Verdict(True, "does what the row asks"))
        yield ev.TaskReadyToLand(at=now(), task=task, attempt=1, commit=commit)
        yield ev.TaskLanded(at=now(), task=task, commit=commit, train=number // 10 + 1)


def _task(name: str) -> Task:
    return Task(
        name,
        f"Make the parser accept case {name} and say where it failed",
        branch=f"task/{name}",
        command=f"pytest -q tests/test_{name}.py",
        acceptance="the case parses; an error names line and column",
    )


def _call(
    task: str, role: Role, logs: str, chance: random.Random, started: float, ended: float
) -> Iterator[ev.Event]:
    call = f"{chance.getrandbits(48):012x}"
    model = "claude-opus-5-5"
    usage = Usage(chance.randrange(5000), chance.randrange(900), chance.randrange(30_000))
    yield ev.CallStarted(at=started, call=call, task=task, attempt=1, role=role, model=model)
    yield ev.CallAnswered(
        at=ended, call=call, task=task, attempt=1, role=role, model=model, source=AnswerSource.CALL, usage=usage,
        usd=chance.random(), duration=ended - started, record=f"{logs}/{call}.json",
    )  # fmt: skip
