"""Child processes: real ones, that misbehave in every way agents and test suites do."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine import process
from engine.errors import ProcessError
from engine.log_times import LogTimes, LogTimesReader
from engine.process import ProcessResult, child_environment, end_strays, run_process, strays

Run = Callable[..., Awaitable[ProcessResult]]
ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run Python code (or a whole `argv`) as the engine runs agents and checks."""

    async def start(code: str = "", **options: Any) -> ProcessResult:
        argv = options.pop("argv", [sys.executable, "-c", code])
        settings: dict[str, Any] = {
            "cwd": tmp_path,
            "env": ENV,
            "log": tmp_path / "logs" / "out.log",
            "timeout": 50.0,
        }
        return await run_process(argv, **(settings | options))

    return start


class SinceItSpoke:
    """A clock that begins with the child's first line: how long a child takes to start counts towards no limit."""

    def __init__(self) -> None:
        self._begin: float | None = None

    def __call__(self) -> float:
        return 0.0 if self._begin is None else time.monotonic() - self._begin

    def hear(self, line: str) -> None:
        if self._begin is None:
            self._begin = time.monotonic()


async def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pid_in(path: Path) -> int:
    return int(path.read_text())


# Output


async def test_the_times_of_the_output_stand_beside_it(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "out.log"
    await run("print('one')", clock=lambda: 100.0)
    await run("print('two')", clock=lambda: 107.0)
    times = LogTimesReader(log)
    assert times.read() == [(0, 100.0), (4, 107.0)]
    writer = LogTimes(log)
    for offset, at in ((8, 110.0), (9, 110.4), (10, 111.5)):
        writer.note(offset, at)
    assert times.read() == [(8, 110.0), (10, 111.5)]
    assert log.read_text() == "one\ntwo\n"


async def test_output_of_both_streams_goes_to_the_log_and_the_tail(run: Run, tmp_path: Path) -> None:
    lines: list[str] = []
    code = "import sys; print('one', flush=True); print('two', file=sys.stderr, flush=True); print('three')"
    result = await run(code, on_line=lines.append)
    assert (result.status, result.overran) == (0, "")
    assert result.tail == "one\ntwo\nthree\n"
    assert lines == ["one", "two", "three"]
    assert (tmp_path / "logs" / "out.log").read_text() == result.tail
    assert 0 < result.duration < 50


async def test_the_log_is_appended_to(run: Run, tmp_path: Path) -> None:
    await run("print('first')")
    await run("print('second')")
    assert (tmp_path / "logs" / "out.log").read_text() == "first\nsecond\n"


async def test_a_last_line_without_an_end_is_told_too(run: Run) -> None:
    lines: list[str] = []
    await run("import sys; sys.stdout.write('a\\nresult')", on_line=lines.append)
    assert lines == ["a", "result"]


async def test_much_output_is_whole_in_the_log_and_bounded_in_memory(run: Run, tmp_path: Path) -> None:
    lines: list[str] = []
    result = await run("for n in range(200_000): print(f'line {n}')", on_line=lines.append)
    assert len(lines) == 200_000
    assert lines[-1] == "line 199999"
    assert (tmp_path / "logs" / "out.log").stat().st_size == sum(len(line) + 1 for line in lines)
    assert len(result.tail) == process.TAIL_BYTES
    assert result.tail.endswith("line 199999\n")


async def test_a_line_longer_than_one_read_arrives_whole(run: Run) -> None:
    lines: list[str] = []
    await run("print('x' * 500_000); print('é' * 100_000)", on_line=lines.append)
    assert [len(line) for line in lines] == [500_000, 100_000]
    assert set(lines[1]) == {"é"}


async def test_what_the_listener_raises_ends_the_child_and_is_raised(run: Run, tmp_path: Path) -> None:
    def refuse(line: str) -> None:
        raise RuntimeError(f"not {line}")

    code = "import time, os; print(os.getpid(), flush=True); time.sleep(60)"
    with pytest.raises(RuntimeError, match="not"):
        await run(code, on_line=refuse)
    assert not alive(int((tmp_path / "logs" / "out.log").read_text()))


async def test_a_log_that_cannot_be_written_is_one_clear_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProcessError, match="cannot write"):
        await run("print(1)", log=tmp_path / "file" / "out.log")


# Input


