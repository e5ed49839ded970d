"""The books of a round: what was known at each fault, and whether it still held in the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from engine import events as ev
from engine.calls import Bought
from engine.model import AnswerSource, Role
from engine.store.database import Connection, ReadOnlyDatabase
from tests.cli.taskyard import taskyard
from tests.faults.yard import TARGET, Yard, until
from tests.git.test_worktrees import state

LOSSES = (
    "lost commits",
    "doubled commits",
    "doubled pushes",
    "paid twice",
    "stray processes",
    "stray worktrees",
    "stale locks",
    "other",
)
"""What can go wrong, in the order of the table."""

_ROLES = frozenset(str(role) for role in Role)
_TRAILER = "%(trailers:key=Taskyard-Task,valueonly,separator=)"


@dataclass(slots=True)
class Books:
    """`interrupted` at each fault that may cut something off, `judge` once all has ended. `losses`: what was found."""

    yard: Yard
    losses: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in LOSSES})
    _checkout: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    _answered: Counter[str] = field(default_factory=Counter)
    _kept: Counter[str] = field(default_factory=Counter)
    _interruptions: int = 0

    def open(self) -> None:
        """Note how the person's checkout is before anything happens."""
        self._checkout = state(self.yard.path)

    def interrupted(self) -> None:
        """After a fault: what was committed must be there, and what was answered may be cut off once."""
        self._interruptions += 1
        self._look_for_commits()
        self._look_for_payments(cut_off=1)

    def judge(self) -> None:
        """Check everything, after the last run has ended."""
        self._look_for_processes()
        self._look_for_commits()
        self._look_for_payments(cut_off=0)
        self._look_at_target()
        self._look_at_pushes()
        self._look_for_leftovers()
        self._look_for_locks()
        self._look_at_bill()
        if state(self.yard.path) != self._checkout:
            changed = dict(state(self.yard.path).items() ^ self._checkout.items())
            self._wrong("other", f"the checkout was changed: {', '.join(changed)}")

    def _wrong(self, what: str, text: str) -> None:
        self.losses[what].append(text)

    # Commits

    def _look_for_commits(self) -> None:
        """What the journal calls committed is reachable, as long as no other attempt took its place."""
        claimed = [pair for events in self.yard.journal().values() for pair in _standing(events).items()]
        git = self.yard.git
        # Not --all: a worktree that git was making when it was killed may have no commit yet.
        there = set(git("rev-list", "--glob=*").split())
        there.update(git("rev-list", "--all", at=self.yard.remote).split())
        for task, commit in claimed:
            if commit not in there:
                self._wrong("lost commits", f"{task}: {commit[:10]} is in no branch any more")

    def _look_at_target(self) -> None:
        git, remote, tasks = self.yard.git, self.yard.remote, self.yard.board.tasks
        if not git("branch", "--list", TARGET, at=remote):
            self._wrong("lost commits", f"there is no {TARGET}")
            return
        for kind in ("--no-merges", "--merges"):
            named = Counter(git("log", kind, f"--format={_TRAILER}", TARGET, at=remote).split())
            for task in tasks:
                if named[task] > 1:
                    self._wrong("doubled commits", f"{task}: {named[task]} commits by {kind}")
                elif not named[task] and kind == "--no-merges":
                    self._wrong("lost commits", f"{task} is not in {TARGET}")
        ours = set(git("rev-list", TARGET, at=remote).split())
        for events in self.yard.journal().values():
            for event in events:
                if isinstance(event, ev.TaskLanded) and event.commit not in ours:
                    self._wrong("lost commits", f"{event.task}: {event.commit[:10]} landed and is gone")
        before = self.yard.board.files["tasks/board.md"]
        if git("show", f"{TARGET}:tasks/board.md", at=remote) != before.replace("[ ]", "[x]").rstrip("\n"):
            self._wrong("other", "the board does not tell what has landed")
        for place in (self.yard.path, remote):
            if said := git("fsck", "--no-dangling", "--no-progress", at=place, check=False):
                self._wrong("other", f"git fsck in {place.name}: {said}")

    def _look_at_pushes(self) -> None:
        """Each push brought something: a task that was not there before, or a state of the board."""
        log = self.yard.remote / "logs" / "refs" / "heads" / TARGET
        for line in log.read_text().splitlines() if log.exists() else ():
            old, new = line.split()[:2]
            git, remote = self.yard.git, self.yard.remote
            begun = old.strip("0") != ""
            brought = git("log", f"--format={_TRAILER}", f"{old}..{new}" if begun else new, at=remote).split()
            if not brought and not (begun and git("diff", "--name-only", old, new, at=remote)):
                self._wrong("doubled pushes", f"{old[:10]} to {new[:10]} brought nothing")

    # Money

    def _look_for_payments(self, *, cut_off: int) -> None:
        """Count, of each call, the answers that arrived and the answers that are kept, since the last look.

        An answer that is kept stays kept; one that was on its way at a fault is lost, and may be asked for again.
        """
        simulator = self.yard.simulator
        if simulator is None:
            return
        simulator.wait(lambda stats: not stats.in_flight, 1.0)
        kept, answered = self._kept_now(), Counter(simulator.stats().answered)
        callers = {entry.digest: entry.caller for entry in simulator.log}
        lost = self._lost_claims()
        for digest in answered:
            task = callers[digest].split()[1]
            new, stored = answered[digest] - self._answered[digest], kept[digest] - self._kept[digest]
            if self._is_batched(callers[digest]):
                # A batch is found again by whoever made it; one who takes its tasks over asks anew.
                again = answered[digest] - 1 - (self._interruptions if len(self.yard.slots) > 1 else 0)
            elif self._kept[digest] and not stored:
                again = new
            else:
                again = new - stored - cut_off - lost[task]
            if again > 0:
                self._wrong("paid twice", f"{callers[digest]}: answered {again} times too often")
        self._kept, self._answered = kept, answered

    def _lost_claims(self) -> Counter[str]:
        """How often each task was lost to another orchestrator, which stops what is on its way.

        On a machine with too much to do a lease lapses without any fault of ours.
        """
        return Counter(
            event.task
            for events in self.yard.journal().values()
            for event in events
            if isinstance(event, ev.Noticed) and "was lost to another" in event.text
        )

    def _is_batched(self, caller: str) -> bool:
        return self.yard.board.lanes[caller.split()[1]] == "economy"

    def _kept_now(self) -> Counter[str]:
        """How many answers of each call are on disk."""
        assert self.yard.simulator is not None
        digests = {entry.request: entry.digest for entry in self.yard.simulator.log}
        return Counter(digests[each.answer.request_id] for each in self._bought() if each.answer.request_id)

    def _bought(self) -> list[Bought]:
        found = []
        for path in self.yard.disk.rglob("cache.db"):
            database = ReadOnlyDatabase(path)
            rows = database.read(kept_answers)
            database.close()
            found += [msgspec.json.decode(value, type=Bought) for role, value in rows if role in _ROLES]
        return found

    def _look_at_bill(self) -> None:
        """The figures of the run have every kept answer exactly once.

        Of several orchestrators one may use what another bought, who was killed before it could book that.
        """
        if self.yard.simulator is None or len(self.yard.slots) > 1:
            return
        kept = sum((each.answer.usage + each.answer.wasted).output for each in self._bought())
        billed = sum(
            event.usage.output
            for events in self.yard.journal().values()
            for event in events
            if isinstance(event, ev.CallAnswered) and event.source is not AnswerSource.CACHE
        )
        if kept != billed:
            self._wrong("other", f"{kept} output tokens were bought, and {billed} are on the bill")

    # What is left behind

    def _look_for_processes(self) -> None:
        if not until(lambda: not self.yard.processes(), 3.0):
            for process in self.yard.processes():
                self._wrong("stray processes", f"{process.pid}: {' '.join(process.cmdline())[:200]}")

    def _look_for_leftovers(self) -> None:
        listing = self.yard.git("worktree", "list", "--porcelain")
        folders = [Path(line[9:]) for line in listing.splitlines() if line.startswith("worktree ")]
        folders += [path for path in self.yard.paths.worktrees.glob("*/*") if path not in folders]
        for path in folders:
            if path != self.yard.path and not path.name.startswith("_"):
                self._wrong("stray worktrees", str(path))
        left = ["refs/taskyard/queue/", "refs/heads/task/"]
        if len(self.yard.slots) == 1:  # What another has made anew is kept, for a person to look at.
            left.append("refs/taskyard/kept/")
        for ref in self.yard.git("for-each-ref", "--format=%(refname)").split():
            if ref.startswith(tuple(left)):
                self._wrong("stray worktrees", f"the ref {ref}")

    def _look_for_locks(self) -> None:
        state_folder = self.yard.paths.state
        found = [*(self.yard.path / ".git").rglob("*.lock"), *self.yard.remote.rglob("*.lock")]
        for path in found:
            # What lies in our own folder are files that locks are taken on, not locks.
            if state_folder not in path.parents:
                self._wrong("stale locks", str(path))
        # What the dead held lapses with their leases.
        if not until(lambda: self._held() == [], 10.0):
            self._wrong("stale locks", str(self._held()))

    def _held(self) -> object:
        said = taskyard("locks", "--json", at=self.yard.path, environ=self.yard.environment(0))
        return msgspec.json.decode(said.out) if said.status == 0 else said.err


def kept_answers(connection: Connection) -> list[tuple[Any, ...]]:
    """The activity and the value of each entry; none in a file whose maker was killed before it made the tables."""
    made = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'entries'").fetchone()
    asked = "SELECT activity, value FROM entries JOIN bodies USING(id)"
    return connection.execute(asked).fetchall() if made else []


def _standing(events: list[ev.AnyEvent]) -> dict[str, str]:
    """The commit of each task that is made and neither landed nor given up."""
    standing: dict[str, str] = {}
    for event in events:
        match event:
            case ev.ChangeCommitted():
                standing[event.task] = event.change.commit
            case ev.AttemptStarted() | ev.AttemptFailed() | ev.TaskSentBack() | ev.TaskLanded():
                standing.pop(event.task, None)
    return standing
