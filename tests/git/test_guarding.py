"""The repository's config, which agents share with the user, over a real repository."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from engine.git.guarding import ConfigGuard, stashed
from engine.git.repository import Repository
from tests.sample_repository import SampleRepository

Make = Callable[..., SampleRepository]


@pytest.fixture
async def guarded(repo: Make) -> tuple[SampleRepository, ConfigGuard]:
    sample = repo()
    sample.git("config", "user.name", "The User")
    sample.git("config", "--add", "remote.origin.fetch", "+refs/pull/*:refs/pull/*")
    guard = ConfigGuard(await Repository.open(sample.path, environ=os.environ))
    await guard.note()
    return sample, guard


async def test_what_an_agent_changed_is_put_back_and_the_rest_stays(
    guarded: tuple[SampleRepository, ConfigGuard],
) -> None:
    sample, guard = guarded
    before = sample.git("config", "--local", "--list")
    assert await guard.restore() == ()
    sample.git("config", "user.name", "bot")
    sample.git("config", "user.email", "bot@example.org")
    sample.git("config", "--unset-all", "remote.origin.fetch")
    sample.git("config", "alias.x", "!touch /tmp/x")
    sample.git("config", "branch.main.description", "the user's own")
    sample.git("config", "core.bare", "true")
    assert await guard.restore() == (
        "alias.x",
        "core.bare",
        "remote.origin.fetch",
        "user.email",
        "user.name",
    )
    after = sample.git("config", "--local", "--list").splitlines()
    assert sorted(after) == sorted([*before.splitlines(), "branch.main.description=the user's own"])
    assert await guard.restore() == ()


async def test_what_another_agent_changes_as_the_config_is_looked_at_is_put_back_the_next_time(
    guarded: tuple[SampleRepository, ConfigGuard], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample, guard = guarded
    read = guard._read

    async def changed_since() -> dict[str, list[str]] | None:
        monkeypatch.undo()
        found = await read()
        sample.git("config", "user.name", "bot")
        return found

    monkeypatch.setattr(guard, "_read", changed_since)
    sample.git("config", "branch.main.description", "the user's own")
    assert await guard.restore() == ()
    assert await guard.restore() == ("user.name",)
    assert sample.git("config", "user.name") == "The User"


@pytest.mark.parametrize("harm", ["garbage", "removed"])
async def test_a_file_that_git_cannot_read_is_put_back_whole(
    guarded: tuple[SampleRepository, ConfigGuard], harm: str
) -> None:
    sample, guard = guarded
    file = sample.path / ".git" / "config"
    before = file.read_bytes()
    if harm == "garbage":
        file.write_text("[core\n")
    else:
        file.unlink()
    assert await guard.restore() == ("the whole file",)
    assert file.read_bytes() == before


async def test_stashes_are_counted_by_the_branch_they_were_made_on(repo: Make) -> None:
    sample = repo({"a.txt": "a\n"})
    repository = await Repository.open(sample.path, environ=os.environ)
    sample.write({"a.txt": "mine\n"})
    sample.git("stash", "--quiet")
    assert await stashed(repository, "T1") == 0
    sample.git("switch", "--quiet", "--create", "task/T1")
    for text in ("b\n", "c\n"):
        sample.write({"a.txt": text})
        sample.git("stash", "push", "--quiet", *(["-m", "words"] if text == "c\n" else []))
    assert (await stashed(repository, "T1"), await stashed(repository, "T")) == (2, 0)
