"""Roles that agent commands play: what they are given, and what becomes of what they answer."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.events import (
    AgentAsked,
    AgentEnded,
    AnyEvent,
    AttemptFailed,
    CallAnswered,
    LessonRecorded,
    RunFinished,
    StageFinished,
    TaskEnded,
    decode,
)
from engine.model import Role, Stage, TaskState
from tests import forked
from tests.cli.taskyard import PROGRAM
from tests.e2e.test_limits import environment
from tests.sample_repository import SampleRepository

BOARD = """\
| ID | Scope | Status | Branch | Verification |
|----|-------|--------|--------|--------------|
| T1 | Write one file, as 世界 | [ ] | | `test -f T1.txt` |
| T2 | Write another | [ ] | | `test -f T2.txt` |
"""
WRITES = "echo x > $task.txt; echo Wrote it."
APPROVES = """echo '{"approved": true, "reason": "fine"}'"""


class Yard:
    """A project whose roles are lines of shell. What each was given lies in `told`, a file for each turn."""

    def __init__(self, made: SampleRepository, told: Path) -> None:
        self.made = made
        self.told = told
        told.mkdir()

    def write(
        self, *, board: str = BOARD, env: str = "", limits: str = "", more: str = "", **roles: str
    ) -> None:
        """Commit the board and the settings; a role without a script is nobody's."""
        lines = []
        for role in Role:
            if role not in roles:
                lines.append(f'[roles.{role}]\nkind = "none"\n')
                continue
            begin = (
                f"n=$(ls {self.told} | wc -l); given={self.told}/{role}.$n; cat > $given; "
                "task=$(sed -n 's/^Task: //p' $given); "
            )
            command = json.dumps(["/bin/sh", "-c", begin + roles[role]])
            lines.append(f'[roles.{role}]\nkind = "command"\ncommand = {command}\nenv = [{env}]\n{limits}')
        more = more or "[run]\nmax_concurrency = 1\n"
        settings = "".join(lines) + f'[git]\nmax_age = "100ms"\n{more}'
        self.made.commit("Plan", {"tasks/board.md": board, "taskyard.toml": settings})
        self.made.git("push", "--quiet")

    def run(self, *args: str) -> tuple[int, list[AnyEvent], str]:
        """Run it; gives the exit status, the events, and what was said beside them."""
        done = forked.run(
            [*PROGRAM, "run", "--json", *args],
            cwd=self.made.path,
            env=environment(),
            timeout=200,
        )
        return done.returncode, [decode(line) for line in done.stdout.splitlines()], done.stderr.decode()

    def board(self) -> str:
        """The board as the target has it, or the checkout where nothing has landed."""
        target = self.made.git("ls-remote", "origin", "taskyard/board").split()
        if not target:
            return (self.made.path / "tasks/board.md").read_text()
        self.made.git("fetch", "--quiet", "origin", "taskyard/board")
        return self.made.git("show", f"{target[0]}:tasks/board.md")

    def log_of(self, stage: str) -> Path | None:
        """The log of the first attempt at T1, once it is there."""
        return next(iter(self.made.path.glob(f".git/taskyard/**/T1/1/{stage}.log")), None)

    def killed_at(self, log: Callable[[], Path | None], said: bytes) -> Path:
        """Run it, and kill it as soon as the log ends with this; gives the log."""
        with forked.Popen([*PROGRAM, "run"], cwd=self.made.path, env=environment(), stdout=-3) as process:
            deadline = time.monotonic() + 90
            while (found := log()) is None or not found.read_bytes().endswith(said):
                assert time.monotonic() < deadline
                assert process.poll() is None
                time.sleep(0.02)
            process.kill()
        return found

    def given(self, role: str) -> list[str]:
        """What the role's turns were given, oldest first."""
        files = sorted(self.told.glob(f"{role}.*"), key=lambda path: int(path.suffix[1:]))
        return [path.read_bytes().decode() for path in files]


@pytest.fixture
def yard(repo: Callable[..., SampleRepository], tmp_path: Path) -> Yard:
    return Yard(repo({"README.md": "# Shop\n"}), tmp_path / "told")


def test_what_an_agent_was_given_is_kept_word_for_word(yard: Yard) -> None:
    yard.write(
        implementer=WRITES, judge=APPROVES, planner="""echo '{"steps": ["Write it."], "type": "docs"}'"""
    )
    status, events, _ = yard.run()
    assert status == 0
    asked = [event for event in events if isinstance(event, AgentAsked)]
    assert sorted((event.task, event.role) for event in asked) == [
        (task, role) for task in ("T1", "T2") for role in (Role.IMPLEMENTER, Role.JUDGE, Role.PLANNER)
    ]
    for role in Role:
        kept = [Path(event.record).read_bytes().decode() for event in asked if event.role is role]
        assert sorted(kept) == sorted(yard.given(role))
        assert "Write one file, as 世界" in "".join(kept)
    assert {event.call for event in asked} == {
        event.call for event in events if isinstance(event, AgentEnded)
    }
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.landed, finished.model_calls, finished.usd) == (2, 0, 0.0)


