"""Templates: compiled once, never stale, strict, in a sandbox."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment
from jinja2.parser import Parser

from engine.errors import TemplateError
from engine.figures import TemplateFigures
from engine.model import Task
from engine.templates import TemplateEngine

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


@pytest.mark.parametrize("name", ["greeting", "letter"])
def test_a_text_compiled_in_another_thread_as_it_is_rendered_is_not_lost(name: str) -> None:
    templates = engine()
    templates.compile("greeting", "Hello")
    templates.compile("letter", '{% include "greeting" %}')
    compiling = threading.Thread(target=templates.compile, args=("greeting", "Good day"))

    class Entries(dict[str, Any]):
        """Lets the other thread go on once the template is taken out to be put back as the one used last."""

        def pop(self, key: str, *default: object) -> Any:
            found = super().pop(key, *default)
            if key == "greeting" and compiling.ident is None:
                compiling.start()
                compiling.join(0.5)  # it may have to wait until this one is done
            return found

    templates._entries = Entries(templates._entries)
    assert templates.render(name) in ("Hello", "Good day")
    compiling.join()
    assert templates.render(name) == "Good day"
    assert templates.names() == ("greeting", "letter")


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


def test_a_prompt_is_parsed_once_however_often_it_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which makes it many times faster: `make bench` says how many."""
    parsed: list[str] = []

    def parse(environment: Environment, source: str, *rest: Any) -> Parser:
        parsed.append(source)
        return Parser(environment, source, *rest)

    monkeypatch.setattr("jinja2.environment.Parser", parse)
    templates = engine()
    templates.compile("a", "{{ n }}")
    for n in range(9):
        assert templates.render("a", n=n) == templates.compile_and_render("a", "{{ n }}", n=n) == str(n)
    assert parsed == ["{{ n }}"]
