"""What a run works by, in words: where its work lands, and what is other since another process took it up."""

from __future__ import annotations

from engine.snapshot import RunView
from tui.plain import count, money


def landing_in_words(target: str, remote: str) -> str:
    """Where the work lands: "lands on main, pushed to origin"."""
    return f"lands on {target}, " + (f"pushed to {remote}" if remote else "kept local: there is no remote")


def setup_changes(before: RunView, now: RunView) -> list[str]:
    """What of the settings is other than before, as it is now: "3 at once", "budget $1.00"."""
    changes = []
    if now.max_concurrency != before.max_concurrency:
        changes.append(f"{now.max_concurrency} at once")
    if now.max_attempts != before.max_attempts:
        changes.append(f"{count(now.max_attempts, 'attempt')} at each")
    if now.budget_usd != before.budget_usd:
        changes.append("no budget" if now.budget_usd is None else f"budget {money(now.budget_usd)}")
    for role, played in now.roles.items():
        if played != before.roles.get(role, played):
            changes.append(f"{role} {played}")
    if (now.target, now.remote) != (before.target, before.remote):
        changes.append(landing_in_words(now.target, now.remote))
    return changes
