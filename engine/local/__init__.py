"""The activities of a pipeline, done here: worktrees, models or agent commands, verification, lessons.

`activities` is the face that the pipeline and the run's work know; every room behind it has one idea. `attempts` has
the worktrees of attempts, `making` what a Planner and an Implementer do in them, `committing` what that becomes.
`checking` runs the verification, `judging` asks for the verdict, `asking` is the way to a model and `agents` that to an
agent command. `recalling` takes up what was made before, `endings` what follows an attempt and a task. `guarding` and
`logs` look after what all of them share; `context` is what they are given.
"""

from engine.local.activities import LocalActivities
from engine.local.context import LandingSide, RunContext
from engine.local.logs import StageLogs

__all__ = ["LandingSide", "LocalActivities", "RunContext", "StageLogs"]
