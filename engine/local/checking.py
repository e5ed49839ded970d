"""The verification command over an attempt's worktree: as the stage of its own, and for a model that asks for it."""

from __future__ import annotations

from pathlib import Path

from engine import events as ev
from engine.activities import Attempt
from engine.errors import StageFailedError
from engine.llm.messages import ModelRequest
from engine.local.context import RunContext
from engine.local.guarding import Guarding
from engine.model import Stage, Verification
from engine.roles.verifier import describe, report, verify
from engine.store.cache import CacheKey, Computed, ResultCache, digest


class Checking:
    """Runs checks. The model's are kept in `cache`."""

    def __init__(self, context: RunContext, guarding: Guarding, cache: ResultCache) -> None:
        self._context = context
        self._guarding = guarding
        self._cache = cache

    async def verify(self, attempt: Attempt) -> Verification:
        """See `Activities.verify`."""
        done = await self._run(attempt, Stage.VERIFY)
        self._context.bus.emit(
            ev.Verified(
                at=self._context.now(), task=attempt.task.id, attempt=attempt.number, verification=done
            )
        )
        if not done.passed:
            raise StageFailedError(
                describe(done, self._context.settings.verify.timeout),
                failure_type="timeout" if done.timed_out else "check_failed",
                feedback=f"The verification did not pass.\n\n{report(done)}",
            )
        return done

    async def for_model(self, attempt: Attempt, request: ModelRequest, number: int) -> str:
        """Run the check for the model, once per conversation: an interrupted attempt must see the same words again.

        `number` counts the checks of one answer: between two of them the model may have edited.
        """
        conversation = digest({"request": request.digest_input(), "base": attempt.base, "number": number})
        key = CacheKey(activity_type="check", task_id=attempt.task.id, input_hash=conversation, model_id="")

        async def compute() -> Computed:
            done = await self._run(attempt, Stage.IMPLEMENT)
            return Computed(report(done).encode("utf-8", "replace"))

        value, _ = await self._cache.get_or_compute(key, compute)
        return value.decode("utf-8")

    async def _run(self, attempt: Attempt, stage: Stage) -> Verification:
        context = self._context
        command = context.command(attempt.task)
        if command is None:
            raise StageFailedError(
                "the row has no verification command",
                "put one into its Verification cell in backticks, or set [verify] command",
                failure_type="no_check",
            )
        async with self._guarding.repository(attempt):
            return await verify(
                command,
                Path(attempt.worktree),
                env=context.child_environment(),
                timeout=context.settings.verify.timeout,
                log=context.logs.path(attempt, stage),
                max_log=context.settings.run.max_log,
                progress=lambda line: context.logs.progress(attempt, line),
            )
