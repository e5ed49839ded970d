"""For any set of bad members the train lands every good one, and names each bad one with its reason and the other.

The members are commits over real repositories, merged and pushed by git; only the check is a function, over the files
of the combined tree.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.board import combined, with_statuses
from engine.git.cargo import Cargo, Checked, TrainResult
from engine.git.names import slug
from engine.git.repository import Repository
from engine.git.train import Train
from engine.git.upstream import Upstream
from tests.git.trains import BOARD, board
from tests.sample_repository import SampleRepository

MOST = 8
LINES = 3
_targets = itertools.count()


class Member(NamedTuple):
    """A task's change. It is red alone; it is one `half` of a pair that is red together; it edits a `line`."""

    red: bool = False
    half: tuple[int, str] | None = None
    line: int | None = None


class Fate(NamedTuple):
    """Why a member cannot land, and because of one of whom; empty words: it lands."""

    why: str = ""
    others: tuple[int, ...] = ()


GOOD = Member()
RED = Member(red=True)
LEFT, RIGHT = Member(half=(0, "left")), Member(half=(0, "right"))
EDIT = Member(line=0)

halves = st.tuples(st.integers(0, 1), st.sampled_from(["left", "right"]))
members = st.one_of(
    st.just(GOOD),
    st.builds(Member, red=st.booleans(), half=st.none() | halves, line=st.none() | st.integers(0, LINES - 1)),
)


def task(number: int) -> str:
    return f"T{number + 1}"


def fates(cargo: Sequence[Member]) -> list[Fate]:
    """What has to become of each: one after the other, beside all that lands before it."""
    found: list[Fate] = []
    for number, member in enumerate(cargo):
        before = [other for other in range(number) if not found[other].why]
        clash = tuple(o for o in before if member.line is not None and cargo[o].line == member.line)
        partners = tuple(o for o in before if _are_a_pair(member, cargo[o]))
        if clash:
            found.append(Fate("clashes", clash))
        elif member.red or partners:
            found.append(Fate("red", () if member.red else partners))
        else:
            found.append(Fate())
    return found


def _are_a_pair(one: Member, other: Member) -> bool:
    return (
        one.half is not None
        and other.half is not None
        and (one.half[0] == other.half[0] and one.half[1] != other.half[1])
    )


def files(number: int, member: Member) -> dict[str, str]:
    """The files that the member's commit writes."""
    written = {f"own/{number}": "x\n"}
    if member.red:
        written[f"red/{number}"] = "x\n"
    if member.half is not None:
        pair, side = member.half
        written[f"half/{pair}-{side}-{number}"] = "x\n"
    if member.line is not None:
        lines = [f"line {n}\n" for n in range(LINES * 4)]
        lines[member.line * 4] = f"edited by {number}\n"
        written["shared.txt"] = "".join(lines)
    return written


async def check(tree: Path, commands: Sequence[str]) -> Checked:
    """The check of the combined tree: what makes it red is told by the names of its files."""
    sides = {tuple(path.name.split("-")[:2]) for path in tree.glob("half/*")}
    pairs = [pair for pair, side in sides if side == "left" and (pair, "right") in sides]
    if pairs or list(tree.glob("red/*")):
        return Checked(False, "exit status 1", f"pairs {pairs}")
    return Checked(True)


def commit_all(sample: SampleRepository, target: str, cargo: Sequence[Member]) -> list[str]:
    """Make the members' commits on `main`, all by one git; gives their ids."""
    stream = []
    for number, member in enumerate(cargo):
        stream.append(
            f"commit refs/made/{target}/{number}\ncommitter T <t@example.org> 1700000000 +0000\ndata 4\nWork\n"
            "from refs/heads/main\n"
        )
        for path, text in files(number, member).items():
            stream.append(f"M 100644 inline {path}\ndata {len(text)}\n{text}\n")
    subprocess.run(
        ["git", "-C", str(sample.path), "fast-import", "--quiet"], input="".join(stream).encode(), check=True
    )
    names = [f"refs/made/{target}/{number}" for number in range(len(cargo))]
    return sample.git("rev-parse", *names).split()


