"""Verification: real commands, and how their ends are told to people and models."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import HaltedError
from engine.model import Verification
from engine.process import child_environment
from engine.roles import verifier
from engine.roles.verifier import OUTPUT_CHARS, describe, readable, report, verify


async def check(command: str, tmp_path: Path, timeout: float = 20.0) -> Verification:
    return await verify(
        command,
        tmp_path,
        env=child_environment(os.environ, "r1"),
        timeout=timeout,
        log=tmp_path / "verify.log",
    )


async def test_a_command_that_ends_with_0_passes(tmp_path: Path) -> None:
    done = await check("echo checked && test -d . | cat", tmp_path)
    assert done.passed
    assert (done.exit_status, done.output, done.timed_out) == (0, "checked\n", False)
    assert Path(done.log).read_text() == "checked\n"
    assert done.duration > 0


async def test_a_command_that_fails_does_not_pass_and_says_why(tmp_path: Path) -> None:
    done = await check("echo 'AssertionError: 3 != 4'; echo; exit 2", tmp_path)
    assert not done.passed
    assert describe(done, 20.0) == "exit 2: AssertionError: 3 != 4"
    assert report(done).startswith(
        "`echo 'AssertionError: 3 != 4'; echo; exit 2` ended with status 2.\n\nAss"
    )


async def test_a_command_that_takes_too_long_does_not_pass_whatever_its_status(tmp_path: Path) -> None:
    done = await check("trap 'exit 0' TERM; while :; do sleep 0.05; done", tmp_path, timeout=0.5)
    assert (done.timed_out, done.passed) == (True, False)
    assert describe(done, 90.0) == "verification took longer than 90 s"
    assert "ran out of time" in report(done)


async def test_a_command_that_nobody_knows_fails_with_its_name(tmp_path: Path) -> None:
    done = await check("no-such-tool --check", tmp_path)
    assert done.exit_status == 127
    assert "no-such-tool" in describe(done, 20.0)


async def test_a_machine_that_cannot_start_it_is_not_taken_for_a_failure(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as lowest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno() + 1, limits[1]))
        try:
            with pytest.raises(HaltedError, match="ulimit -n"):
                await check("true", tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_a_tree_that_is_gone_fails_like_a_command_that_cannot_start(tmp_path: Path) -> None:
    done = await verify("true", tmp_path / "gone", env={}, timeout=5.0, log=tmp_path / "log")
    assert (done.exit_status, done.passed) == (127, False)
    assert "does not exist" in done.output


async def test_the_check_sees_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    assert "sk-ant-secret" not in (await check("env", tmp_path)).output


async def test_output_is_bounded_to_its_end(tmp_path: Path) -> None:
    done = await check("yes line | head -n 5000; echo the end; exit 1", tmp_path)
    assert len(done.output) == OUTPUT_CHARS
    assert done.output.endswith("the end\n")
    assert Path(done.log).stat().st_size > 5 * 5000


async def test_lines_are_told_as_they_come_without_empty_ones(tmp_path: Path) -> None:
    lines: list[str] = []
    command = "printf 'one\\n\\n\\033[31mtwo\\033[0m\\n10%%\\r20%%\\r100%%\\nlast'"
    await verify(
        command,
        tmp_path,
        env={"PATH": os.environ["PATH"]},
        timeout=10.0,
        log=tmp_path / "log",
        progress=lines.append,
    )
    assert lines == ["one", "two", "100%", "last"]


# Words


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mrgb\x1b[m", "red rgb"),
        ("\x1b(B\x1b[mreset", "reset"),
        ("\x1bMup\x1b7save\x1b8", "upsave"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\ after", "link after"),
        ("\x1bP1$r0m\x1b\\text", "text"),
        ("\x1b]0;never ended\nnext line", "\nnext line"),
        ("\x1b[2J\x1b[H\x1b[?25l", ""),
        ("\x9b31mc1 \x85next", "31mc1 next"),
        ("a\x00b\x07c\x7fd", "abcd"),
        (" 10%\r 50%\r100%\ndone", "100%\ndone"),
        ("kept\r\n10%\r", "kept\n10%"),
        ("ends in escape\x1b", "ends in escape"),
        ("世界 🚂 é\u0301", "世界 🚂 é\u0301"),
    ],
)
def test_output_is_given_as_a_terminal_would_leave_it(output: str, words: str) -> None:
    assert readable(output) == words


@given(st.text())
def test_no_control_character_is_left_of_any_output(output: str) -> None:
    words = readable(output)
    assert not {c for c in words if (ord(c) < 32 or 127 <= ord(c) < 160) and c not in "\n\t"}
    assert readable(words) == words


def test_the_longest_line_is_read_in_no_time() -> None:
    for nasty in ("x" * 200_000, "\x1b]" * 50_000, "\x1b[" + "1;" * 100_000, "\r" * 200_000, "a\r" * 100_000):
        readable(nasty)  # the suite's time-out is the assertion: each would take minutes if it were quadratic


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            "a\nFAILED tests/test_a.py::test_x - assert 1 == 2\n\n=== 1 failed, 3 passed in 0.1s ===\n",
            r"FAILED tests/test_a\.py::test_x - assert 1 == 2$",
        ),
        ("collected\nValueError: bad\nsee the log\n", "ValueError: bad"),
        ("error: no such file\nmake: *** [all] Error 1\n", ": error: no such file$"),
        ("just words\nand more", "and more"),
        ("", "no output"),
        ("FAIL " + "x" * 500, "FAIL x+$"),
    ],
)
def test_the_line_that_tells_something_is_chosen(output: str, line: str) -> None:
    import re

    said = describe(Verification("c", 1, 0.1, output), 5.0)
    assert re.search(line, said)
    assert len(said) < 180


def test_the_bound_of_output_leaves_room_in_a_prompt() -> None:
    assert len(report(Verification("c", 1, 0.1, "x" * verifier.OUTPUT_CHARS))) < 7_000
