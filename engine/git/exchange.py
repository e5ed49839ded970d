"""Give a child process its input and hear what it says, whoever else holds its pipes.

A hook or a helper of git's may leave a process behind (a daemon, a connection that is kept open) that holds the pipes
for as long as it lives: to wait for their end, as `Popen.communicate` does, may take for ever.
"""

from __future__ import annotations

import math
import os
import select
import selectors
import subprocess
import time
from typing import NamedTuple

LOOK = 0.25  # seconds between two looks whether the child still runs
QUIET = 0.2  # seconds of silence after which one that has ended has said all
LINGER = 2.0  # seconds for which one that has ended is heard at most


class Heard(NamedTuple):
    """What a child has said. `held`: others had its pipes still when it had ended."""

    out: bytes
    err: bytes
    held: bool


def exchange(child: subprocess.Popen[bytes], input: bytes = b"", timeout: float = math.inf) -> Heard:
    """Wait for the child, which has all three pipes, to end in `timeout` seconds, and let go of its pipes.

    Raises TimeoutError while it runs on; it can be waited for again then.
    """
    stdin, stdout, stderr = child.stdin, child.stdout, child.stderr
    assert stdin is not None
    assert stdout is not None
    assert stderr is not None
    end = time.monotonic() + timeout
    said = {stdout.fileno(): bytearray(), stderr.fileno(): bytearray()}
    hearing, left = set(said), memoryview(input)
    ended_at: float | None = None
    heard_at = looked_at = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for number in hearing:
            selector.register(number, selectors.EVENT_READ)
        if left:
            selector.register(stdin.fileno(), selectors.EVENT_WRITE)
        else:
            stdin.close()
        while hearing:
            now = time.monotonic()
            if ended_at is None and now - looked_at >= LOOK:
                looked_at = now
                ended_at = now if child.poll() is not None else None
            if ended_at is not None:
                wait = min(ended_at + LINGER, max(ended_at, heard_at) + QUIET) - now
                if wait <= 0:
                    break
            elif now >= end:
                raise TimeoutError
            else:
                wait = min(looked_at + LOOK, end) - now
            for key, _ in selector.select(wait):
                if key.fd not in said:
                    left = _fed(key.fd, left)
                    if not left:
                        selector.unregister(key.fd)
                        stdin.close()
                elif data := os.read(key.fd, 1 << 16):
                    said[key.fd] += data
                    heard_at = time.monotonic()
                else:
                    selector.unregister(key.fd)
                    hearing.discard(key.fd)
    try:
        child.wait(None if end == math.inf else max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    out, err = map(bytes, said.values())
    for pipe in (stdin, stdout, stderr):
        pipe.close()
    return Heard(out, err, bool(hearing))


def _fed(number: int, left: memoryview) -> memoryview:
    """Write what a pipe takes at once; gives what is left, which is nothing when nobody reads it."""
    try:
        return left[os.write(number, left[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        return left[:0]