def test_an_agent_that_tells_its_use_is_one_call_with_its_prompt(yard: Yard) -> None:
    said = {"type": "result", "result": "Done.", "usage": {"input_tokens": 5}, "total_cost_usd": 0.25}
    yard.write(implementer=f"echo x > $task.txt; echo '{json.dumps(said)}'")
    status, events, _ = yard.run()
    assert status == 0
    asked = {event.call: event.record for event in events if isinstance(event, AgentAsked)}
    billed = {event.call: event.record for event in events if isinstance(event, CallAnswered)}
    assert len(asked) == 2
    assert billed == asked
    assert not [event for event in events if isinstance(event, AgentEnded)]
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.model_calls, finished.usd) == (2, 0.5)


SPENT = {"type": "result", "result": "Done.", "usage": {"input_tokens": 5}, "total_cost_usd": 0.25}
ONE_TASK = "".join(BOARD.splitlines(keepends=True)[:3])


def test_what_an_agent_used_before_it_overran_its_limit_is_on_the_bill(yard: Yard) -> None:
    yard.write(
        board=ONE_TASK,
        implementer=f"echo '{json.dumps(SPENT)}'; sleep 600",
        limits='timeout = "3s"\n',
        more="[run]\nmax_attempts = 1\n",
    )
    status, events, _ = yard.run()
    assert status == 1
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.failed, finished.tokens.total, finished.usd) == (1, 5, 0.25)


def test_what_an_agent_used_before_the_run_was_stopped_is_on_the_bill(yard: Yard) -> None:
    yard.write(board=ONE_TASK, implementer=f"echo '{json.dumps(SPENT)}'; sleep 600")
    with forked.Popen(
        [*PROGRAM, "run", "--json"], cwd=yard.made.path, env=environment(), stdout=subprocess.PIPE
    ) as running:
        deadline = time.monotonic() + 90
        while (log := yard.log_of("implement")) is None or b"total_cost_usd" not in log.read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=90)
    finished = decode(out.splitlines()[-1])
    assert isinstance(finished, RunFinished)
    assert (finished.status, finished.usd) == ("interrupted", 0.25)


def test_the_prompt_of_an_agent_is_there_while_it_works_and_when_the_run_was_killed(yard: Yard) -> None:
    yard.write(implementer="sleep 60")
    with forked.Popen(
        [*PROGRAM, "run", "--json"], cwd=yard.made.path, env=environment(), stdout=-1
    ) as process:
        assert process.stdout is not None
        while not isinstance(event := decode(process.stdout.readline()), AgentAsked):
            pass
        kept = Path(event.record).read_bytes()
        deadline = time.monotonic() + 90
        while not yard.given("implementer") and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
    assert b"Task: T1" in kept
    assert Path(event.record).read_bytes() == kept


