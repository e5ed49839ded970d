"""The first event of a run: what it works on, and with what."""

from __future__ import annotations

from engine import events as ev
from engine.parts import Parts
from engine.project import Project


def opening(parts: Parts, project: Project) -> ev.RunStarted:
    """Give the event for a new run of the project, from now."""
    settings, found = project.settings, project.preflight
    return ev.RunStarted(
        at=parts.bus.clock(),
        run=parts.run,
        board=project.board_path,
        repository=str(project.repository.root),
        base=found.base,
        target=found.target,
        remote=found.remote or "",
        host=parts.host,
        pid=parts.pid,
        tasks=project.rows.tasks,
        max_concurrency=settings.run.max_concurrency,
        max_attempts=settings.run.max_attempts,
        max_batch=settings.git.max_batch,
        max_age=settings.git.max_age,
        budget_usd=settings.budget.usd,
        roles={name: getattr(settings.roles, name).described for name in ("planner", "implementer", "judge")},
        economy=settings.economy,
    )
