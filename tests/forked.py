"""Python processes that have the slow imports behind them: forked from one that has done them.

    process = forked.Popen([sys.executable, "-c", code, "run", "--json"], cwd=at, stdout=subprocess.PIPE)
    done = forked.run([sys.executable, "-m", "tests.git.crash_run"], timeout=50)

To import the SDK and our own modules takes 3.4 s of CPU, and the suite starts some hundreds of processes that do.
What is started here is a child of the caller like any other: its pid, group, directory, environment, standard files
and exit status are its own, and it can be killed. Only its interpreter is not a new one, so that a test of the start
itself uses `subprocess`. So does all this where a child cannot be handed over (not Linux).
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

IMPORTED = ("anthropic", "engine.demo", "engine.llm.simulator", "engine.orchestrator", "tui.cli.foreground")
"""What the commands import in the end. Not Textual, which reads the environment as it is imported."""

_ROOT = Path(__file__).parents[1]
_SET_CHILD_SUBREAPER = 36  # of prctl(2)
_LONGEST_REQUEST = 1 << 18


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen` of `[sys.executable, "-c" or "-m", …]`, without the time that Python takes to start."""

    def __init__(
        self,
        args: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool | None = None,
        start_new_session: bool = False,
    ) -> None:
        self._session = start_new_session
        super().__init__(
            args,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=text,
            start_new_session=start_new_session,
        )

    def _execute_child(self, args: Any, *rest: Any) -> None:
        cwd, env = rest[4:6]
        stdin_read, _, _, stdout_write, _, stderr_write = pipes = rest[9:15]
        if sys.platform != "linux" or _started_otherwise(env):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        request = {
            "args": args[1:],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "session": self._session,
        }
        files = [0 if stdin_read < 0 else stdin_read]
        files += [1 if stdout_write < 0 else stdout_write, 2 if stderr_write < 0 else stderr_write]
        try:
            self.pid = _server().fork(request, files)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run(
    args: Sequence[str],
    *,
    stdout: Any = subprocess.PIPE,
    stderr: Any = subprocess.PIPE,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` with a `Popen` of this module; what is printed is captured. `timeout` is in seconds."""
    with Popen(args, stdout=stdout, stderr=stderr, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def _started_otherwise(env: Mapping[str, str] | None) -> bool:
    """Whether the environment says something else to Python, which reads that only as it starts."""
    ours = {**os.environ, "PYTHONPATH": str(_ROOT)}
    return any(value != ours.get(name) for name, value in (env or {}).items() if name.startswith("PYTHON"))


class _Server:
    """The process that forks, and the connection to it."""

    def __init__(self) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._libc = ctypes.CDLL(None)
        with theirs:  # it ends with the last descriptor of our side
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from tests.forked import serve; serve()", str(theirs.fileno())],
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def fork(self, request: Mapping[str, Any], files: Sequence[int]) -> int:
        """Start one with these standard files, and give its pid."""
        with self._lock:
            # The one between the server and the child ends at once, and an orphan goes to the nearest ancestor that
            # takes them: only for this moment, since what a test leaves behind is to become an orphan like anywhere.
            self._libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._connection, [json.dumps(request).encode()], list(files))
                pid, handed_over = self._connection.recv(64), self._connection.recv(64)
            finally:
                self._libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        assert handed_over, "the process that forks has gone"
        return int(pid)


_server = functools.cache(_Server)


def serve() -> None:
    """Fork one process for each request until the caller has gone; in each of them, do what it asks."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # or each collection of a child would copy all of it
    connection, caller = socket.socket(fileno=int(sys.argv[1])), os.getppid()
    while message := socket.recv_fds(connection, _LONGEST_REQUEST, 3):
        request, files, _, _ = message
        if not request:
            return
        if not (between := os.fork()):
            if child := os.fork():
                connection.send(b"%d" % child)
                os._exit(0)
            while os.getppid() != caller:
                time.sleep(0.001)
            connection.close()
            _become(json.loads(request), files)
            return
        os.waitpid(between, 0)
        connection.send(b"handed over")
        for file in files:
            os.close(file)


def _become(request: Mapping[str, Any], files: Sequence[int]) -> None:
    """Do in this process what a new interpreter with these arguments would."""
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    how, what, *arguments = request["args"]
    sys.argv = [how, *arguments]
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(what, {"__name__": "__main__"})
