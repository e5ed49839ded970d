"""The books find what they are there to find: each thing that must not happen is done by hand, and noticed."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import msgspec
import pytest

from engine.calls import CallRecord
from engine.llm.simulator.validation import VERSION
from tests.faults.boards import models
from tests.faults.books import LOSSES, Books, kept_answers
from tests.faults.yard import MARK, TARGET, Yard

Damage = Callable[[Yard], object]


def _commit(yard: Yard, message: str, tree: str = f"{TARGET}^{{tree}}") -> None:
    """Put one more commit on the remote's target."""
    made = yard.git("commit-tree", "-p", TARGET, "-m", message, tree, at=yard.remote)
    yard.git("update-ref", f"refs/heads/{TARGET}", made, at=yard.remote)


def _ask_again(yard: Yard) -> None:
    """Ask a model what it has answered before, as a run that lost an answer would."""
    assert yard.simulator is not None
    record = next((yard.paths.state / "logs").rglob("M1/*/*.json"))
    asked = msgspec.json.decode(record.read_bytes(), type=CallRecord).request
    params = {**asked.params(), "stream": True}
    headers = {"content-type": "application/json", "x-api-key": "demo", "anthropic-version": VERSION}
    request = urllib.request.Request(
        f"{yard.simulator.url}/v1/messages", msgspec.json.encode(params), headers
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert b"message_stop" in answer.read()


def _leave_process(yard: Yard) -> None:
    left = subprocess.Popen(
        ["/bin/sh", "-c", "echo; sleep 600; true"],
        env={**os.environ, MARK: str(yard.folder)},
        stdout=subprocess.PIPE,
    )
    assert left.stdout is not None
    left.stdout.readline()  # Before its first word the kernel may not show its environment yet.


DAMAGES: tuple[tuple[str, Damage], ...] = (
    ("paid twice", _ask_again),
    ("doubled pushes", lambda yard: _commit(yard, "The same again")),
    ("doubled commits", lambda yard: _commit(yard, "Again\n\nTaskyard-Task: M1\n")),
    ("stray worktrees", lambda yard: yard.git("worktree", "add", "--detach", str(yard.disk / "left"))),
    ("stray worktrees", lambda yard: yard.git("update-ref", "refs/taskyard/queue/b/M1", "HEAD")),
    ("stale locks", lambda yard: (yard.path / ".git" / "refs" / "heads" / "main.lock").touch()),
    ("other", lambda yard: (yard.path / "shared.txt").write_text("not the person's\n")),
    ("other", lambda yard: _commit(yard, "An old board", "main^{tree}")),
    ("lost commits", lambda yard: yard.git("update-ref", f"refs/heads/{TARGET}", "main", at=yard.remote)),
    ("stray processes", _leave_process),
)


@pytest.fixture
def done(tmp_path: Path) -> Iterator[Yard]:
    """A yard whose run has landed all, with nobody hurting it."""
    with Yard(tmp_path / "yard", models(1, rate=0.0)) as yard:
        run = yard.start(0)
        assert run.ended_within(200), "it did not end"
        assert run.process.returncode == 0, run.complaint
        yield yard


def test_every_loss_is_found(done: Yard) -> None:
    books = Books(done)
    books.open()

    def found() -> dict[str, int]:
        books.losses = {name: [] for name in LOSSES}
        books.judge()
        return {name: len(texts) for name, texts in books.losses.items()}

    before = found()
    assert set(before.values()) == {0}, books.losses
    for name, damage in DAMAGES:
        damage(done)
        after = found()
        assert after[name] > before[name], f"{name} was not noticed: {books.losses}"
        before = after | {"paid twice": 0}


def test_a_cache_whose_maker_was_killed_before_it_had_tables_holds_no_answers() -> None:
    assert kept_answers(apsw.Connection(":memory:")) == []
