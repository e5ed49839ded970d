"""The way from a stage to a model: what it streams goes to the log, and who waits for a batch keeps no slot."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext

from engine.activities import Attempt
from engine.calls import ModelCalls
from engine.dispatch import Slot
from engine.llm.messages import ModelAnswer, ModelRequest, Progress
from engine.local.context import RunContext
from engine.model import Stage


class Asking:
    """Asks models on behalf of stages."""

    def __init__(self, context: RunContext, calls: ModelCalls) -> None:
        self._context = context
        self._calls = calls
        self._slots: dict[str, Slot] = {}

    def lend(self, task_id: str, slot: Slot) -> None:
        """Let the task's slot be given back while it waits for a batch."""
        self._slots[task_id] = slot

    async def ask(self, attempt: Attempt, stage: Stage, request: ModelRequest) -> ModelAnswer:
        """Give the model's answer. Raises LLMError or BudgetReachedError; see `ModelCalls.ask`."""
        tree = await self._context.repository.tree_of(attempt.base)
        return await self._calls.ask(
            attempt,
            request,
            base_tree=tree,
            records=self._context.logs.folder(attempt),
            on_progress=lambda progress: self._streamed(attempt, stage, progress),
            aside=lambda: self._aside(attempt.task.id),
        )

    def _streamed(self, attempt: Attempt, stage: Stage, progress: Progress) -> None:
        if progress.text and progress.kind in ("text", "thinking"):
            self._context.logs.write(attempt, stage, progress.text)
        elif progress.kind == "started":
            self._context.logs.progress(attempt, f"{stage}: the model answers")

    def _aside(self, task_id: str) -> AbstractAsyncContextManager[None]:
        """Give the slot to another task for a while: any number may wait, for none of them keeps a worktree."""
        slot = self._slots.get(task_id)
        return nullcontext() if slot is None else slot.lent()
