"""Edits of the board while the run goes on: offered to a person, then taken in or left."""

from __future__ import annotations

from engine.events.base import Event
from engine.rows import BoardChange


class BoardOffered(Event, frozen=True, kw_only=True):
    """Somebody edited the board; a person is asked whether the run takes that in.

    Takes the place of the offer before it. An empty change means that there is nothing to ask any more.
    """

    number: int
    change: BoardChange


class BoardTaken(Event, frozen=True, kw_only=True):
    """The run took edits of the board in: those of the offer with this number, or (0) what it heeds unasked."""

    change: BoardChange
    number: int = 0


class BoardLeft(Event, frozen=True, kw_only=True):
    """A person left the offered edits to the next run."""

    number: int


class RowsRefused(Event, frozen=True, kw_only=True):
    """The rows of the board that cannot run now, each in words; empty once all are mended."""

    rows: tuple[str, ...]


BoardEvent = BoardOffered | BoardTaken | BoardLeft | RowsRefused
