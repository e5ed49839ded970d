"""Templates: compiled once, never stale, strict, in a sandbox; and the prompts of a repository over the built-in."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import TemplateError
from engine.figures import TemplateFigures
from engine.model import Task
from engine.templates import BUILT_IN, PromptLibrary, TemplateEngine

TASK = Task(id="T1", scope="Add a total", after=("T0",))


def engine(**options: int) -> TemplateEngine:
    """An engine whose clock moves by one second at every look."""
    ticks = itertools.count()
    return TemplateEngine(clock=lambda: float(next(ticks)), **options)


def test_compile_once_render_often() -> None:
    templates = engine()
    assert templates.compile("greeting", "Hello {{ name }}") is True
    assert templates.compile("greeting", "Hello {{ name }}") is False
    assert templates.render("greeting", name="Ada") == "Hello Ada"
    assert templates.render("greeting", name="Bob") == "Hello Bob"
    stats = templates.template_stats("greeting")
    assert stats is not None
    assert (stats.compilations, stats.renders, stats.hits, stats.errors) == (1, 2, 2, 0)
    assert (stats.compile_time, stats.render_time, stats.slowest_render) == (1.0, 2.0, 1.0)
    assert templates.stats() == TemplateFigures(templates=1, compilations=1, renders=2, hits=2)


def test_the_same_name_with_new_text_is_never_served_stale() -> None:
    templates = engine()
    assert templates.compile_and_render("t", "one {{ x }}", x=1) == "one 1"
    assert templates.compile_and_render("t", "two {{ x }}", x=2) == "two 2"
    assert templates.compile_and_render("t", "two {{ x }}", x=3) == "two 3"
    assert templates.render("t", x=4) == "two 4"
    assert templates.stats() == TemplateFigures(templates=1, compilations=2, renders=4, hits=2)


def test_an_include_gets_the_newest_text() -> None:
    templates = engine()
    templates.compile("part", "old {{ x }}")
    templates.compile("whole", "[{% include 'part' %}]")
    assert templates.render("whole", x=1) == "[old 1]"
    templates.compile("part", "new {{ x }}")
    assert templates.render("whole", x=1) == "[new 1]"
    templates.remove("part")
    with pytest.raises(TemplateError, match="<template whole>:1: there is no template part to include"):
        templates.render("whole", x=1)


def test_any_variable_name_can_be_given() -> None:
    templates = engine()
    assert (
        templates.compile_and_render("t", "{{ name }} {{ text }} {{ self_ }}", name=1, text=2, self_=3)
        == "1 2 3"
    )


def compile_and_render(templates: TemplateEngine, text: str) -> None:
    """Do both under the name of a file."""
    templates.compile("t", text, "prompts/t.md.j2")
    templates.render("t", task=TASK)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fine\n{{ missing }}", "prompts/t.md.j2:2: 'missing' is undefined"),
        ("{% if missing %}{% endif %}", ":1: 'missing' is undefined"),
        ("\n\n{{ task.owner }}", ":3: 'engine.model.Task object' has no attribute 'owner'"),
        ("{{ task.owner.name }}", "has no attribute 'owner'"),
        ("fine\n{% for %}", "prompts/t.md.j2:2: Expected an expression"),
        ("{% if task %}", "Unexpected end of template"),
        ("\n{{ 1 / 0 }}", ":2: ZeroDivisionError: division by zero"),
        ("{% include 'nowhere' %}", ":1: there is no template nowhere to include"),
        ("{% include 't' %}", ":1: RecursionError"),
    ],
)
def test_an_error_names_file_line_and_what_is_missing(text: str, message: str) -> None:
    templates = engine()
    with pytest.raises(TemplateError) as caught:
        compile_and_render(templates, text)
    assert message in str(caught.value)
    assert caught.value.hint
    assert templates.stats().errors >= 1


def test_an_error_in_an_included_file_names_that_file() -> None:
    templates = engine()
    templates.compile("part", "\n\n{{ missing }}", "part.md.j2")
    templates.compile("whole", "{% include 'part' %}", "whole.md.j2")
    with pytest.raises(TemplateError, match=r"^part\.md\.j2:3: 'missing'"):
        templates.render("whole")


def test_a_text_that_does_not_compile_leaves_the_last_good_one() -> None:
    templates = engine()
    templates.compile("t", "good")
    with pytest.raises(TemplateError):
        templates.compile("t", "{% bad %}")
    assert templates.render("t") == "good"


@pytest.mark.parametrize(
    "text",
    [
        "{{ task.__class__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ task['__class__'] }}",
        "{{ '{0.__class__}'.format(task) }}",
        "{{ names.append(1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ function.__globals__ }}",
        "{{ function.__code__.co_filename }}",
        "{% for n in range(10 ** 9) %}{% endfor %}",
    ],
)
def test_a_prompt_cannot_leave_the_sandbox(text: str) -> None:
    templates = engine()
    templates.compile("t", text)
    with pytest.raises(TemplateError):
        templates.render("t", task=TASK, names=[], function=lambda: None)


@given(st.text(), st.integers(), st.none() | st.booleans(), st.lists(st.text(max_size=5), max_size=3))
def test_values_are_shown_as_they_are(text: str, number: int, flag: bool | None, names: list[str]) -> None:
    """The quick way past the sandbox's inspection shows what the slow one shows, for objects and for tables."""
    task = Task(id=text, scope="s", priority=number, after=tuple(names))
    templates = TemplateEngine()
    templates.compile(
        "t",
        "{{ t.id }}|{{ t.priority }}|{{ d.flag }}|{{ d.items }}|{% for n in t.after %}{{ n }},{% endfor %}",
    )
    shown = templates.render("t", t=task, d={"flag": flag, "items": "no method"})
    assert shown.startswith(f"{text}|{number}|{flag}|")
    assert shown.endswith("|" + "".join(f"{name}," for name in names))


