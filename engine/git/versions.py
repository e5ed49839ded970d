"""Which git is needed for what."""

from __future__ import annotations

NEEDED = (2, 30)  # the oldest git that a run is begun with
SPARSE = (2, 37)  # notices by itself when a file outside the chosen folders was made
MERGE_TREE = (2, 38)  # merges without a checkout


def named(version: tuple[int, int]) -> str:
    """The version as git writes it: 2.38."""
    return ".".join(map(str, version))


INSTALL = f"install git {named(NEEDED)} or newer, best {named(MERGE_TREE)} or newer, which lands work faster"
"""What to tell somebody who has no git that a run could use."""
