"""Play rounds until so many faults were injected, and print what they found; status 1 when anything was lost."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.books import LOSSES
from tests.faults.rounds import CELLS, Cell, Outcome, play
from tests.faults.yard import can_mount

MOST = 4
"""Findings of one kind that are printed of a round; its folder has all of them."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--faults", type=int, default=500, help="stop once so many were injected")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins from")
    parser.add_argument("--start", type=int, default=0, metavar="ROUND", help="go on from this round")
    parser.add_argument(
        "--round", type=int, metavar="ROUND", help="play this round only, and keep its folder"
    )
    parser.add_argument("--cell", metavar="TEXT", help="play only kinds of faults with this in their name")
    parser.add_argument("--jobs", type=int, default=2, help="rounds at once")
    parser.add_argument("--folder", type=Path, help="where the projects are made, and failed ones kept")
    return parser.parse_args()


def _rounds(cells: Sequence[Cell], first: int) -> Iterator[tuple[Cell, int]]:
    """The rounds without an end: each kind of fault in turn."""
    number = first
    while True:
        yield cells[number % len(cells)], number
        number += 1


def main() -> int:
    """See the module's text."""
    given = _arguments()
    cells = [cell for name, cell in CELLS.items() if (given.cell or "").lower() in name.lower()]
    if any(cell.room for cell in cells) and not can_mount():
        print(
            "no disk is filled here: that needs a small file system, which only root may mount",
            file=sys.stderr,
        )
        cells = [cell for cell in cells if not cell.room]
    if not cells:
        print(f"no such kind of fault here; there are: {', '.join(CELLS)}", file=sys.stderr)
        return 2
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
    # A round's number says its kind among all, so that it is the same round whatever else is played.
    every = list(CELLS.values())
    console = Console(width=None if sys.stdout.isatty() else 200)
    if given.round is not None:
        outcome = play(every[given.round % len(every)], given.round, given.seed, given.folder, keep=True)
        _tell(console, outcome, given.seed, len(outcome.where))
        return 0 if outcome.ok else 1
    outcomes: list[Outcome] = []
    coming = ((cell, number) for cell, number in _rounds(every, given.start) if cell in cells)
    try:
        _play_all(given, coming, outcomes, console)
    except KeyboardInterrupt:
        ended = {outcome.number for outcome in outcomes}
        first = next(
            n for n in itertools.count(given.start) if every[n % len(every)] in cells and n not in ended
        )
        console.print(f"interrupted; go on with --seed {given.seed} --start {first}", highlight=False)
    console.print(_table(outcomes))
    console.print(_moments(outcomes), highlight=False)
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def _play_all(
    given: argparse.Namespace,
    coming: Iterator[tuple[Cell, int]],
    outcomes: list[Outcome],
    console: Console,
) -> None:
    """Play rounds until enough faults were injected; `outcomes` has what has ended, whenever it breaks off."""
    with ProcessPoolExecutor(given.jobs) as pool:
        at_work: set[Future[Outcome]] = set()
        injected = 0
        while injected < given.faults or at_work:
            while injected < given.faults and len(at_work) < given.jobs:
                cell, number = next(coming)
                at_work.add(pool.submit(_play, cell.name, number, given.seed, given.folder))
            done, at_work = wait(at_work, return_when=FIRST_COMPLETED)
            for future in done:
                outcomes.append(future.result())
                injected += len(outcomes[-1].where)
                _tell(console, outcomes[-1], given.seed, injected)


def _play(name: str, number: int, seed: int, folder: Path | None) -> Outcome:
    return play(CELLS[name], number, seed, folder)


def _tell(console: Console, outcome: Outcome, seed: int, injected: int) -> None:
    word = "ok" if outcome.ok else "LOST"
    console.print(
        f"{injected:5} faults  round {outcome.number:4}  {outcome.cell:50} {outcome.seconds:5.1f} s  "
        f"{outcome.runs} runs  {word}  {', '.join(outcome.where)}",
        markup=False,
        highlight=False,
    )
    if not outcome.ok:
        for name, found in outcome.losses.items():
            for text in found[:MOST]:
                console.print(f"        {name} ({len(found)}): {text}", markup=False, highlight=False)
        again = f"python -m tests.faults --seed {seed} --round {outcome.number}"
        console.print(f"        kept in {outcome.folder}; again: {again}", markup=False, highlight=False)


def _table(outcomes: Sequence[Outcome]) -> Table:
    table = Table("Fault", "Injected", "Rounds", "Runs", *(name.capitalize() for name in LOSSES))
    for name in CELLS:
        mine = [outcome for outcome in outcomes if outcome.cell == name]
        if mine:
            table.add_row(name, *_figures(mine))
    table.add_section()
    table.add_row("all", *_figures(outcomes))
    table.add_row("answers spoiled besides", str(sum(outcome.failing for outcome in outcomes)))
    return table


def _figures(outcomes: Sequence[Outcome]) -> list[str]:
    injected, runs = sum(len(o.where) for o in outcomes), sum(o.runs for o in outcomes)
    losses = [sum(len(outcome.losses[name]) for outcome in outcomes) for name in LOSSES]
    return [str(number) for number in (injected, len(outcomes), runs, *losses)]


def _moments(outcomes: Sequence[Outcome]) -> str:
    """At which moments the faults came, most often first."""
    where = Counter(moment for outcome in outcomes for moment in outcome.where)
    commands = sum(count for moment, count in where.items() if ":" in moment)
    named = ", ".join(f"{moment} {count}" for moment, count in where.most_common() if ":" not in moment)
    return f"moments: {named}" + (f"; git commands {commands}" if commands else "")


if __name__ == "__main__":
    sys.exit(main())
