"""The boards that rounds work on: tasks that fail once, clash, wait for each other, and travel in batches."""

from __future__ import annotations

import json
from dataclasses import dataclass

from engine.llm.simulator import Answer, Batches, Edit, RandomFaults, Scenario

AGENT = """
task=$(sed -n "s/^Task: *//p" | head -n 1)
setsid sleep 600 > /dev/null 2>&1 &
sleep 0.2
if grep -q "|$task|" clashing.txt; then echo "$task" >> shared.txt; else echo "$task" > "$task.txt"; fi
"""
"""An agent as one must expect them: it leaves a process behind that no signal to its group reaches."""

_HEAD = "| ID | Scope | Status | Branch | Verification | Lane | After |\n|---|---|---|---|---|---|---|\n"
LEASE = 6.0
"""Seconds after which the others take what a dead or silent orchestrator had."""

_SETTINGS = f"""
[run]
max_concurrency = 4
[git]
max_age = "0.6s"
max_batch = 3
timeout = "20s"
[locks]
lease = "{LEASE:g}s"
"""


@dataclass(frozen=True, slots=True)
class Board:
    """A board with its settings and files; `scenario` is what the model service does, None where no role is a model."""

    tasks: tuple[str, ...]
    files: dict[str, str]
    scenario: Scenario | None = None

    @property
    def lanes(self) -> dict[str, str]:
        """The lane of each task."""
        rows = (line.split("|") for line in self.files["tasks/board.md"].splitlines()[2:])
        return {cells[1].strip(): cells[6].strip() for cells in rows}


def agents(count: int) -> Board:
    """Tasks for an agent command. The third and the fourth clash, and the fifth waits for the first."""
    names = tuple(f"A{n}" for n in range(1, count + 1))
    clashing = names[2:4]
    rows = [
        _row(
            name,
            f"grep -q {name} shared.txt" if name in clashing else f"test -f {name}.txt",
            after=names[0] if name in names[4:5] else "",
        )
        for name in names
    ]
    roles = (
        '[roles.planner]\nkind = "none"\n[roles.judge]\nkind = "none"\n'
        f'[roles.implementer]\nkind = "command"\ncommand = {json.dumps(["/bin/sh", "-c", AGENT])}\n'
    )
    return Board(
        names,
        {
            "tasks/board.md": _HEAD + "".join(rows),
            "taskyard.toml": _SETTINGS + roles,
            "clashing.txt": f"|{'|'.join(clashing)}|\n",
            "shared.txt": "begin\n",
        },
    )


def models(seed: int, *, rate: float = 0.12) -> Board:
    """Tasks for models in both lanes, against a service that fails now and then, the same way for one seed."""
    names = ("M1", "M2", "M3", "M4", "M5", "M6")
    rows = (
        _row("M1", "test -f M1.txt"),
        _row("M2", "grep -q right M2.txt"),
        _row("M3", "grep -q M3 shared.txt"),
        _row("M4", "grep -q M4 shared.txt"),
        _row("M5", "test -f M5.txt", lane="economy"),
        _row("M6", "test -f M6.txt", lane="economy", after="M1"),
    )
    answers = (
        _writes("M*", "{task}.txt", "{task}\n"),
        _writes("M2", "M2.txt", "wrong\n"),
        _writes("M2", "M2.txt", "right\n", attempt=2),
        *(
            _writes(name, "shared.txt", text, attempt=attempt)
            for name in ("M3", "M4")
            for attempt, text in ((1, f"{name}\n"), (2, "M3 M4\n"))
        ),
    )
    scenario = Scenario(
        name=f"faults-{seed}",
        pace=0.1,
        answers=answers,
        batches=Batches(seconds=6.0),
        random_faults=RandomFaults(rate=rate, seed=seed, retry_after=0.2) if rate else None,
    )
    llm = '[llm]\nendpoint = "simulator"\nbatch_age = "0.5s"\nidle_timeout = "5s"\n'
    files = {
        "tasks/board.md": _HEAD + "".join(rows),
        "taskyard.toml": _SETTINGS + llm,
        "shared.txt": "begin\n",
    }
    return Board(names, files, scenario)


def _row(name: str, check: str, *, lane: str = "fast", after: str = "") -> str:
    return f"| {name} | Do what {name} says | [ ] | | `{check}` | {lane} | {after} |\n"


def _writes(task: str, path: str, text: str, *, attempt: int = 1) -> Answer:
    return Answer(
        task=task,
        role="implementer",
        attempt=attempt,
        edits=(Edit(path, text),),
        summary="Write it.",
        check=False,
    )
