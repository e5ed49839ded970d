"""Running git: in the right folder, in a clean environment, within limits, with nothing left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import GitError, PreflightError
from engine.git.environment import LOCAL_VARIABLES, clean_environment
from engine.git.repository import Repository
from tests.sample_repository import SampleRepository

Make = Callable[..., SampleRepository]


async def opened(path: Path) -> Repository:
    return await Repository.open(path, environ=os.environ)


async def test_a_repository_is_found_from_each_of_its_folders(repo: Make, tmp_path: Path) -> None:
    sample = repo({"a/b/c.txt": "c\n"}, name="shop ünï")
    linked = tmp_path / "linked"
    sample.git("worktree", "add", "--quiet", "--detach", str(linked))
    common = sample.path / ".git"
    for start, root in (
        (sample.path, sample.path),
        (sample.path / "a" / "b", sample.path),
        (sample.path / ".git", sample.path),
        (linked, linked),
    ):
        found = await opened(start)
        assert (found.root, found.common_dir, found.bare) == (root, common, False)
        assert found.name == "shop ünï"
    bare = await opened(sample.remote)
    assert (bare.root, bare.common_dir, bare.bare) == (sample.remote, sample.remote, True)
    assert bare.name == "shop ünï"


async def test_a_relative_path_means_the_folder_of_the_process(
    repo: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = repo()
    monkeypatch.chdir(sample.path)
    assert (await opened(Path("."))).root == sample.path


async def test_a_folder_without_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match=r"not in a git repository.*git init"):
        await opened(tmp_path)


async def test_a_repository_of_somebody_else_names_the_command_that_trusts_it(
    repo: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = repo()
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(PreflightError, match=r"git config --global --add safe\.directory"):
        await opened(sample.path)


async def test_without_git_it_says_so(repo: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    repository = await opened(repo().path)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    gone = Repository(repository.root, repository.common_dir, os.environ)
    with pytest.raises(PreflightError, match="git is not installed"):
        await gone.run("status")


def test_the_names_git_calls_local_are_all_taken_away() -> None:
    names = subprocess.run(
        ["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(names) <= LOCAL_VARIABLES
    kept = clean_environment({**dict.fromkeys(names, "x"), "GIT_CONFIG_KEY_0": "a.b", "GIT_AUTHOR_NAME": "A"})
    assert not set(names) & set(kept)
    assert "GIT_CONFIG_KEY_0" not in kept
    assert kept["GIT_AUTHOR_NAME"] == "A"
    assert kept["GIT_TERMINAL_PROMPT"] == "0"


async def test_a_leaked_index_is_not_written_to(repo: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = repo()
    other = repo({"x.txt": "x\n"}, name="other")
    index = other.path / ".git" / "index"
    before = index.read_bytes()
    monkeypatch.setenv("GIT_INDEX_FILE", str(index))
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    repository = await opened(sample.path)
    assert repository.root == sample.path
    sample.write({"new.txt": "n\n"})
    await repository.run("add", "--all")
    assert index.read_bytes() == before
    assert "new.txt" in (await repository.run("ls-files")).stdout


async def test_a_folder_that_has_gone_never_means_the_folder_of_the_process(
    repo: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = repo({"a.txt": "committed\n"})
    sample.write({"a.txt": "an edit nobody may lose\n"})
    monkeypatch.chdir(sample.path)
    repository = await opened(sample.path)
    with pytest.raises(GitError):
        await repository.run("reset", "--hard", cwd=sample.path.parent / "gone")
    assert (sample.path / "a.txt").read_text() == "an edit nobody may lose\n"


async def test_a_worktree_that_lost_its_git_file_does_not_mean_the_repository_around_it(repo: Make) -> None:
    sample = repo({"a.txt": "committed\n"})
    inner = sample.path / "inner"
    inner.mkdir()
    sample.write({"a.txt": "an edit nobody may lose\n"})
    repository = await opened(sample.path)
    with pytest.raises(GitError, match="not a git repository"):
        await repository.run("reset", "--hard", cwd=inner)
    assert (sample.path / "a.txt").read_text() == "an edit nobody may lose\n"


async def test_an_error_carries_the_line_that_tells(repo: Make) -> None:
    repository = await opened(repo().path)
    with pytest.raises(GitError, match="git rev-parse failed: fatal: ") as caught:
        await repository.run("rev-parse", "--verify", "nothing-of-that-name")
    assert caught.value.status == 128
    assert (await repository.run("rev-parse", "--verify", "nothing", check=False)).status == 128


async def test_bytes_that_are_no_utf8_survive(repo: Make) -> None:
    sample = repo()
    repository = await opened(sample.path)
    data = bytes(range(256))
    blob = (await repository.run("hash-object", "-w", "--stdin", input=data)).stdout.strip()
    back = (await repository.run("cat-file", "blob", blob)).stdout.encode("utf-8", "surrogateescape")
    assert back == data


async def test_questions_about_commits(repo: Make) -> None:
    sample = repo()
    first = sample.git("rev-parse", "HEAD")
    second = sample.commit("Second", {"b.txt": "b\n"})
    repository = await opened(sample.path)
    assert await repository.commit_of("HEAD") == second
    assert await repository.commit_of("--all") is None
    assert await repository.tree_of(second) == sample.git("rev-parse", "HEAD^{tree}")
    assert await repository.is_ancestor(first, second)
    assert not await repository.is_ancestor(second, first)


def sleeper(sample: SampleRepository) -> tuple[str, ...]:
    """A git command that starts a child of its own, says so in a file, and never ends."""
    script = sample.path.parent / "sleeper"
    script.write_text(f"#!/bin/sh\necho $$ > '{sample.path.parent}/pid'\nexec sleep 300\n")
    script.chmod(0o755)
    return ("-c", f"alias.forever=!{script}", "forever")


async def pid_of_sleeper(sample: SampleRepository) -> int:
    path = sample.path.parent / "pid"
    while not (path.exists() and path.read_text().strip()):
        await asyncio.sleep(0.01)
    return int(path.read_text())


def read_of_process(pid: object, name: str) -> str:
    """A file of /proc, or nothing where the process has gone, which it may do between a look and the next."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def runs(pid: int) -> bool:
    stat = read_of_process(pid, "stat")
    return bool(stat) and "Z" not in stat.split()[2]


