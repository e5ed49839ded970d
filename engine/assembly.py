"""Put the parts of one run together over an opened project, and take them apart again in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine import events as ev
from engine.batch_events import BatchEvents, manifests
from engine.board import read_statuses, with_statuses
from engine.bus import Bus
from engine.calls import ModelCalls
from engine.figures import PeerFigures, QueueFigures
from engine.gauges import Gauges
from engine.git.names import in_space, slug
from engine.git.train import Cargo, Checked, Landed, Train
from engine.git.upstream import Upstream
from engine.git.worktrees import Worktrees
from engine.landing import Lander
from engine.llm.batches import LLMBatcher
from engine.llm.budget import Budget
from engine.llm.client import ModelClient
from engine.llm.limiter import Limiter, Limiters
from engine.llm.prices import load_prices
from engine.llm.sdk import Deadlines
from engine.local import LandingSide, LocalActivities, RunContext, StageLogs
from engine.locks import open_locks
from engine.model import BoardStatus, TaskState
from engine.outcomes import Outcomes
from engine.paths import StatePaths
from engine.pipeline import Ready
from engine.process import child_environment, end_strays
from engine.project import Project, check_endpoint, shared_name
from engine.recorder import HistoryRecorder, JournalSink
from engine.roles.context import read_context
from engine.roles.prompt_library import PromptLibrary
from engine.roles.requests import Requests, offered
from engine.roles.verifier import describe, report, verify
from engine.settings import Settings
from engine.sharing import Share
from engine.state import RunState
from engine.store.cache import ResultCache, digest
from engine.store.database import Database
from engine.store.history import HistoryPruner, PrunePolicy
from engine.store.journal import Journal
from engine.store.lessons import LessonStore, secrets_of
from engine.store.state_db import open_state, state_watch
from engine.teaching import Teaching
from engine.templates import TemplateEngine

BEAT_EVERY = 1.0
MEASURE_EVERY = 0.5
RUNS_KEPT_WHOLE = 20


@dataclass(slots=True)
class Parts:
    """All parts of one open run. `close` takes them apart; whatever happened, call it."""

    run: str
    space: str
    resumed: bool
    host: str
    pid: int
    bus: Bus
    database: Database
    journal: Journal
    history: HistoryRecorder
    cache: ResultCache
    lessons: LessonStore
    prompts: PromptLibrary
    client: ModelClient | None
    batcher: LLMBatcher | None
    worktrees: Worktrees
    train: Train
    lander: Lander
    outcomes: Outcomes
    activities: LocalActivities
    gauges: Gauges
    share: Share | None

    def background(self) -> tuple[Coroutine[None, None, None], ...]:
        """The work that goes on beside the tasks: heartbeat, gauges, prompts edited live, the other orchestrators."""
        follow = () if self.share is None else (self.share.follow(),)
        return (self._beat(), self._measure(), self.lessons.follow(asyncio.Event()), *follow)

    async def _beat(self) -> None:
        while True:
            self.journal.beat(self.run)
            await asyncio.sleep(BEAT_EVERY)

    async def _measure(self) -> None:
        while True:
            refreshed = await asyncio.to_thread(self.prompts.refresh)
            for name in refreshed.changed:
                self._notice("info", f"prompt {name} was edited and is in use")
            for problem in refreshed.problems:
                self._notice("error", f"a prompt was edited but cannot be used: {problem}")
            self._send_batches()
            self.gauges.measure()
            await asyncio.sleep(MEASURE_EVERY)

    def _send_batches(self) -> None:
        """Let the queued requests leave when every task that runs is waiting among them: nobody else can join."""
        if self.batcher is None:
            return
        queued, state = self.batcher.figures.queued, self.bus.state
        if queued and state.count(TaskState.RUNNING) <= queued and not state.count(TaskState.QUEUED):
            self.batcher.depart()

    def _notice(self, level: ev.NoticeLevel, text: str) -> None:
        self.bus.emit(ev.Noticed(at=self.bus.clock(), level=level, text=text))

    async def recover(self, anew: Collection[str]) -> tuple[Landed, ...]:
        """Mend what a crash left, and give what had landed although the journal does not know it.

        The tasks `anew` have landed, and are to be done once more.
        """
        if self.resumed:
            ended = await asyncio.to_thread(end_strays, self.run)
            if ended:
                self._notice("info", f"{ended} processes that the interrupted run left behind were ended")
        for text in await self.worktrees.mend():
            self._notice("warning", text)
        if self.batcher is not None:
            self.batcher.resume(manifests(self.bus.latest.open_batches))
        since = self.bus.state.run.base if self.resumed else None
        return await self.train.start(since=since, anew=anew)

    async def end_run(self, status: str) -> None:
        """Note that the run is over and is not to be taken up again."""
        await asyncio.wrap_future(self.journal.end_run(self.run, self.bus.clock(), status))
        self.history.end_run()
        await asyncio.to_thread(self.journal.retire, keep=RUNS_KEPT_WHOLE)
        if self.space:
            await self.train.retire()

    async def clear_up_after_the_dead(self, board: str) -> None:
        """End the runs that others of this host left when they died, now that their tasks have landed."""
        for run in await asyncio.to_thread(self.journal.abandon, board):
            await asyncio.to_thread(end_strays, run)
            await self.worktrees.in_space(run).supersede_all()
            await self.train.forget(run)

    async def close(self) -> None:
        """Close everything, the journal last; one part's failure does not keep the others open."""
        steps: list[Callable[[], Awaitable[object]]] = [self.lander.close]
        if self.batcher is not None:
            steps.append(self.batcher.close)
        if self.client is not None:
            steps.append(self.client.close)
        steps += [
            lambda: asyncio.to_thread(self.lessons.close),
            lambda: asyncio.to_thread(self.cache.close),
            *((self.share.close,) if self.share is not None else ()),
            lambda: asyncio.to_thread(self.database.close),
        ]
        for step in steps:
            with contextlib.suppress(Exception):
                await step()
        self.bus.publish()


