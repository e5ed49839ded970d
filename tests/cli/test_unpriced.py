"""A bill that lacks something says so wherever it is told: an agent that reports tokens, but no dollars."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from engine.events import RunFinished, decode
from tests.cli.shell_agent import BOARD, settings
from tests.cli.taskyard import taskyard
from tests.cli.test_doctor import found
from tests.sample_repository import SampleRepository

Repo = Callable[..., SampleRepository]

LIKE_CODEX = """
id=$(grep -o -w "[AB]" | head -1)
echo made > $id.txt
echo "{\\"type\\":\\"turn.completed\\",\\"usage\\":{\\"input_tokens\\":900,\\"output_tokens\\":70}}"
"""
CANNOT_HOLD = "sh reports no cost: [budget] cannot hold what it spends"


@pytest.fixture
def made(repo: Repo) -> SampleRepository:
    return repo({"tasks/board.md": BOARD, "taskyard.toml": settings(LIKE_CODEX)})


def test_what_has_no_price_is_told_beside_every_sum(made: SampleRepository) -> None:
    run = taskyard("run", "--headless", "--budget", "1", at=made.path)
    assert run.status == 0, run
    assert (run.out + run.err).count(CANNOT_HOLD) == 1
    assert "  cost     $0.00 +2 unpriced calls, " in run.out
    status = taskyard("status", at=made.path).out
    assert "$0.00 of $1.00 spent +2 unpriced calls, " in status
    assert status.count(" $0.00+ ") == 2
    assert " $0.00+ " in taskyard("history", "runs", at=made.path).out
    assert taskyard("history", "list", at=made.path).out.count(" $0.00+ ") == 2
    [run_] = json.loads(taskyard("history", "runs", "--json", at=made.path).out)
    assert run_["unpriced"] == 2
    assert [each["unpriced"] for each in json.loads(taskyard("history", "--json", at=made.path).out)] == [
        1,
        1,
    ]


def test_scripts_are_told_how_many_have_no_price(made: SampleRepository) -> None:
    run = taskyard("run", "--json", at=made.path)
    finished = decode(run.out.splitlines()[-1].encode())
    assert isinstance(finished, RunFinished)
    assert (finished.usd, finished.unpriced, finished.tokens.total) == (0.0, 2, 2 * 970)
    assert CANNOT_HOLD not in run.out, "no budget, nothing to hold"


def test_doctor_says_what_a_budget_knows_of_agent_commands(made: SampleRepository) -> None:
    assert found(taskyard("doctor", at=made.path), "budget") == []
    [said] = found(taskyard("doctor", at=made.path, environ={"TASKYARD_BUDGET_USD": "1"}), "budget")
    assert said.startswith("! of an agent command it knows only what that reports")
