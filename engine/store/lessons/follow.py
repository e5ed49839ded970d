"""Noticing that another process wrote to the lessons file, within a few hundredths of a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from engine.store.connection import identity_of

STEP_MS = 10
DEBOUNCE_MS = 40
LOOK_MS = 1000
"""Where no notice comes (some network and container file systems), the file is looked at this often."""


async def follow_file(path: Path, changed: Callable[[], Awaitable[object]], stop: asyncio.Event) -> None:
    """Call `changed` at once and after each change of the file, whatever happens to it, until `stop` is set.

    The file itself is watched, not its folder, where journals may be written a thousand times a second; after it was
    moved or replaced, the new one is.
    """
    from watchfiles import awatch

    path.parent.mkdir(parents=True, exist_ok=True)
    while not stop.is_set():
        watched = identity_of(path)
        try:
            async for _ in awatch(
                path if watched else path.parent,
                watch_filter=None,
                debounce=DEBOUNCE_MS,
                step=STEP_MS,
                stop_event=stop,
                rust_timeout=LOOK_MS,
                yield_on_timeout=True,
                recursive=False,
            ):
                await changed()
                if identity_of(path) != watched:
                    break
        except FileNotFoundError:
            # It went between the look and the watch, as under a checkout of another branch, or its folder is gone.
            await changed()
            if identity_of(path.parent) is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_MS / 1000):
                        await stop.wait()