async def assemble(
    project: Project, bus: Bus, environ: Mapping[str, str], *, new_id: Callable[[], str] | None = None
) -> Parts:
    """Open the state, claim the run and build every part over it. Raises UsageError or StoreError."""
    settings, repository = project.settings, project.repository
    make_id = new_id or (lambda: uuid.uuid4().hex[:12])
    paths = StatePaths.of(
        repository.common_dir,
        environ,
        state_dir=settings.run.state_dir,
        worktree_dir=settings.run.worktree_dir,
        cache_dir=settings.run.cache_dir,
    )
    prompts = PromptLibrary(TemplateEngine(), overrides=repository.root / ".taskyard" / "prompts")
    prompts.load()
    budget = Budget(settings.budget.usd, settings.budget.task_usd)
    client = _client(settings, environ, budget, bus)
    if client is not None:
        await check_endpoint(client, environ)

    database = await asyncio.to_thread(open_state, paths.state_db)
    journal = Journal(database, paths.archive, clock=bus.clock)
    sharing = settings.locks.sharing
    claim = await asyncio.to_thread(lambda: journal.claim(project.board_path, make_id(), shared=sharing))
    run = claim.run.run
    space = run if claim.spaced else ""
    past = await asyncio.to_thread(lambda: list(journal.events(run, claim.run.resume_after)))
    state = RunState().apply_all(event for _, event in past)
    resumed = bool(past)
    sink = JournalSink(journal, run, lambda: bus.state)
    bus.attach(sink, state)
    for view in state.snapshot().tasks:
        budget.book(view.id, view.usd)

    share = await _join(project, bus, run, paths) if sharing else None

    history = HistoryRecorder(
        HistoryPruner(database, _policy(settings, paths), clock=bus.clock),
        run,
        lambda: bus.state,
        journal_path=paths.state_db,
    )
    history.settle({row.run: row.ended for row in journal.runs() if row.ended is not None})
    bus.subscribe(history.hear)
    cache = await asyncio.to_thread(ResultCache, paths.cache_db, clock=bus.clock)
    lessons = await asyncio.to_thread(
        LessonStore,
        settings.lessons.file or paths.lessons,
        paths.lessons_index,
        clock=bus.clock,
        secrets=secrets_of(environ),
    )
    base = state.run.base or project.preflight.base
    tree = await repository.tree_of(base)
    endpoint = settings.llm.endpoint or (client.endpoint if client is not None else "")
    found = await read_context(repository, base)
    requests = Requests(
        prompts.render,
        settings.roles,
        settings.llm,
        prompts.render(
            "repository",
            files=found.files,
            omitted=found.omitted,
            guide=found.guide,
            folders=settings.git.sparse,
        ),
        settings.git.sparse,
    )
    outcomes = Outcomes(
        cache,
        settings,
        project.rows.tasks,
        tree=tree,
        prompts=_fingerprint(prompts),
        tools=digest(dict(offered())),
        endpoint=endpoint,
    )
    batcher = (
        LLMBatcher(
            client,
            BatchEvents(bus),
            max_size=settings.llm.batch_size,
            max_age=settings.llm.batch_age,
            clock=bus.clock,
        )
        if client is not None and settings.llm.batch != "off"
        else None
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
    upstream = Upstream(
        repository,
        project.preflight.remote,
        project.preflight.target,
        timeout=settings.git.timeout,
        space=space,
    )
    logs = paths.logs(run)
    train = Train(
        repository,
        upstream,
        base=project.preflight.base,
        run=run,
        board=project.board_path,
        tree=root / in_space("_train", space),
        verify=_train_check(settings, environ, run, logs),
        set_statuses=with_statuses,
        read_statuses=read_statuses,
        check=settings.verify.command,
        space=space,
        gate=share.gate if share is not None else None,
    )
    # Their rows reach the target's board, still open, with whatever lands next.
    late = dict.fromkeys(project.rows.unmarked, BoardStatus.LANDED)
    lander = Lander(
        train,
        bus,
        max_batch=settings.git.max_batch,
        max_age=settings.git.max_age,
        trains_before=max((view.number for view in state.snapshot().trains), default=0),
        failed=lambda: late | _open(bus, project.rows.reopened) | _failed(bus),
    )
    context = RunContext(
        run=run,
        settings=settings,
        board=project.board_path,
        repository=repository,
        bus=bus,
        logs=StageLogs(logs, bus),
        environ=environ,
        landing=LandingSide(
            tip=lambda: lander.tip,
            queue=train.queue,
            known_green=train.known_green,
            paths=lambda: train.landed_paths,
            confirm=share.confirm if share is not None else _nobody_else,
        ),
        new_id=make_id,
    )
    activities = LocalActivities(
        context,
        worktrees=worktrees,
        calls=ModelCalls(client, cache, bus, batches=batcher, endpoint=endpoint, new_id=make_id),
        budget=budget,
        cache=cache,
        teaching=Teaching(lessons, bus, run, max_tokens=settings.lessons.max_tokens),
        outcomes=outcomes,
        requests=requests,
    )

    def peers() -> tuple[PeerFigures, ...]:
        if share is None:
            return ()
        budget.spent_elsewhere(sum(peer.usd for peer in share.peers if peer.run != run))
        return share.peers

    def queues() -> tuple[QueueFigures, ...]:
        return (lander.figures(), *((batcher.figures,) if batcher is not None else ()))

    gauges = Gauges(
        bus,
        results=cache.stats,
        templates=prompts.engine.stats,
        lessons=lessons.figures,
        history=history.figures,
        limiters=lambda: client.limiters.figures if client is not None else (),
        queues=queues,
        peers=peers,
        state_lost=state_watch(paths.state_db),
    )
    return Parts(
        run=run,
        space=space,
        resumed=resumed,
        host=socket.gethostname(),
        pid=os.getpid(),
        bus=bus,
        database=database,
        journal=journal,
        history=history,
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


async def _join(project: Project, bus: Bus, run: str, paths: StatePaths) -> Share:
    """Take part in what others do on the same board. Raises LockStoreAwayError."""
    locks = project.settings.locks

    def figures(working: int) -> PeerFigures:
        totals = bus.state.totals
        return PeerFigures(
            host=socket.gethostname(),
            pid=os.getpid(),
            run=run,
            started=bus.state.run.started or 0.0,
            seen_at=bus.clock(),
            working=working,
            landed=totals.landed,
            pushes=totals.pushes,
            model_calls=totals.model_calls,
            batch_calls=totals.batch_calls,
            cache_hits=totals.cache_hits,
            usd=totals.usd,
            usd_saved=totals.usd_saved,
        )

    store = open_locks(locks.url, paths.locks_db)
    return await Share.join(store, await shared_name(project), figures, lease=locks.lease)


async def _nobody_else(task_id: str) -> None:
    """Where one orchestrator works alone, every task is its own."""


def started(parts: Parts, project: Project) -> ev.RunStarted:
    """The first event of a new run."""
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
        roles={name: _described(settings, name) for name in ("planner", "implementer", "judge")},
    )


def cargo(ready: Ready, settings: Settings) -> Cargo:
    """A task's finished work, as the train takes it."""
    return Cargo(
        ready.task.id,
        " ".join(ready.task.scope.split()),
        ready.change.commit,
        ready.task.command or settings.verify.command,
        ready.change.paths,
    )


def _described(settings: Settings, name: str) -> str:
    role = getattr(settings.roles, name)
    if role.kind == "anthropic":
        return str(role.model)
    return Path(role.command[0]).name if role.kind == "command" else "none"


def _failed(bus: Bus) -> dict[str, BoardStatus]:
    return {
        view.id: BoardStatus.FAILED for view in bus.state.snapshot().tasks if view.state is TaskState.FAILED
    }


def _open(bus: Bus, reopened: Sequence[str]) -> dict[str, BoardStatus]:
    """Rows that the target's board says have landed, but what they ask for now has not."""
    views = {name: bus.state.find(name) for name in reopened}
    return {
        name: BoardStatus.OPEN
        for name, view in views.items()
        if view is None or view.state is not TaskState.LANDED
    }


def _client(settings: Settings, environ: Mapping[str, str], budget: Budget, bus: Bus) -> ModelClient | None:
    """The model client, where any role needs one."""
    roles = settings.roles
    if not any(role.kind == "anthropic" for role in (roles.planner, roles.implementer, roles.judge)):
        return None
    llm = settings.llm
    client = ModelClient(
        llm.base_url,
        environ.get("ANTHROPIC_API_KEY"),
        limiters=Limiters(
            lambda name: Limiter(
                name, initial=llm.max_concurrency, maximum=llm.max_concurrency, clock=bus.clock
            )
        ),
        prices=load_prices(llm.prices),
        budget=budget,
        notice=lambda text: bus.emit(ev.Noticed(at=bus.clock(), level="warning", text=text)),
        deadlines=Deadlines(total=llm.timeout, idle=llm.idle_timeout),
        environ=environ,
    )
    client.warm_up()
    return client


def _policy(settings: Settings, paths: StatePaths) -> PrunePolicy:
    limits = settings.history
    return PrunePolicy(
        max_bytes=limits.max_bytes,
        max_age=limits.max_age,
        max_entries=limits.max_entries,
        archive_dir=paths.archive,
    )


def _fingerprint(prompts: PromptLibrary) -> str:
    """A digest over all prompts: an answer belongs to the words that asked for it."""
    return digest(dict(prompts.texts()))


def _train_check(
    settings: Settings, environ: Mapping[str, str], run: str, logs: Path
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
                log=logs / "train.log",
                max_log=settings.run.max_log,
            )
            if not done.passed:
                return Checked(False, describe(done, settings.verify.timeout), report(done))
        return Checked(True)

    return check