async def ride(sample: SampleRepository, root: Path, target: str, cargo: Sequence[Member]) -> TrainResult:
    """Queue all of them, and let one train leave for a target of its own."""
    repository = await Repository.open(sample.path, environ=os.environ)
    train = Train(
        repository,
        Upstream(repository, "origin", target, timeout=20),
        base=sample.git("rev-parse", "main"),
        run="r1",
        board=BOARD,
        tree=root / "_train",
        verify=check,
        set_statuses=with_statuses,
        combine_boards=combined,
        check="the check",
    )
    await train.start()
    load = [
        Cargo(task(number), f"Make {number + 1}", commit, "true", tuple(files(number, cargo[number])))
        for number, commit in enumerate(commit_all(sample, target, cargo))
    ]
    for item in load:
        await train.queue(item.task_id, item.commit)
    return await train.land(load)


@pytest.mark.timeout(900)  # Each example is some hundred git commands.
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cargo=st.lists(members, min_size=1, max_size=MOST))
@example([RED])
@example([GOOD, RED, GOOD])
@example([LEFT, GOOD, GOOD, GOOD, GOOD, GOOD, RIGHT, GOOD])
@example([GOOD] * 7 + [RED])
@example([LEFT, LEFT, GOOD, RIGHT])
@example([Member(red=True, line=0), EDIT, GOOD])  # Who clashed with the red one only, lands.
@example([Member(line=1), EDIT, EDIT])  # Of two who edited the same file, the right one is named.
@example([EDIT, Member(line=1), EDIT])
def test_all_the_good_land_and_all_the_bad_are_named(
    repo: Callable[..., SampleRepository], tmp_path: Path, cargo: list[Member]
) -> None:
    sample = _sample(repo, tmp_path)
    target = f"yard/{next(_targets)}"
    result = asyncio.run(ride(sample, tmp_path / "work", target, cargo))
    expected = fates(cargo)
    good = [task(number) for number, fate in enumerate(expected) if not fate.why]
    assert [item.task_id for item in result.landed] == good
    assert result.problem == ""
    _names_each(result, expected)
    _is_there(sample, target, cargo, expected)
    assert sample.pushes(target) == (1 if good else 0)
    if len(cargo) - len(good) == 1 and "red" in {fate.why for fate in expected}:
        assert result.verifications <= 2 + 2 * math.log2(len(cargo))


def _sample(repo: Callable[..., SampleRepository], tmp_path: Path) -> SampleRepository:
    """One repository for all examples."""
    path = tmp_path / "project"
    if path.exists():
        return SampleRepository(path, tmp_path / "project.git")
    shared = "".join(f"line {n}\n" for n in range(LINES * 4))
    return repo({BOARD: board(MOST), "shared.txt": shared})


def _names_each(result: TrainResult, expected: Sequence[Fate]) -> None:
    """Each bad member goes back once, with what is the matter and, where it is not alone, with whom."""
    back = {item.task_id: item for item in result.returned}
    assert len(back) == len(result.returned)
    assert back.keys() == {task(number) for number, fate in enumerate(expected) if fate.why}
    for number, (why, others) in enumerate(expected):
        names = {task(other) for other in others}
        if why == "clashes":
            item = back[task(number)]
            assert {item.other} == names
            assert item.paths == ("shared.txt",)
            assert item.reason == f"clashes with {item.other}: shared.txt"
            assert item.other in item.feedback
        elif why == "red":
            item = back[task(number)]
            assert item.reason.startswith("breaks the check ")
            assert item.reason.endswith(": exit status 1")
            if names:
                assert names.intersection(item.reason.replace(":", "").replace(",", "").split())
                assert item.other in ("", *names)
            else:
                assert item.other == ""
                assert "together with" not in item.reason


def _is_there(
    sample: SampleRepository, target: str, cargo: Sequence[Member], expected: Sequence[Fate]
) -> None:
    """The target holds the files of those that landed and no others, and its board says so."""
    landed = [number for number, fate in enumerate(expected) if not fate.why]
    queued = sample.git("for-each-ref", "--format=%(refname:lstrip=4)", f"refs/taskyard/queue/{slug(target)}")
    assert queued.split() == [task(n) for n, fate in enumerate(expected) if fate.why]
    if not landed:
        return
    names = sample.git("ls-tree", "-r", "--name-only", target, at=sample.remote).split("\n")
    made = {path for number in landed for path in files(number, cargo[number])}
    assert set(names) == made | {BOARD, "shared.txt"}
    text = sample.git("show", f"{target}:{BOARD}", at=sample.remote)
    assert [n for n in landed if f"| {task(n)} | Make {n + 1} | [x]" not in text] == []
    assert text.count("[x]") == len(landed)
