"""Start tasks in parallel: the moment what they wait for is done, never over a limit, best priority first.

    dispatcher = Dispatcher(work, max_concurrency=10)
    dispatcher.add(tasks)
    outcomes = await dispatcher.wait()

`work(task, slot)` does one task; what it returns is the task's result, what it raises its failure. It may give its
slot back while it waits for something that needs none (`slot.release()`, later `await slot.acquire()`): a task that
waits for a train does not keep another from starting. One task's failure or cancellation never disturbs another.
"""

from engine.dispatch.dispatcher import Dispatcher
from engine.dispatch.progress import DispatchStats, Outcome, Progress
from engine.dispatch.slots import Slot

__all__ = ["DispatchStats", "Dispatcher", "Outcome", "Progress", "Slot"]
