"""The activities of a pipeline, done here: worktrees, models or agent commands, verification, lessons."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from engine import events as ev
from engine.activities import Attempt, Recalled
from engine.bus import Bus
from engine.calls import ModelCalls
from engine.dispatch import Slot
from engine.errors import GitError, StageFailedError
from engine.events import Event
from engine.git.changes import diff_of, patch_of
from engine.git.guarding import ConfigGuard, stashed
from engine.git.names import slug
from engine.git.repository import Repository
from engine.git.words import count_of
from engine.git.worktrees import Worktree, Worktrees
from engine.landing import SentBack
from engine.llm.budget import Budget
from engine.llm.messages import ModelAnswer, ModelRequest, Progress
from engine.log_times import LogTimes
from engine.model import (
    AnswerSource,
    Change,
    Lane,
    Plan,
    Role,
    Stage,
    Task,
    Verdict,
    Verification,
)
from engine.outcomes import Outcomes, built_on
from engine.process import child_environment
from engine.roles.answers import Edits
from engine.roles.command import AgentReport, read_json, run_agent
from engine.roles.implementer import apply_edits, run_tool_loop
from engine.roles.requests import Requests, role_settings
from engine.roles.sources import read_sources
from engine.roles.tools import Tools
from engine.roles.verifier import describe, report, verify
from engine.roles.workspace import Workspace
from engine.rows import words
from engine.settings import Settings
from engine.snapshot import TaskView
from engine.store.cache import CacheKey, Computed, ResultCache, digest
from engine.teaching import Teaching

PROGRESS_EVERY = 0.25


class LandingSide(msgspec.Struct, frozen=True):
    """What the activities need of landing.

    `tip` gives the newest landed commit, `queue` keeps a task's commit for a train, `known_green` tells the train what
    passed already, and `paths` gives the files that each landed task touched. `confirm` raises LockLostError when the
    task is another orchestrator's by now.
    """

    tip: Callable[[], str]
    queue: Callable[[str, str], Awaitable[None]]
    known_green: Callable[[str, str], Awaitable[None]]
    paths: Callable[[], Mapping[str, tuple[str, ...]]]
    confirm: Callable[[str], Awaitable[None]]


class LocalActivities:
    """See `engine.activities.Activities`. One object serves all tasks of a run."""

    def __init__(
        self,
        *,
        run: str,
        settings: Settings,
        board: str,
        repository: Repository,
        worktrees: Worktrees,
        calls: ModelCalls,
        budget: Budget,
        cache: ResultCache,
        teaching: Teaching,
        outcomes: Outcomes,
        requests: Requests,
        bus: Bus,
        logs: Path,
        environ: Mapping[str, str],
        landing: LandingSide,
        new_id: Callable[[], str],
    ) -> None:
        self._run = run
        self._settings = settings
        self._board = board
        self._repository = repository
        self._worktrees = worktrees
        self._calls = calls
        self._budget = budget
        self._cache = cache
        self._teaching = teaching
        self._outcomes = outcomes
        self._requests = requests
        self._bus = bus
        self._logs = logs
        self._environ = environ
        self._landing = landing
        self._new_id = new_id
        self._guard = ConfigGuard(repository)
        self._open: dict[str, Worktree] = {}
        self._progressed: dict[str, float] = {}
        self._log_times: dict[str, LogTimes] = {}
        self._slots: dict[str, Slot] = {}
        self._recalled: set[str] = set()
        self._handed_over: dict[str, Recalled] = {}

    # Events

    def now(self) -> float:
        return self._bus.clock()

    def emit(self, event: Event) -> None:
        self._bus.emit(event)

    async def commit(self, event: Event) -> None:
        await self._bus.commit(event)

    def log(self, attempt: Attempt, stage: Stage) -> str:
        path = self._log(attempt, stage)
        return str(path) if path.exists() else ""

    def _log(self, attempt: Attempt, stage: Stage) -> Path:
        return self._folder(attempt) / f"{stage}.log"

    def _folder(self, attempt: Attempt) -> Path:
        return self._logs / slug(attempt.task.id) / str(attempt.number)

    def _progress(self, attempt: Attempt, text: str) -> None:
        """Tell the task's last line, at most a few times a second: output can be fast."""
        if not any(char.isalnum() for char in text):
            return  # dots and lines say nothing
        now = self.now()
        if now - self._progressed.get(attempt.task.id, 0.0) >= PROGRESS_EVERY:
            self._progressed[attempt.task.id] = now
            self.emit(ev.Progressed(at=now, task=attempt.task.id, text=text[:200]))

    # Attempts

    async def begin(self, task: Task, number: int, feedback: str) -> Attempt:
        self._recalled.discard(task.id)
        task = self._bus.state.view(task.id).task  # its lane may have been changed since
        plan = self._bus.state.view(task.id).plan or Plan()
        lessons = await self._teaching.choose(task, plan)
        base = self._landing.tip()
        self._open.pop(task.id, None)
        path = self._worktrees.path_of(task.id)
        attempt = Attempt(
            task, number, self._worktrees.branch_of(task.id), base, str(path), lessons, feedback
        )
        # On disk before anything is paid for: an attempt taken up over another base would find none of its answers.
        await self.commit(
            ev.AttemptStarted(
                at=self.now(),
                task=task.id,
                attempt=number,
                branch=attempt.branch,
                base=base,
                worktree=attempt.worktree,
                logs=str(self._folder(attempt)),
                lessons=lessons,
            )
        )
        return attempt

    async def reopen(self, attempt: Attempt, change: Change | None) -> None:
        self._open.pop(attempt.task.id, None)
        if change is not None:
            made = await self._worktrees.create(attempt.task.id, change.commit)
            self._open[attempt.task.id] = replace(made, base=attempt.base)

    async def _worktree(self, attempt: Attempt) -> Worktree:
        """Give the attempt's worktree, made when something needs its files: many tasks may only be waiting."""
        made = self._open.get(attempt.task.id)
        if made is None:
            made = self._open[attempt.task.id] = await self._worktrees.create(attempt.task.id, attempt.base)
        return made

    async def brief(self, attempt: Attempt, plan: Plan) -> Attempt:
        lessons = await self._teaching.choose(attempt.task, plan)
        if lessons == attempt.lessons:
            return attempt
        # On disk before they are in a request: taken up with other lessons, the attempt would pay for it again.
        await self.commit(
            ev.LessonsGiven(at=self.now(), task=attempt.task.id, attempt=attempt.number, lessons=lessons)
        )
        return replace(attempt, lessons=lessons)

    # Slots

    def lend(self, task_id: str, slot: Slot) -> None:
        """Let the task's slot be given back while it waits for a batch."""
        self._slots[task_id] = slot

    @asynccontextmanager
    async def _aside(self, task_id: str) -> AsyncIterator[None]:
        """Give the slot to another task for a while: any number may wait, for none of them keeps a worktree."""
        slot = self._slots.get(task_id)
        if slot is None:
            yield
            return
        slot.release()
        try:
            yield
        finally:
            await slot.acquire()

    # What earlier runs landed

    async def recall(self, task: Task) -> Recalled | None:
        return self._handed_over.pop(task.id, None) or self._outcomes.recall(task)

    def hand_over(self, task_id: str, work: Recalled) -> None:
        """Let the task's first attempt go on from what another orchestrator made of it, verified and judged."""
        self._handed_over[task_id] = work

    async def apply(self, attempt: Attempt, recalled: Recalled) -> Change:
        await self._worktree(attempt)
        result = await self._repository.run(
            "apply",
            "--3way",
            "--index",
            "--whitespace=nowarn",
            "-",
            cwd=Path(attempt.worktree),
            check=False,
            input=recalled.patch,
        )
        if result.status != 0:
            await self._repository.run("reset", "--hard", "-q", cwd=Path(attempt.worktree), check=False)
            raise StageFailedError("the cached change does not apply here", failure_type="stale_cache")
        change = await self._commit(attempt, recalled.summary)
        self._recalled.add(attempt.task.id)
        await self.commit(
            ev.CallAnswered(
                at=self.now(),
                call=self._new_id(),
                task=attempt.task.id,
                attempt=attempt.number,
                role=Role.IMPLEMENTER,
                model=recalled.model,
                source=AnswerSource.CACHE,
                usage=recalled.usage,
                usd=recalled.usd,
                usd_saved=recalled.usd,
            )
        )
        return change

    # Plan

    async def plan(self, attempt: Attempt) -> Plan:
        kind = self._settings.roles.planner.kind
        if kind == "none":
            return Plan(type=attempt.task.type)
        command = self._command(attempt.task)
        if kind == "command":
            said = await self._run_agent(Role.PLANNER, Stage.PLAN, attempt, Plan(), command)
            return read_json(said.text, Plan, "Planner")
        answer = await self._ask(attempt, Stage.PLAN, self._requests.planner(attempt, command))
        return answer.decode(Plan)

    # Implement

    async def implement(self, attempt: Attempt, plan: Plan) -> Change:
        command = self._command(attempt.task)
        if self._settings.roles.implementer.kind == "command":
            said = await self._run_agent(Role.IMPLEMENTER, Stage.IMPLEMENT, attempt, plan, command)
            # Whatever an agent says first is no title; nor does it say where this machine keeps its worktrees.
            words = said.summary.replace(f"{attempt.worktree}/", "").replace(attempt.worktree, "the worktree")
            return await self._commit(
                attempt, f"{_first_line(attempt.task.scope)}\n\n{words}", said.complaint
            )
        workspace = self._workspace(attempt)
        if self._requests.lane(attempt) is Lane.ECONOMY:
            files = await read_sources(self._repository, attempt.base, plan.files)
            request = self._requests.economy_implementer(attempt, plan, command, files)
            edits = (await self._ask(attempt, Stage.IMPLEMENT, request)).decode(Edits)
            await self._worktree(attempt)
            await workspace.bring(*(edit.path for edit in edits.edits))
            summary = apply_edits(edits, workspace)
        else:
            await self._worktree(attempt)
            request = self._requests.implementer(attempt, plan, command)
            summary = await run_tool_loop(
                lambda asked: self._ask(attempt, Stage.IMPLEMENT, asked),
                request,
                lambda asked: self._tools(attempt, workspace, asked),
            )
        return await self._commit(attempt, summary)

    def _workspace(self, attempt: Attempt) -> Workspace:
        folders = self._settings.git.sparse
        return Workspace(Path(attempt.worktree), self._repository, self._board, folders)

    def _tools(self, attempt: Attempt, workspace: Workspace, request: ModelRequest) -> Tools:
        numbers = itertools.count(1)

        async def check() -> str:
            return await self._check(attempt, request, next(numbers))

        return Tools(workspace, check, lambda text: self._tool_line(attempt, text))

    def _tool_line(self, attempt: Attempt, text: str) -> None:
        self._write_log(attempt, Stage.IMPLEMENT, f"\n▸ {text}\n")
        self._progress(attempt, text)

    async def _check(self, attempt: Attempt, request: ModelRequest, number: int) -> str:
        """Run the check for the model, once per conversation: an interrupted attempt must see the same words again.

        `number` counts the checks of one answer: between two of them the model may have edited.
        """
        conversation = digest({"request": request.digest_input(), "base": attempt.base, "number": number})
        key = CacheKey(activity_type="check", task_id=attempt.task.id, input_hash=conversation, model_id="")

        async def compute() -> Computed:
            done = await self._run_check(attempt, Stage.IMPLEMENT)
            return Computed(report(done).encode("utf-8", "replace"))

        value, _ = await self._cache.get_or_compute(key, compute)
        return value.decode("utf-8")

    async def _commit(self, attempt: Attempt, summary: str, complaint: str = "") -> Change:
        task = attempt.task
        title = f"{task.id}: {_first_line(summary) or _first_line(task.scope)}"
        body = summary.strip() if summary.strip() != _first_line(summary) else ""
        try:
            change = await self._worktrees.commit(
                await self._worktree(attempt),
                f"{title}\n\n{body}" if body else title,
                {"Taskyard-Task": task.id, "Taskyard-Run": self._run, "Taskyard-Row": words(task)},
            )
        except GitError as error:
            raise StageFailedError(
                f"the change could not be committed: {error.message}",
                error.hint,
                failure_type="commit_refused",
                feedback=f"git refused the commit:\n{error.stderr or error.message}",
            ) from error
        if change is None:
            raise StageFailedError(
                complaint or "the attempt changed nothing",
                failure_type="command_failed" if complaint else "no_change",
                feedback=complaint or "The last attempt changed no file. The task needs a change.",
            )
        return replace(change, summary=_first_line(summary))

    # Verify

    async def verify(self, attempt: Attempt, change: Change) -> Verification:
        done = await self._run_check(attempt, Stage.VERIFY)
        self.emit(ev.Verified(at=self.now(), task=attempt.task.id, attempt=attempt.number, verification=done))
        if not done.passed:
            raise StageFailedError(
                describe(done, self._settings.verify.timeout),
                failure_type="timeout" if done.timed_out else "check_failed",
                feedback=f"The verification did not pass.\n\n{report(done)}",
            )
        return done

    async def _run_check(self, attempt: Attempt, stage: Stage) -> Verification:
        command = self._command(attempt.task)
        if command is None:
            raise StageFailedError(
                "the row has no verification command",
                "put one into its Verification cell in backticks, or set [verify] command",
                failure_type="no_check",
            )
        async with self._guarded(attempt.task.id):
            return await verify(
                command,
                Path(attempt.worktree),
                env=child_environment(self._environ, self._run),
                timeout=self._settings.verify.timeout,
                max_log=self._settings.run.max_log,
                log=self._log(attempt, stage),
                progress=lambda line: self._progress(attempt, line),
            )

    @asynccontextmanager
    async def _guarded(self, task_id: str) -> AsyncIterator[None]:
        """Put back what the work inside changes in the repository's config, and tell it."""
        await self._guard.note()
        try:
            yield
        finally:
            changed = await self._guard.restore()
            if changed:
                self._warn(
                    task_id,
                    f".git/config was changed while {task_id} was worked on, and is put back: {', '.join(changed)}",
                )

    def _warn(self, task_id: str, text: str) -> None:
        self.emit(ev.Noticed(at=self.now(), level="warning", text=text, task=task_id))

    def _command(self, task: Task) -> str | None:
        return task.command or self._settings.verify.command or None

    # Judge

    async def judge(
        self, attempt: Attempt, plan: Plan, change: Change, verification: Verification
    ) -> Verdict | None:
        kind = self._settings.roles.judge.kind
        if kind == "none":
            return None
        diff = await diff_of(self._repository, change.base, change.commit)
        if kind == "command":
            said = await self._run_agent(Role.JUDGE, Stage.JUDGE, attempt, plan, verification.command, diff)
            verdict = read_json(said.text, Verdict, "Judge")
        else:
            request = self._requests.judge(attempt, plan, verification.command, diff)
            made = self._open.get(attempt.task.id)
            if request.lane is Lane.ECONOMY and made is not None and await self._worktrees.put_away(made):
                # Thousands may wait for one batch; what is judged is the commit.
                del self._open[attempt.task.id]
            verdict = (await self._ask(attempt, Stage.JUDGE, request)).decode(Verdict)
        self.emit(ev.Judged(at=self.now(), task=attempt.task.id, attempt=attempt.number, verdict=verdict))
        if not verdict.approved:
            findings = "\n".join(f"- {finding}" for finding in verdict.findings)
            raise StageFailedError(
                f"refused: {verdict.reason}",
                failure_type="verdict_refused",
                feedback=f"The Judge refused the change: {verdict.reason}\n{findings}".strip(),
            )
        return verdict

    # Lessons

    async def learn(self, attempt: Attempt, plan: Plan, stage: Stage, failure: StageFailedError) -> None:
        await self._landing.confirm(attempt.task.id)
        await self._teaching.learn(attempt.task, plan, stage, failure)

    async def learn_from_return(self, view: TaskView, answer: SentBack) -> None:
        """Keep a send-back from the train as a lesson."""
        await self._landing.confirm(view.id)
        await self._teaching.learn_from_return(view, answer)

    async def landed(self, view: TaskView, change: Change) -> None:
        """After landing: resolve what was learned, remember the outcome, and give the worktree back."""
        await self._teaching.resolve(view, change)
        if view.id not in self._recalled:
            self._outcomes.remember(view.task, await self.recallable(view, change))
        self._open.pop(view.id, None)
        await self._worktrees.release(view.id, landed_in=self._landing.tip())

    async def tidy(self, view: TaskView) -> None:
        """Do what a crash after a landing left to do; costs nothing where nothing is left."""
        if view.learned and view.change is not None:
            await self.landed(view, view.change)
        else:
            await self._worktrees.release(view.id, landed_in=self._landing.tip())

    async def give_back(self, task_id: str) -> None:
        """After the run: the worktree of a failed task goes where it holds nothing."""
        with contextlib.suppress(GitError):
            await self._worktrees.give_back(task_id, landed_in=self._landing.tip())

    async def superseded(self, task_id: str) -> None:
        """After another has landed the task: what was made of it here stays kept, and its worktree goes."""
        self._open.pop(task_id, None)
        await self._worktrees.supersede(task_id)

    async def recallable(self, view: TaskView, change: Change) -> Recalled:
        """Give the task's change in a form that another run can apply."""
        return Recalled(
            patch=await patch_of(self._repository, change.base, change.commit),
            plan=view.plan or Plan(),
            verdict=view.verdict,
            summary=change.summary,
            built_on=built_on(change.paths, {k: v for k, v in self._landing.paths().items() if k != view.id}),
            usage=view.usage,
            usd=view.usd,
            model=role_settings(self._settings.roles, Role.IMPLEMENTER).model,
        )

    # Landing

    async def ready(self, attempt: Attempt, change: Change) -> None:
        await self._landing.queue(attempt.task.id, change.commit)
        command = self._command(attempt.task)
        if command is not None:
            await self._landing.known_green(change.commit, command)
        # The ref in the queue is what counts; should this event be lost, the attempt is only verified once more.
        self.emit(
            ev.TaskReadyToLand(
                at=self.now(), task=attempt.task.id, attempt=attempt.number, commit=change.commit
            )
        )

    # Shared steps

    async def _ask(self, attempt: Attempt, stage: Stage, request: ModelRequest) -> ModelAnswer:
        tree = await self._repository.tree_of(attempt.base)
        return await self._calls.ask(
            attempt,
            request,
            base_tree=tree,
            records=self._folder(attempt),
            on_progress=lambda progress: self._streamed(attempt, stage, progress),
            aside=lambda: self._aside(attempt.task.id),
        )

    def _streamed(self, attempt: Attempt, stage: Stage, progress: Progress) -> None:
        if progress.text and progress.kind in ("text", "thinking"):
            self._write_log(attempt, stage, progress.text)
        elif progress.kind == "started":
            self._progress(attempt, f"{stage}: the model answers")

    def _write_log(self, attempt: Attempt, stage: Stage, text: str) -> None:
        path = self._log(attempt, stage)
        times = self._log_times.get(attempt.task.id)
        if times is None or times.log != path:
            times = self._log_times[attempt.task.id] = LogTimes(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                times.note(file.tell(), self.now())
                file.write(text.encode(errors="replace"))
        except OSError:
            # A full disk must not stop the work; the journal's own error tells the user.
            return

    async def _run_agent(
        self, role: Role, stage: Stage, attempt: Attempt, plan: Plan, command: str | None, diff: str = ""
    ) -> AgentReport:
        settings = role_settings(self._settings.roles, role)
        await self._worktree(attempt)
        await self._workspace(attempt).bring(*plan.files)
        stashes = await stashed(self._repository, attempt.task.id)
        async with self._guarded(attempt.task.id):
            said = await run_agent(
                settings.command,
                self._requests.agent_prompt(role, attempt, plan, command, diff),
                cwd=Path(attempt.worktree),
                env=child_environment(self._environ, self._run, settings.env),
                log=self._log(attempt, stage),
                timeout=settings.timeout,
                idle_timeout=settings.idle_timeout,
                max_log=self._settings.run.max_log,
                progress=lambda line: self._progress(attempt, line),
            )
        left = await stashed(self._repository, attempt.task.id) - stashes
        if left > 0:
            self._warn(
                attempt.task.id, f"the agent left {count_of(left, 'stash')} among yours: see git stash list"
            )
        if said.usage.total or said.usd is not None:
            self._budget.book(attempt.task.id, said.usd or 0.0)
            await self.commit(
                ev.CallAnswered(
                    at=self.now(),
                    call=self._new_id(),
                    task=attempt.task.id,
                    attempt=attempt.number,
                    role=role,
                    model=Path(settings.command[0]).name,
                    source=AnswerSource.CALL,
                    usage=said.usage,
                    usd=said.usd,
                )
            )
        return said


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"[\x00-\x1f\x7f]", "", line)
    return line if len(line) <= 100 else f"{line[:97]}…"
