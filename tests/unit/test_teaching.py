"""What a run's failures teach is of use on another board: it names scopes and files, and no task by its id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine import events as ev
from engine.bus import Bus
from engine.errors import StageFailedError
from engine.landing import SentBack
from engine.model import Change, Plan, Stage, Task
from engine.store.lessons import Lesson, LessonStore, estimated_tokens
from engine.task_view import TaskView
from engine.teaching import MAX_OUTPUT, MOST_GIVEN, Teaching
from tests import samples

TAX = Task(id="T1", scope="Round the tax half up", type="fix_bug")
QUOTED = Task(id="T3", scope='Say "EUR 1" instead of "1 EUR"', type="fix_bug")
RECEIPT = Task(id="T2", scope="Show the tax in two lines", type="fix_bug")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LessonStore]:
    with LessonStore(tmp_path / "lessons.jsonl", tmp_path / "lessons.db") as opened:
        yield opened


def begun() -> Bus:
    bus = Bus(clock=lambda: 100.0)
    bus.emit(samples.started(TAX, RECEIPT, QUOTED))
    return bus


def changed(bus: Bus, *paths: str) -> TaskView:
    """The view of T2 after its change."""
    change = Change("1" * 40, "0" * 40, paths=paths)
    bus.emit(samples.begun("T2", at=1.0))
    bus.emit(ev.ChangeCommitted(at=2.0, task="T2", attempt=1, change=change))
    return bus.state.view("T2")


def only(store: LessonStore) -> Lesson:
    [lesson] = store.most_frequent()
    return lesson


async def test_a_clash_tells_which_changes_met_in_which_files(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    answer = SentBack("clashes with T1: src/tax.py", "do it again", "T1", ("src/tax.py",))
    await teaching.learn_from_return(changed(bus, "src/tax.py", "a.py"), answer)
    lesson = only(store)
    assert (lesson.failure_type, lesson.activity_type, lesson.files) == ("conflict", "land", ("src/tax.py",))
    assert lesson.failure_msg == (
        'clash in src/tax.py: "Show the tax in two lines" and "Round the tax half up" changed the same lines'
    )
    assert bus.state.snapshot().lesson_notes[0].lesson == lesson.id
    assert "T1" not in lesson.brief()
    assert "T2" not in lesson.brief()


async def test_the_same_files_clashing_again_is_one_lesson(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    view = changed(bus, "src/tax.py")
    await teaching.learn_from_return(view, SentBack("r", "f", "T1", ("src/tax.py",)))
    await teaching.learn_from_return(bus.state.view("T1"), SentBack("r", "f", "T2", ("src/tax.py",)))
    await teaching.learn_from_return(bus.state.view("T3"), SentBack("r", "f", "T1", ("src/tax.py",)))
    assert only(store).times_seen == 3
    [note] = bus.state.snapshot().lesson_notes
    assert (note.times_seen, "seen" in note.text) == (3, False), "it is told once"


async def test_what_breaks_a_combination_tells_how_the_check_failed(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    output = "x" * 9000 + "\nAssertionError: 3 != 4"
    answer = SentBack("breaks the check together with T1: red", "feedback", "T1", output=output)
    await teaching.learn_from_return(changed(bus, "src/receipt.py"), answer)
    lesson = only(store)
    assert (lesson.failure_type, lesson.files) == ("breaks_combination", ("src/receipt.py",))
    first, rest = lesson.failure_msg.split("\n", 1)
    assert first == (
        'passes its check alone, and fails it merged with "Round the tax half up": "Show the tax in two lines"'
    )
    assert rest == output[-MAX_OUTPUT:]


def failed(how: str, output: str = "", kind: str = "check_failed") -> StageFailedError:
    """A check that failed, as the stage tells it."""
    return StageFailedError(
        "it failed", failure_type=kind, feedback=f"It did not pass.\n\n`{how}.\n\n{output}"
    )


async def test_what_a_run_has_learned_is_told_by_the_line_that_says_what_failed(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    output = '=====\nTraceback (most recent call last):\n  File "/tmp/x.py"\nValueError: no cent\n\nFAILED (errors=1)'
    await teaching.learn(TAX, Plan(), Stage.VERIFY, failed("python x.py` ended with status 1", output))
    [note] = bus.state.snapshot().lesson_notes
    assert note.text == "check_failed: ValueError: no cent"
    [taught] = bus.state.view("T1").taught
    assert (taught.id, taught.text, taught.attempt) == (note.lesson, note.text, 0)
    assert output in only(store).failure_msg, "all of it stays in the lesson"


async def test_a_long_output_does_not_cost_the_command(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    for command in ("pytest a", "pytest b"):
        failure = failed(f"{command}` ended with status 1", "x" * 9000 + "\n3 != 4")
        await teaching.learn(TAX, Plan(), Stage.VERIFY, failure)
    messages = [lesson.failure_msg for lesson in store.most_frequent()]
    assert sorted("pytest a" in message for message in messages) == [False, True]
    assert all(message.endswith("x\n3 != 4") and len(message) < MAX_OUTPUT + 100 for message in messages)


async def test_checks_that_ran_out_of_time_are_told_apart_by_their_command(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    for command in ("make T1", "make T2", "make T1"):
        failure = failed(f"{command}` ran out of time", kind="timeout")
        await teaching.learn(TAX, Plan(), Stage.VERIFY, failure)
    assert [lesson.times_seen for lesson in store.most_frequent()] == [2, 1]
    assert "`make T1` ran out of time" in store.most_frequent()[0].failure_msg


@pytest.mark.parametrize("kind", ["timeout", "no_change"])
async def test_agents_that_come_to_nothing_are_told_apart_by_their_task(
    store: LessonStore, kind: str
) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    for task in (TAX, RECEIPT, TAX):
        failure = StageFailedError("agent ran for more than 9 s and was ended", failure_type=kind)
        await teaching.learn(task, Plan(), Stage.IMPLEMENT, failure)
    assert [lesson.times_seen for lesson in store.most_frequent()] == [2, 1]
    assert TAX.scope in store.most_frequent()[0].failure_msg


async def test_broken_combinations_are_told_apart_by_command_and_files(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    for command, path in (
        ("make a", "T1.txt"),
        ("make a", "T2.txt"),
        ("make b", "T1.txt"),
        ("make a", "T1.txt"),
    ):
        answer = SentBack("red", "f", output=f"`{command}` ended with status 1.\n\n")
        await teaching.learn_from_return(changed(bus, path), answer)
    assert [lesson.times_seen for lesson in store.most_frequent()] == [2, 1, 1]


async def test_clashes_are_told_apart_by_their_files(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    for path in ("T1.txt", "T2.txt"):
        await teaching.learn_from_return(changed(bus, path), SentBack("r", "f", "T1", (path,)))
    assert store.stats().total == 2


async def test_what_the_implementer_said_is_what_helped(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    await teaching.learn(TAX, Plan(), Stage.VERIFY, failed("false` ended with status 1"))
    change = Change("1" * 40, "0" * 40, summary=TAX.scope, said="Rounded once,\nat the end of the sum.")
    await teaching.resolve(bus.state.view("T1"), change)
    assert only(store).resolution == change.said
    assert bus.state.snapshot().lesson_notes[0].resolved


async def test_what_lands_in_a_later_run_resolves_what_that_task_taught_before(store: LessonStore) -> None:
    first = Teaching(store, begun(), "r1", max_tokens=800)
    await first.learn(TAX, Plan(), Stage.VERIFY, failed("`false` ended with status 1"))
    others = (replace(TAX, scope=QUOTED.scope), replace(TAX, id="T9"))
    for number, task in enumerate(others):
        await first.learn(task, Plan(), Stage.VERIFY, failed(f"`exit {number + 2}` ended with status 1"))
    bus = begun()
    change = Change("1" * 40, "0" * 40, summary=TAX.scope, said="Rounded once.")
    await Teaching(store, bus, "r2", max_tokens=800).resolve(bus.state.view("T1"), change)
    resolutions = {
        (one.metadata["task"], one.metadata["scope"]): one.resolution for one in store.most_frequent()
    }
    assert resolutions == {
        ("T1", TAX.scope): "Rounded once.",
        ("T1", QUOTED.scope): "",
        ("T9", TAX.scope): "",
    }


@pytest.mark.parametrize("changed_between", [True, False])
@pytest.mark.parametrize("run", ["the same run", "a later run"])
async def test_nobody_knows_what_helped_where_a_person_changed_the_terms(
    store: LessonStore, run: str, changed_between: bool
) -> None:
    terms = "before"
    bus = begun()
    first = Teaching(store, bus, "r1", max_tokens=800, terms=lambda task: terms)
    await first.learn(TAX, Plan(), Stage.VERIFY, failed("false` ended with status 1"))
    if changed_between:
        terms = "after"
    bus = bus if run == "the same run" else begun()
    change = Change("1" * 40, "0" * 40, summary=TAX.scope, said="Rounded once.")
    await Teaching(store, bus, "r2", max_tokens=800, terms=lambda task: terms).resolve(
        bus.state.view("T1"), change
    )
    assert only(store).resolution == ("" if changed_between else "Rounded once.")
    [given] = await first.choose(TAX, Plan())
    assert ("What helped" in given.text) is not changed_between


async def test_a_task_resolves_what_it_taught_though_another_failed_alike_since(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800, terms=lambda task: task.id)
    for task in (TAX, RECEIPT):
        await teaching.learn(task, Plan(), Stage.VERIFY, failed("false` ended with status 1"))
    assert only(store).times_seen == 2
    change = Change("1" * 40, "0" * 40, said="Rounded once.")
    await teaching.resolve(bus.state.view("T1"), change)
    assert only(store).resolution == "Rounded once."
    assert [each.resolved for task in ("T1", "T2") for each in bus.state.view(task).taught] == [True, False]


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        ("agent on T1\nDone T1.", False),
        ("All changes are committed, the task is complete ✓", False),
        ("T1: make tax", False),
        ("Round the tax half up!", False),
        ("Wrote 3 files", False),
        ("Rounded 2 times", False),
        ("Rounded at the end", True),
        ("四捨五入", True),
    ],
)
async def test_closing_words_that_tell_nothing_are_not_what_helped(
    store: LessonStore, said: str, helps: bool
) -> None:
    bus = Bus(clock=lambda: 100.0)
    bus.emit(samples.started(replace(TAX, command="make tax")))
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    task = bus.state.view("T1").task
    bus.emit(samples.begun("T1", at=1.0))
    before = Change("1" * 40, "0" * 40, said="Rounded 17  times")
    bus.emit(ev.ChangeCommitted(at=2.0, task="T1", attempt=1, change=before))
    await teaching.learn(task, Plan(), Stage.VERIFY, failed("make tax` ended with status 1"))
    bus.emit(ev.AttemptFailed(at=3.0, task="T1", attempt=1, stage=Stage.VERIFY, reason="exit 1"))
    await teaching.resolve(bus.state.view("T1"), Change("2" * 40, "0" * 40, said=said))
    assert only(store).resolution == (said if helps else "")
    [taught] = bus.state.view("T1").taught
    assert (taught.resolved, taught.landed_with, taught.changed) == (helps, 0 if helps else 1, False)


@pytest.mark.parametrize("said", ["Rounded at the end", "Done"])
async def test_a_lesson_that_stays_open_after_a_change_of_the_row_says_so(
    store: LessonStore, said: str
) -> None:
    bus, terms = begun(), ["old"]
    teaching = Teaching(store, bus, "r1", max_tokens=800, terms=lambda _: terms[0])
    bus.emit(samples.begun("T1", at=1.0))
    await teaching.learn(TAX, Plan(), Stage.VERIFY, failed("make tax` ended with status 1"))
    terms[0] = "new"
    await teaching.resolve(bus.state.view("T1"), Change("2" * 40, "0" * 40, said=said))
    await teaching.resolve(bus.state.view("T1"), Change("2" * 40, "0" * 40, said=said))
    assert only(store).resolution == ""
    [taught] = bus.state.view("T1").taught
    assert (taught.resolved, taught.landed_with, taught.changed) == (False, 1, True)


async def test_an_unknown_other_is_not_made_up(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    await teaching.learn_from_return(changed(bus), SentBack("r", "f", "GONE-1", ("a.py",)))
    assert only(store).failure_msg.endswith("and what had landed meanwhile changed the same lines")


async def test_a_failed_stage_is_found_by_the_next_task_of_its_kind(store: LessonStore) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    plan = Plan(files=("src/tax.py",))
    failure = StageFailedError(
        "exit status 1", failure_type="check_failed", feedback="AssertionError: 3 != 4"
    )
    await teaching.learn(TAX, plan, Stage.VERIFY, failure)
    lesson = only(store)
    assert (lesson.failure_msg, lesson.files) == ("AssertionError: 3 != 4", ("src/tax.py",))
    assert lesson.metadata["scope"] == TAX.scope
    await teaching.resolve(bus.state.view("T1"), Change("1" * 40, "0" * 40, summary="Use Decimal"))
    given = await teaching.choose(RECEIPT, plan)
    assert [one.id for one in given] == [lesson.id]
    assert given[0].text.endswith("What helped: Use Decimal")


async def test_a_lesson_is_about_the_files_that_the_task_names_and_those_that_were_changed(
    store: LessonStore,
) -> None:
    bus = Bus(clock=lambda: 100.0)
    task = Task(id="T2", scope="Name the tax in docs/tax.md, e.g. 19 %")
    bus.emit(samples.started(task))
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    await teaching.learn(task, Plan(), Stage.IMPLEMENT, StageFailedError("nothing", failure_type="no_change"))
    bus.emit(samples.begun("T2", at=1.0))
    change = Change("1" * 40, "0" * 40, paths=("README.md", "docs/tax.md"))
    bus.emit(ev.ChangeCommitted(at=2.0, task="T2", attempt=1, change=change))
    await teaching.learn(task, Plan(), Stage.VERIFY, failed("false` ended with status 1"))
    files = {lesson.failure_type: lesson.files for lesson in store.most_frequent()}
    assert files == {"no_change": ("docs/tax.md",), "check_failed": ("docs/tax.md", "README.md")}
    for scope, given in (("Mend README.md", 1), ("Print docs/tax.md", 2), ("Do more, e.g. sleep", 0)):
        assert len(await teaching.choose(Task(id="T9", scope=scope), Plan())) == given


@pytest.mark.parametrize("summary", ["", TAX.scope, "Round the tax…"])
async def test_what_was_to_be_done_is_not_what_helped(store: LessonStore, summary: str) -> None:
    bus = begun()
    teaching = Teaching(store, bus, "r1", max_tokens=800)
    failure = StageFailedError("exit 1", failure_type="check_failed", feedback="`false` ended with status 1.")
    await teaching.learn(TAX, Plan(), Stage.VERIFY, failure)
    await teaching.resolve(bus.state.view("T1"), Change("1" * 40, "0" * 40, summary=summary))
    assert only(store).resolution == ""
    assert not bus.state.snapshot().lesson_notes[0].resolved


@pytest.mark.parametrize("max_tokens", [100, 250, 10_000])
async def test_what_a_prompt_is_given_keeps_to_its_tokens(store: LessonStore, max_tokens: int) -> None:
    for number in range(20):
        store.add("fix_bug", "verify", "crash", f"tax half {chr(97 + number)} " * 40)
    teaching = Teaching(store, begun(), "r1", max_tokens=max_tokens)
    given = await teaching.choose(TAX, Plan())
    assert len(given) <= MOST_GIVEN
    assert sum(estimated_tokens(one.text) for one in given) <= max_tokens
    assert bool(given) == (max_tokens > 200)


async def test_a_scope_of_one_long_word_holds_nothing_up(store: LessonStore) -> None:
    store.add("fix_bug", "verify", "crash", "boom", metadata={"files": "src/tax.py"})
    teaching = Teaching(store, begun(), "r1", max_tokens=800)
    for scope in ("A" * 300_000, "a/" * 150_000, "a." * 150_000):
        task = Task(id="T4", scope=f"{scope} src/tax.py", type="fix_bug")
        assert len(await teaching.choose(task, Plan())) == 1


def test_tokens_are_rather_over_than_underestimated() -> None:
    assert [estimated_tokens(text) for text in ("", "abc", "abcd", "漢字")] == [0, 1, 2, 2]
