"""The pictures of the README show the dashboard as it is."""

from __future__ import annotations

from tests.screenshots import differing


def test_the_pictures_are_up_to_date() -> None:
    assert differing() == [], "draw them anew: make screenshots"
