"""Scenario files: what they may say, and how a wrong one is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import SettingsError
from engine.llm.simulator import (
    Answer,
    Batches,
    Edit,
    Fault,
    Limits,
    RandomFaults,
    load_scenario,
    parse_scenario,
)
from engine.llm.simulator.script import slug_of

FULL = """
name = "everything"
pace = 0.5
latency = 0.2
tokens_per_second = 50
cache_minimum = 1024
api_key = "secret"
models = ["claude-opus-5-5"]

[batches]
seconds = 3
results = "reversed"
offered = true

[limits]
requests_per_minute = 60
concurrent = 4

[random_faults]
seed = 7
rate = 0.1
kinds = ["overloaded", "dropped"]
times = 2

[[faults]]
kind = "rate_limited"
role = "judge"
step = 0
times = 2
retry_after = 1.5

[[answers]]
task = "A-1"
role = "implementer"
attempt = 2
when = "seen"
summary = "Done."
check = false
edits = [{ path = "a.py", old = "x", new = "y" }]
"""


def test_a_full_scenario() -> None:
    scenario = parse_scenario(FULL)
    assert scenario.batches == Batches(3, "reversed", True)
    assert scenario.limits == Limits(requests_per_minute=60, concurrent=4)
    assert scenario.random_faults == RandomFaults(rate=0.1, seed=7, kinds=("overloaded", "dropped"), times=2)
    assert scenario.faults == (Fault(kind="rate_limited", role="judge", step=0, times=2, retry_after=1.5),)
    assert scenario.answers == (
        Answer(
            "A-1", "implementer", 2, "seen", edits=(Edit("a.py", "y", "x"),), summary="Done.", check=False
        ),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pace = ", "my.toml:1:7: no valid TOML"),
        ("pase = 1", "the nearest known one is pace"),
        ("[[answers]]\nsay = 'x'\nrolle = 'judge'", "in answers 1: the nearest known one is role"),
        ('pace = "fast"', "pace"),
        ("pace = -1", "cannot be negative"),
        ("tokens_per_second = 0", "must be positive"),
        ('[[answers]]\nrole = "boss"\nsay = "x"', "in answers 1.role"),
        ('[[answers]]\ntask = "A"', "answer 1 (task A) holds nothing to answer"),
        (
            '[[answers]]\ntask = "A"\nsay = "x"\nverdict = {approved = true, reason = "y"}',
            "holds verdict and say",
        ),
        ('[[answers]]\nsay = "x"\n[[answers]]\nsay = "x"\nattempt = 0', "answer 2 (task *) has attempt 0"),
        ('[[answers]]\nverdict = {approved = "yes", reason = ""}', "in answers 1.verdict.approved"),
        ('[[faults]]\nkind = "earthquake"', "in faults 1.kind"),
        ('[[faults]]\nkind = "expired"', "fault 1 is expired at messages"),
        ('[[faults]]\nkind = "dropped"\nendpoint = "batch_item"', "fault 1 is dropped at batch_item"),
        ("[random_faults]\nrate = 2", "a share from 0 to 1"),
        ("pace = fast", "my.toml:1:8: no valid TOML (Invalid value): the line reads pace = fast"),
        ('[random_faults]\nrate = 0.1\nkinds = ["missing"]', "do not fit its endpoint"),
    ],
)
def test_a_wrong_scenario_says_where_and_what(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        parse_scenario(text, "my.toml")
    assert words in str(wrong.value)
    assert wrong.value.message.startswith("my.toml")
    assert wrong.value.hint


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml"):
        load_scenario(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(SettingsError, match="not UTF-8"):
        load_scenario(tmp_path / "latin.toml")


def test_a_task_as_a_python_name() -> None:
    assert [slug_of(task) for task in ("CART-12", "a b/c", "漢字")] == ["cart_12", "a_b_c", "task"]
