"""Run a child process in a group of its own, with time limits, and leave nothing of it behind.

Agents, verification commands and everything they start live in one process group per call. The group is ended with
TERM and then KILL when a limit passes, when the caller is cancelled, and when the leader exits and leaves others. Each
child carries the id of its run in the environment, so that a run that was killed finds what it left (`end_strays`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from engine.errors import ProcessError

RUN_VARIABLE = "TASKYARD_RUN"
KILL_AFTER = 3.0
TAIL_BYTES = 64_000

_SECRET = re.compile(
    r"(?:^ANTHROPIC_|^OPENAI_|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|TOKEN|SECRET|PASSW|CREDENTIAL)", re.IGNORECASE
)
_NOT_FOR_CHILDREN = re.compile(r"^(?:GIT_(?!AUTHOR_|COMMITTER_|CONFIG|SSH|EXEC_PATH|SSL)|TASKYARD_)")


class ProcessResult(msgspec.Struct, frozen=True):
    """How a child ended. `status` is its exit status (negative: the signal), `tail` the end of its output, `duration`
    seconds. `overran` names the limit that ended it, or is empty."""

    status: int
    tail: str
    duration: float
    overran: Literal["", "timeout", "idle_timeout"] = ""


def child_environment(environ: Mapping[str, str], run: str, keep: Sequence[str] = ()) -> dict[str, str]:
    """Give the environment for a child: without keys, tokens and passwords, and without git's own variables.

    `keep` names secrets the user wants passed on (an agent command may need its own key).
    """
    env = {
        name: value
        for name, value in environ.items()
        if name in keep or not (_SECRET.search(name) or _NOT_FOR_CHILDREN.match(name))
    }
    env[RUN_VARIABLE] = run
    env["GIT_TERMINAL_PROMPT"] = "0"
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    return env


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    stdin: bytes = b"",
    timeout: float,
    idle_timeout: float | None = None,
    on_line: Callable[[str], None] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> ProcessResult:
    """Run `argv` (no shell) in `cwd`, its output (both streams) appended to `log` as it comes.

    `timeout` bounds the whole run, `idle_timeout` the silence between two outputs, in seconds. `on_line` gets each
    whole line. Cancelling ends the group. Raises ProcessError when the program cannot be started.
    """
    start = monotonic()
    try:
        child = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=dict(env),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ProcessError(
            f"cannot start {argv[0]}: {reason}", "check that it is installed and on PATH"
        ) from error
    overran: Literal["", "timeout", "idle_timeout"] = ""
    tail = bytearray()
    feeding = asyncio.ensure_future(_feed(child, stdin))
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            overran = await _drain(child, sink, tail, start + timeout, idle_timeout, on_line, monotonic)
        if not overran:
            try:
                await asyncio.wait_for(child.wait(), max(0.0, start + timeout - monotonic()))
            except TimeoutError:
                overran = "timeout"
    finally:
        feeding.cancel()
        await asyncio.shield(_end_group(child))
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await feeding
    status = child.returncode if child.returncode is not None else -signal.SIGKILL
    return ProcessResult(status, tail.decode("utf-8", "replace"), monotonic() - start, overran)


async def _feed(child: asyncio.subprocess.Process, data: bytes) -> None:
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child.stdin.write(data)
        await child.stdin.drain()
    child.stdin.close()


async def _drain(
    child: asyncio.subprocess.Process,
    sink: BinaryIO,
    tail: bytearray,
    deadline: float,
    idle_timeout: float | None,
    on_line: Callable[[str], None] | None,
    monotonic: Callable[[], float],
) -> Literal["", "timeout", "idle_timeout"]:
    """Copy output until the child closes it or dies; gives the limit that passed, if one did."""
    assert child.stdout is not None
    exited = asyncio.ensure_future(child.wait())
    pending_line = b""
    heard = monotonic()
    reading: asyncio.Future[bytes] = asyncio.ensure_future(child.stdout.read(65536))
    try:
        while True:
            now = monotonic()
            limit = deadline if idle_timeout is None else min(deadline, heard + idle_timeout)
            if now >= limit:
                return "timeout" if now >= deadline else "idle_timeout"
            # A grandchild may hold the pipe open after the leader has gone: the leader's end is the end.
            waiting: set[asyncio.Future[Any]] = {reading} if exited.done() else {reading, exited}
            grace = 0.2 if exited.done() else limit - now
            done, _ = await asyncio.wait(waiting, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
            if reading in done:
                data = reading.result()
                if not data:
                    return ""
                heard = monotonic()
                sink.write(data)
                sink.flush()
                tail += data
                del tail[:-TAIL_BYTES]
                if on_line is not None:
                    *lines, pending_line = (pending_line + data).split(b"\n")
                    pending_line = pending_line[-TAIL_BYTES:]
                    for line in lines:
                        on_line(line.decode("utf-8", "replace"))
                reading = asyncio.ensure_future(child.stdout.read(65536))
            elif exited.done() and not done:
                return ""
    finally:
        reading.cancel()
        exited.cancel()


async def _end_group(child: asyncio.subprocess.Process) -> None:
    """End whatever is left of the child's group: TERM, then KILL after `KILL_AFTER` seconds."""
    group = child.pid
    if not _signal_group(group, signal.SIGTERM if child.returncode is None else 0):
        return
    if child.returncode is None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), KILL_AFTER)
    _signal_group(group, signal.SIGKILL)
    if child.returncode is None:
        await child.wait()


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; gives whether any process of it was there."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # macOS answers so for a group whose only member is a zombie.
        return False
    return True


def strays(run: str) -> tuple[int, ...]:
    """The process ids that still carry this run's mark and are not this process."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(RUN_VARIABLE) == run:
                found.append(process.pid)
    return tuple(found)


def end_strays(run: str) -> int:
    """Kill what an orchestrator of this run that was itself killed left behind; gives how many there were."""
    found = strays(run)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)
