"""The Implementer's hands: whatever a model asks for, nothing outside its worktree is read or written."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.git.repository import Repository
from engine.roles import workspace as workspace_module
from engine.roles.answers import Edit, Edits
from engine.roles.implementer import apply_edits
from engine.roles.workspace import MAX_FILE, RefusedError, Workspace
from tests.sample_repository import SampleRepository

BOARD = "tasks/board.md"
MakeRepo = Callable[..., SampleRepository]


@pytest.fixture
def sample(repo: MakeRepo) -> SampleRepository:
    made = repo(
        {"src/a.py": "x = 1\n", BOARD: "| board |\n", "README.md": "# Shop\n", ".gitignore": "out/\n"}
    )
    outside = made.path.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (made.path / "file-link").symlink_to(outside / "secret.txt")
    (made.path / "dir-link").symlink_to(outside)
    (made.path / "git-link").symlink_to(".git")
    (made.path / "board-link").symlink_to(BOARD)
    (made.path / "inner-link").symlink_to("src/a.py")
    (made.path / "tasks-link").symlink_to("tasks")
    (made.path / "loop").symlink_to("loop")
    return made


@pytest.fixture
async def workspace(sample: SampleRepository) -> Workspace:
    return Workspace(sample.path, await Repository.open(sample.path, environ=os.environ), BOARD)


def everything(sample: SampleRepository) -> dict[str, bytes]:
    """All files there are, in and around the repository but for the worktree itself and what git locks."""
    return {
        str(path): path.read_bytes()
        for path in sorted(sample.path.parent.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and (sample.path not in path.parents or sample.path / ".git" in path.parents)
    }


NOT_HERE = [
    "/etc/passwd",
    "../outside/secret.txt",
    "src/../../outside/secret.txt",
    "src/..",
    "..\\outside\\secret.txt",
    "file-link",
    "dir-link/secret.txt",
    "dir-link/new.txt",
    ".git/config",
    ".GIT/config",
    ".Git",
    "src/.git/hooks/x",
    "./.git/HEAD",
    ".\\.git\\HEAD",
    "git-link/config",
    "a\0b",
    "\0",
    "loop",
    "loop/x",
    "x" * 300,
    "x/" * 3000,
    "lone\ud800surrogate",
]


@pytest.mark.parametrize("path", NOT_HERE, ids=lambda path: repr(path[:30]))
async def test_what_is_not_of_the_worktree_is_neither_read_nor_written(
    workspace: Workspace, sample: SampleRepository, path: str
) -> None:
    before = everything(sample)
    for act in (
        lambda: workspace.read(path),
        lambda: workspace.write(path, "mine"),
        lambda: workspace.edit(path, "secret", "mine"),
    ):
        seen = None
        with contextlib.suppress(RefusedError):
            seen = act()
        assert seen is None
    with pytest.raises(RefusedError):
        workspace.write(path, "mine")
    assert everything(sample) == before


@pytest.mark.parametrize("path", NOT_HERE, ids=lambda path: repr(path[:30]))
async def test_what_is_not_of_the_worktree_is_neither_listed_nor_searched(
    workspace: Workspace, path: str
) -> None:
    for asking in (workspace.list(path), workspace.search("secret|core", path)):
        try:
            found = await asking
        except RefusedError:
            continue
        assert found in ("(no files)", "(nothing found)")


@pytest.mark.parametrize(
    "path", [BOARD, f"./{BOARD}", "tasks//board.md", "tasks\\board.md", "tasks-link/board.md"]
)
async def test_the_board_is_read_but_not_written(
    workspace: Workspace, sample: SampleRepository, path: str
) -> None:
    assert workspace.read(path) == "| board |\n"
    with pytest.raises(RefusedError, match="task board"):
        workspace.write(path, "mine")
    with pytest.raises(RefusedError, match="task board"):
        workspace.edit(path, "board", "mine")
    assert (sample.path / BOARD).read_text() == "| board |\n"


async def test_a_link_is_never_replaced_by_a_file_nor_followed_in_writing(
    workspace: Workspace, sample: SampleRepository
) -> None:
    for link in ("inner-link", "board-link", "tasks-link"):
        with pytest.raises(RefusedError):
            workspace.write(link, "mine")
        assert (sample.path / link).is_symlink()
    assert workspace.read("inner-link") == "x = 1\n"


async def test_a_pipe_keeps_nobody_waiting(workspace: Workspace, sample: SampleRepository) -> None:
    os.mkfifo(sample.path / "pipe")
    with pytest.raises(RefusedError, match="neither a file nor a folder"):
        workspace.read("pipe")
    with pytest.raises(RefusedError, match="neither a file nor a folder"):
        workspace.write("pipe", "x")


segments = st.one_of(
    st.sampled_from(
        [
            "..",
            ".",
            "",
            ".git",
            ".GIT",
            "src",
            "a.py",
            "dir-link",
            "file-link",
            "git-link",
            "tasks",
            "board.md",
            "~",
        ]
    ),
    st.text(max_size=4),
)


@given(st.lists(segments, min_size=1, max_size=5), st.sampled_from(["/", "\\", "//", "/./"]), st.booleans())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_whatever_writes_outside(
    workspace: Workspace, sample: SampleRepository, parts: list[str], between: str, absolute: bool
) -> None:
    path = ("/" if absolute else "") + between.join(parts)
    outside = everything(sample)
    board = (sample.path / BOARD).read_bytes()
    try:
        workspace.write(path, "mine")
    except RefusedError:
        pass
    else:
        assert workspace.read(path) == "mine"
    assert everything(sample) == outside
    assert (sample.path / BOARD).read_bytes() == board
    with contextlib.suppress(RefusedError):
        assert workspace.read(path) != "secret"


# Reading and writing


async def test_files_are_made_with_their_folders_and_read_back_to_the_letter(
    workspace: Workspace, sample: SampleRepository
) -> None:
    for text in ("", "one\n", "a\r\nb\r\n", "no end", "\ufeffBOM 世界 🚂\n", "\r", "tab\tand\x0bvt"):
        workspace.write("new/deep/file.txt", text)
        assert workspace.read("new/deep/file.txt") == text
        assert (sample.path / "new/deep/file.txt").read_bytes() == text.encode()


async def test_the_mode_of_a_file_is_kept(workspace: Workspace, sample: SampleRepository) -> None:
    script = sample.path / "run.sh"
    script.write_text("#!/bin/sh\necho 1\n")
    script.chmod(0o755)
    workspace.edit("run.sh", "echo 1", "echo 2")
    assert script.stat().st_mode & 0o777 == 0o755
    assert script.read_text() == "#!/bin/sh\necho 2\n"


async def test_content_that_is_no_text_leaves_the_file_as_it_was(
    workspace: Workspace, sample: SampleRepository
) -> None:
    with pytest.raises(RefusedError, match="no text"):
        workspace.write("src/a.py", "half \ud800")
    assert (sample.path / "src/a.py").read_text() == "x = 1\n"


async def test_what_cannot_be_read_as_text_is_refused_with_the_reason(
    workspace: Workspace, sample: SampleRepository
) -> None:
    (sample.path / "image.png").write_bytes(b"\x89PNG\xff\xfe")
    (sample.path / "big.txt").write_bytes(b"x" * (MAX_FILE + 1))
    (sample.path / "fits.txt").write_bytes(b"x" * MAX_FILE)
    assert workspace.read("nowhere.txt") is None
    assert workspace.read("src/a.py/below") is None
    assert len(workspace.read("fits.txt") or "") == MAX_FILE
    for path, reason in (("image.png", "UTF-8"), ("big.txt", "larger"), ("src", "directory")):
        with pytest.raises(RefusedError, match=reason):
            workspace.read(path)
    with pytest.raises(RefusedError, match="folder"):
        workspace.write("src", "x")
    with pytest.raises(RefusedError, match="cannot write"):
        workspace.write("src/a.py/below", "x")


# Edits


@pytest.mark.parametrize(
    ("old", "reason"), [("", "is empty"), ("y", "does not occur"), ("1", "occurs 2 times")]
)
async def test_an_edit_must_fit_exactly_once(
    workspace: Workspace, sample: SampleRepository, old: str, reason: str
) -> None:
    (sample.path / "src/a.py").write_text("x = 11\n")
    with pytest.raises(RefusedError, match=reason):
        workspace.edit("src/a.py", old, "new")
    with pytest.raises(RefusedError, match="does not exist"):
        workspace.edit("src/none.py", "a", "b")


async def test_a_file_of_crlf_lines_is_edited_in_lf_and_keeps_its_line_ends(
    workspace: Workspace, sample: SampleRepository
) -> None:
    path = sample.path / "dos.txt"
    path.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    workspace.edit("dos.txt", "one\ntwo\n", "1\n2\n2.5\n")
    assert path.read_bytes() == b"1\r\n2\r\n2.5\r\nthree\r\n"
    workspace.edit("dos.txt", "three\r\n", "drei\r\nvier\n")
    assert path.read_bytes() == b"1\r\n2\r\n2.5\r\ndrei\r\nvier\r\n"


async def test_a_file_of_mixed_line_ends_is_edited_to_the_letter(
    workspace: Workspace, sample: SampleRepository
) -> None:
    path = sample.path / "mixed.txt"
    path.write_bytes(b"one\r\ntwo\nthree")
    workspace.edit("mixed.txt", "two\n", "2\n")
    assert path.read_bytes() == b"one\r\n2\nthree"


@given(st.text(max_size=30), st.text(min_size=1, max_size=5), st.text(max_size=30), st.text(max_size=10))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_edit_that_fits_changes_only_its_place(
    workspace: Workspace, sample: SampleRepository, before: str, old: str, after: str, new: str
) -> None:
    text = before + old + after
    path = sample.path / "any.txt"
    path.write_bytes(text.encode())
    try:
        workspace.edit("any.txt", old, new)
    except RefusedError:
        assert path.read_bytes() == text.encode()
        return
    result = path.read_bytes().decode()
    if "\r" not in text:
        assert text.count(old) == 1
        assert result == before + new + after
    else:
        assert len(result) >= len(text) - len(old)


async def test_the_economy_answer_is_applied_whole(workspace: Workspace, sample: SampleRepository) -> None:
    edits = Edits(" Doubles x. ", (Edit("src/a.py", "x = 1", "x = 2"), Edit("src/b.py", "", "y = 1\n")))
    assert apply_edits(edits, workspace) == "Doubles x."
    assert (sample.path / "src/a.py").read_text() == "x = 2\n"
    assert (sample.path / "src/b.py").read_text() == "y = 1\n"


async def test_every_edit_that_does_not_fit_is_named(workspace: Workspace) -> None:
    from engine.errors import StageFailedError

    edits = Edits("s", (Edit("src/a.py", "none", "x"), Edit("ok.py", "", "1"), Edit("../x", "", "1")))
    with pytest.raises(StageFailedError, match="2 of 3 edits") as caught:
        apply_edits(edits, workspace)
    assert caught.value.failure_type == "edit_does_not_fit"
    assert "edit 1: the old text does not occur" in caught.value.feedback
    assert "edit 3: '../x' is outside" in caught.value.feedback


# Listing and searching


async def test_the_list_is_sorted_and_without_what_git_ignores(
    workspace: Workspace, sample: SampleRepository
) -> None:
    sample.write({"out/built.js": "x", "new.txt": "n"})
    (sample.path / "README.md").unlink()
    listed = (await workspace.list()).split("\n")
    assert listed == sorted(listed)
    assert "new.txt" in listed
    assert "src/a.py" in listed
    assert not {"out/built.js", "README.md"} & set(listed)
    assert (
        await workspace.list("src")
        == await workspace.list("./src/")
        == await workspace.list(".\\src")
        == "src/a.py"
    )
    assert await workspace.list("nowhere") == "(no files)"


async def test_a_search_names_file_and_line(workspace: Workspace, sample: SampleRepository) -> None:
    sample.write({"src/b.py": "first\nsecond x = 1\u2028same line\n", "out/b.py": "x = 1\n"})
    assert await workspace.search("x = [0-9]") == "src/a.py:1:x = 1\nsrc/b.py:2:second x = 1\u2028same line"
    assert await workspace.search("x", "src/a.py") == "src/a.py:1:x = 1"
    assert await workspace.search("nothing like it") == "(nothing found)"


async def test_a_pattern_is_an_argument_and_never_an_option(workspace: Workspace) -> None:
    assert await workspace.search("--open-files-in-pager=touch pwned") == "(nothing found)"
    assert await workspace.search("-x") == "(nothing found)"


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "nul\0byte", "x\ud800"])
async def test_a_pattern_that_is_none_is_refused_with_words(workspace: Workspace, pattern: str) -> None:
    with pytest.raises(RefusedError, match="cannot search"):
        await workspace.search(pattern)


async def test_a_search_that_takes_too_long_is_refused_and_not_fatal(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_module, "SEARCH_TIMEOUT", 0.0)
    with pytest.raises(RefusedError, match="cannot search"):
        await workspace.search("x")


async def test_names_and_lines_that_are_no_utf_8_can_be_shown_to_a_model(
    workspace: Workspace, sample: SampleRepository
) -> None:
    Path(os.fsdecode(os.fsencode(sample.path) + b"/caf\xe9.txt")).write_bytes(b"ol\xe9 ol\xe9\n")
    for text in (await workspace.list(), await workspace.search("ol")):
        assert "caf\ufffd.txt" in text
        text.encode()


async def test_long_answers_say_how_much_is_left_out(workspace: Workspace, sample: SampleRepository) -> None:
    sample.write({"many.txt": "hit\n" * 250, "wide.txt": "w" * 5_000 + "\n"})
    found = (await workspace.search("hit")).split("\n")
    assert len(found) == 201
    assert found[-1] == "(50 more lines)"
    assert len(await workspace.search("www")) <= 400


async def test_two_searches_at_once_do_not_disturb_each_other(workspace: Workspace) -> None:
    found = await asyncio.gather(*(workspace.search("x = 1") for _ in range(5)))
    assert set(found) == {"src/a.py:1:x = 1"}
