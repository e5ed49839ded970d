"""Money that is never overspent: the worst case of a call is set aside before it is made.

    budget = Budget(run_usd=10.0, task_usd=1.0, spent={"T1": 0.42})
    hold = await budget.reserve("T1", worst_case)
    try:
        answer = ...
        hold.settle(actual)
    finally:
        hold.release()

A call whose worst case fits what is left, but not beside the calls in flight, waits for one of them to end: most cost
a small part of their worst case. Only a call that would not fit even then is refused. `spent` brings the budget of an
interrupted run back. Everything happens on one event loop.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping
from types import TracebackType

from engine.errors import BudgetReachedError, budget_in_words

_EPSILON = 1e-9  # a millionth of a tenth of a cent: sums of floats must not refuse a call that just fits


class Hold:
    """Money set aside for one call. Settle it with what the call cost, else `release` gives it back whole."""

    __slots__ = ("_budget", "_open", "task_id", "usd")

    def __init__(self, budget: Budget, task_id: str, usd: float) -> None:
        self._budget = budget
        self._open = True
        self.task_id = task_id
        self.usd = usd

    def settle(self, usd: float) -> None:
        """Book what the call really cost. Only the first settle or release counts."""
        if self._open:
            self._open = False
            self._budget._close(self, usd)

    def release(self) -> None:
        """Give back what was set aside, unless it is settled already."""
        self.settle(0.0)

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Budget:
    """The dollars a run may spend, and each of its tasks. None means without limit."""

    def __init__(
        self,
        run_usd: float | None = None,
        task_usd: float | None = None,
        *,
        spent: Mapping[str, float] | None = None,
    ) -> None:
        self.run_usd = run_usd
        self.task_usd = task_usd
        self._spent: defaultdict[str, float] = defaultdict(float, spent or {})
        self._reserved: defaultdict[str, float] = defaultdict(float)
        self._run_spent = sum(self._spent.values())
        self._run_reserved = 0.0
        self._elsewhere = 0.0
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def limited(self) -> bool:
        """Whether there is any limit in dollars."""
        return self.run_usd is not None or self.task_usd is not None

    @property
    def spent(self) -> float:
        """Dollars booked so far, over the whole run."""
        return self._run_spent

    @property
    def reserved(self) -> float:
        """Dollars set aside for calls in flight."""
        return self._run_reserved

    @property
    def waiting(self) -> int:
        """Calls that wait for money set aside to come back."""
        return sum(not waiter.done() for waiter in self._waiters)

    def spent_elsewhere(self, usd: float) -> None:
        """Note what others spend of the same budget; it is told with a delay, so calls at one moment may pass it."""
        self._elsewhere = usd
        self._wake()

    def task_spent(self, task_id: str) -> float:
        """Dollars booked for one task."""
        return self._spent.get(task_id, 0.0)

    def fits_now(self, task_id: str, usd: float) -> bool:
        """Whether the call could be made beside those in flight."""
        return _fits(self._run_spent + self._elsewhere + self._run_reserved + usd, self.run_usd) and _fits(
            self.task_spent(task_id) + self._reserved.get(task_id, 0.0) + usd, self.task_usd
        )

    async def reserve(self, task_id: str, usd: float | None, *, model: str = "") -> Hold:
        """Set the worst case of a call aside; waits while only calls in flight stand against it.

        `usd` None means the price is unknown, which any limit in dollars refuses.
        Raises BudgetReachedError when the call could pass the budget of the task or of the run.
        """
        if usd is None:
            if self.limited:
                raise BudgetReachedError(
                    f"the price of {model or 'this model'} is not known, so no budget in dollars can hold",
                    "add it to a price file ([llm] prices), or remove [budget]",
                )
            return Hold(self, task_id, 0.0)
        while not self.fits_now(task_id, usd):
            self._refuse_hopeless(task_id, usd)
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return self.impose(task_id, usd)

    def impose(self, task_id: str, usd: float | None) -> Hold:
        """Set money aside that is committed already (a batch that an earlier process sent), limit or not."""
        hold = Hold(self, task_id, usd or 0.0)
        self._run_reserved += hold.usd
        self._reserved[task_id] += hold.usd
        return hold

    def book(self, task_id: str, usd: float) -> None:
        """Book a cost that nothing was set aside for (a command role tells its own price afterwards)."""
        self._run_spent += usd
        self._spent[task_id] += usd
        self._wake()

    def require_some_left(self, task_id: str) -> None:
        """Refuse work whose cost nobody can say before, once the budget of the task or of the run is used up.

        Raises BudgetReachedError.
        """
        self._refuse_hopeless(task_id, 2 * _EPSILON)

    def _refuse_hopeless(self, task_id: str, usd: float) -> None:
        task_spent = self.task_spent(task_id)
        if not _fits(task_spent + usd, self.task_usd):
            figures = {"limit_usd": self.task_usd or 0.0, "spent_usd": task_spent, "next_usd": usd}
            text = budget_in_words(f"task {task_id}", **figures)
            raise BudgetReachedError(text, "raise [budget] task_usd", scope="task", **figures)
        spent = self._run_spent + self._elsewhere
        if not _fits(spent + usd, self.run_usd):
            figures = {"limit_usd": self.run_usd or 0.0, "spent_usd": spent, "next_usd": usd}
            hint = "raise [budget] usd and run again: it goes on where it stopped"
            raise BudgetReachedError(budget_in_words("the run", **figures), hint, scope="run", **figures)

    def _close(self, hold: Hold, usd: float) -> None:
        self._run_reserved -= hold.usd
        self._reserved[hold.task_id] -= hold.usd
        if self._reserved[hold.task_id] <= _EPSILON:
            del self._reserved[hold.task_id]
        if not self._reserved:
            self._run_reserved = 0.0  # what is left is rounding
        self.book(hold.task_id, usd)

    def _wake(self) -> None:
        """Let every waiter look again: which of them fits depends on its task and its size."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)


def _fits(usd: float, limit: float | None) -> bool:
    return limit is None or usd <= limit + _EPSILON
