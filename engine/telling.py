"""The line of a failure's output that says what failed, by what the common tools print.

telling_line("...\nFAILED tests/test_tax.py::test_half - assert 12 == 13\n=== 1 failed in 0.1 s ===")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple


class Told(NamedTuple):
    """Where the line stands in the text, and what is said of it there: the test that it is of, or nothing."""

    start: int
    end: int
    of: str = ""


class _Line(NamedTuple):
    start: int
    text: str
    """Without the blanks around it."""


_Rule = Callable[[Sequence[_Line]], Told | None]

_LOOKED_AT = 16_000  # characters, from the end


def telling_line(output: str) -> str:
    """The line in words: `AssertionError: 0.12 != 0.13 in test_half_cent`. Empty where the output has no words."""
    told = find_telling(output)
    return f"{output[told.start : told.end]}{told.of}"


@lru_cache(maxsize=512)  # A list of lessons is drawn again with every letter that somebody types.
def find_telling(output: str) -> Told:
    """Where the line is. Without a rule that knows the output, the last one that says more than that it failed."""
    lines = _lines(output)
    for rule in _RULES:
        told = rule(lines)
        if told is not None:
            return told
    with_words = [line for line in lines if re.search(r"\w", line.text)]
    more = [line for line in with_words if not _SAYS_LITTLE.match(line.text)]
    return _whole((more or with_words or [_Line(len(output), "")])[-1])


def _lines(output: str) -> list[_Line]:
    start = max(0, len(output) - _LOOKED_AT)
    found = []
    for line in output[start:].split("\n"):
        text = line.strip()
        if text:
            found.append(_Line(start + line.index(text[0]), text))
        start += len(line) + 1
    return found


def _whole(line: _Line, of: str = "") -> Told:
    return Told(line.start, line.start + len(line.text), of)


def _first(pattern: str) -> _Rule:
    """The first line that the pattern matches from its start."""
    compiled = re.compile(pattern)

    def rule(lines: Sequence[_Line]) -> Told | None:
        return next((_whole(line) for line in lines if compiled.match(line.text)), None)

    return rule


def _last(pattern: str) -> _Rule:
    """The last such line."""
    first = _first(pattern)
    return lambda lines: first(lines[::-1])


_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning)(?:: .*)?$")
_UNITTEST = re.compile(r"(?:FAIL|ERROR): (\w+) \(")


def _unittest(lines: Sequence[_Line]) -> Told | None:
    """The exception of the first test that failed, and which test it was."""
    test = ""
    for line in lines:
        if (found := _UNITTEST.match(line.text)) is not None:
            test = found[1]
        elif test and _EXCEPTION.match(line.text):
            return _whole(line, f" in {test}")
    return None


_GO_TEST = re.compile(r"--- FAIL: (\S+)")
_GO_SAYS = re.compile(r"\S+\.go:[0-9]+: ")


def _go(lines: Sequence[_Line]) -> Told | None:
    """What the first test that failed says, above or below its name, and which test it was."""
    names = [(number, found[1]) for number, line in enumerate(lines) if (found := _GO_TEST.match(line.text))]
    for number, name in names:
        below = lines[number + 1 : number + 4]
        for line in below:
            if _GO_SAYS.match(line.text):
                return _whole(line, f" in {name}")
    return _whole(lines[names[-1][0]]) if names else None


_RUST_PANIC = re.compile(r"thread '([^']*)'.* panicked at ")


def _rust(lines: Sequence[_Line]) -> Told | None:
    """What the first test panicked with: newer compilers say it on the next line."""
    for number, line in enumerate(lines):
        if (found := _RUST_PANIC.match(line.text)) is not None:
            below = lines[number + 1] if number + 1 < len(lines) else line
            on_next = line.text.endswith(":") and not below.text.startswith(("note:", "stack backtrace"))
            return _whole(below if on_next else line, f" in {found[1]}" if on_next else "")
    return None


_JEST_TEST = re.compile(r"● (?!Console\b)(\S.*)")
_JEST_EXPECTED = re.compile(r"Expected(?: \w+)?: *(.+)")


def _jest(lines: Sequence[_Line]) -> Told | None:
    """What the first test that failed got and what it expected, or its error, and which test it was."""
    for number, line in enumerate(lines):
        if (found := _JEST_TEST.match(line.text)) is None:
            continue
        of, expected = f" in {found[1]}", ""
        for below in lines[number + 1 : number + 10]:
            if (wanted := _JEST_EXPECTED.match(below.text)) is not None:
                expected = wanted[1]
            elif below.text.startswith("Received") and expected:
                return _whole(below, f", expected {expected}{of}")
            elif _EXCEPTION.match(below.text):
                return _whole(below, of)
        return _whole(line)
    return None


_SAYS_LITTLE = re.compile(
    r"""
      g?make(\[\d+\])?:\ (\*\*\*|Entering|Leaving)
    | [=_*~-]{3}
    | (FAILED|FAIL|failed|ok|OK|PASS)\b(\ \(.*\)|\s\S+\s[\d.]+m?s)?$
    | Ran\ \d+\ tests?\ in
    | exit\ status\ \d+$
    | npm\ (ERR!|error)
    | (error:\ )?Command\ failed\b
    | (error:\ )?test\ failed,\ to\ rerun
    | error:\ (could\ not\ compile|aborting\ due\ to)
    | For\ more\ information
    | Found\ \d+\ errors?\b
    | \d+\ (errors?|warnings?)\ generated
    | (collect2|ld):\ .*returned\ \d
    | Tests?:\ |Test\ Suites:|Snapshots:|Time:[ ]
    | [\^~|]+$
    """,
    re.VERBOSE,
)

_RULES: tuple[_Rule, ...] = (
    _first(r"(?:FAILED|ERROR) \S+(?:::\S+| - )"),  # pytest
    _unittest,
    _go,
    _rust,
    _jest,
    _first(r"FAIL\s+\S+ > "),  # vitest
    _first(r"error\[E[0-9]+\]: "),  # rustc
    _first(r"\S+\([0-9]+,[0-9]+\): error TS[0-9]+: "),  # tsc
    _first(r"\S+:[0-9]+:[0-9]+ - error TS[0-9]+: "),
    _first(r"[^\s:]+:[0-9]+(?::[0-9]+)?: (?:fatal )?error: "),  # gcc, clang, mypy, javac
    _first(r".*: undefined reference to "),
    _first(r"\S+:[0-9]+:[0-9]+: [A-Z]+[0-9]+ "),  # ruff, flake8
    _first(r"\S+\.go:[0-9]+:[0-9]+: "),  # go build, go vet
    _first(r"not ok [0-9]"),  # TAP
    _last(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:: |$)"),  # Python, JavaScript, Java
    _first(r"panic: "),  # Go
    _first(
        r"(?:\S+: )?(?:[Ee]rror|ERROR|[Ff]atal|FATAL)(?: \S+)?: (?!could not compile|test failed|aborting)"
    ),
    _first(r"(?:\S+: )+(?:[0-9]+: )?.*(?:not found|No such file or directory|Permission denied)$"),  # a shell
    _first(r"(?:assertion|Assertion)\b.* failed"),
    _first(r"(?:FAIL|FAILED|failed)\b[: ].*\w"),
)
