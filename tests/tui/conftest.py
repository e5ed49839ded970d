"""Nothing on a snapshot may depend on the time, the machine or the run."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from textual.widgets import Input


@pytest.fixture(autouse=True)
def _one_time_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Moments are shown by the clock on the wall."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(autouse=True)
def _still_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor of a field does not blink."""
    monkeypatch.setattr(Input, "_toggle_cursor", lambda self: None)
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.delenv("COLORFGBG", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
