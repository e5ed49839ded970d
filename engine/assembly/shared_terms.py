"""What all orchestrators of one board should agree on."""

from __future__ import annotations

from engine.project import Project
from engine.sharing import Terms

ROLES = ("planner", "implementer", "judge")


def shared_terms(project: Project) -> Terms:
    """What all orchestrators of a board should agree on: where work lands, and how it is made, checked and paid."""
    settings = project.settings
    limits = {"type_limits": settings.run.type_limits, "lane_limits": settings.run.lane_limits}
    others: dict[str, object] = {
        "[run] max_attempts": settings.run.max_attempts,
        **{f"[run] {name}": dict(sorted(value.items())) for name, value in limits.items()},
        **{f"[roles.{name}]": getattr(settings.roles, name).described for name in ROLES},
        "[verify] command": settings.verify.command,
        "[git] max_batch": settings.git.max_batch,
        "[budget] usd": settings.budget.usd,
        "[budget] task_usd": settings.budget.task_usd,
        "[locks] lease": settings.locks.lease,
    }
    return Terms(
        binding={"[git] target": project.preflight.target},
        others={name: _shown(value) for name, value in others.items()},
    )


def _shown(value: object) -> str:
    if isinstance(value, dict):
        value = ", ".join(f"{name} {limit}" for name, limit in value.items())
    return "not set" if value in (None, "") else str(value)
