"""Prompt templates: compiled once, rendered many times, and never served stale.

    templates = TemplateEngine()
    templates.compile("greeting", "Hello {{ name }}")
    templates.render("greeting", name="Ada")

Templates are Jinja in a sandbox: prompts may come from the repository that is worked on. A variable that is not
given is an error, not an empty string. One template takes in another by name: `{% include "task" %}`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from engine.errors import TemplateError
from engine.figures import TemplateFigures

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_PLAIN = frozenset({str, int, float, bool, type(None)})


class TemplateStats(msgspec.Struct, frozen=True):
    """What one template has cost so far, in seconds. `hits` are the renders that needed no compilation."""

    name: str
    filename: str
    compilations: int = 0
    compile_time: float = 0.0
    renders: int = 0
    hits: int = 0
    render_time: float = 0.0
    slowest_render: float = 0.0
    errors: int = 0


class _Entry:
    """One compiled template with its running figures."""

    __slots__ = ("stats", "template", "text")

    def __init__(self, text: str, template: Template, stats: TemplateStats) -> None:
        self.text = text
        self.template = template
        self.stats = stats


class TemplateEngine:
    """Compiles and renders templates by name, at most `max_templates` of them; the longest unused one goes first.

    `clock` gives seconds for the figures. One thread renders; others may compile meanwhile.
    """

    def __init__(self, max_templates: int = 256, *, clock: Callable[[], float] = time.perf_counter) -> None:
        if max_templates < 1:
            raise ValueError("max_templates must be at least 1")
        self._max = max_templates
        self._clock = clock
        self._environment = _environment(self._include)
        self._lock = threading.RLock()
        self._entries: dict[str, _Entry] = {}  # the longest unused first
        self._past: dict[str, int] = dict.fromkeys(("compilations", "renders", "hits", "errors"), 0)

    def compile(self, name: str, text: str, filename: str | None = None) -> bool:
        """Make `text` the template `name`; the same text again costs nothing. Says whether it was compiled.

        `filename` is named in errors. Raises `TemplateError` for a text that does not compile; then the template
        that was there before stays.
        """
        import jinja2

        filename = filename or f"<template {name}>"
        before = self._entries.get(name)
        if before and before.text == text and before.stats.filename == filename:
            return False
        started = self._clock()
        try:
            code = self._environment.compile(text, name, filename)
        except jinja2.TemplateSyntaxError as error:
            self._failed(name)
            raise TemplateError(f"{filename}:{error.lineno}: {error.message}", "mend the template") from error
        template = jinja2.Template.from_code(self._environment, code, {})
        took = self._clock() - started
        with self._lock:
            before = self._entries.pop(name, None)
            stats = before.stats if before else TemplateStats(name, filename)
            stats = replace(
                stats,
                filename=filename,
                compilations=stats.compilations + 1,
                compile_time=stats.compile_time + took,
            )
            self._entries[name] = _Entry(text, template, stats)
            while len(self._entries) > self._max:
                self.remove(next(iter(self._entries)))
        return True

    def render(self, name: str, /, **variables: object) -> str:
        """Render a compiled template. Raises `TemplateError` naming file, line and what is missing."""
        return self._render(name, variables, hit=True)

    def compile_and_render(self, name: str, text: str, /, **variables: object) -> str:
        """Render `text` as the template `name`, compiling it only when it is new or changed."""
        hit = not self.compile(name, text)
        return self._render(name, variables, hit=hit)

    def remove(self, name: str) -> bool:
        """Forget a template; its share of the overall figures stays. Says whether it was there."""
        with self._lock:
            entry = self._entries.pop(name, None)
            if entry:
                for figure in self._past:
                    self._past[figure] += getattr(entry.stats, figure)
        return entry is not None

    def clear(self) -> None:
        """Forget all templates and all figures."""
        self._entries.clear()
        self._past = dict.fromkeys(self._past, 0)

    def names(self) -> tuple[str, ...]:
        """List the compiled templates by name."""
        with self._lock:
            return tuple(sorted(self._entries))

    def text(self, name: str) -> str:
        """Give the text of a compiled template. Raises KeyError when there is none of this name."""
        return self._entries[name].text

    def template_stats(self, name: str) -> TemplateStats | None:
        """Give the figures of one template, or None when there is none of this name."""
        entry = self._entries.get(name)
        return entry.stats if entry else None

    def stats(self) -> TemplateFigures:
        """Give the figures over all templates, forgotten ones included."""
        with self._lock:
            total = {
                figure: past + sum(getattr(entry.stats, figure) for entry in self._entries.values())
                for figure, past in self._past.items()
            }
            return TemplateFigures(templates=len(self._entries), **total)

    def _render(self, name: str, variables: Mapping[str, object], *, hit: bool) -> str:
        started = self._clock()
        entry = self._use(name)
        if entry is None:
            self._past["errors"] += 1
            raise TemplateError(
                f"there is no template {name}", f"there are: {', '.join(self.names()) or 'none'}"
            )
        try:
            text = entry.template.render(variables)
        except Exception as error:
            self._failed(name)
            raise self._explain(error, name) from error
        took = self._clock() - started
        stats = entry.stats
        entry.stats = replace(
            stats,
            renders=stats.renders + 1,
            hits=stats.hits + hit,
            render_time=stats.render_time + took,
            slowest_render=max(stats.slowest_render, took),
        )
        return text

    def _use(self, name: str) -> _Entry | None:
        with self._lock:
            entry = self._entries.pop(name, None)
            if entry:
                self._entries[name] = entry
        return entry

    def _include(self, name: str) -> Template | None:
        entry = self._use(name)
        return entry.template if entry else None

    def _failed(self, name: str) -> None:
        if entry := self._entries.get(name):
            entry.stats = replace(entry.stats, errors=entry.stats.errors + 1)
        else:
            self._past["errors"] += 1

    def _explain(self, error: Exception, name: str) -> TemplateError:
        """Say what went wrong while rendering, and where: Jinja puts the lines of templates into the traceback."""
        import jinja2

        with self._lock:
            filenames = {entry.stats.filename for entry in self._entries.values()}
        place = self._entries[name].stats.filename
        step = error.__traceback__
        while step:
            if step.tb_frame.f_code.co_filename in filenames:
                place = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
            step = step.tb_next
        if isinstance(error, jinja2.UndefinedError):
            return TemplateError(f"{place}: {error.message}", "this variable is not there to be used")
        if isinstance(error, jinja2.TemplateNotFound):
            return TemplateError(f"{place}: there is no template {error.name} to include", "mend the name")
        if isinstance(error, jinja2.exceptions.SecurityError):
            return TemplateError(f"{place}: {error}", "a prompt may only read what it is given")
        return TemplateError(f"{place}: {type(error).__name__}: {error}", "mend the template")


def _environment(included: Callable[[str], Template | None]) -> Environment:
    """Make the sandbox; `included` finds what a template includes."""
    import jinja2  # here, for the import costs 50 ms that no other command should pay
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Compiled(jinja2.BaseLoader):
        def load(self, environment: Environment, name: str, globals: Any = None) -> Template:
            if template := included(name):
                return template
            raise jinja2.TemplateNotFound(name)

    class Sandbox(ImmutableSandboxedEnvironment):
        def getattr(self, obj: Any, attribute: str) -> Any:
            """Look up what most prompts are made of without the sandbox's inspection: it takes ten times as long.

            A plain value behind a public name leads nowhere that the sandbox would have to guard.
            """
            if not attribute.startswith("_"):
                try:
                    value = getattr(obj, attribute)
                except AttributeError:
                    pass
                else:
                    if type(value) in _PLAIN:
                        return value
            return super().getattr(obj, attribute)

    return Sandbox(
        loader=Compiled(),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,  # so that an included file stands there as if it were pasted in
        cache_size=0,  # so that an include gets the newest text
    )
