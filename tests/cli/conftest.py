"""A repository to stand in, and the commands run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sample_repository import SampleRepository
from tui.cli import main

Run = Callable[..., str]


@pytest.fixture
def root(repo: Callable[..., SampleRepository], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, and the current directory."""
    path = repo().path
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def run(root: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command, expect a status, and give what it printed."""

    def run(*args: str, status: int = 0) -> str:
        assert main(args) == status
        said = capsys.readouterr()
        return said.err if status == 2 else said.out

    return run
