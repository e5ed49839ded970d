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
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from engine.capped_log import MAX_LOG, CappedLog
from engine.errors import ProcessError

if TYPE_CHECKING:
    import psutil

RUN_VARIABLE = "TASKYARD_RUN"
CHILD_VARIABLE = "TASKYARD_CHILD"
KILL_AFTER = 3.0  # seconds between TERM and KILL for the child itself
LEFTOVERS_KILL_AFTER = 0.5  # the same for what it left behind when it ended
TAIL_BYTES = 64_000  # of the output, kept for whoever asked for the run
MAX_LINE = 1 << 20  # bytes of a line that has no end yet

# After the leader has gone, what it left in the pipe is read: until the pipe was quiet for so long, but no longer than
# that, for what it started may hold the pipe, and write to it, for ever.
QUIET = 0.2  # seconds
LINGER = 2.0  # seconds

_SECRET = re.compile(
    r"(?:^ANTHROPIC_|^OPENAI_|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|TOKEN|SECRET|PASSW|CREDENTIAL|_PAT$|_AUTH$)",
    re.IGNORECASE,
)
_NOT_FOR_CHILDREN = re.compile(
    r"^(?:GIT_(?!AUTHOR_|COMMITTER_|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)$|SSH|EXEC_PATH$|SSL)|TASKYARD_)"
)

Limit = Literal["", "timeout", "idle_timeout"]


class ProcessResult(msgspec.Struct, frozen=True):
    """How a child ended. `status` is its exit status (negative: the signal), `tail` the end of its output, `duration`
    seconds. `overran` names the limit that ended it, or is empty."""

    status: int
    tail: str
    duration: float
    overran: Limit = ""


def child_environment(environ: Mapping[str, str], run: str, keep: Sequence[str] = ()) -> dict[str, str]:
    """Give the environment for a child: without keys, tokens and passwords, and without git's own variables.

    `keep` names secrets the user wants passed on (an agent command may need its own key).
    """
    env = {
        name: value
        for name, value in environ.items()
        if name in keep or not (is_secret(name) or _NOT_FOR_CHILDREN.match(name))
    }
    env[RUN_VARIABLE] = run
    env["GIT_TERMINAL_PROMPT"] = "0"
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    return env


def is_secret(name: str) -> bool:
    """Whether a variable of this name is likely to hold a key, a token or a password."""
    return _SECRET.search(name) is not None


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    stdin: bytes = b"",
    timeout: float,
    idle_timeout: float | None = None,
    max_log: int = MAX_LOG,
    on_line: Callable[[str], None] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    clock: Callable[[], float] = time.time,
) -> ProcessResult:
    """Run `argv` (no shell) in `cwd`, its output (both streams) appended to `log` as it comes, its times beside it.

    `timeout` bounds the whole run, `idle_timeout` the silence between two outputs, in seconds. `on_line` gets each
    line. Of a log longer than `max_log` bytes the middle is left out. Cancelling ends the group. Raises ProcessError
    when the program cannot be started or `log` not be written.
    """
    start = monotonic()
    if not cwd.is_dir():
        raise ProcessError(f"cannot start {argv[0]}: the folder {cwd} does not exist")
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        sink = CappedLog(log, max_log, clock)
    except OSError as error:
        raise ProcessError(f"cannot write {log}: {error.strerror}", "make room or mend its rights") from error
    mark = uuid.uuid4().hex
    with sink:
        output = _Output(sink, on_line, monotonic)
        try:
            transport = await _start(output, argv, cwd, {**env, CHILD_VARIABLE: mark})
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ProcessError(
                f"cannot start {argv[0]}: {reason}", "check that it is installed and on PATH"
            ) from error
        overran: Limit = ""
        feed = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        try:
            feed.write(stdin)
            feed.write_eof()
            overran = await _follow(output, start + timeout, idle_timeout, monotonic)
        finally:
            await _surely(_end(transport, feed, output, mark))
        output.finish()
    status = transport.get_returncode()
    return ProcessResult(
        -signal.SIGKILL if status is None else status,
        output.tail.decode("utf-8", "replace"),
        monotonic() - start,
        overran,
    )


async def _start(
    output: _Output, argv: Sequence[str], cwd: Path, env: Mapping[str, str]
) -> asyncio.SubprocessTransport:
    """Start the child. A caller that is cancelled meanwhile waits until it can be ended: asyncio's own way out of a
    half-made child may never return."""
    creating = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: output,
            *argv,
            cwd=cwd,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    )
    try:
        transport, _ = await asyncio.shield(creating)
    except asyncio.CancelledError:
        await _surely(_end_made(creating, output, env[CHILD_VARIABLE]))
        raise
    return transport


async def _end_made(
    creating: asyncio.Future[tuple[asyncio.SubprocessTransport, _Output]], output: _Output, mark: str
) -> None:
    """End the child once it is made, if it comes to that."""
    await asyncio.wait((creating,))
    if creating.exception() is None:
        transport, _ = creating.result()
        feed = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        await _end(transport, feed, output, mark)


