"""How a run begins, or goes on in another process: what it works on, and by what."""

from __future__ import annotations

from msgspec.structs import asdict

from engine import events as ev
from engine.parts import Parts
from engine.project import Project


def opening(parts: Parts, project: Project) -> ev.RunStarted:
    """Give the event for a new run of the project, from now."""
    return ev.RunStarted(
        at=parts.bus.clock(),
        run=parts.run,
        board=project.board_path,
        repository=str(project.repository.root),
        base=project.preflight.base,
        host=parts.host,
        pid=parts.pid,
        tasks=project.rows.tasks,
        **asdict(_setup(project)),
    )


def going_on(parts: Parts, project: Project) -> ev.RunResumed:
    """Give the event for a run that this process takes up, from now: by its own settings, which may have changed."""
    return ev.RunResumed(at=parts.bus.clock(), host=parts.host, pid=parts.pid, setup=_setup(project))


def _setup(project: Project) -> ev.RunSetup:
    settings, found = project.settings, project.preflight
    return ev.RunSetup(
        target=found.target,
        remote=found.remote or "",
        max_concurrency=settings.run.max_concurrency,
        max_attempts=settings.run.max_attempts,
        max_batch=settings.git.max_batch,
        max_age=settings.git.max_age,
        budget_usd=settings.budget.usd,
        roles={name: getattr(settings.roles, name).described for name in ("planner", "implementer", "judge")},
        economy=settings.economy,
    )