async def test_input_arrives_whole(run: Run) -> None:
    result = await run("import sys; print(len(sys.stdin.buffer.read()))", stdin=b"x" * 3_000_000)
    assert result.tail == "3000000\n"


async def test_without_input_the_child_reads_its_end_at_once(run: Run) -> None:
    assert (await run("import sys; print(repr(sys.stdin.read()))")).tail == "''\n"


async def test_a_child_that_reads_nothing_of_a_big_input_ends_in_peace(run: Run) -> None:
    result = await run("print('done')", stdin=b"x" * 5_000_000)
    assert (result.status, result.tail) == (0, "done\n")


async def test_a_child_that_reads_nothing_and_stays_is_ended_in_time(run: Run) -> None:
    result = await run("import time; time.sleep(60)", stdin=b"x" * 5_000_000, timeout=0.5)
    assert result.overran == "timeout"
    assert result.duration < STAYS


# Ends


@pytest.mark.parametrize("status", [0, 1, 42])
async def test_the_exit_status_is_told(run: Run, status: int) -> None:
    assert (await run(f"raise SystemExit({status})")).status == status


async def test_a_signal_is_told_as_a_negative_status(run: Run) -> None:
    assert (await run("import os; os.kill(os.getpid(), 9)")).status == -signal.SIGKILL


async def test_a_missing_program_is_told_by_name(run: Run) -> None:
    with pytest.raises(ProcessError, match="no-such-agent") as caught:
        await run(argv=["no-such-agent", "-p"])
    assert "PATH" in caught.value.hint


async def test_a_missing_folder_is_not_mistaken_for_a_missing_program(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="gone does not exist"):
        await run("print(1)", cwd=tmp_path / "gone")


async def test_an_argument_that_no_system_takes_is_an_error_of_ours(run: Run) -> None:
    with pytest.raises(ProcessError, match="null"):
        await run(argv=["echo", "a\0b"])


# Limits

STAYS = 40.0  # seconds: well below the minute for which those below would stay

GRANDCHILD = """
import pathlib, subprocess, sys, time
code = "import os, time; open('grandchild', 'w').write(str(os.getpid())); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", code], start_new_session=LEAVES)
while not pathlib.Path('grandchild').exists() or not pathlib.Path('grandchild').read_text(): time.sleep(0.01)
print('ready', flush=True)
"""
LEAVING = GRANDCHILD.replace("LEAVES", "True")
GRANDCHILD = GRANDCHILD.replace("LEAVES", "False")


async def test_the_wall_limit_ends_the_whole_group(run: Run, tmp_path: Path) -> None:
    clock = SinceItSpoke()
    result = await run(GRANDCHILD + "time.sleep(60)", timeout=0.3, on_line=clock.hear, monotonic=clock)
    assert result.overran == "timeout"
    assert result.status == -signal.SIGTERM
    assert result.tail == "ready\n"
    await until(lambda: not alive(pid_in(tmp_path / "grandchild")))


async def test_the_idle_limit_ends_a_silent_child(run: Run, tmp_path: Path) -> None:
    clock = SinceItSpoke()
    result = await run(GRANDCHILD + "time.sleep(60)", idle_timeout=0.3, on_line=clock.hear, monotonic=clock)
    assert result.overran == "idle_timeout"
    assert result.duration < STAYS
    await until(lambda: not alive(pid_in(tmp_path / "grandchild")))


async def test_a_child_that_keeps_talking_is_not_idle(run: Run) -> None:
    clock = SinceItSpoke()
    code = "import time\nfor n in range(12): print(n, flush=True); time.sleep(0.2)"
    result = await run(code, idle_timeout=2.0, on_line=clock.hear, monotonic=clock)
    assert (result.status, result.overran) == (0, "")
    assert result.duration > 2.0


async def test_a_child_that_ignores_being_asked_is_killed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "KILL_AFTER", 0.3)
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print(os.getpid(), flush=True); time.sleep(60)"
    )
    clock = SinceItSpoke()
    result = await run(code, idle_timeout=0.3, on_line=clock.hear, monotonic=clock)
    assert result.status == -signal.SIGKILL
    assert not alive(int(result.tail))


async def test_a_child_that_is_asked_to_end_may_clean_up(run: Run) -> None:
    code = (
        "import signal, sys, time\n"
        "def end(*_): print('cleaned up', flush=True); sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, end); print('ready', flush=True); time.sleep(60)"
    )
    clock = SinceItSpoke()
    result = await run(code, idle_timeout=0.3, on_line=clock.hear, monotonic=clock)
    assert (result.status, result.tail) == (3, "ready\ncleaned up\n")


