"""The panel of batches says what waits, how far the train has come, and what was saved."""

from __future__ import annotations

from engine import events as ev
from engine.figures import QueueFigures, TrainView
from engine.model import Role
from engine.snapshot import RunView, Snapshot
from engine.state import RunState
from tests import samples
from tui.frame import Frame
from tui.panels.batches import batch_lines
from tui.source.protocol import Health

NOW = 1_000.0


def shown(snapshot: Snapshot) -> list[str]:
    frame = Frame(snapshot, NOW, Health(), "LIVE")
    return ["".join(part for part, _ in line) for line in batch_lines(frame, 120)]


def test_the_queue_shows_its_fill_and_its_age() -> None:
    lines = shown(Snapshot(queues=(QueueFigures("git", 3, NOW - 2.0, 10, 5.0),)))
    assert lines[0] == "git   3 queued of 10, oldest 2 s of 5 s"


def test_the_queue_of_the_model_agrees_with_the_list_of_tasks_between_two_measurements() -> None:
    def lines(*events: ev.Event) -> list[str]:
        return shown(RunState().apply_all([samples.started(at=1.0), *events]).snapshot())

    begun = [
        event
        for task in ("A-1", "B-2")
        for event in (
            samples.begun(task, at=2.0),
            ev.CallStarted(
                at=3.0, call=f"c-{task}", task=task, attempt=1, role=Role.PLANNER, model="m", batched=True
            ),
        )
    ]
    assert "model 2 queued" in lines(*begun)
    full = ev.Measured(at=4.0, queues=(QueueFigures("model requests", 2, NOW - 3.0, 100, 5.0),))
    assert "model 2 queued of 100, oldest 3 s of 5 s" in lines(*begun, full)
    sent = ev.BatchSubmitted(
        at=5.0,
        token="t",
        batch="msgbatch_1",
        role=Role.PLANNER,
        model="m",
        custom_ids=("a", "b"),
        tasks=("A-1", "B-2"),
    )
    assert any(line.startswith("model queue empty") for line in lines(*begun, full, sent))


def test_a_train_is_followed_stage_by_stage() -> None:
    def line(stage: str, detail: str) -> str:
        return shown(Snapshot(trains=(TrainView(4, stage, ("T1", "T2"), NOW - 7.0, detail),)))[1]

    assert line("combine", "2 branches") == "      train 4 2 tasks  merge ⠿ verify · push ·  00:07 2 branches"
    assert line("verify", "T1, T2") == "      train 4 2 tasks  merge ✓ verify ⠿ push ·  00:07 T1, T2"
    assert line("push", "main to 1234567890").endswith("merge ✓ verify ✓ push ⠿  00:07 main to 1234567890")
    assert "merge ⠿ verify · push ·" in line("conflict", "T2 clashes with T1: a.txt")
    assert "merge ✓ verify ✓ push ⠿" in line("board", "T1")
    bisecting = line("bisect", "T2 by itself")
    assert "bisecting: who breaks it?" in bisecting
    assert bisecting.endswith("00:07 T2 by itself")


def test_a_train_grows_older_after_the_run_has_ended() -> None:
    train = TrainView(4, "landed", ("T1",), NOW - 90.0, ended_at=NOW - 80.0, landed=1)
    run = RunView(started=1.0, finished=samples.finished(at=NOW - 79.0))
    line = shown(Snapshot(at=NOW - 79.0, run=run, trains=(train,)))[-1]
    assert "✓ 1 landed  1 min ago" in line


def test_a_train_that_landed_nothing_is_no_success() -> None:
    train = TrainView(1, "landed", ("T1", "T2"), NOW - 5.0, ended_at=NOW - 2.0, sent_back=2)
    line = shown(Snapshot(trains=(train,)))[-1]
    assert "! 0 landed, 2 sent back" in line
    assert "✓" not in line
