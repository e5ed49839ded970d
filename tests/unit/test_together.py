"""What a run knows at its start of those that work, or have worked, on the same board."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from engine.assembly.shared_terms import shared_terms
from engine.assembly.together import join
from engine.bus import Bus
from engine.figures import PeerFigures
from engine.paths import StatePaths
from engine.project import open_project
from engine.settings import load_settings
from engine.store.journal import Journal
from engine.store.owner import Owner
from engine.store.state_db import open_state
from tests.sample_repository import SampleRepository
from tests.samples import short_run

BOARD = (
    "| ID | Scope | Status | Branch | Verification |\n|---|---|---|---|---|\n| T1 | do | [ ] | | `true` |\n"
)


async def test_what_one_that_died_here_has_spent_is_told_by_its_journal(
    repo: Callable[..., SampleRepository],
) -> None:
    made = repo({"tasks/board.md": BOARD, "taskyard.toml": "[locks]\nshared = true\n"})
    project = await open_project(load_settings(made.path, environ={}), os.environ)
    paths = StatePaths.of(made.path / ".git", os.environ)
    database = open_state(paths.state_db)
    journal = Journal(database, paths.archive)
    killed = subprocess.Popen(["true"])
    killed.wait()
    owner = Owner.of_this_process()
    journal.begin_run("dead", project.board_path, owner=Owner(owner.host, killed.pid, "gone"))
    journal.begin_run("alive", project.board_path, owner=owner)
    *events, _ = short_run()
    journal.append("dead", events, durable=True).result()
    share = await join(project, Bus(), "me", paths, journal)
    try:
        (dead,) = [peer for peer in share.crew.peers if peer.run != "me"]
        assert (dead.run, dead.pid, dead.present, dead.landed, dead.usd) == (
            "dead",
            killed.pid,
            False,
            2,
            1.0,
        )
        # Of one that is told of as gone it knows the last second, too, where the journal is at hand.
        told = PeerFigures(owner.host, killed.pid, "dead", 1.0, usd=0.5)
        assert (await share.crew.last_words(told)).usd == 1.0
        other = PeerFigures("another host", 1, "r9", 1.0, usd=0.5)
        assert await share.crew.last_words(other) == other
    finally:
        await share.close()
        database.close()


async def test_what_all_should_agree_on_is_named_as_in_the_settings(
    repo: Callable[..., SampleRepository],
) -> None:
    settings = '[run]\nmax_attempts = 2\ntype_limits = { docs = 1 }\n[roles.judge]\nkind = "none"\n'
    made = repo({"tasks/board.md": BOARD, "taskyard.toml": settings})
    terms = shared_terms(await open_project(load_settings(made.path, environ={}), os.environ))
    assert terms.binding == {"[git] target": "taskyard/board"}
    assert terms.others["[run] max_attempts"] == "2"
    assert terms.others["[run] type_limits"] == "docs 1"
    assert terms.others["[roles.judge]"] == "none"
    assert terms.others["[budget] usd"] == "not set"
