"""When a run does not work: before it has begun, and once it has finished while somebody is there.

Nothing of it goes on before what had landed is known, or before it is claimed anew.
"""

from __future__ import annotations

from collections.abc import Callable


class Rest:
    """Holds back what would make such a run go on, until `end`. `wake` is called with each wish of that kind."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._wishes: list[Callable[[], None]] = []
        self._held = True
        self.begun = False
        """Whether the run has finished, or is about to."""

    def begin(self) -> None:
        """Hold back all wishes from now on."""
        self.begun = self._held = True

    @property
    def disturbed(self) -> bool:
        """Whether somebody wants the run to go on."""
        return bool(self._wishes)

    def wish(self, go: Callable[[], None]) -> None:
        """Do what makes the run go on: at once while it does, or else when the rest ends."""
        if self._held:
            self._wishes.append(go)
            self._wake()
        else:
            go()

    def once_begun(self, go: Callable[[], None]) -> None:
        """Do what makes no run go on: at once, but not before it has begun and its tasks are known."""
        if self._held and not self.begun:
            self._wishes.append(go)
        else:
            go()

    def refuse(self) -> None:
        """Forget the wishes: the run cannot go on."""
        self._wishes.clear()

    def end(self) -> None:
        """Let the run begin, or go on, and do what was wished."""
        self.begun = self._held = False
        wishes, self._wishes = self._wishes, []
        for go in wishes:
            go()
