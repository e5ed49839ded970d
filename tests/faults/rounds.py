"""A round: one project, one kind of fault, injected several times, and the command again until all has landed."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults import faults
from tests.faults.boards import LEASE, Board, agents, models
from tests.faults.books import LOSSES, Books
from tests.faults.faults import Fault
from tests.faults.process import Run
from tests.faults.yard import Yard

MAX_STARTS = 6
"""How often the command may be started again once nobody hurts it any more."""

TO_THE_END = 300.0
"""Seconds that one run may take to its end, on a machine with a lot to do."""

ROOM = 64 << 20


Plan = Callable[[random.Random], Sequence[Fault]]


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of fault. `plan` gives the faults of a round, `board` what is worked on by a number of chance."""

    name: str
    plan: Plan
    board: Callable[[int], Board] = lambda seed: models(seed) if seed % 2 else agents(12)
    orchestrators: int = 1
    redis: bool = False
    room: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round did and found: `where` are the moments of its faults, `losses` the findings by `LOSSES`.

    `failing` counts the answers that the model service spoiled, on top of the faults.
    """

    cell: str
    number: int
    where: tuple[str, ...]
    runs: int
    failing: int
    losses: dict[str, list[str]]
    folder: Path | None
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing was lost, doubled or left behind."""
        return not any(self.losses.values())


def _times(fault: Fault, low: int, high: int) -> Plan:
    return lambda rng: [fault] * rng.randint(low, high)


def _two(what: str, plan: Plan) -> Cell:
    return Cell(f"2 orchestrators, Redis: {what}", plan, orchestrators=2, redis=True)


def _five(what: str, plan: Plan, *, redis: bool = False) -> Cell:
    name = "5 orchestrators, Redis" if redis else "5 orchestrators"
    return Cell(f"{name}: {what}", plan, lambda seed: agents(20), orchestrators=5, redis=redis)


PAST_LEASE = faults.stop_for(LEASE + 1.0)

CELLS = {
    cell.name: cell
    for cell in (
        Cell(
            "SIGKILL at a journaled step",
            lambda rng: [faults.kill_at(moment) for moment in faults.moments(rng, 6)],
        ),
        Cell("SIGKILL at a git command", _times(faults.kill_at_git_command, 5, 7)),
        Cell("SIGKILL at a random moment", _times(faults.kill_somewhere, 5, 7)),
        Cell("SIGKILL of all processes", _times(faults.kill_with_all, 4, 6)),
        Cell(f"SIGSTOP for {LEASE + 1:g} s, then SIGCONT", _times(PAST_LEASE, 2, 3)),
        Cell("disk full", _times(faults.fill_disk, 3, 4), room=ROOM),
        Cell("model service out of reach", _times(faults.cut_off_service, 4, 6), board=models),
        Cell("git remote out of reach", _times(faults.cut_off_remote, 3, 5)),
        Cell(
            "2 orchestrators: SIGKILL at a journaled step",
            _times(faults.kill_at_next, 4, 6),
            orchestrators=2,
        ),
        _five("SIGKILL", _times(faults.kill_somewhere, 5, 7)),
        _five("SIGKILL of all", _times(faults.kill_with_all, 2, 3)),
        _five("SIGSTOP past the lease", _times(PAST_LEASE, 2, 3)),
        _two("SIGKILL", _times(faults.kill_somewhere, 4, 6)),
        _two("SIGSTOP past the lease", _times(PAST_LEASE, 2, 3)),
        _two("Redis killed", _times(faults.kill_redis, 2, 3)),
        _five("SIGKILL", _times(faults.kill_somewhere, 5, 7), redis=True),
        _five("Redis out of reach for one", _times(faults.cut_off_redis, 3, 5), redis=True),
    )
}


def play(
    cell: Cell,
    number: int,
    seed: int,
    folder: Path | None = None,
    *,
    keep: bool = False,
    most: int | None = None,
) -> Outcome:
    """Play the round with this number, with no more than so many faults.

    Its folder stays when something was found, or to `keep` it.
    """
    began = time.monotonic()
    rng = random.Random(f"{seed} {cell.name} {number}")
    place = Path(tempfile.mkdtemp(prefix="taskyard-faults-", dir=folder))
    board = cell.board(rng.randrange(1_000_000))
    where: list[str] = []
    losses: dict[str, list[str]] = {name: [] for name in LOSSES}
    runs = failing = 0
    try:
        with Yard(place, board, orchestrators=cell.orchestrators, redis=cell.redis, room=cell.room) as yard:
            books = Books(yard, losses)
            books.open()
            try:
                for fault in cell.plan(rng)[:most]:
                    hurt = fault(yard, rng)
                    if hurt is None:
                        break
                    where.append(hurt)
                    books.interrupted()
                _to_the_end(yard, losses)
                books.judge()
            finally:
                runs = len(yard.runs)
                if yard.simulator is not None:
                    failing = sum(yard.simulator.stats().faults.values())
                if cell.room and any(losses.values()):
                    shutil.copytree(yard.disk, place / "disk-kept", symlinks=True)
    except Exception:
        losses["other"].append(traceback.format_exc())
    found = any(losses.values())
    if found:
        (place / "found.txt").write_text(f"{cell.name}\n{where}\n{losses}\n")
    elif not keep:
        shutil.rmtree(place, ignore_errors=True)
    return Outcome(
        cell.name,
        number,
        tuple(where),
        runs,
        failing,
        losses,
        place if found or keep else None,
        time.monotonic() - began,
    )


def _to_the_end(yard: Yard, losses: dict[str, list[str]]) -> None:
    """Start the command, for each orchestrator, until every one of them has said that all landed."""
    last = ""
    for _ in range(MAX_STARTS):
        for slot, run in enumerate(yard.slots):
            if run is None or not (run.alive or _landed_all(run)):
                yard.start(slot)
        for run in yard.slots:
            assert run is not None
            if not run.ended_within(TO_THE_END):
                losses["other"].append(f"a run did not end within {TO_THE_END:g} s")
                return
            last = f"status {run.process.returncode}, {run.finished} {run.complaint}"
        if all(map(_landed_all, yard.slots)):
            return
    losses["other"].append(f"the command did not land all: {last}")


def _landed_all(run: Run | None) -> bool:
    return run is not None and run.process.returncode == 0