async def _surely(work: Coroutine[None, None, None]) -> None:
    """Do the work to its end, however often the caller is cancelled meanwhile: somebody cancels a task, another stops
    its run."""
    doing, cancelled = asyncio.ensure_future(work), None
    while not doing.done():
        try:
            await asyncio.wait((doing,))
        except asyncio.CancelledError as error:
            cancelled = error
    doing.result()
    if cancelled is not None:
        raise cancelled


class _Output(asyncio.SubprocessProtocol):
    """Keeps what a child says, and notes when it closes its output and when it ends.

    The two are apart on purpose: a grandchild may hold the pipe open for ever, and asyncio's own `Process.wait` then
    never returns.
    """

    def __init__(
        self,
        sink: CappedLog,
        on_line: Callable[[str], None] | None,
        monotonic: Callable[[], float],
    ) -> None:
        self.tail = bytearray()
        self.closed = False
        self.exited = False
        self.failure: Exception | None = None
        self._sink = sink
        self._on_line = on_line
        self._monotonic = monotonic
        self.heard = monotonic()
        self._line = b""
        self._changed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self._sink.closed:
            return
        self.heard = self._monotonic()
        # A full disk must not stop the work; the journal's own error tells the user.
        with contextlib.suppress(OSError):
            self._sink.write(data)
        self.tail += data
        del self.tail[:-TAIL_BYTES]
        if self._on_line is not None:
            *lines, rest = (self._line + data).split(b"\n")
            self._line = rest[-MAX_LINE:]
            for line in lines:
                self._tell(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.closed = True
            self._changed.set()

    def process_exited(self) -> None:
        self.exited = True
        self._changed.set()

    async def wait(self, seconds: float) -> None:
        """Wait until the output was closed or the child has ended, but no longer than `seconds`."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), max(0.0, seconds))

    def finish(self) -> None:
        """Tell the last line, if it has no end. Raises what `on_line` raised."""
        if self._line:
            self._tell(self._line)
        if self.failure is not None:
            raise self.failure

    def _tell(self, line: bytes) -> None:
        if self._on_line is not None and self.failure is None:
            try:
                self._on_line(line.decode("utf-8", "replace"))
            except Exception as error:
                self.failure = error
                self._changed.set()


async def _follow(
    output: _Output, deadline: float, idle_timeout: float | None, monotonic: Callable[[], float]
) -> Limit:
    """Wait for the child to end and its output to be read; gives the limit that passed, if one did."""
    while not output.exited and output.failure is None:
        now = monotonic()
        # A child that has closed its output is not silent but done with talking.
        silent = idle_timeout is not None and not output.closed
        limit = min(deadline, output.heard + idle_timeout) if silent and idle_timeout else deadline
        if now >= limit:
            return "timeout" if now >= deadline else "idle_timeout"
        await output.wait(limit - now)
    left = monotonic()
    while output.exited and not output.closed:
        wait = min(left + LINGER, max(left, output.heard) + QUIET) - monotonic()
        if wait <= 0:
            break
        await output.wait(wait)
    return ""


async def _end(
    transport: asyncio.SubprocessTransport, feed: asyncio.WriteTransport, output: _Output, mark: str
) -> None:
    """End the group and what has left it, and let go of its pipes, whoever else holds them."""
    try:
        await _end_group(transport.get_pid(), output)
        await asyncio.to_thread(_kill_marked, CHILD_VARIABLE, mark)
    finally:
        if feed.get_write_buffer_size():
            feed.abort()  # Closing would wait until somebody reads it.
        transport.close()


async def _end_group(group: int, output: _Output) -> None:
    """End whatever is left of the child's group: TERM, then KILL for what does not go."""
    patience = LEFTOVERS_KILL_AFTER if output.exited else KILL_AFTER
    if _signal_group(group, signal.SIGTERM):
        give_up = time.monotonic() + patience
        while (not output.exited or _signal_group(group, 0)) and time.monotonic() < give_up:
            await output.wait(0.02)
        _signal_group(group, signal.SIGKILL)
    while not output.exited:
        await output.wait(1.0)


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
    return tuple(process.pid for process in _marked(RUN_VARIABLE, run))


def end_strays(run: str) -> int:
    """Kill what an orchestrator of this run that was itself killed left behind; gives how many there were."""
    return _kill_marked(RUN_VARIABLE, run)


def _kill_marked(variable: str, mark: str) -> int:
    import psutil

    killed: set[psutil.Process] = set()
    # Again and again: one may have started another since they were listed.
    while found := set(_marked(variable, mark)) - killed:
        for process in found:
            # Unlike os.kill, this never hits another process that got the number meanwhile.
            with contextlib.suppress(psutil.Error):
                process.kill()
        killed |= found
    return len(killed)


def _marked(variable: str, mark: str) -> list[psutil.Process]:
    """The processes that carry a mark in their environment, whatever group or session they went to."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(variable) == mark:
                found.append(process)
    return found