# Those who stay behind


async def test_a_quiet_grandchild_that_holds_the_pipe_keeps_nobody_waiting(run: Run, tmp_path: Path) -> None:
    result = await run(GRANDCHILD)
    assert (result.status, result.overran) == (0, "")
    assert result.duration < STAYS
    await until(lambda: not alive(pid_in(tmp_path / "grandchild")))


async def test_a_chatty_grandchild_keeps_nobody_waiting(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LINGER", 0.5)
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', "
        "'import time\\nwhile True: print(1, flush=True); time.sleep(0.02)'])\n"
    )
    result = await run(code)
    assert (result.status, result.overran) == (0, "")
    assert result.duration < STAYS


async def test_a_grandchild_that_left_the_group_is_ended_and_holds_no_descriptor(
    run: Run, tmp_path: Path
) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    result = await run(LEAVING)
    left = pid_in(tmp_path / "grandchild")
    assert (result.status, result.tail) == (0, "ready\n")
    assert result.duration < STAYS
    await until(lambda: not alive(left))
    if before:
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before)


async def test_cancelling_ends_the_group(run: Run, tmp_path: Path) -> None:
    task = asyncio.ensure_future(run(GRANDCHILD + "time.sleep(60)"))
    log = tmp_path / "logs" / "out.log"
    await until(lambda: log.exists() and log.read_text() == "ready\n")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not alive(pid_in(tmp_path / "grandchild")))


@pytest.mark.parametrize("turns", range(12))
async def test_cancelling_at_any_moment_of_the_start_comes_to_an_end(run: Run, turns: int) -> None:
    task = asyncio.ensure_future(run(argv=["sleep", "60"], env={**ENV, "TASKYARD_RUN": f"start-{turns}"}))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 40)
    assert strays(f"start-{turns}") == ()


async def test_cancelling_twice_ends_the_group_all_the_same(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "KILL_AFTER", 0.3)
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print(os.getpid(), flush=True); time.sleep(60)"
    )
    task = asyncio.ensure_future(run(code))
    log = tmp_path / "logs" / "out.log"
    await until(lambda: log.exists() and log.read_text().endswith("\n"))
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not alive(int(log.read_text())))


STUBBORN = (
    "import os, signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "print('ready', flush=True); time.sleep(60)"
)


