"""One clean environment for every test: no user configuration, no key, no colour setting, no animation."""

from __future__ import annotations

import os

# Textual reads this once, when it is first imported.
os.environ["TEXTUAL_ANIMATIONS"] = "none"

import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.sample_repository import SampleRepository, make_sample_repository

# The same examples each time and however slow the machine, so that whoever changes nothing breaks nothing. Others are
# looked for by: pytest --hypothesis-profile=search
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("search"), derandomize=True)
settings.load_profile("suite")

_FOREIGN = ("GIT_", "TASKYARD_", "ANTHROPIC_", "XDG_")
_home = Path(tempfile.mkdtemp(prefix="taskyard-tests-"))


def _clean_environment() -> None:
    for name in list(os.environ):
        if name.startswith(_FOREIGN) or name == "NO_COLOR":
            del os.environ[name]
    gitconfig = _home / "gitconfig"
    gitconfig.write_text(
        "[user]\n\tname = Test Person\n\temail = test@example.org\n"
        "[init]\n\tdefaultBranch = main\n[commit]\n\tgpgsign = false\n[gc]\n\tauto = 0\n"
    )
    os.environ["GIT_CONFIG_GLOBAL"] = str(gitconfig)
    os.environ["GIT_CONFIG_NOSYSTEM"] = "1"
    os.environ["XDG_STATE_HOME"] = str(_home / "state")
    # Else each process that a test starts would compile all of our modules.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # What is printed reaches a pipe when our commands write it out, as for everybody.
    os.environ.pop("PYTHONUNBUFFERED", None)
    # The `python3` of checks and agents is the interpreter itself, not a version manager's script in front of it.
    interpreter = Path(sys.executable).resolve().parent
    os.environ["PATH"] = f"{interpreter}{os.pathsep}{os.environ['PATH']}"


_clean_environment()


def _hand_on_signals() -> None:
    """Let what the tests start hear the signals that whoever started the suite behind a nohup or a `&` had ignored.

    They stay without effect here: only what is ignored is inherited, not what is handled.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


_hand_on_signals()


def pytest_unconfigure() -> None:
    """Remove what the session kept outside pytest's own temporary directories."""
    shutil.rmtree(_home, ignore_errors=True)


@pytest.fixture
def repo(tmp_path: Path) -> Callable[..., SampleRepository]:
    """Make a repository with one commit and a bare remote: `repo({"a.py": "..."}, name="shop")`."""

    def make(files: dict[str, str] | None = None, *, name: str = "project") -> SampleRepository:
        return make_sample_repository(tmp_path / name, files or {"README.md": "# Project\n"})

    return make
