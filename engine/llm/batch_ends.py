"""Which batches are over: all of their results handed over, and every answer kept where a restart finds it."""

from __future__ import annotations

from collections.abc import Callable


class BatchEnds:
    """Calls `ended(batch, succeeded, errored)` once for each batch that nobody needs again."""

    def __init__(self, ended: Callable[[str, int, int], None]) -> None:
        self._ended = ended
        self._unstored: dict[str, set[str]] = {}
        self._read: dict[str, tuple[int, int]] = {}

    def answered(self, batch: str, custom_id: str) -> None:
        """Tell that an answer of the batch was handed over, to be stored."""
        self._unstored.setdefault(batch, set()).add(custom_id)

    def stored(self, custom_id: str) -> None:
        """Tell that this answer is stored, whichever batch brought it."""
        for batch, unstored in list(self._unstored.items()):
            unstored.discard(custom_id)
            self._tell(batch)

    def read(self, batch: str, succeeded: int, errored: int) -> None:
        """Tell that all results of the batch were handed over."""
        self._read[batch] = succeeded, errored
        self._tell(batch)

    def _tell(self, batch: str) -> None:
        if batch in self._read and not self._unstored.get(batch):
            self._unstored.pop(batch, None)
            self._ended(batch, *self._read.pop(batch))
