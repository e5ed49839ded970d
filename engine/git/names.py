"""Names for tasks in refs and on disk."""

from __future__ import annotations

import hashlib
import re
import unicodedata

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


def slug(task_id: str) -> str:
    """Give a name that is legal in refs and file names: a plain id keeps its own, any other gets a mark of its digest.

    Names that differ only in case collide on some systems, so one with capitals carries the mark too, unless it is of
    the usual kind (`T2.1`, `FIX-7`): capitals in front of digits.
    """
    legal = _PLAIN.fullmatch(task_id) and ".." not in task_id and not task_id.endswith((".", ".lock"))
    if legal and (task_id == task_id.lower() or re.fullmatch(r"[A-Z]+[0-9._-]*[0-9]", task_id)):
        return task_id
    text = re.sub(r"[^a-z0-9._-]+", "-", unicodedata.normalize("NFC", task_id).lower()).strip("-._")
    text = re.sub(r"\.\.+", ".", text)[:60].rstrip("-._")
    return f"{text or 'task'}-{hashlib.sha256(task_id.encode()).hexdigest()[:8]}"


def in_space(name: str, space: str) -> str:
    """Give a name that several processes use at once in the space of one of them; an empty space leaves it as it is."""
    return f"{name}.{space}" if space else name


def branch_of(task_id: str, space: str = "") -> str:
    """Give the name of the task's branch."""
    return f"task/{in_space(slug(task_id), space)}"
