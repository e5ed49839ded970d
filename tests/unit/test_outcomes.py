"""What earlier runs landed: a key over everything that led to it, and an order that never makes a circle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.activities import Recalled
from engine.model import BoardStatus, Lane, Plan, Task, Usage, Verdict
from engine.outcomes import Outcomes, built_on, order
from engine.settings import LLMSettings, RoleSettings, RolesSettings, Settings, VerifySettings
from engine.store.cache import ResultCache

A = Task("A", "one", command="make a", acceptance="it works", type="fix", line=3)
B = Task("B", "two", after=("A",))
C = Task("C", "three", after=("B",))
OTHER = Task("X", "another")
OUTCOME = Recalled(
    b"patch\xff", Plan(("s",)), Verdict(True, "good"), "summary", ("A",), Usage(input=70, output=7), 0.25, "m"
)
SETTINGS = Settings(root=Path("/repo"))


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResultCache]:
    cache = ResultCache(tmp_path / "cache.db")
    yield cache
    cache.close()


def outcomes(
    cache: ResultCache, tasks: Sequence[Task] = (A, B, C, OTHER), config: Settings = SETTINGS, **fields: str
) -> Outcomes:
    return Outcomes(
        cache, config, tasks, **{"tree": "t", "prompts": "p", "tools": "s", "endpoint": "e", **fields}
    )


def test_what_landed_is_recalled_whole_by_the_same_run_again(cache: ResultCache) -> None:
    assert outcomes(cache).recall(C) is None
    outcomes(cache).remember(C, OUTCOME)
    assert outcomes(cache).recall(C) == OUTCOME
    assert outcomes(cache).recall(B) is None
    stats = cache.stats()
    assert (stats.tokens_saved, stats.usd_saved) == (77, 0.25)


CHANGES: dict[str, dict[str, Any]] = {
    "tree": {"tree": "another"},
    "prompts": {"prompts": "edited"},
    "a tool's schema": {"tools": "with another field"},
    "thinking": {"config": replace(SETTINGS, roles=RolesSettings(implementer=RoleSettings(thinking=4096)))},
    "a role's max_tokens": {
        "config": replace(SETTINGS, roles=RolesSettings(judge=RoleSettings(max_tokens=9)))
    },
    "endpoint": {"endpoint": "elsewhere"},
    "check": {"config": replace(SETTINGS, verify=VerifySettings(command="make"))},
    "role model": {"config": replace(SETTINGS, roles=RolesSettings(judge=RoleSettings(model="m")))},
    "role kind": {"config": replace(SETTINGS, roles=RolesSettings(planner=RoleSettings(kind="none")))},
    "role command": {
        "config": replace(SETTINGS, roles=RolesSettings(implementer=RoleSettings(command=("codex",))))
    },
    "max_tokens": {"config": replace(SETTINGS, llm=LLMSettings(max_tokens=5))},
    "batch": {"config": replace(SETTINGS, llm=LLMSettings(batch="off"))},
    "own scope": {"tasks": (A, B, replace(C, scope="changed"))},
    "own check": {"tasks": (A, B, replace(C, command="make c"))},
    "own acceptance": {"tasks": (A, B, replace(C, acceptance="strict"))},
    "own type": {"tasks": (A, B, replace(C, type="docs"))},
    "own lane": {"tasks": (A, B, replace(C, lane=Lane.ECONOMY))},
    "own after": {"tasks": (A, B, replace(C, after=("A", "B")))},
    "what it waits for": {"tasks": (A, replace(B, scope="changed"), C)},
    "what that waits for": {"tasks": (replace(A, scope="changed"), B, C)},
    "a row less": {"tasks": (B, C)},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_led_to_an_outcome_is_in_its_key(cache: ResultCache, change: dict[str, Any]) -> None:
    outcomes(cache).remember(C, OUTCOME)
    changed = outcomes(cache, **change)
    task = next(task for task in change.get("tasks", (C,)) if task.id == "C")
    assert changed.recall(task) is None


HARMLESS: dict[str, Sequence[Task]] = {
    "line": (A, B, replace(C, line=99), OTHER),
    "status": (A, B, replace(C, status=BoardStatus.FAILED), OTHER),
    "priority": (A, B, replace(C, priority=5), OTHER),
    "branch": (A, B, replace(C, branch="mine"), OTHER),
    "landed before": (replace(A, status=BoardStatus.LANDED), B, C),
    "order": (OTHER, C, B, A),
    "another row": (A, B, C, replace(OTHER, scope="changed"), Task("Y", "new")),
}


@pytest.mark.parametrize("tasks", HARMLESS.values(), ids=HARMLESS)
def test_what_did_not_lead_to_it_is_not(cache: ResultCache, tasks: Sequence[Task]) -> None:
    outcomes(cache).remember(C, OUTCOME)
    again = outcomes(cache, tasks)
    assert again.recall(next(task for task in tasks if task.id == "C")) == OUTCOME


def test_a_circle_of_rows_has_a_key_too(cache: ResultCache) -> None:
    ring = (replace(A, after=("C",)), B, C)
    outcomes(cache, ring).remember(C, OUTCOME)
    assert outcomes(cache, ring).recall(C) == OUTCOME


def test_a_patch_is_built_on_all_who_touched_its_files() -> None:
    landed = {"A": ("a.py", "b.py"), "B": ("c.py",), "C": ("b.py",), "D": ()}
    assert built_on(("b.py", "new.py"), landed) == ("A", "C")
    assert built_on((), landed) == ()


# The order

names = [f"T{n}" for n in range(8)]
graphs = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from([*names, "gone"]), max_size=3) for name in names}
)


def acyclic(drawn: dict[str, list[str]]) -> tuple[Task, ...]:
    """Tasks that wait only for tasks before them (and for one that is not there)."""
    return tuple(
        Task(name, "s", after=tuple(dict.fromkeys(o for o in drawn[name] if o == "gone" or o < name)))
        for name in names
    )


def reach(tasks: Sequence[Task], start: str) -> set[str]:
    after = {task.id: task.after for task in tasks}
    seen: set[str] = set()
    left = list(after.get(start, ()))
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left.extend(after.get(name, ()))
    return seen


@given(
    graphs, st.dictionaries(st.sampled_from([*names, "nobody"]), st.lists(st.sampled_from([*names, "gone"])))
)
@settings(max_examples=400, deadline=None)
def test_an_order_keeps_what_rows_say_and_never_makes_a_circle(
    drawn: dict[str, list[str]], needs: dict[str, list[str]]
) -> None:
    tasks = acyclic(drawn)
    ordered = order(tasks, needs)
    assert [task.id for task in ordered] == [task.id for task in tasks]
    for old, new in zip(tasks, ordered, strict=True):
        assert new.after[: len(old.after)] == old.after
        assert len(set(new.after)) == len(new.after)
        assert replace(new, after=old.after) == old
        assert new.id not in reach(ordered, new.id)
        for name in needs.get(new.id, ()):
            # Each need holds, unless it is not there or would have closed a circle.
            assert (
                name in reach(ordered, new.id)
                or name == new.id
                or name not in names
                or new.id in reach(ordered, name)
            )


def test_many_tasks_over_one_file_become_a_chain_in_no_time() -> None:
    tasks = [Task(f"T{n}", "s") for n in range(400)]
    needs = {f"T{n}": [f"T{m}" for m in range(n)] for n in range(400)}
    ordered = order(tasks, needs)  # the suite's time-out is an assertion: a web of 80,000 edges took minutes
    assert [task.after for task in ordered[1:]] == [(f"T{n}",) for n in range(399)]


def test_the_order_without_needs_is_the_board() -> None:
    assert order((A, B, C), {}) == (A, B, C)
