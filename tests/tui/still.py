"""Nothing on a picture may depend on the time, the machine or the run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from textual.widgets import Input

_SAID = {"TZ": "UTC", "TEXTUAL_ANIMATIONS": "none"}
_UNSAID = ("COLORFGBG", "NO_COLOR")


@contextmanager
def standing_still() -> Iterator[None]:
    """Tell moments by one clock on the wall, let no cursor blink, and take no colours from the environment."""
    with patch.dict(os.environ, _SAID), patch.object(Input, "_toggle_cursor", lambda self: None):
        for name in _UNSAID:
            os.environ.pop(name, None)
        time.tzset()
        yield
    time.tzset()