def test_no_setting_or_variable_is_written_beside_a_prompt(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-very-secret")
    script = f'test "$SHOP_API_KEY" = sk-very-secret && {WRITES} # --token=also-secret'
    yard.write(implementer=script, env='"SHOP_API_KEY"')
    status, events, _ = yard.run()
    assert status == 0
    kept = [Path(event.record).read_text() for event in events if isinstance(event, AgentAsked)]
    assert len(kept) == 2
    assert not [text for text in kept if "secret" in text]


WRONG = """echo '{"verdict": "yes"}'"""


def test_a_judge_that_never_answers_as_asked_stops_the_run_and_marks_nothing(yard: Yard) -> None:
    yard.write(implementer=WRITES, judge=WRONG)
    status, events, said = yard.run()
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (status, finished.landed, finished.failed) == (2, 0, 0)
    assert 'needs "approved": true or false, and "reason": a text' in said
    assert '{"verdict": "yes"} has no "approved"' in said
    assert "mend the command of [roles.judge]" in said
    assert (len(yard.given("implementer")), len(yard.given("judge"))) == (1, 3)
    assert not [event for event in events if isinstance(event, AttemptFailed | LessonRecorded | TaskEnded)]
    assert "[!]" not in yard.board()

    yard.write(implementer=WRITES, judge=APPROVES)
    status, events, _ = yard.run()
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (status, finished.landed) == (0, 2)
    assert len(yard.given("implementer")) == 2, "what T1's Implementer did was kept"


def test_a_judge_that_answers_wrongly_is_asked_again_and_told_what_was_wrong(yard: Yard) -> None:
    half = """'{"approved": "yes"}'"""
    yard.write(
        implementer=WRITES,
        judge=f"if grep -q 'could not be used' $given; then {APPROVES}; else printf %s {half}; fi",
    )
    status, events, _ = yard.run()
    assert status == 0
    first, second, *_ = yard.given("judge")
    assert second.startswith(first)
    assert '"approved" is "yes", not true or false' in second
    assert (len(yard.given("implementer")), len(yard.given("judge"))) == (2, 4)
    assert not [event for event in events if isinstance(event, AttemptFailed | LessonRecorded)]
    log = next(
        Path(event.log).read_text()
        for event in events
        if isinstance(event, StageFinished) and event.stage is Stage.JUDGE
    )
    assert log.splitlines() == [
        '{"approved": "yes"}',
        "── asked again: the answer could not be used ──",
        '{"approved": true, "reason": "fine"}',
    ]


def test_a_judge_that_runs_out_of_time_is_asked_again_and_then_stops_the_run(yard: Yard) -> None:
    yard.write(implementer=WRITES, judge="sleep 60", limits='timeout = "4s"\n')
    status, events, said = yard.run()
    assert status == 2
    assert (
        "/bin/sh ran for more than 4 s and was ended: mend the command of [roles.judge] or its limits" in said
    )
    assert (len(yard.given("implementer")), len(yard.given("judge"))) == (1, 3)
    assert not [event for event in events if isinstance(event, AttemptFailed | LessonRecorded | TaskEnded)]
    assert "[!]" not in yard.board()


def test_one_bad_answer_of_a_judge_that_can_answer_fails_the_task_and_teaches_nobody(yard: Yard) -> None:
    yard.write(
        implementer=WRITES,
        judge=f"if test $task = T1; then {APPROVES}; else echo 'Looks good.'; exit 3; fi",
        more="[run]\nmax_attempts = 2\nmax_concurrency = 1\n",
    )
    status, events, _ = yard.run()
    assert status == 1
    (ended,) = [event for event in events if isinstance(event, TaskEnded)]
    assert ended.task == "T2"
    assert "it printed no JSON object, but Looks good." in ended.reason
    assert "ended with status 3" in ended.reason
    assert not [event for event in events if isinstance(event, LessonRecorded)]
    again = yard.given("implementer")[-1]
    assert "Nothing is known to be wrong with the work" in again
    assert "JSON" not in again


def test_a_judge_that_answered_before_the_run_was_killed_fails_the_task_too(yard: Yard) -> None:
    killed = yard.told.parent / "killed"
    yard.write(
        implementer=WRITES,
        judge=f"if test $task = T1; then {APPROVES}; elif test -e {killed}; then echo 'Looks good.'; "
        f"else echo > {killed}; kill -9 $PPID; fi",
        more="[run]\nmax_attempts = 1\nmax_concurrency = 1\n",
    )
    assert yard.run()[0] == -signal.SIGKILL
    status, events, _ = yard.run()
    assert status == 1
    assert [(event.task, event.state) for event in events if isinstance(event, TaskEnded)] == [
        ("T2", TaskState.FAILED)
    ]


def test_a_planner_that_never_answers_as_asked_stops_the_run(yard: Yard) -> None:
    yard.write(implementer=WRITES, planner="""echo '{"steps": "one"}'""")
    status, events, said = yard.run()
    assert status == 2
    assert '"steps" is "one", not a list of texts' in said
    assert "mend the command of [roles.planner]" in said
    assert (len(yard.given("planner")), len(yard.given("implementer"))) == (3, 0)
    assert not [event for event in events if isinstance(event, AttemptFailed | LessonRecorded | TaskEnded)]


def test_the_logs_of_an_interrupted_attempt_say_where_it_was_taken_up_again(yard: Yard) -> None:
    go = yard.told.parent / "go"
    check = f"printf 'half a check'; test -e {go} || sleep 60"
    board = "\n".join([*BOARD.splitlines()[:2], f"| T1 | Write one | [ ] | | `{check}` |", ""])
    yard.write(board=board, implementer=f"printf 'half a line'; test -e {go}1 || sleep 60; {WRITES}")
    logs = yard.killed_at(lambda: yard.log_of("implement"), b"half a line")
    (yard.told.parent / "go1").touch()
    yard.killed_at(lambda: yard.log_of("verify"), b"half a check")
    go.touch()
    status, _, _ = yard.run()
    assert status == 0
    mark = "── interrupted here, and taken up again ──"
    assert (logs.parent / "implement.log").read_text() == f"half a line\n{mark}\nhalf a lineWrote it.\n"
    assert (logs.parent / "verify.log").read_text() == f"half a check\n{mark}\nhalf a check"
