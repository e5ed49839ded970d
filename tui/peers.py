"""The orchestrators that share a board, each in a line: for the screen, for `status`, and for plain lines.

A run that is alone on its board has none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace
from rich.cells import cell_len

from engine.figures import PeerFigures
from engine.snapshot import Snapshot
from tui.format import cut, dollars, fit, safe_text
from tui.line import Line, cut_line, joined, text, width
from tui.plain import count, money

TITLES = ("working", "landed", "pushes", "cost")
LEAST_LINES = 4
"""Lines below which there is only room for the sums."""

_CELLS = (9, 8, 8, 9)  # the width of each column in TITLES
_LEAST_NAME = 26  # cells for who it is, before figures are left out


def place_of(host: str, pid: int) -> str:
    """Where a process runs, as all places name it."""
    return f"{safe_text(host, 40)}, process {pid}"


def crew_of(snapshot: Snapshot) -> tuple[PeerFigures, ...]:
    """All that share the board: this one first, by its newest figures, those that are gone last; empty when alone."""
    if not snapshot.others:
        return ()
    totals = snapshot.totals
    mine = [
        replace(
            peer,
            present=True,
            finished=snapshot.run.finished is not None,
            working=peer.working if snapshot.run.finished is None else 0,
            landed=totals.landed,
            pushes=totals.pushes,
            usd=totals.usd,
        )
        for peer in snapshot.peers
        if peer.run == snapshot.run.run
    ]
    return (*mine, *sorted(snapshot.others, key=lambda peer: not peer.present))


def headcount(crew: Sequence[PeerFigures]) -> str:
    """How many are at work now: "3 orchestrators"."""
    return count(sum(peer.at_work for peer in crew), "orchestrator")


def cells_of(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """A row for each, and one for all: who, working, landed, pushes, cost; without colour, for tables.

    Whoever prints it is another process than all of them: none is "this one".
    """
    crew = crew_of(snapshot)
    names = [_name(peer) for peer in crew]
    rows = [(name, *_figures(peer, money)) for name, peer in zip(names, crew, strict=True)]
    return [*rows, ("all", *_figures(_sum(crew), money))] if rows else []


def crew_lines(snapshot: Snapshot, cells: int, height: int) -> list[Line]:
    """Who shares the board, in at most `height` lines of `cells` cells; none when the run is alone."""
    crew = crew_of(snapshot)
    if not crew or height < 1:
        return []
    if height < LEAST_LINES:
        return [_in_a_line(crew, cells)]
    room = height - 2
    shown = crew[:room]
    finished = sum(peer.present and peer.finished for peer in crew)
    gone = sum(not peer.present for peer in crew)
    more = [f", {number} {word}" for number, word in ((finished, "finished"), (gone, "gone")) if number]
    title = f"── {headcount(crew)}{''.join(more)} "
    lines = [_row(title, TITLES, "faint", cells, fill="─")]
    for peer in shown:
        mine = peer.run == snapshot.run.run
        tone = "text" if mine else "muted" if peer.at_work else "faint"
        lines.append(_row(f"  {_name(peer, here=mine)}", _figures(peer, dollars), tone, cells))
    rest = len(crew) - len(shown)
    label = f"  all, with {rest} not shown" if rest else "  all"
    lines.append(_row(label, _figures(_sum(crew), dollars), "muted", cells))
    return lines


def crew_changes(before: Sequence[PeerFigures], after: Snapshot) -> Iterator[str]:
    """Who joined the work on the board since, and who left it or has finished, in a line each."""
    was = {peer.run for peer in before if peer.at_work}
    came = [peer for peer in after.others if peer.at_work and peer.run not in was]
    at_work = f"{headcount(after.peers)} at work"
    if came and not before:
        yield f"shares the board with {'; '.join(place_of(peer.host, peer.pid) for peer in came)}: {at_work}"
    else:
        for peer in came:
            yield f"{place_of(peer.host, peer.pid)} has joined: {at_work}"
    for peer in after.others:
        if not peer.at_work and peer.run in was:
            ended = "finished" if peer.present else "left"
            landed = count(peer.landed, "task")
            yield f"{place_of(peer.host, peer.pid)} has {ended}, with {landed} landed: {at_work}"


def _name(peer: PeerFigures, *, here: bool = False) -> str:
    mark = ", this one" if here else "" if peer.at_work else ", finished" if peer.present else ", gone"
    return f"{place_of(peer.host, peer.pid)}{mark}"


def _sum(crew: Sequence[PeerFigures]) -> PeerFigures:
    return replace(
        crew[0],
        present=True,
        working=sum(peer.working for peer in crew if peer.present),
        landed=sum(peer.landed for peer in crew),
        pushes=sum(peer.pushes for peer in crew),
        usd=sum(peer.usd for peer in crew),
    )


def _figures(peer: PeerFigures, price: Callable[[float], str]) -> tuple[str, ...]:
    # What the one that is gone was working on is another's, or nobody's.
    working = f"{peer.working:,}" if peer.present else "–"
    return working, f"{peer.landed:,}", f"{peer.pushes:,}", price(peer.usd)


def _in_a_line(crew: Sequence[PeerFigures], cells: int) -> Line:
    whole = _sum(crew)
    head = text(f"◇ {headcount(crew)}", "info")
    figures = f"{whole.working:,} working", count(whole.pushes, "push", "pushes"), dollars(whole.usd)
    lines = [joined([head, *(text(each, "muted") for each in figures[first:])]) for first in range(3)]
    return next((line for line in lines if width(line) <= cells), cut_line(lines[-1], cells))


def _row(name: str, figures: Sequence[str], tone: str, cells: int, fill: str = " ") -> Line:
    """The figures to the right, as many as leave room for the name; the rest of the line is filled."""
    columns = list(zip(figures, _CELLS, strict=True))
    while columns and cells - sum(taken for _, taken in columns) < _LEAST_NAME:
        columns.pop(0)
    room = cells - sum(taken for _, taken in columns)
    name = cut(name, room)
    right = "".join(fit(f" {figure}", taken, right=True) for figure, taken in columns)
    return ((name + fill * (room - cell_len(name)) + right, tone),)