async def gone(pid: int) -> None:
    while runs(pid):
        await asyncio.sleep(0.01)


def end_daemon(pid: int) -> None:
    assert runs(pid), "it was waited for"
    os.kill(pid, signal.SIGKILL)


async def test_a_time_out_ends_git_and_what_it_started(repo: Make) -> None:
    sample = repo()
    repository = await opened(sample.path)
    with pytest.raises(GitError, match=r"git forever took longer than 3 s"):
        await repository.run(*sleeper(sample), timeout=3.0)
    async with asyncio.timeout(40):
        await gone(await pid_of_sleeper(sample))


async def test_cancelling_ends_git_before_the_caller_goes_on(repo: Make) -> None:
    sample = repo()
    repository = await opened(sample.path)
    running = asyncio.ensure_future(repository.run(*sleeper(sample)))
    pid = await asyncio.wait_for(pid_of_sleeper(sample), 40)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(gone(pid), 40)


def daemon(sample: SampleRepository, after: str) -> tuple[str, ...]:
    """A git command that leaves a daemon behind, in a session of its own, with git's pipes; then it does `after`."""
    script = sample.path.parent / "daemon"
    script.write_text(
        f"#!{sys.executable}\n"
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '20'], start_new_session=True)\n"
        f"open('{sample.path.parent}/pid', 'w').write(str(child.pid))\n"
        f"print('said', flush=True); {after}\n"
    )
    script.chmod(0o755)
    return ("-c", f"alias.leaves=!{script}", "leaves")


async def test_a_daemon_that_a_hook_leaves_behind_with_gits_pipes_keeps_nobody_waiting(repo: Make) -> None:
    sample = repo()
    repository = await opened(sample.path)
    result = await repository.run(*daemon(sample, "pass"))
    pid = await pid_of_sleeper(sample)
    assert (result.status, result.stdout) == (0, "said\n")
    end_daemon(pid)


async def test_a_daemon_with_gits_pipes_keeps_no_time_out_and_no_cancelling_waiting(repo: Make) -> None:
    sample = repo()
    repository = await opened(sample.path)
    with pytest.raises(GitError, match=r"git leaves took longer than 3 s"):
        await repository.run(*daemon(sample, "time.sleep(60)"), timeout=3.0)
    end_daemon(await pid_of_sleeper(sample))
    (sample.path.parent / "pid").unlink()
    running = asyncio.ensure_future(repository.run(*daemon(sample, "time.sleep(60)")))
    pid = await asyncio.wait_for(pid_of_sleeper(sample), 40)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    end_daemon(pid)


async def test_what_ignores_being_asked_is_killed_though_git_itself_has_gone(repo: Make) -> None:
    sample = repo()
    repository = await opened(sample.path)
    stubborn = sample.path.parent / "stubborn"
    stubborn.write_text(
        f"#!/bin/sh\ntrap '' TERM\necho $$ > '{sample.path.parent}/pid'\nsleep 300\nsleep 300\n"
    )
    stubborn.chmod(0o755)
    running = asyncio.ensure_future(
        repository.run("-c", f"alias.forever=!{stubborn} & exec sleep 300", "forever")
    )
    pid = await asyncio.wait_for(pid_of_sleeper(sample), 40)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(gone(pid), 10)


async def test_input_larger_than_a_pipe_arrives_whole_while_output_comes_back(repo: Make) -> None:
    repository = await opened(repo().path)
    data = bytes(range(1, 251)) * 20_000
    result = await repository.run("-c", "alias.back=!sleep 0.6; cat", "back", input=data)
    assert result.stdout.encode("utf-8", "surrogateescape") == data
    assert (await repository.run("-c", "alias.deaf=!true", "deaf", input=data)).status == 0


async def test_many_commands_at_once_run_beside_each_other(repo: Make, tmp_path: Path) -> None:
    """Each waits until all are there: in the loop's own pool, of six threads on two cores, they would for ever."""
    repository = await opened(repo().path)
    here = tmp_path / "here"
    here.mkdir()
    meet = f"!touch {here}/$$ && while test $(ls {here} | wc -l) -lt 24; do sleep 0.05; done"
    await asyncio.gather(
        *(repository.run("-c", f"alias.meet={meet}", "meet", timeout=60.0) for _ in range(24))
    )
    assert len(list(here.iterdir())) == 24


async def test_commands_leave_no_process_and_no_open_file(repo: Make) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("counts open files in /proc")
    repository = await opened(repo().path)

    async def some() -> None:
        for _ in range(10):
            await asyncio.gather(*(repository.run("cat-file", "-p", "HEAD") for _ in range(4)))

    await some()
    before = len(os.listdir("/proc/self/fd"))
    await some()
    assert len(os.listdir("/proc/self/fd")) <= before
    git = shutil.which("git")
    assert git is not None
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    assert "cat-file" not in "".join(read_of_process(pid, "cmdline") for pid in children.read_text().split())