def test_a_loop_that_ends_with_who_was_cancelled_twice_leaves_nothing_behind(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task is cancelled, and its run is stopped while the agent, which does not listen, is given time to end."""
    monkeypatch.setattr(process, "KILL_AFTER", 0.3)
    log = tmp_path / "logs" / "out.log"
    end_group, ending = process._end_group, []

    async def begin_to_end(*args: Any) -> None:
        ending.append(args)
        await end_group(*args)

    monkeypatch.setattr(process, "_end_group", begin_to_end)

    async def cancelled_twice() -> None:
        task = asyncio.ensure_future(run(STUBBORN, env={**ENV, process.RUN_VARIABLE: "run-twice"}))
        await until(lambda: log.exists() and log.read_text() == "ready\n")
        task.cancel()
        await until(lambda: ending)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    try:
        asyncio.run(cancelled_twice())
        assert strays("run-twice") == ()
    finally:
        end_strays("run-twice")


@pytest.mark.parametrize("turns", range(6))
async def test_cancelling_twice_at_any_moment_of_the_start_leaves_nothing_behind(
    run: Run, turns: int
) -> None:
    name = f"start-twice-{turns}"
    task = asyncio.ensure_future(run(argv=["sleep", "60"], env={**ENV, process.RUN_VARIABLE: name}))
    for _ in range(turns):
        await asyncio.sleep(0)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 40)
    assert strays(name) == ()


async def test_many_at_once_end_each_with_its_own_status(run: Run, tmp_path: Path) -> None:
    results = await asyncio.gather(
        *(run(argv=["sh", "-c", f"echo {n}; exit {n}"], log=tmp_path / f"{n}.log") for n in range(20))
    )
    assert [(result.status, result.tail) for result in results] == [(n, f"{n}\n") for n in range(20)]


# The environment

SECRETS = {
    "ANTHROPIC_API_KEY": "k",
    "ANTHROPIC_BASE_URL": "u",
    "OPENAI_ORG": "o",
    "AWS_SECRET_ACCESS_KEY": "k",
    "AWS_ACCESS_KEY_ID": "k",
    "GITHUB_TOKEN": "t",
    "GH_PAT": "t",
    "CLAUDE_CODE_OAUTH_TOKEN": "t",
    "npm_config__auth": "a",
    "DB_PASSWORD": "p",
    "GOOGLE_APPLICATION_CREDENTIALS": "f",
    "SSH_PRIVATE_KEY": "k",
    "my_secret": "s",
}
GIT = {
    "GIT_DIR": "/elsewhere",
    "GIT_INDEX_FILE": "/elsewhere/index",
    "GIT_WORK_TREE": "/elsewhere",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "http.extraheader",
    "GIT_CONFIG_VALUE_0": "authorization: basic",
    "GIT_CONFIG_PARAMETERS": "'core.bare=true'",
    "TASKYARD_RUN": "outer",
    "TASKYARD_GIT_REMOTE": "origin",
}
HARMLESS = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LANG": "C.UTF-8",
    "GIT_AUTHOR_NAME": "Me",
    "GIT_CONFIG_GLOBAL": "/home/me/.gitconfig",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_SSH_COMMAND": "ssh",
    "VIRTUAL_ENV": "/venv",
}


def test_a_child_gets_no_secret_and_none_of_gits_own_variables() -> None:
    env = child_environment({**SECRETS, **GIT, **HARMLESS}, "r1")
    added = {
        "TASKYARD_RUN": "r1",
        "GIT_TERMINAL_PROMPT": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    assert env == {**HARMLESS, **added}


def test_a_named_secret_is_passed_on() -> None:
    env = child_environment(SECRETS, "r1", keep=["ANTHROPIC_API_KEY"])
    assert env["ANTHROPIC_API_KEY"] == "k"
    assert "GITHUB_TOKEN" not in env


async def test_the_child_sees_exactly_the_environment_it_is_given(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    result = await run(argv=["env"], env=child_environment(os.environ, "r1"))
    assert "TASKYARD_RUN=r1" in result.tail
    assert "sk-ant-secret" not in result.tail


# What a killed run left behind


def test_strays_are_found_by_their_mark_and_killed_and_no_others() -> None:
    def sleeper(mark: str | None) -> subprocess.Popen[bytes]:
        env = dict(ENV) if mark is None else {**ENV, process.RUN_VARIABLE: mark}
        code = "import subprocess, sys; print(1, flush=True); sys.stdin.read()"
        child = subprocess.Popen(
            [sys.executable, "-c", code],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert child.stdout is not None
        child.stdout.readline()
        return child

    ours, other, unmarked = sleeper("run-77"), sleeper("run-777"), sleeper(None)
    try:
        assert strays("run-77") == (ours.pid,)
        assert end_strays("run-77") == 1
        assert ours.wait(30) == -signal.SIGKILL
        assert other.poll() is None
        assert unmarked.poll() is None
        assert end_strays("run-77") == 0
    finally:
        for child in (ours, other, unmarked):
            child.kill()
            child.communicate()


def test_what_a_stray_starts_as_it_is_about_to_be_killed_is_killed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import subprocess, sys; print(flush=True); sys.stdin.readline();"
        "subprocess.Popen(['sleep', '60'], start_new_session=True); print(flush=True); sys.stdin.read()"
    )
    stray = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**ENV, process.RUN_VARIABLE: "run-late"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert stray.stdin is not None
    assert stray.stdout is not None
    stray.stdout.readline()
    marked, listed = process._marked, []

    def started_since(variable: str, mark: str) -> list[psutil.Process]:
        found = marked(variable, mark)
        if not listed:
            stray.stdin.write(b"\n")
            stray.stdout.readline()
        listed.append(found)
        return found

    monkeypatch.setattr(process, "_marked", started_since)
    try:
        assert end_strays("run-late") == 2
        monkeypatch.undo()
        assert strays("run-late") == ()
    finally:
        monkeypatch.undo()
        end_strays("run-late")
        stray.communicate()


def test_this_process_is_no_stray_of_its_own() -> None:
    marked = subprocess.run(
        [
            sys.executable,
            "-c",
            "from engine.process import end_strays; print(end_strays('run-self'))",
        ],
        env={**ENV, process.RUN_VARIABLE: "run-self"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert marked.stdout == "0\n"
