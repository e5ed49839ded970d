"""The lessons store: adding, following the file, crashes, other processes, imports."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import StoreError, UsageError
from engine.figures import LessonFigures
from engine.store.lessons import Lesson, LessonQuery, LessonStore, follow
from engine.store.lessons.file import LessonsFile
from engine.store.lessons.record import decode_line, encode_line, merge
from tests.bench.lesson_corpus import write_corpus

ROOT = Path(__file__).parents[2]
NOW = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[LessonStore]:
    with LessonStore(tmp_path / "lessons.jsonl", tmp_path / "lessons.idx.db", clock=clock) as found:
        yield found


def everything(store: LessonStore) -> dict[str, Lesson]:
    return {lesson.id: lesson for lesson in store.search(LessonQuery(), limit=100_000).lessons}


def told_by(file: Path) -> dict[str, Lesson]:
    """What the lines of a file say, put together in the plainest way."""
    lessons: dict[str, Lesson] = {}
    for line in file.read_bytes().splitlines():
        lesson = decode_line(line)
        known = lessons.get(lesson.id)
        lessons[lesson.id] = merge(known, lesson) if known else lesson
    return lessons


# Adding and resolving


def test_an_added_lesson_is_found_at_once_and_survives(store: LessonStore) -> None:
    added = store.add("fix_bug", "verify", "timeout", "no answer after 31 s", metadata={"files": "a.py"})
    assert (added.times_seen, added.first_seen, added.last_seen) == (1, NOW, NOW)
    assert added.pattern == "no answer after <n> s"
    assert store.search(LessonQuery("answer")).lessons == (added,)
    assert store.get(added.id) == added
    store.close()
    with LessonStore(store.file, store.index) as again:
        assert everything(again) == {added.id: added}


def test_a_repeated_failure_is_one_lesson_seen_twice(store: LessonStore, clock: Clock) -> None:
    first = store.add("fix_bug", "verify", "timeout", "no answer from 10.0.0.7 after 31 s")
    clock.now += 60
    again = store.add("fix_bug", "verify", "timeout", "no answer from 10.0.0.9 after 4 s")
    assert again == msgspec.structs.replace(first, times_seen=2, last_seen=NOW + 60)
    assert store.add("fix_bug", "judge", "timeout", "no answer from 10.0.0.9 after 4 s").id != first.id
    assert len(everything(store)) == 2


def test_a_repeat_of_a_lesson_with_an_id_of_its_own_keeps_that_id(store: LessonStore) -> None:
    store.file.write_bytes(encode_line(Lesson("mine", "t", "a", "f", "disk 7 is full")))
    store.catch_up()
    assert store.add("t", "a", "f", "disk 9 is full").id == "mine"


def test_a_resolution_is_no_sighting(store: LessonStore, clock: Clock) -> None:
    lesson = store.add("fix_bug", "verify", "timeout", "no answer", metadata={"files": "a.py"})
    clock.now += 60
    resolved = store.resolve(lesson.id, " raise the limit ")
    assert resolved == msgspec.structs.replace(lesson, resolution="raise the limit")
    assert store.search(LessonQuery("limit")).lessons == (resolved,)
    stats = store.stats()
    assert (stats.total, stats.sightings, stats.resolved) == (1, 1, 1)
    with pytest.raises(UsageError, match="there is no lesson L0"):
        store.resolve("L0", "x")


def test_a_lesson_needs_a_message(store: LessonStore) -> None:
    with pytest.raises(UsageError):
        store.add("t", "a", "f", " \n")
    assert not store.file.exists()


def test_a_huge_message_keeps_its_start_and_its_end(store: LessonStore) -> None:
    lesson = store.add("t", "a", "f", "START " + "x " * 100_000 + "THE REASON")
    assert len(lesson.failure_msg) < 8100
    assert store.search(LessonQuery("start reason")).lessons == (lesson,)


def test_text_that_is_no_unicode_is_kept_readable(store: LessonStore) -> None:
    lesson = store.add("t", "a", "f", "no file \udcff.txt\x00", metadata={"files": "\udcff"})
    assert store.get(lesson.id) == lesson


async def test_recording_does_not_keep_the_loop_waiting(store: LessonStore) -> None:
    lessons = await asyncio.gather(
        *(store.record("t", "a", "f", f"failure of {name}") for name in ("ann", "bob"))
    )
    assert {lesson.times_seen for lesson in lessons} == {1}
    assert len(everything(store)) == 2


def test_statistics_and_names_follow_every_change(store: LessonStore) -> None:
    assert store.figures() == LessonFigures()
    for name in ("one", "two", "two"):
        store.add("fix_bug", "verify", "timeout", f"failure {name}")
    store.add("docs", "judge", "refused", "no")
    stats = store.stats()
    assert (stats.total, stats.sightings, stats.malformed, stats.building) == (3, 4, 0, None)
    assert stats.by_task_type == (("fix_bug", 2), ("docs", 1))
    assert stats.file_bytes == store.file.stat().st_size
    assert [lesson.times_seen for lesson in store.most_frequent(2)] == [2, 1]
    store.file.unlink()
    store.catch_up()
    assert store.figures() == LessonFigures()
    assert store.stats().by_task_type == ()


# The file is the truth


LINES = st.builds(
    Lesson,
    st.sampled_from(["x", "y", "z"]),
    st.sampled_from(["", "t", "u"]),
    st.just("a"),
    st.sampled_from(["f", "g"]),
    st.sampled_from(["", "one", "two"]),
    st.sampled_from(["", "r"]),
    st.just(""),
    st.integers(0, 3),
    st.floats(1, 9),
    st.floats(9, 20),
    st.sampled_from([{}, {"files": "a b"}, {"files": "c", "k": "v"}]),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(LINES, max_size=4), max_size=4))
def test_an_index_that_followed_equals_one_built_at_once_and_the_plain_reading(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[Lesson]]
) -> None:
    folder = tmp_path_factory.mktemp("model")
    file = folder / "lessons.jsonl"
    file.touch()
    with LessonStore(file, folder / "followed.db") as followed:
        for group in groups:
            with file.open("ab") as appended:
                appended.writelines(encode_line(lesson) for lesson in group)
            followed.catch_up()
        plain = told_by(file)
        assert everything(followed) == plain
        with LessonStore(file, folder / "built.db") as built:
            assert everything(built) == plain
            assert (
                built.stats().sightings
                == followed.stats().sightings
                == sum(x.times_seen for x in plain.values())
            )
        followed.rebuild()
        assert everything(followed) == plain


def test_malformed_lines_are_counted_listed_and_harmless(store: LessonStore) -> None:
    good = encode_line(Lesson("good", failure_msg="m"))
    long = encode_line(Lesson("long", failure_msg="x" * 200_000 + " needle"))
    store.file.write_bytes(good + b"<<<<<<< HEAD\n\n" + long + b"{}\n" + b'{"torn')
    store.catch_up()
    assert set(everything(store)) == {"good", "long"}
    assert store.search(LessonQuery("needle")).lessons[0].id == "long"
    assert store.stats().malformed == 2
    bad = store.check()
    assert [line.line for line in bad] == [2, 5, 6]
    assert bad[0].text == "<<<<<<< HEAD"
    assert store.file.read_bytes()[bad[2].offset :] == b'{"torn'
    assert "newline" in bad[2].reason


def test_truncation_rotation_and_replacement_are_noticed(store: LessonStore, tmp_path: Path) -> None:
    def line(id_: str) -> bytes:
        return encode_line(Lesson(id_, failure_msg=f"message {id_}"))

    store.file.write_bytes(line("1") + line("2"))
    store.catch_up()
    store.file.write_bytes(line("3"))
    store.catch_up()
    assert set(everything(store)) == {"3"}
    store.file.rename(tmp_path / "old.jsonl")
    store.file.write_bytes(line("4") + line("5"))
    store.catch_up()
    assert set(everything(store)) == {"4", "5"}
    (tmp_path / "new.jsonl").write_bytes(line("4") + line("5") + line("6"))
    (tmp_path / "new.jsonl").rename(store.file)
    assert store.catch_up() == 1
    assert set(everything(store)) == {"4", "5", "6"}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_what_other_processes_do_to_the_file_is_followed(store: LessonStore, tmp_path: Path) -> None:
    heard: list[int] = []
    stop = asyncio.Event()
    following = asyncio.create_task(store.follow(stop, on_change=lambda stats: heard.append(stats.total)))

    def appended(id_: str) -> str:
        return (
            f"from engine.store.lessons.file import LessonsFile; from pathlib import Path;"
            f'LessonsFile(Path({str(store.file)!r})).append(b\'{{"id": "{id_}", "failure_msg": "m"}}\\n\')'
        )

    async def other_process(code: str) -> None:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=ROOT)
        assert await process.wait() == 0

    for id_ in ("1", "2"):
        await other_process(appended(id_))
        await until(lambda id_=id_: store.get(id_) is not None)
    store.file.rename(tmp_path / "old.jsonl")
    await other_process(appended("3"))
    await until(lambda: set(everything(store)) == {"3"})
    (tmp_path / "new.jsonl").write_bytes(encode_line(Lesson("4", failure_msg="m")))
    (tmp_path / "new.jsonl").rename(store.file)
    await until(lambda: set(everything(store)) == {"4"})
    await other_process(appended("5"))
    await until(lambda: set(everything(store)) == {"4", "5"})
    stop.set()
    await asyncio.wait_for(following, 10)
    assert heard[0] == 1


@pytest.mark.parametrize("what", ["file", "folder"])
async def test_a_file_that_goes_as_it_is_about_to_be_watched_is_followed_once_it_is_back(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shared" / "lessons.jsonl"
    file.parent.mkdir()
    file.write_bytes(b"")
    looked = asyncio.Event()

    def gone_after_the_look(path: Path) -> tuple[int, int] | None:
        found = identity(path)
        if not looked.is_set():
            looked.set()
            file.unlink()
            if what == "folder":
                file.parent.rmdir()
        return found

    identity = follow.identity_of
    monkeypatch.setattr(follow, "identity_of", gone_after_the_look)
    monkeypatch.setattr(follow, "LOOK_MS", 100)
    lessons, stop = LessonStore(file, tmp_path / "shared.idx.db"), asyncio.Event()
    following = asyncio.create_task(lessons.follow(stop))
    await asyncio.wait({following, asyncio.create_task(looked.wait())}, return_when=asyncio.FIRST_COMPLETED)
    LessonsFile(file).append(encode_line(Lesson("1", failure_msg="m")))
    await until(lambda: following.done() or lessons.get("1") is not None)
    stop.set()
    await asyncio.wait_for(following, 10)
    lessons.close()


async def test_an_index_that_cannot_be_read_for_a_moment_is_tried_again(
    store: LessonStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = asyncio.Event()

    def refuse() -> None:
        monkeypatch.undo()
        refused.set()
        raise StoreError("the index of the lessons cannot be read: busy")

    monkeypatch.setattr(store, "_source", refuse)
    stop = asyncio.Event()
    following = asyncio.create_task(store.follow(stop))
    await asyncio.wait({following, asyncio.create_task(refused.wait())}, return_when=asyncio.FIRST_COMPLETED)
    LessonsFile(store.file).append(encode_line(Lesson("1", failure_msg="m")))
    await until(lambda: following.done() or store.get("1") is not None)
    stop.set()
    await asyncio.wait_for(following, 10)


# Long builds


def test_a_long_build_tells_how_far_it_is_and_can_be_interrupted(tmp_path: Path) -> None:
    file = tmp_path / "lessons.jsonl"
    write_corpus(file, 12_000)
    told: list[tuple[int, int]] = []

    def once(done: int, total: int) -> bool:
        told.append((done, total))
        return False

    with LessonStore(file, tmp_path / "idx.db") as store:
        assert store.stats().building == 0.0  # opening does not wait for a large file
        first = store.catch_up(progress=once)
        assert 0 < first < 12_000
        assert told == [(told[0][0], file.stat().st_size)]
        assert 0 < (store.figures().building or 0) < 1
        assert store.search(LessonQuery("request")).hits
        assert store.add("t", "a", "f", "added while it is behind").times_seen == 1
        assert first + store.catch_up() == 12_001
        assert store.figures().building is None
        assert store.stats().total == 12_001


# Crashes and other processes


BUILD = """
import sys
from pathlib import Path
from engine.store.lessons import LessonStore
from engine.store.lessons.index import LessonIndex
# Small steps, so that the end comes between, inside or after some of them.
step = LessonIndex.step
LessonIndex.step = lambda self, connection: step(self, connection, limit=20_000)
file, index, how = sys.argv[1:]
store = LessonStore(Path(file), Path(index))
print("open", flush=True)
store.rebuild() if how == "rebuild" else store.catch_up()
print("done", flush=True)
store.close()
"""


@pytest.mark.parametrize("how", ["build", "rebuild"])
@pytest.mark.parametrize("delay", [0.0, 0.03, 0.1, 0.3])
def test_a_killed_build_goes_on_where_it_was(tmp_path: Path, how: str, delay: float) -> None:
    file, index = tmp_path / "lessons.jsonl", tmp_path / "idx.db"
    write_corpus(file, 4000)
    if how == "rebuild":
        LessonStore(file, index).close()
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(file), str(index), how], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(delay)  # the moment of death, nothing is waited for
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=200)
    process.stdout.close()
    with LessonStore(file, index) as store:
        store.catch_up()
        assert everything(store) == told_by(file)
        assert store.stats().total == 4000
        assert store.search(LessonQuery("request")).hits


ADD = """
import sys
from pathlib import Path
from engine.store.lessons import LessonStore
file, index, who, count = sys.argv[1:]
with LessonStore(Path(file), Path(index)) as store:
    number = 0
    while number < int(count):
        place = "abcdefghij"[number % 10] + "klmnopqrst"[number // 10 % 10]
        lesson = store.add("t", "a", "f", f"failure of {who} in {place}")
        number += 1
        print(lesson.id, flush=True)
"""


def adder(file: Path, index: Path, who: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ADD, str(file), str(index), who, str(count)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_no_acknowledged_lesson_is_lost_when_its_writer_is_killed(tmp_path: Path) -> None:
    file, index = tmp_path / "lessons.jsonl", tmp_path / "idx.db"
    for survived in (1, 25):
        process = adder(file, index, f"run{'ab'[survived > 1]}", 10**6)
        assert process.stdout is not None
        acknowledged = {process.stdout.readline().strip() for _ in range(survived)}
        os.kill(process.pid, signal.SIGKILL)
        acknowledged.update(line.strip() for line in process.stdout if line.endswith("\n"))
        process.wait(timeout=200)
        process.stdout.close()
        with LessonStore(file, index) as store:
            assert acknowledged <= set(everything(store))
            assert everything(store) == told_by(file)


def test_two_orchestrators_add_to_one_file_over_one_index(tmp_path: Path) -> None:
    file, index = tmp_path / "lessons.jsonl", tmp_path / "idx.db"
    processes = [adder(file, index, "anybody", 100) for _ in range(2)]
    for process in processes:
        output, _ = process.communicate(timeout=200)
        assert process.returncode == 0
        assert len(output.split()) == 100
    with LessonStore(file, index) as store:
        assert {lesson.times_seen for lesson in everything(store).values()} == {2}
        assert (store.stats().total, store.stats().sightings, store.stats().malformed) == (100, 200, 0)


def test_a_damaged_index_is_set_aside_and_built_anew(tmp_path: Path) -> None:
    file, index = tmp_path / "lessons.jsonl", tmp_path / "idx.db"
    write_corpus(file, 500)
    with LessonStore(file, index) as store:
        right = everything(store)
    with index.open("r+b") as damaged:
        damaged.seek(4096)
        damaged.write(os.urandom(index.stat().st_size - 4096))
    with LessonStore(file, index) as store:
        assert everything(store) == right
    assert list(tmp_path.glob("*.corrupt-*"))


def test_an_index_that_is_damaged_under_way_loses_no_lesson_and_is_rebuilt(tmp_path: Path) -> None:
    file, index = tmp_path / "lessons.jsonl", tmp_path / "idx.db"
    write_corpus(file, 2500)
    with LessonStore(file, index):
        pass
    with LessonStore(file, index) as store:
        with index.open("r+b") as damaged:
            damaged.seek(4096)
            damaged.write(os.urandom(index.stat().st_size - 4096))
        store.add("t", "a", "f", "written while the index is broken")
        assert b"written while the index is broken" in file.read_bytes()
        store.rebuild()
        assert everything(store) == told_by(file)


# Import


def test_an_import_adds_raises_and_resolves_once(store: LessonStore, tmp_path: Path) -> None:
    known = store.add("t", "a", "f", "disk 7 is full")
    other = tmp_path / "other.jsonl"
    other.write_bytes(
        encode_line(
            Lesson("theirs", "t", "a", "f", "disk 9 is full", "buy another", times_seen=2, last_seen=NOW)
        )
        + encode_line(Lesson("theirs", times_seen=3, last_seen=NOW + 1))
        + encode_line(Lesson("new", failure_msg="unknown here", last_seen=NOW))
        + b"nonsense\n"
    )
    told: list[int] = []
    report = store.import_file(other, progress=lambda done, total: told.append(done))
    assert (report.added, report.raised, report.unchanged) == (1, 1, 0)
    assert [line.line for line in report.malformed] == [4]
    raised = store.get(known.id)
    assert raised is not None
    assert (raised.times_seen, raised.resolution) == (5, "buy another")
    assert set(everything(store)) == {known.id, "new"}
    again = store.import_file(other)
    assert (again.added, again.raised, again.unchanged) == (0, 0, 2)
    with pytest.raises(UsageError, match="there is no file"):
        store.import_file(tmp_path / "missing.jsonl")
