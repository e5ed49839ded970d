"""The prompts of the roles: all compiled at the start, overridden by the repository, edited live."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.errors import TemplateError
from engine.figures import TemplateFigures
from engine.roles.prompt_library import BUILT_IN, PromptLibrary
from engine.templates import TemplateEngine


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
