"""All parts of one run, in the order in which they need each other."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack

from engine.assembly.models import batcher_of, load_prompts, model_client, requests_over
from engine.assembly.opened import open_run
from engine.assembly.together import alone, join
from engine.assembly.trains import lander_of, train_of
from engine.bus import Bus
from engine.calls import ModelCalls
from engine.figures import PeerFigures, QueueFigures
from engine.gauges import Gauges
from engine.git.names import in_space, slug
from engine.git.worktrees import Worktrees
from engine.landing import Urgency
from engine.llm.budget import Budget
from engine.local import LandingSide, LocalActivities, RunContext, StageLogs
from engine.outcomes import Outcomes
from engine.parts import Parts
from engine.paths import StatePaths
from engine.project import Project, check_endpoint
from engine.roles.requests import offered
from engine.store.cache import ResultCache, digest
from engine.store.lessons import LessonStore, secrets_of
from engine.store.state_db import state_watch
from engine.teaching import Teaching
from engine.terms import terms_of


async def assemble(
    project: Project,
    bus: Bus,
    environ: Mapping[str, str],
    *,
    urgency: Callable[[Collection[str], Collection[str]], Urgency],
    new_id: Callable[[], str] | None = None,
) -> Parts:
    """Open the state, claim the run and build every part over it; `urgency` is for the `Lander`.

    Raises UsageError or StoreError, with nothing left open.
    """
    async with AsyncExitStack() as undo:
        parts = await _assemble(
            project, bus, environ, urgency, new_id or (lambda: uuid.uuid4().hex[:12]), undo
        )
        undo.pop_all()
        return parts


async def _assemble(
    project: Project,
    bus: Bus,
    environ: Mapping[str, str],
    urgency: Callable[[Collection[str], Collection[str]], Urgency],
    make_id: Callable[[], str],
    undo: AsyncExitStack,
) -> Parts:
    """Build the parts, and tell `undo` how to close what was opened so far."""
    settings, repository = project.settings, project.repository
    paths = StatePaths.of(
        repository.common_dir,
        environ,
        state_dir=settings.run.state_dir,
        worktree_dir=settings.run.worktree_dir,
        cache_dir=settings.run.cache_dir,
    )

    # What can refuse a run comes before anything is written.
    prompts = load_prompts(project)
    budget = Budget(settings.budget.usd, settings.budget.task_usd)
    client = model_client(settings, environ, budget, bus)
    if client is not None:
        undo.push_async_callback(client.close)
        await check_endpoint(client, environ)

    opened = await open_run(project, bus, paths, make_id())
    undo.push_async_callback(opened.undo)
    run, space = opened.run, opened.space
    for view in bus.state.snapshot().tasks:
        budget.book(view.id, view.usd)
    share = await join(project, bus, run, paths, opened.journal) if settings.locks.sharing else None
    if share is not None:
        undo.push_async_callback(share.close)
    cache = await asyncio.to_thread(ResultCache, paths.cache_db, clock=bus.clock)
    undo.push_async_callback(asyncio.to_thread, cache.close)
    lessons = await asyncio.to_thread(
        LessonStore,
        settings.lessons.file or paths.lessons,
        paths.lessons_index,
        clock=bus.clock,
        secrets=secrets_of(environ),
    )
    undo.push_async_callback(asyncio.to_thread, lessons.close)

    base = bus.state.run.base or project.preflight.base
    endpoint = settings.llm.endpoint or (client.endpoint if client is not None else "")
    batcher = batcher_of(client, settings, bus)
    outcomes = Outcomes(
        cache,
        settings,
        project.rows.tasks,
        tree=await repository.tree_of(base),
        prompts=digest(dict(prompts.texts())),
        tools=digest(dict(offered())),
        endpoint=endpoint,
    )

    # Two boards of one repository may use the same ids: each has a folder of its own.
    root = paths.worktrees / slug(project.board_path)
    worktrees = Worktrees(
        repository,
        root,
        project.board_path,
        max_count=settings.git.max_worktrees,
        max_bytes=settings.git.max_worktree_bytes,
        space=space,
        folders=settings.git.sparse,
    )
    train = train_of(
        project,
        environ,
        run=run,
        space=space,
        tree=root / in_space("_train", space),
        log=paths.logs(run) / "train.log",
        gate=share.gate if share is not None else None,
    )
    lander = lander_of(project, train, bus, urgency)

    context = RunContext(
        run=run,
        settings=settings,
        board=project.board_path,
        repository=repository,
        bus=bus,
        logs=StageLogs(paths.logs(run), bus),
        environ=environ,
        landing=LandingSide(
            tip=lambda: train.tip,
            queue=train.queue,
            known_green=train.known_green,
            paths=lambda: train.landed_paths,
            confirm=share.confirm if share is not None else alone,
        ),
        new_id=make_id,
    )
    activities = LocalActivities(
        context,
        worktrees=worktrees,
        calls=ModelCalls(client, cache, bus, batches=batcher, endpoint=endpoint, new_id=make_id),
        budget=budget,
        cache=cache,
        teaching=Teaching(
            lessons,
            bus,
            run,
            max_tokens=settings.lessons.max_tokens,
            terms=lambda task: terms_of(task, settings),
        ),
        outcomes=outcomes,
        requests=await requests_over(project, prompts, base),
    )

    def peers() -> tuple[PeerFigures, ...]:
        if share is None:
            return ()
        budget.spent_elsewhere(sum(peer.usd for peer in share.crew.peers if peer.run != run))
        return share.crew.peers

    def queues() -> tuple[QueueFigures, ...]:
        return (lander.figures(), *((batcher.figures,) if batcher is not None else ()))

    gauges = Gauges(
        bus,
        results=cache.stats,
        templates=prompts.engine.stats,
        lessons=lessons.figures,
        history=opened.history.figures,
        limiters=lambda: client.limiters.figures if client is not None else (),
        queues=queues,
        peers=peers,
        state_lost=state_watch(paths.state_db),
    )
    return Parts(
        run=run,
        space=space,
        resumed=opened.resumed,
        host=socket.gethostname(),
        pid=os.getpid(),
        bus=bus,
        database=opened.database,
        journal=opened.journal,
        sink=opened.sink,
        history=opened.history,
        cache=cache,
        lessons=lessons,
        prompts=prompts,
        client=client,
        batcher=batcher,
        worktrees=worktrees,
        train=train,
        lander=lander,
        outcomes=outcomes,
        activities=activities,
        gauges=gauges,
        share=share,
    )
