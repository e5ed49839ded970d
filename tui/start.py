"""The entry point of the command."""

from __future__ import annotations

import gc
import signal

KEPT = 50_000
"""Objects that are made before a pass looks for garbage among them: what is read at the start stays, as most does."""


def main() -> int:
    """Run the command line and give the exit status.

    An interrupt while its modules are still being read ends the process as any other does, without a traceback.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # else somebody has said already what is to come of it (nohup)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(KEPT, 10, 10)
    from tui.cli import main as run

    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, handler)
    return run()
