"""What two sightings of one failure have in common, once everything that differs by chance is taken out.

    fingerprint("fix_bug", "verify", "timeout", "no answer from 10.0.0.7 after 31 s")
    == fingerprint("fix_bug", "verify", "timeout", "no answer from 10.0.0.9 after 45 s")

Numbers, addresses, hashes, dates, paths (but not their last part) and what stands in quotes become placeholders;
colours, case and spacing do not count. The id of a lesson is made of its fingerprint, so that two orchestrators that
meet the same failure at the same moment write about one lesson without a word between them.

What a failure is about (a command, files, a task) counts as it stands: `false` and `grep -q snow T2.txt` both fail
without a word, and what helped with one is of no use for the other.
"""

from __future__ import annotations

import hashlib
import re

CONSIDERED = 4096
"""Characters of a message that count, half from its start and half from its end; test output ends with the reason."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CHANCE = re.compile(
    r"""
      (?<!\w)(?P<quote>["'`])(?:(?!(?P=quote)|\n).){0,200}(?P=quote)(?!\w)   # what is in quotes; not the ' of don't
    | (?P<path>(?:[a-z]:)?[~.\w@+-]*+(?:[/\\][\w.@+-]+)+)                    # a path with at least one separator
    | 0x[0-9a-f]+
    | \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b
    | \b(?=[a-f]*[0-9])[0-9a-f]{7,64}\b                                      # a hash: hex with at least one digit
    | [0-9]+(?:[.,:_][0-9]+)*
    """,
    re.VERBOSE,
)
_CHECK_ENDED = re.compile(r"` (?:ended with status -?[0-9]+|ran out of time)\b")
"""What follows the command in the report of a failed check."""


def normalised(message: str) -> str:
    """The message without what differs by chance between two sightings of one failure."""
    if len(message) > CONSIDERED:
        message = f"{message[: CONSIDERED // 2]}\n{message[-CONSIDERED // 2 :]}"
    if "\x1b" in message:
        message = _ESCAPES.sub("", message)
    return " ".join(_CHANCE.sub(_placeholder, message.lower()).split())


def failed_check(message: str) -> tuple[str, int]:
    """The command of the failed check that the message reports, empty where it reports none, and where that ends."""
    for ended in _CHECK_ENDED.finditer(message):
        line = message.rfind("\n", 0, ended.start()) + 1
        opening = message.find(
            "`", line, ended.start()
        )  # The first one: the command may hold backticks itself.
        if opening >= 0:
            return message[opening + 1 : ended.start()], ended.end()
    return "", 0


def fingerprint(task_type: str, activity_type: str, failure_type: str, message: str, about: str = "") -> str:
    """16 hexadecimal digits that are the same for all sightings of one failure.

    `about`: what must be the same to the letter; of a failed check, its command if nothing else.
    """
    # Lengths frame the parts: ("ab", "c") and ("a", "bc") are different failures.
    parts = [task_type, activity_type, failure_type, normalised(message)]
    if about := about or (failed_check(message)[0] if failure_type == "check_failed" else ""):
        parts.append(about)
    framed = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(framed.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def pattern_of(message: str, limit: int = 120) -> str:
    """A readable pattern for a message: its last line that says something, normalised."""
    for line in reversed(message[-CONSIDERED:].splitlines()):
        found = normalised(line)
        command, _ = failed_check(line)
        if command:
            outcome = line[line.index("`") + len(command) + 2 :]
            found = f"`{command}` {normalised(outcome)}"
        if any(c.isalpha() for c in found.replace("<n>", "")):
            return found[:limit]
    return ""


def _placeholder(found: re.Match[str]) -> str:
    if found["quote"]:
        return "<text>"
    path = found["path"]
    if path is not None:
        # The file's own name says more about the failure than where the project was checked out; numbers in it
        # (a temporary file, a shard) are chance again.
        return "<path>/" + re.sub(r"[0-9]+", "<n>", re.split(r"[/\\]", path)[-1])
    return "<n>"
