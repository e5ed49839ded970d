"""Settings: the order of their sources, the kinds of value, and every mistake told by its place."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import SettingsError
from engine.settings import Settings, load_settings, parse_duration, parse_size, starter_settings


def load(
    root: Path,
    toml: str = "",
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """Load with this settings file."""
    (root / "taskyard.toml").write_text(toml)
    return load_settings(root, environ=environ or {}, overrides=overrides or {})


def refused(root: Path, toml: str = "", **sources: Mapping[str, str]) -> str:
    """Load what must be refused, and return what the user is told."""
    with pytest.raises(SettingsError) as caught:
        load(root, toml, **sources)
    assert caught.value.hint
    assert caught.value.exit_status == 2
    assert "\n" not in str(caught.value), "one line"
    return str(caught.value)


def test_the_economy_lane_is_for_models_and_for_rows_that_choose(tmp_path: Path) -> None:
    agents = "".join(
        f'[roles.{role}]\nkind = "command"\ncommand = ["agent"]\n' for role in ("implementer", "judge")
    )
    assert load(tmp_path).economy
    assert load(tmp_path, agents).economy
    assert not load(tmp_path, agents + '[roles.planner]\nkind = "none"\n').economy
    assert not load(tmp_path, '[llm]\nbatch = "off"\n').economy
    assert not load(tmp_path, '[llm]\nbatch = "always"\n').economy


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, environ={})
    assert settings.file is None
    assert settings.run.board == tmp_path / "tasks" / "board.md"
    assert settings.run.max_concurrency == 10
    assert settings.git.target == "taskyard/board"
    assert settings.git.max_age == 5.0
    assert settings.history.max_bytes == 100_000_000
    assert settings.history.max_age == 86400.0
    assert settings.roles.judge.kind == "anthropic"
    assert settings.budget.usd is None
    assert settings.locks.url is None


def test_every_value_of_a_full_file_arrives(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
        [run]
        board = "work.md"
        max_attempts = 5
        type_limits = { docs = 2 }
        state_dir = "~/state"
        [run.lane_limits]
        economy = 3
        [roles.planner]
        kind = "none"
        [roles.implementer]
        kind = "command"
        command = ["claude", "-p", "a b"]
        env = ["ANTHROPIC_API_KEY"]
        timeout = "1h 30m"
        idle_timeout = 90
        [roles.judge]
        model = "claude-opus-5"
        thinking = 8000
        max_tokens = 4000
        [verify]
        command = "make check"
        [git]
        remote = ""
        max_age = "250ms"
        [llm]
        base_url = "http://localhost:1"
        batch = "always"
        prices = "prices.toml"
        [budget]
        usd = 10
        task_usd = 0.5
        [history]
        max_bytes = "64 MiB"
        [locks]
        url = "redis://somewhere:6379/1"
        [notify]
        bell = false
        """,
    )
    assert settings.file == tmp_path / "taskyard.toml"
    assert settings.run.board == tmp_path / "work.md"
    assert settings.run.state_dir == Path.home() / "state"
    assert settings.run.type_limits == {"docs": 2}
    assert settings.run.lane_limits == {"economy": 3}
    assert settings.roles.planner.kind == "none"
    assert settings.roles.implementer.command == ("claude", "-p", "a b")
    assert settings.roles.implementer.env == ("ANTHROPIC_API_KEY",)
    assert settings.roles.implementer.timeout == 5400.0
    assert settings.roles.implementer.idle_timeout == 90.0
    assert settings.roles.judge.thinking == 8000
    assert settings.roles.judge.max_tokens == 4000
    assert settings.verify.command == "make check"
    assert settings.git.remote == ""
    assert settings.git.max_age == 0.25
    assert settings.git.target == "taskyard/work"
    assert settings.llm.batch == "always"
    assert settings.llm.prices == tmp_path / "prices.toml"
    assert settings.budget.usd == 10.0
    assert settings.history.max_bytes == 64 << 20
    assert settings.locks.url == "redis://somewhere:6379/1"
    assert settings.notify.bell is False


