"""What the sums of a run say in words: the same on the panels, in the last lines of a run and in `taskyard status`."""

from __future__ import annotations

from collections.abc import Callable

from engine.model import TaskState
from engine.snapshot import Snapshot, Totals
from tui.plain import count


def pushes_in_words(snapshot: Snapshot) -> str:
    """How many pushes what landed took, and how many that saved: "3 pushes for 9 tasks, 6 saved"."""
    totals, run = snapshot.totals, snapshot.run
    tasks = count(totals.landed, "task")
    if totals.landed and not run.remote:
        return f"{count(totals.trains, 'train')} for {tasks}, no remote to push to"
    if totals.landed and not totals.pushes:
        return f"{tasks} had been pushed before"
    pushes = count(totals.pushes, "push", "pushes")
    if totals.landed:
        return f"{pushes} for {tasks}" + (f", {totals.pushes_saved} saved" if totals.pushes_saved else "")
    if totals.pushes:
        return f"{pushes} of the board's states"
    if snapshot.total and snapshot.count(TaskState.LANDED) == snapshot.total:
        return "all had landed before"
    return "nothing landed, nothing pushed" if run.finished is not None else "nothing landed yet"


def savings_by_cause(totals: Totals, price: Callable[[float], str]) -> list[str]:
    """What each cause took off the bill, where it did: "prompts $0.14", "batches $0.07"."""
    causes = (
        ("results", totals.usd_saved_results),
        ("prompts", totals.usd_saved_prompts),
        ("batches", totals.usd_saved_batches),
    )
    return [f"{name} {price(usd)}" for name, usd in causes if abs(usd) >= 0.00005]
