"""Which tasks can never start, because of what they wait for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from engine.model import BoardStatus, Task

_SHOWN = 8  # ids of a circle that a line names


def blocked(tasks: Mapping[str, Task], kept_back: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (id, reason) of each task that cannot start although its own row is sound.

    A task is blocked by an unknown id, by a circle it is part of, or by a task that cannot run itself: one of
    `kept_back`, or a blocked one. What has landed waits for nothing and blocks nobody.
    """
    waits = {
        id: [
            other for other in task.after if other in tasks and tasks[other].status is not BoardStatus.LANDED
        ]
        for id, task in tasks.items()
        if task.status is not BoardStatus.LANDED
    }
    stopped = set(kept_back)
    for circle in _circles(waits):
        for id in circle:
            stopped.add(id)
            yield id, _describe(circle, tasks)
    for id in waits:
        if unknown := [other for other in tasks[id].after if other not in tasks]:
            yield id, f"{id} waits for {', '.join(unknown)}, which the board does not have"
            stopped.add(id)
    behind: dict[str, list[str]] = {}
    for id, others in waits.items():
        for other in others:
            behind.setdefault(other, []).append(id)
    spreading = list(stopped)
    while spreading:
        stop = spreading.pop()
        for id in behind.get(stop, ()):
            if id not in stopped:
                stopped.add(id)
                spreading.append(id)
                yield id, f"{id} waits for {stop} (line {tasks[stop].line}), which cannot run"


def _describe(circle: list[str], tasks: Mapping[str, Task]) -> str:
    if len(circle) == 1:
        return f"{circle[0]} waits for itself"
    shown = circle[:_SHOWN]
    more = f" and {len(circle) - _SHOWN} more" if len(circle) > _SHOWN else ""
    names = ", ".join(shown)
    lines = ", ".join(str(tasks[id].line) for id in shown)
    return f"{names}{more} wait for each other in a circle (lines {lines}{' …' if more else ''})"


def _circles(waits: Mapping[str, list[str]]) -> list[list[str]]:
    """Find the strongly connected parts that hold a circle (Tarjan, without recursion), members in board order."""
    order = {id: at for at, id in enumerate(waits)}
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    is_open: set[str] = set()
    circles = []
    for root in waits:
        if root in number:
            continue
        path = [(root, iter(waits[root]))]
        number[root] = lowest[root] = len(number)
        open_.append(root)
        is_open.add(root)
        while path:
            id, others = path[-1]
            for other in others:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    open_.append(other)
                    is_open.add(other)
                    path.append((other, iter(waits[other])))
                    break
                if other in is_open:
                    lowest[id] = min(lowest[id], number[other])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[id])
                if lowest[id] == number[id]:
                    part: list[str] = []
                    while not part or part[-1] != id:
                        part.append(open_.pop())
                        is_open.discard(part[-1])
                    if len(part) > 1 or id in waits[id]:
                        circles.append(sorted(part, key=order.__getitem__))
    return circles
