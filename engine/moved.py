"""A run that is taken up to land elsewhere, or whose target was reset: what it had landed may not be there."""

from __future__ import annotations

from engine.model import BoardStatus, TaskState
from engine.project import Project
from engine.snapshot import RunView, Snapshot


async def left_behind(snapshot: Snapshot, project: Project) -> tuple[str, ...]:
    """The tasks that have landed as far as the run knows, but are not where the project lands from now on.

    None where that is the place of before, and holds the newest that the run has brought there.
    """
    found, run = project.preflight, snapshot.run
    ground = found.tip or found.base
    if (run.target, run.remote) == (found.target, found.remote or ""):
        newest = next((train.tip for train in reversed(snapshot.trains) if train.tip), "")
        if not newest or await project.repository.is_ancestor(newest, ground):
            return ()
    open_ = {task.id for task in project.rows.tasks if task.status is not BoardStatus.LANDED}
    return tuple(
        [
            view.id
            for view in snapshot.tasks
            if view.state is TaskState.LANDED
            and view.id in open_
            and not (view.commit and await project.repository.is_ancestor(view.commit, ground))
        ]
    )


def in_words(tasks: tuple[str, ...], before: RunView, now: RunView) -> str:
    """What is said of them: "T1, T2 landed on taskyard/board of origin, and not on main of origin: …"."""
    if _place(before) == _place(now):
        return f"{', '.join(tasks)} had landed on {_place(now)}, which has it no more: done there once more"
    return f"{', '.join(tasks)} landed on {_place(before)}, and not on {_place(now)}: done there once more"


def _place(run: RunView) -> str:
    return f"{run.target} of {run.remote}" if run.remote else f"{run.target} of this repository"
