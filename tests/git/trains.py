"""A train over a real repository with a bare remote, for tests."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.board import combined, with_statuses
from engine.git.repository import Repository
from engine.git.train import Cargo, Checked, Train, TrainResult
from engine.git.upstream import Upstream
from engine.git.worktrees import Worktrees
from tests.sample_repository import SampleRepository

BOARD = "tasks/board.md"
TARGET = "taskyard/board"


def board(count: int) -> str:
    """A board with the tasks T1 to T<count>, all open."""
    rows = "".join(f"| T{n} | Make {n} | [ ] | | `true` |\n" for n in range(1, count + 1))
    return f"| ID | Scope | Status | Branch | Verification |\n|---|---|---|---|---|\n{rows}"


class Yard:
    """A run in miniature: tasks become cargo through worktrees, and a train lands them."""

    def __init__(self, sample: SampleRepository, repository: Repository, root: Path, target: str) -> None:
        self.sample = sample
        self.repository = repository
        self.root = root
        self.target = target
        self.worktrees = Worktrees(repository, root, BOARD)
        self.steps: list[tuple[str, str]] = []
        self.runs: list[tuple[str, ...]] = []
        self.waits: list[float] = []
        self.during: Callable[[], object] = lambda: None
        self.base = sample.git("rev-parse", "HEAD")
        self.train = self.new_train()

    @classmethod
    async def open(cls, sample: SampleRepository, root: Path, target: str = TARGET) -> Yard:
        repository = await Repository.open(sample.path, environ=os.environ)
        return cls(sample, repository, root, target)

    def new_train(self, **changes: Any) -> Train:
        """A train as a fresh process would make it."""
        remote = "origin" if "origin" in self.sample.git("remote").split() else None
        options: dict[str, Any] = {
            "base": self.base,
            "run": "r1",
            "board": BOARD,
            "tree": self.root / "_train",
            "verify": self.verify,
            "set_statuses": with_statuses,
            "combine_boards": combined,
            "check": "./check",
            "sleep": self.sleep,
            "rng": random.Random(7),
        }
        return Train(
            self.repository,
            Upstream(self.repository, remote, self.target, timeout=20),
            **{**options, **changes},
        )

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def verify(self, tree: Path, commands: Sequence[str]) -> Checked:
        """Run the commands for real."""
        self.runs.append(tuple(commands))
        self.during()
        for command in commands:
            done = await asyncio.to_thread(
                subprocess.run, command, shell=True, cwd=tree, capture_output=True, text=True
            )
            if done.returncode != 0:
                return Checked(False, f"exit status {done.returncode}", done.stdout + done.stderr)
        return Checked(True)

    async def cargo(
        self, task_id: str, files: Mapping[str, str], *, base: str = "", command: str = "true"
    ) -> Cargo:
        """Do the task in a worktree of its own and queue its commit."""
        made = await self.worktrees.create(task_id, base or self.train.tip)
        for name, text in files.items():
            path = made.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        change = await self.worktrees.commit(
            made, f"{task_id}: work", {"Taskyard-Task": task_id, "Taskyard-Run": "r1"}
        )
        assert change is not None
        await self.train.queue(task_id, change.commit)
        return Cargo(task_id, f"Make {task_id}", change.commit, command, change.paths)

    async def land(self, *cargo: Cargo, **options: Any) -> TrainResult:
        return await self.train.land(
            cargo, on_step=lambda stage, detail: self.steps.append((stage, detail)), **options
        )

    # What a person would see

    def refs(self, prefix: str) -> list[str]:
        return self.sample.git("for-each-ref", "--format=%(refname)", prefix).split()

    def at_remote(self, path: str) -> str:
        return self.sample.git("show", f"{self.target}:{path}", at=self.sample.remote)

    def lands_of(self, task_id: str) -> int:
        """How many merges of the task the target has."""
        git = self.sample.git
        at = self.sample.remote if self.sample.remote.exists() else self.sample.path
        return len(
            git(
                "log", "--merges", "--format=%h", f"--grep=^Taskyard-Task: {task_id}$", self.target, at=at
            ).split()
        )


async def make_yard(sample: SampleRepository, root: Path, target: str = TARGET) -> Yard:
    yard = await Yard.open(sample, root, target)
    await yard.train.start()
    return yard


def clone(sample: SampleRepository, path: Path) -> SampleRepository:
    sample.git("clone", "--quiet", str(sample.remote), str(path))
    return SampleRepository(path, sample.remote)


def landed(result: object) -> list[str]:
    return [item.task_id for item in result.landed]  # type: ignore[attr-defined]


def old_git(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Put a git on PATH that says it is older, and has not what came later."""
    _other_git(
        folder,
        monkeypatch,
        f'*" version "*|*" --version "*) echo git version {version}; exit 0 ;;\n'
        '*" merge-tree "* | *" worktree list "*" -z "*) echo usage: git >&2; exit 129 ;;\n',
    )


def slow_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a git on PATH that takes a minute for some commands."""
    _other_git(folder, monkeypatch, '*" fetch "* | *" push "* | *" status --ignored "*) exec sleep 60 ;;\n')


def _other_git(folder: Path, monkeypatch: pytest.MonkeyPatch, cases: str) -> None:
    """Put a git on PATH that does some commands in its own way; `cases` are of a shell's `case` over its words."""
    git = shutil.which("git")
    folder.mkdir()
    script = f'#!/bin/sh\ncase " $* " in\n{cases}esac\nexec {git} "$@"\n'
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def allow_file_submodules(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git take submodules from paths of this machine, by a user's configuration at `config`."""
    given = Path(os.environ["GIT_CONFIG_GLOBAL"]).read_text()
    config.write_text(given + '[protocol "file"]\n\tallow = always\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