def test_flags_beat_environment_beats_file_beats_defaults(tmp_path: Path) -> None:
    toml = "[run]\nmax_concurrency = 2\nmax_attempts = 2\n[git]\nmax_batch = 2\n"
    environ = {
        "TASKYARD_RUN_MAX_CONCURRENCY": "3",
        "TASKYARD_RUN_MAX_ATTEMPTS": "4",
        "TASKYARD_GIT_MAX_BATCH": "",
    }
    settings = load(
        tmp_path, toml, environ=environ, overrides={"run.max_concurrency": 5, "run.max_attempts": None}
    )
    assert settings.run.max_concurrency == 5
    assert settings.run.max_attempts == 4, "an option that is not given changes nothing"
    assert settings.git.max_batch == 2, "an empty variable counts as not set"


@pytest.mark.parametrize(
    ("name", "text", "dotted", "meant"),
    [
        ("TASKYARD_ROLES_JUDGE_MODEL", "claude-x", "roles.judge.model", "claude-x"),
        ("TASKYARD_GIT_TARGET", "2024", "git.target", "2024"),
        ("TASKYARD_VERIFY_COMMAND", "'my tool' -q", "verify.command", "'my tool' -q"),
        ("TASKYARD_VERIFY_COMMAND", "'my tool'", "verify.command", "'my tool'"),
        ("TASKYARD_GIT_MAX_AGE", "1m", "git.max_age", 60.0),
        ("TASKYARD_GIT_MAX_AGE", "1.5", "git.max_age", 1.5),
        ("TASKYARD_NOTIFY_BELL", "false", "notify.bell", False),
        ("TASKYARD_NOTIFY_COMMAND", "say 'the end'", "notify.command", ("say", "the end")),
        ("TASKYARD_NOTIFY_COMMAND", '["say", "a"]', "notify.command", ("say", "a")),
        ("TASKYARD_RUN_TYPE_LIMITS", "{ docs = 1 }", "run.type_limits", {"docs": 1}),
        ("TASKYARD_ROLES_JUDGE_THINKING", "adaptive", "roles.judge.thinking", "adaptive"),
        ("TASKYARD_ROLES_JUDGE_THINKING", "900", "roles.judge.thinking", 900),
    ],
)
def test_text_from_the_environment_or_a_flag(
    tmp_path: Path, name: str, text: str, dotted: str, meant: object
) -> None:
    for settings in (load(tmp_path, environ={name: text}), load(tmp_path, overrides={dotted: text})):
        value: object = settings
        for part in dotted.split("."):
            value = getattr(value, part)
        assert value == meant
        assert type(value) is type(meant)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[run]\n\nmax_concurency = 3\n", ":3: run.max_concurency is no setting: the nearest is run.max_concurrency"),
        ("# all\nmax_batch = 3\n", "taskyard.toml:2: max_batch is no setting: the nearest is git.max_batch"),
        ("[roles.implementor]\nkind = 'none'\n", "roles.implementor is no setting: the nearest is roles.implementer"),
        ("[budgets]\nusd = 1\n", "taskyard.toml:1: budgets is no setting: the nearest is budget"),
        ("roles.judge.modell = 'x'\n", "roles.judge.modell is no setting: the nearest is roles.judge.model"),
        ("[git]\n\"max_bach\" = 1\n", "taskyard.toml:2: git.max_bach is no setting: the nearest is git.max_batch"),
        ("[git]\nmax_batch = 'ten'\n", 'taskyard.toml:2: git.max_batch is "ten": give it a whole number from 1'),
        ("[git]\nmax_batch = 0\n", "taskyard.toml:2: git.max_batch is 0: give it a whole number from 1"),
        ("[git]\nmax_batch = true\n", "taskyard.toml:2: git.max_batch is true: give it a whole number from 1"),
        ("[git]\nmax_age = 'soon'\n", 'git.max_age is "soon": give it a duration such as'),
        ("[git]\nmax_age = -1\n", "git.max_age is -1: give it a duration"),
        ("[verify]\ntimeout = '0s'\n", "give it a duration above zero"),
        ("[verify]\ncommand = \"a \\u0000 b\"\n", "give it text without NUL characters"),
        ("[roles.implementer]\nkind = 'command'\ncommand = [\"a\\u0000\"]\n", "give it a list of words"),
        ("[locks]\nlease = 1e-9\n", "give it a duration from 1s"),
        ("[history]\nmax_bytes = '100 bananas'\n", 'give it a size such as "100MB"'),
        ("[budget]\nusd = inf\n", "give it an amount in US dollars"),
        ("[notify]\nbell = 'yes'\n", "give it true or false"),
        ("[verify]\ncommand = ['pytest']\n", "give it text"),
        ("[llm]\nbatch = 'never'\n", 'llm.batch is "never": give it "off", "auto" or "always"'),
        ("[roles.judge]\nthinking = 'hard'\n", 'give it "off", "adaptive" or a number of tokens'),
        ("[git]\nsparse = ['/src']\n", "give it a list of folders of the repository"),
        ("[git]\nsparse = ['src/../..']\n", "give it a list of folders of the repository"),
        ("[git]\nsparse = ['.']\n", "give it a list of folders of the repository"),
        ("[git]\nmax_worktrees = 0\n", "give it a whole number from 1"),
        ("[git]\nmax_worktree_bytes = 'much'\n", "give it a size"),
        ("[notify]\ncommand = []\n", "give it a list of words"),
        ("[notify]\ncommand = ['a', 1]\n", "give it a list of words"),
        ("[roles.judge]\nenv = 'KEY'\n", "give it a list of names"),
        ("[locks]\nurl = 'localhost'\n", 'give it an address such as "redis://'),
        ("[locks]\nurl = 'redis://:x@h:port'\n", 'locks.url is "redis://…@h:port": give it an address such as'),
        ("[locks]\nurl = 'redis://:x@/0'\n", "give it an address such as"),
        ("[locks]\nurl = 'redis://:x@[::1/0'\n", "give it an address such as"),
        ("[run]\nboard = ''\n", "give it a path"),
        ("[run]\ntype_limits = { docs = 0 }\n", "give it a table of whole numbers from 1"),
        ("[run]\nlane_limits = { slow = 1 }\n", ':2: there is no lane slow: the lanes are "fast" and "economy"'),
        ("run = 3\n", "taskyard.toml:1: run is 3: it is a table: write [run]"),
        ("[git]\nmax_age = 5s\n", "taskyard.toml:2:12: no valid TOML"),
        ("[git]\nmax_age = 5s\n", "the line reads max_age = 5s; text stands in quotes"),
        ("[verify]\ncommand = pytest -q\n", ":2:11: no valid TOML (Invalid value): the line reads command = pytest"),
        ("[git]\nmax_batch = 1\nmax_batch = 2\n", "taskyard.toml:3:14: no valid TOML (Cannot overwrite a value)"),
        ("[git]\nsparse = [\n  'src',\n\n", "taskyard.toml:3:9: no valid TOML (Invalid value): the line reads 'src',"),
        ("[run\n", "taskyard.toml:1:5: no valid TOML (Expected ']' at the end of a table declaration): "),
        ("a = '\x01'\n", "taskyard.toml:1:"),
        ("[locks]\nurl = redis://:secret@host/0\n", "the line reads url = redis://…@host/0; text"),
        ("[roles.implementer]\nkind = 'none'\n", 'taskyard.toml:2: roles.implementer.kind is "none"'),
        ("[roles.judge]\nkind = 'command'\n", "taskyard.toml:2: roles.judge.kind is \"command\", and there is none"),
        ("[roles.judge]\n\ncommand = ['x']\n", ':3: roles.judge.command is set, but its kind is "anthropic"'),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_told_by_its_line(tmp_path: Path, toml: str, message: str) -> None:
    assert message in refused(tmp_path, toml)


