"""`lessons` over a real file and its index."""

from __future__ import annotations

import asyncio
import json
import queue
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from engine.store.lessons import Lesson, LessonStore
from tests.cli.taskyard import taskyard
from tests.sample_repository import SampleRepository
from tui.cli.dashboard import LessonSearch
from tui.source import Lookups

Repo = Callable[..., SampleRepository]
Run = Callable[..., str]


@pytest.fixture
def run(run: Run) -> Run:
    """Run a command about lessons."""
    return partial(run, "lessons")


def test_looking_where_there_are_none_makes_none(root: Path, run: Run) -> None:
    assert run().startswith("there are no lessons yet: a failed attempt")
    assert run("show", "L1", status=2).startswith("taskyard: there is no lesson L1: see them with: ")
    assert run("list").startswith("0 hits of 0 in ")
    assert run("top") == "there are no such lessons\n"
    assert run("check") == "there are no lessons yet\n"
    assert json.loads(run("search", "x", "--json"))["hits"] == []
    assert not (root / ".git" / "taskyard").exists()


def add_some(run: Run) -> None:
    run(
        "add",
        "totals are rounded twice",
        "--type",
        "fix_bug",
        "--failure",
        "logic_error",
        "--file",
        "src/cart.py",
    )
    run(
        "add",
        "the fixture sleeps",
        "--type",
        "fix_bug",
        "--failure",
        "timeout",
        "--resolution",
        "use the fake clock",
    )
    run("add", "no such module", "--type", "feature", "--failure", "check_failed")


def test_add_search_list_and_top(run: Run) -> None:
    add_some(run)
    assert run("add", "totals are rounded twice", "--type", "fix_bug", "--failure", "logic_error").endswith(
        ", seen 2 times\n"
    )
    lines = run("search", "type:fix_bug", "fixture").splitlines()
    assert lines[0].startswith("1 hit of 3 in ")
    assert lines[1].split() == ["ID", "Type", "Failure", "Seen", "Last", "Lesson"]
    assert re.search(r"fix_bug  timeout    1×  \d+ s ago  the fixture sleeps$", lines[2])
    assert lines[3] == "  → use the fake clock"
    found = json.loads(run("search", "cart.py", "--json"))
    assert found["hits"][0]["lesson"]["metadata"]["files"] == "src/cart.py"
    assert found["hits"][0]["spans"]
    assert json.loads(run("list", "--failure", "timeout", "--json"))["total"] == 1
    assert json.loads(run("list", "--since", "7d", "--limit", "2", "--json"))["total"] == 3
    [first] = json.loads(run("top", "--limit", "1", "--json"))
    assert (first["failure_msg"], first["times_seen"]) == ("totals are rounded twice", 2)


def test_what_helped_is_never_cut_off(run: Run) -> None:
    helped = "Round once, at the end. " * 40
    run("add", "totals are rounded twice " * 30, "--resolution", helped)
    assert f"→ {helped.strip()}\n" in run("list")


def test_show_prints_all_of_a_lesson(run: Run) -> None:
    add_some(run)
    [first] = json.loads(run("search", "fixture", "--json"))["hits"]
    id_ = first["lesson"]["id"]
    assert json.loads(run("show", id_, "--json")) == first["lesson"]
    helped, failed, facts = run("show", id_).split("\n\n")
    assert helped == "What helped\n  use the fake clock"
    assert failed == "What failed\n  the fixture sleeps"
    told = dict(line.split(maxsplit=1) for line in facts.replace("task type", "type").splitlines())
    assert set(told) == {"type", "failure", "pattern", "seen", "first", "last", "id"}
    assert (told["type"], told["failure"], told["seen"], told["id"]) == (
        "fix_bug",
        "timeout",
        "1 time",
        id_,
    )
    [other] = json.loads(run("search", "src/cart.py", "--json"))["hits"]
    told = run("show", other["lesson"]["id"])
    assert "files     src/cart.py\n" in told
    assert "not known yet" in told.splitlines()[1]


def test_alone_it_lists_the_most_frequent_and_how_to_search(run: Run) -> None:
    add_some(run)
    for number in range(4):
        run("add", f"failure {chr(97 + number)}")
    run("add", "the fixture sleeps", "--type", "fix_bug", "--failure", "timeout")
    lines = run().splitlines()
    assert lines[0] == "7 lessons; seen most often:"
    assert lines[2].endswith("the fixture sleeps")
    assert lines[3] == "  → use the fake clock"
    assert sum(line.startswith("L") for line in lines) == 5
    assert "taskyard lessons search WORDS" in lines[-3]


def test_words_are_data(run: Run) -> None:
    add_some(run)
    for words in ('"', "'", "*", "-x", "NEAR(x", "C++", "100%", "👩‍💻", "%"):
        assert json.loads(run("search", "--json", "--", words))["hits"] == []


