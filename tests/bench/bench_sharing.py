"""Five orchestrators on one board of 100 tasks, with a real Redis-compatible server, beside one alone, and with one of
them killed in the middle."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.bench import Row
from tests.e2e.crew import Crew, until
from tests.locks.servers import Server

TASKS = 100
SECONDS = 6.0
SLOTS = 4
MEMBERS = 5
LEASE = 10.0
PATIENT = '[git]\nmax_age = "30s"\n'  # a train leaves when it is full, or when nothing more comes


def rows() -> list[Row]:
    """Work the same board off alone and together; tasks wait rather than compute."""
    alone, _, _ = _measure(1)
    together, worked, pushes = _measure(MEMBERS)
    with_a_loss, _, _ = _measure(MEMBERS, kill=True)
    delay, most_delay = with_a_loss - together, LEASE + 5
    most = TASKS // 10 + 5
    name = f"{MEMBERS} orchestrators, {TASKS} tasks of {SECONDS:g} s, {SLOTS} at a time each"
    return [
        Row(f"{name}: all landed", "≥ 4 ×", together, "s", alone / together, alone / together >= 4),
        Row(f"{name}: worked on", f"{TASKS}", worked, "tasks", None, worked == TASKS),
        Row(
            f"{name}: one killed in the middle, all landed once, later by",
            f"≤ {most_delay:g}",
            delay,
            "s",
            None,
            delay <= most_delay,
        ),
        Row(f"{name}: pushes", f"≤ {most}", pushes, "pushes", None, pushes <= most),
    ]


def _measure(members: int, *, kill: bool = False) -> tuple[float, int, int]:
    """Seconds from the start to the end of all, times an agent was started, and pushes; all must have landed, once."""
    with tempfile.TemporaryDirectory(prefix="taskyard-bench-") as name:
        folder = Path(name)
        (folder / "server").mkdir()
        server = Server(folder / "server")
        server.start()
        crew = Crew.make(
            folder, TASKS, seconds=SECONDS, slots=SLOTS, lease=LEASE, url=server.url, settings=PATIENT
        )
        try:
            places = [crew.clone() for _ in range(members)]
            began = time.monotonic()
            for place in places:
                crew.start(place, XDG_STATE_HOME=str(folder / "state"))
            if kill:
                first = crew.members[0]
                until(lambda: len(crew.worked) >= TASKS / 2 and crew.in_work(first), timeout=400)
                first.kill()
                crew.members.remove(first)
            crew.wait(timeout=400)
            took = time.monotonic() - began
            assert crew.landed() == {f"T{n}": 1 for n in range(1, TASKS + 1)}
            return took, len(crew.worked), crew.pushes
        finally:
            crew.close()
            server.kill()