def test_the_longest_unused_template_goes_first() -> None:
    templates = engine(max_templates=2)
    templates.compile("a", "A")
    templates.compile("b", "B")
    templates.render("a")
    templates.compile("c", "C")
    assert templates.names() == ("a", "c")
    with pytest.raises(TemplateError, match="there is no template b: there are: a, c"):
        templates.render("b")
    assert templates.stats() == TemplateFigures(templates=2, compilations=3, renders=1, hits=1, errors=1)
    with pytest.raises(ValueError, match="at least 1"):
        TemplateEngine(0)


def test_remove_and_clear() -> None:
    templates = engine()
    templates.compile_and_render("a", "A")
    assert templates.remove("a") is True
    assert templates.remove("a") is False
    assert templates.template_stats("a") is None
    assert templates.stats() == TemplateFigures(templates=0, compilations=1, renders=1)
    templates.compile("b", "B")
    templates.clear()
    assert templates.names() == ()
    assert templates.stats() == TemplateFigures()


def test_a_compiled_prompt_is_many_times_faster_than_parsing_it() -> None:
    from tests.bench.bench_templates import rows

    assert all(row.ratio > 10 for row in rows() if row.ratio is not None)


# The prompts of a repository


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder of built-in prompts and one of overrides, which does not exist yet."""
    built_in = tmp_path / "built_in"
    built_in.mkdir()
    (built_in / "task.md.j2").write_text("Task {{ id }}\n")
    (built_in / "judge.md.j2").write_text('{% include "task" %}\nJudge it.\n')
    return built_in, tmp_path / "project" / ".taskyard" / "prompts"


def edit(file: Path, text: str) -> None:
    """Write a file so that its time differs from the last one's, however coarse the clock of the file system."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    now = file.stat()
    os.utime(file, ns=(now.st_atime_ns, max(now.st_mtime_ns, before + 1)))


def library(folders: tuple[Path, Path]) -> PromptLibrary:
    """The prompts, loaded."""
    prompts = PromptLibrary(TemplateEngine(), built_in=folders[0], overrides=folders[1])
    prompts.load()
    return prompts


def test_all_prompts_are_compiled_at_start(folders: tuple[Path, Path]) -> None:
    prompts = library(folders)
    assert prompts.engine.stats().compilations == 2
    assert prompts.render("judge", id="T1") == "Task T1\nJudge it.\n"
    assert prompts.engine.stats() == TemplateFigures(templates=2, compilations=2, renders=1, hits=1)
    assert prompts.overridden == ()


def test_a_file_of_the_repository_overrides_a_prompt_live(folders: tuple[Path, Path]) -> None:
    prompts = library(folders)
    assert prompts.refresh().changed == ()
    edit(folders[1] / "task.md.j2", "The task is {{ id }}.\n")
    edit(folders[1] / "own.md.j2", "A part of our own.")
    assert prompts.refresh().changed == ("own", "task")
    assert prompts.overridden == ("own", "task")
    assert prompts.render("judge", id="T1") == "The task is T1.\nJudge it.\n"
    edit(folders[1] / "task.md.j2", "Do {{ id }}.\n")
    assert prompts.refresh().changed == ("task",)
    assert prompts.render("judge", id="T1") == "Do T1.\nJudge it.\n"
    assert prompts.refresh().changed == ()
    (folders[1] / "task.md.j2").unlink()
    (folders[1] / "own.md.j2").unlink()
    assert prompts.refresh().changed == ("own", "task")
    assert prompts.render("judge", id="T1") == "Task T1\nJudge it.\n"
    assert prompts.engine.names() == ("judge", "task")


def test_a_broken_edit_is_told_once_and_the_last_good_prompt_stays(folders: tuple[Path, Path]) -> None:
    prompts = library(folders)
    edit(folders[1] / "task.md.j2", "fine\n{% if %}")
    refreshed = prompts.refresh()
    assert refreshed.changed == ()
    assert f"{folders[1] / 'task.md.j2'}:2: " in refreshed.problems[0]
    assert prompts.refresh().problems == ()
    assert prompts.render("judge", id="T1") == "Task T1\nJudge it.\n"
    edit(folders[1] / "task.md.j2", "mended {{ id }}")
    assert prompts.refresh().changed == ("task",)


def test_a_broken_prompt_stops_the_start(folders: tuple[Path, Path]) -> None:
    edit(folders[1] / "task.md.j2", "{{ id")
    with pytest.raises(TemplateError, match=r"task\.md\.j2:1"):
        library(folders)
    (folders[1] / "task.md.j2").write_bytes(b"caf\xe9")
    with pytest.raises(TemplateError, match="cannot be read"):
        library(folders)


def test_the_built_in_prompts_compile() -> None:
    prompts = PromptLibrary(TemplateEngine())
    prompts.load()
    names = {file.name.removesuffix(".md.j2") for file in BUILT_IN.glob("*.md.j2")}
    assert names
    assert set(prompts.engine.names()) == names