def test_a_mistake_in_the_environment_names_the_variable(tmp_path: Path) -> None:
    assert refused(tmp_path, environ={"TASKYARD_GIT_REMOTES": "x"}) == (
        "TASKYARD_GIT_REMOTES is no setting: the nearest is TASKYARD_GIT_REMOTE"
    )
    assert refused(tmp_path, environ={"TASKYARD_GIT_MAX_BATCH": "many"}).startswith(
        'TASKYARD_GIT_MAX_BATCH: git.max_batch is "many"'
    )
    load(tmp_path, environ={"TASKYARD_SOMETHING_ELSE": "is not a section of ours", "PATH": "/bin"})


def test_a_mistake_on_the_command_line_names_the_setting(tmp_path: Path) -> None:
    assert refused(tmp_path, overrides={"run.max_concurency": "3"}).startswith(
        "run.max_concurency is no setting"
    )
    assert refused(tmp_path, overrides={"run.max_concurrency": "no"}).startswith(
        "command line: run.max_concurrency"
    )


def test_an_empty_target_is_none_rather_than_the_default(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"command line: git\.target is empty.*name a branch"):
        load_settings(tmp_path, overrides={"git.target": ""}, environ={})
    (tmp_path / "taskyard.toml").write_text('[git]\ntarget = ""\n')
    with pytest.raises(SettingsError, match=r"taskyard\.toml:2.*git\.target is empty"):
        load_settings(tmp_path, environ={})


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "taskyard.toml").write_bytes(b"[run]\n# caf\xe9\n")
    with pytest.raises(SettingsError, match=re.escape("is not UTF-8 (byte 11)")):
        load_settings(tmp_path, environ={})
    (tmp_path / "taskyard.toml").unlink()
    (tmp_path / "taskyard.toml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path, environ={})


def test_a_relative_root_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(Path("."), environ={})
    assert settings.run.board == tmp_path / "tasks" / "board.md"


@pytest.mark.parametrize(
    ("board", "target"),
    [("My tasks.v2.md", "taskyard/My-tasks-v2"), ("漢字.md", "taskyard/board"), ("b.md", "taskyard/b")],
)
def test_the_default_target_is_a_legal_branch(tmp_path: Path, board: str, target: str) -> None:
    assert load(tmp_path, overrides={"run.board": board}).git.target == target


def test_the_starter_file_changes_nothing_and_all_it_shows_is_true(tmp_path: Path) -> None:
    assert load(tmp_path, starter_settings()) == load(tmp_path, "")
    shown = re.findall(r"^# (\w+ = .*?)(?:  +#.*)?$", starter_settings(), re.MULTILINE)
    assert len(shown) > 20
    section = ""
    for line in starter_settings().splitlines():
        if line.startswith("["):
            section = line
        elif (match := re.match(r"# (\w+ = .*)", line)) and "kind" not in line and "command = [" not in line:
            load(tmp_path, f"{section}\n{match[1]}\n")


def test_the_real_environment_is_accepted(tmp_path: Path) -> None:
    load(tmp_path, environ=os.environ)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5.0),
        ("250ms", 0.25),
        ("1h 30m", 5400.0),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
        (" 10m ", 600.0),
        (7, 7.0),
    ],
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 fortnights", "-5s", "5s ago", "1e3s", True, None, float("nan")]
)
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("100MB", 10**8), ("64 MiB", 64 << 20), ("1.5kB", 1500), ("1GiB", 1 << 30), ("9B", 9), (5, 5)],
)
def test_sizes(text: object, size: int) -> None:
    assert parse_size(text) == size


@given(st.dictionaries(st.text(max_size=8), st.one_of(st.text(max_size=5), st.integers(), st.booleans())))
def test_any_flags_are_settings_or_an_error_of_ours(flags: dict[str, object]) -> None:
    if flags:
        with pytest.raises(SettingsError):
            load_settings(Path("/"), environ={}, overrides=flags)
