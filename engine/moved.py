"""A run that is taken up to land elsewhere: what it has landed at the old place is not at the new one for that."""

from __future__ import annotations

from engine.model import BoardStatus, TaskState
from engine.project import Project
from engine.snapshot import RunView, Snapshot


async def left_behind(snapshot: Snapshot, project: Project) -> tuple[str, ...]:
    """The tasks that have landed as far as the run knows, but not where the project lands from now on.

    None where that is the place of before: the run knows what is there.
    """
    found, run = project.preflight, snapshot.run
    if (run.target, run.remote) == (found.target, found.remote or ""):
        return ()
    open_ = {task.id for task in project.rows.tasks if task.status is not BoardStatus.LANDED}
    ground = found.tip or found.base
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
    return f"{', '.join(tasks)} landed on {_place(before)}, and not on {_place(now)}: done there once more"


def _place(run: RunView) -> str:
    return f"{run.target} of {run.remote}" if run.remote else f"{run.target} of this repository"
