"""What lands work: the train with its checks, and the lander with what the board is told beside the cargo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

from engine.board import combined, with_statuses
from engine.bus import Bus
from engine.git.cargo import Checked
from engine.git.gate import Gate
from engine.git.train import Train
from engine.git.upstream import Upstream
from engine.landing import Lander, Urgency
from engine.model import BoardStatus, TaskState
from engine.process import child_environment
from engine.project import Project
from engine.roles.verifier import describe, report, verify
from engine.settings import Settings


def train_of(
    project: Project,
    environ: Mapping[str, str],
    *,
    run: str,
    space: str,
    tree: Path,
    log: Path,
    gate: Gate | None,
) -> Train:
    """The train to the project's target. Its checks run in the folder `tree`, and say all in the file `log`."""
    settings, found = project.settings, project.preflight
    upstream = Upstream(
        project.repository, found.remote, found.target, timeout=settings.git.timeout, space=space
    )
    return Train(
        project.repository,
        upstream,
        base=found.base,
        run=run,
        board=project.board_path,
        tree=tree,
        verify=_checks(settings, environ, run, log),
        set_statuses=with_statuses,
        combine_boards=combined,
        check=settings.verify.command,
        space=space,
        gate=gate,
    )


def _checks(
    settings: Settings, environ: Mapping[str, str], run: str, log: Path
) -> Callable[[Path, Sequence[str]], Awaitable[Checked]]:
    """Run the checks of a train over its combined tree, one after the other, up to the first that fails."""
    env = child_environment(environ, run)

    async def check(tree: Path, commands: Sequence[str]) -> Checked:
        for command in commands:
            done = await verify(
                command,
                tree,
                env=env,
                timeout=settings.verify.timeout,
                log=log,
                max_log=settings.run.max_log,
            )
            if not done.passed:
                return Checked(False, describe(done, settings.verify.timeout), report(done))
        return Checked(True)

    return check


def lander_of(
    project: Project,
    train: Train,
    bus: Bus,
    urgency: Callable[[Collection[str], Collection[str]], Urgency],
) -> Lander:
    """The queue for the train, its trains numbered on from those that the run has had."""
    settings, rows = project.settings.git, project.rows
    return Lander(
        train,
        bus,
        max_batch=settings.max_batch,
        max_age=settings.max_age,
        trains_before=max((view.number for view in bus.state.snapshot().trains), default=0),
        states=lambda: _open(bus, rows.reopened) | _ended(bus),
        urgency=urgency,
    )


_ENDED = {TaskState.LANDED: BoardStatus.LANDED, TaskState.FAILED: BoardStatus.FAILED}


def _ended(bus: Bus) -> dict[str, BoardStatus]:
    """Rows of tasks that have failed or landed. Those of the landed may reach the target's board open, with the next
    train: committed after they had landed, or merged by somebody who kept their own ones.
    """
    return {view.id: _ENDED[view.state] for view in bus.state.snapshot().tasks if view.state in _ENDED}


def _open(bus: Bus, reopened: Sequence[str]) -> dict[str, BoardStatus]:
    """Rows that the target's board says have landed, but what they ask for now has not."""
    views = {name: bus.state.find(name) for name in reopened}
    return {
        name: BoardStatus.OPEN
        for name, view in views.items()
        if view is None or view.state is not TaskState.LANDED
    }
