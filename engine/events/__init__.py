"""The engine's only output: typed events, frozen and tagged, each with the time it happened.

Everything that shows or resumes a run is `state.RunState` over a sequence of these. `run`, `tasks`, `calls` and
`trains` say what can happen, `wire` how it is written down. A new event joins the union at the end of its module, and
the names here.
"""

from engine.events.base import Event
from engine.events.calls import (
    BatchCreating,
    BatchEnded,
    BatchPolled,
    BatchSubmitted,
    CallAnswered,
    CallFailed,
    CallStarted,
)
from engine.events.run import (
    BudgetReached,
    CycleStarted,
    DispatchChanged,
    Measured,
    Noticed,
    NoticeLevel,
    RunFinished,
    RunResumed,
    RunStarted,
    TasksAdded,
)
from engine.events.tasks import (
    AttemptFailed,
    AttemptStarted,
    ChangeCommitted,
    Judged,
    LessonRecorded,
    LessonResolved,
    LessonsGiven,
    PlanMade,
    Progressed,
    StageFinished,
    StageStarted,
    TaskEnded,
    TaskLanded,
    TaskQueued,
    TaskReadyToLand,
    TaskReopened,
    TaskSentBack,
    Verified,
)
from engine.events.trains import Pushed, TrainArrived, TrainDeparted, TrainMoved
from engine.events.wire import AnyEvent, decode, encode, storable

__all__ = [
    "AnyEvent",
    "AttemptFailed",
    "AttemptStarted",
    "BatchCreating",
    "BatchEnded",
    "BatchPolled",
    "BatchSubmitted",
    "BudgetReached",
    "CallAnswered",
    "CallFailed",
    "CallStarted",
    "ChangeCommitted",
    "CycleStarted",
    "DispatchChanged",
    "Event",
    "Judged",
    "LessonRecorded",
    "LessonResolved",
    "LessonsGiven",
    "Measured",
    "NoticeLevel",
    "Noticed",
    "PlanMade",
    "Progressed",
    "Pushed",
    "RunFinished",
    "RunResumed",
    "RunStarted",
    "StageFinished",
    "StageStarted",
    "TaskEnded",
    "TaskLanded",
    "TaskQueued",
    "TaskReadyToLand",
    "TaskReopened",
    "TaskSentBack",
    "TasksAdded",
    "TrainArrived",
    "TrainDeparted",
    "TrainMoved",
    "Verified",
    "decode",
    "encode",
    "storable",
]