def test_a_search_for_what_cannot_be_says_so(run: Run) -> None:
    add_some(run)
    age = "since: takes an age (90s, 30m, 24h, 7d, 2w) or a day (2026-01-31)"
    assert run("search", "since:yesterday").splitlines()[1:] == [age]
    assert json.loads(run("search", "since:yesterday", "--json"))["hint"] == age
    for days in (
        "since:7",
        "since:2026-1",
        "since:2026-13-01",
    ):  # all of them were given for it, without a word
        assert run("search", days).splitlines()[1:] == [age]
    names = "no lesson has type:fix-bug; there is fix_bug, feature"
    assert run("search", "type:fix-bug").splitlines()[1:] == [names]
    assert run("list", "--type", "fix-bug").splitlines()[1:] == [names]
    assert run("top", "--type", "fix-bug") == f"{names}\n"
    assert len(run("search", "type:fix", "nowhere").splitlines()) == 1, "the name is one that there is"


def test_a_time_that_is_none(run: Run) -> None:
    assert run("list", "--since", "soon", status=2).startswith(
        "taskyard: 'soon' is no age and no day: write it as"
    )


def test_check_lists_malformed_lines_and_they_do_no_harm(root: Path, run: Run) -> None:
    add_some(run)
    file = root / ".git" / "taskyard" / "lessons.jsonl"
    with file.open("a") as appended:
        appended.write('{"times_seen": "many"}\nnot JSON \x1b[2J at all\n')
    lines = run("check", status=1).splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["line 4", "line 5"]
    assert "\x1b" not in lines[1]
    assert lines[2].startswith("3 lessons, seen 3 times, 1 resolved; ")
    assert [line["line"] for line in json.loads(run("check", "--json", status=1))["malformed"]] == [4, 5]


def test_import_is_idempotent_and_tells_what_it_could_not_read(root: Path, run: Run, tmp_path: Path) -> None:
    add_some(run)
    file = root / ".git" / "taskyard" / "lessons.jsonl"
    other = tmp_path / "other.jsonl"
    other.write_text(file.read_text() + "nonsense\n" * 7)
    file.unlink()
    done = taskyard("lessons", "import", str(other), at=root)
    assert (done.status, done.out) == (1, "3 added, 0 raised, 0 known already\n")
    *lines, last = done.err.splitlines()
    assert [line.split(" of ")[0] for line in lines] == [f"taskyard: line {number}" for number in range(4, 9)]
    assert last == "taskyard: nor are 2 more lines"
    again = json.loads(run("import", str(other), "--json", status=1))
    assert (again["added"], again["unchanged"], len(again["malformed"])) == (0, 3, 7)
    assert run("import", str(file)) == "0 added, 0 raised, 3 known already\n"
    assert run("import", "nowhere.jsonl", status=2).startswith("taskyard: there is no file nowhere.jsonl")


def test_a_file_in_the_repository_is_shared(repo: Repo) -> None:
    root = repo({"taskyard.toml": '[lessons]\nfile = "tasks/lessons.jsonl"\n'}).path
    assert taskyard("lessons", "add", "a failure", at=root).status == 0
    assert (root / "tasks" / "lessons.jsonl").read_text().count("\n") == 1
    assert "a failure" in taskyard("lessons", "list", at=root).out


class Backwards(ThreadPoolExecutor):
    """One thread that begins with what it was given last."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
        self._work_queue = queue.LifoQueue()  # type: ignore[assignment]


async def test_what_was_typed_last_is_answered_whatever_the_threads_are_up_to(root: Path, run: Run) -> None:
    await asyncio.to_thread(add_some, run)
    state = root / ".git" / "taskyard"
    lookups = Lookups(lambda: LessonSearch(LessonStore(state / "lessons.jsonl", state / "lessons.idx.db")))
    asyncio.get_running_loop().set_default_executor(Backwards())

    async def typed(words: str) -> tuple[Lesson, ...]:
        return [found async for found in lookups.search_lessons(words)][-1].lessons

    asked = [asyncio.create_task(typed("module"[:end])) for end in range(1, 7)]
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert done[-1] == await typed("module") != ()
    await lookups.close()


async def test_the_panel_finds_as_typed_and_shows_the_most_frequent_before(root: Path, run: Run) -> None:
    await asyncio.to_thread(add_some, run)
    await asyncio.to_thread(run, "add", "the fixture sleeps", "--type", "fix_bug", "--failure", "timeout")
    state = root / ".git" / "taskyard"
    search = LessonSearch(LessonStore(state / "lessons.jsonl", state / "lessons.idx.db"))
    first = await anext(search.search_typed("", 2))
    assert (first.lessons[0].failure_msg, len(first.lessons), first.total) == ("the fixture sleeps", 2, 3)
    found = await anext(search.search_typed("type:feature mod", 5))
    assert [lesson.failure_msg for lesson in found.lessons] == ["no such module"]
    assert found.took_s > 0
    search.close()


def test_rebuild_makes_the_index_anew(root: Path, run: Run) -> None:
    assert run("rebuild") == "there are no lessons yet\n"
    add_some(run)
    total = run("check").split(",")[0]
    index = root / ".git" / "taskyard" / "lessons.idx.db"
    index.write_bytes(b"no index at all" * 1000)
    assert run("rebuild") == f"{total} indexed\n"
    assert "rounded twice" in run("search", "ounded", "wice")


def test_no_key_is_written_down(root: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "correct-horse-battery")
    run("add", "401 with correct-horse-battery", "--resolution", "ask for another")
    assert "401 with [key]" in (root / ".git" / "taskyard" / "lessons.jsonl").read_text()
