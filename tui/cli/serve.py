"""`taskyard watch --serve`: the watching dashboard in a browser, for this machine alone."""

from __future__ import annotations

import shlex
import socket
import sys

from engine.errors import UsageError
from tui.cli.console import flush, say

LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}
_PROGRAM = "import sys; from tui.cli import main; sys.exit(main())"


def serve_watch(run: str | None, *, title: str, host: str, port: int) -> int:
    """Serve until SIGINT or SIGTERM; gives the exit status.

    Raises UsageError for a host that is not this one, a port that is taken, and when the extra is missing.
    """
    if host not in LOOPBACK:
        raise UsageError(
            f"the dashboard is served on this machine only, not on {host}",
            f"reach it from another one through a tunnel: ssh -L {port}:127.0.0.1:{port} this-machine",
        )
    try:
        from tui.web import serve
    except ImportError:
        raise UsageError(
            "serving to a browser needs textual-serve, which is not installed",
            "install it with: pip install 'taskyard[serve]'",
        ) from None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((LOOPBACK[host], port), family=family)
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be used ({error.strerror})", "choose another; --port 0 takes a free one"
        ) from None
    with listening:
        name, number = listening.getsockname()[:2]
        say(
            f"serving at http://{f'[{name}]' if ':' in name else name}:{number}, to look at only; stop with Ctrl+C"
        )
        flush()
        arguments = [sys.executable, "-c", _PROGRAM, "watch", *(["--run", run] if run else [])]
        serve(f"exec {shlex.join(arguments)}", title=title, listening=listening)
    return 0
