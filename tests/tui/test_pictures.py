"""The pictures in `screenshots/` show the dashboard as it is."""

from __future__ import annotations

import pytest

from tests.screenshots import FOLDER, PICTURES, Picture, is_up_to_date


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.path.stem)
def test_the_picture_is_up_to_date(picture: Picture) -> None:
    assert is_up_to_date(picture), "draw it anew, and look at it: make screenshots"


def test_no_picture_is_left_of_what_is_drawn_no_more() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {picture.path.name for picture in PICTURES}
