"""What the sums of a run say: the same numbers in every place that names them."""

from __future__ import annotations

import re
from functools import partial

import pytest
from msgspec.structs import replace

from engine import events as ev
from engine.figures import BatchView, LimiterFigures, QueueFigures
from engine.model import BoardStatus, Role, Task, TaskState
from engine.snapshot import RunView, Snapshot, Totals
from engine.state import RunState
from engine.task_view import TaskView
from tests import recorded_demo
from tests.samples import finished
from tui.format import dollars
from tui.frame import Frame
from tui.headless import ProgressLines
from tui.line import plain
from tui.panels.batches import BatchesPanel, batch_lines
from tui.panels.caches import cache_lines, limiter_lines, miss_in_words, spend_lines
from tui.plain import money, short_model
from tui.source.protocol import Health
from tui.sums import pushes_in_words, savings_by_cause
from tui.widgets.banner import banner_line

RUN = RunView(run="r", remote="origin", started=1.0)
OVER = replace(RUN, finished=finished(at=2.0))
MARKED = Task("T1", "scope", status=BoardStatus.LANDED)
LANDED = {"tasks": (TaskView(MARKED, TaskState.LANDED),), "counts": {TaskState.LANDED: 1}}


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (Snapshot(run=RUN, totals=Totals(trains=3, pushes=3, landed=9)), "3 pushes for 9 tasks, 6 saved"),
        (Snapshot(run=RUN, totals=Totals(pushes=2, marks=1, landed=5)), "2 pushes for 5 tasks, 3 saved"),
        (Snapshot(run=RUN, totals=Totals(trains=1, pushes=1, landed=1)), "1 push for 1 task"),
        (Snapshot(run=RUN, totals=Totals(trains=1, landed=3)), "3 tasks had been pushed before"),
        (Snapshot(run=RUN, totals=Totals(pushes=1, marks=1)), "1 push of the board's states"),
        (
            Snapshot(run=RunView(started=1.0), totals=Totals(trains=2, landed=3)),
            "2 trains for 3 tasks, no remote to push to",
        ),
        (Snapshot(run=RUN), "nothing landed yet"),
        (Snapshot(run=OVER), "nothing landed, nothing pushed"),
        (Snapshot(run=OVER, **LANDED), "all had landed before"),  # type: ignore[arg-type]
    ],
)
def test_pushes_in_words(snapshot: Snapshot, words: str) -> None:
    assert pushes_in_words(snapshot) == words


def test_requests_are_counted_with_the_batches_they_went_out_in() -> None:
    state = RunState()
    for number, custom_ids in enumerate((("a", "b", "c"), ("d", "e", "f", "g"))):
        state.apply(
            ev.BatchSubmitted(
                at=1.0,
                token=f"k{number}",
                batch=f"b{number}",
                role=Role.JUDGE,
                model="m",
                custom_ids=custom_ids,
                tasks=(),
            )
        )
    lines = [plain(line) for line in batch_lines(Frame(state.snapshot(), 2.0, Health(), "LIVE"), 80)]
    assert any("7 requests in 2 batches, 5 saved" in line for line in lines)


def test_parts_of_a_sum_are_told_as_finely_as_it() -> None:
    totals = Totals(
        usd_saved=0.2577, usd_saved_results=0.0003, usd_saved_prompts=0.24, usd_saved_batches=0.0174
    )
    price = partial(money, among=totals.usd_saved)
    assert savings_by_cause(totals, price) == ["results <$0.01", "prompts $0.24", "batches $0.02"]
    assert money(0.0174, among=0.05) == "$0.0174"


def test_rounded_parts_add_up_to_the_rounded_sum() -> None:
    totals = Totals(usd_saved=0.252, usd_saved_prompts=0.2365, usd_saved_batches=0.0155)
    assert savings_by_cause(totals, dollars) == ["prompts $0.23", "batches $0.02"]
    small = Totals(usd_saved=0.00063, usd_saved_prompts=0.00036, usd_saved_batches=0.00027)
    assert savings_by_cause(small, partial(money, among=0.00063)) == ["prompts $0.0003", "batches $0.0003"]


def test_requests_on_their_way_are_told_alike_in_the_panel_and_in_its_summary() -> None:
    out = [BatchView(f"b{n}", Role.JUDGE, "m", 2, "in_progress", 1.0) for n in (1, 2)]
    done = BatchView("b3", Role.JUDGE, "m", 7, "ended", 1.0, ended_at=2.0)
    queues = (QueueFigures("git", 3, 1.0, 10, 5.0), QueueFigures("model", 1, 1.0, 10, 5.0))
    totals = Totals(batch_calls=3, sent_in_batches=11)
    frame = Frame(Snapshot(queues=queues, batches=(*out, done), totals=totals), 3.0, Health(), "LIVE")
    summary = plain(BatchesPanel(id="batches").summary(frame))
    assert summary.startswith("git 3 queued, model 1 queued · 4 requests out in 2 batches · ")
    for cells in (42, 80):
        lines = [plain(line) for line in batch_lines(frame, cells)]
        assert sum("4 requests out in 2 batches" in line for line in lines) == (cells > 42), (
            "if there is room"
        )
        assert max(map(len, lines)) <= cells
        assert any("11 requests in 3 batches, 8 saved" in line for line in lines)


def test_savings_are_told_by_cause_and_add_up() -> None:
    totals = Totals(
        usd_saved=0.55, usd_saved_results=0.4, usd_saved_prompts=-0.05, usd_saved_batches=0.2, landed=1
    )
    assert savings_by_cause(totals, dollars) == ["results $0.40", "prompts −$0.05", "batches $0.20"]
    assert savings_by_cause(Totals(), dollars) == []
    again = Totals(usd_saved=0.4, usd_saved_results=0.4, tokens_saved=12_000)
    assert savings_by_cause(again, dollars) == ["results $0.40 for 12.0k tokens"]


def test_every_place_names_the_same_numbers() -> None:
    events = recorded_demo.events()
    snapshot = RunState().apply_all(events).snapshot()
    end, totals = events[-1], snapshot.totals
    assert isinstance(end, ev.RunFinished)
    assert (end.pushes, end.model_calls, end.usd_saved) == (
        totals.pushes,
        totals.model_calls,
        totals.usd_saved,
    )
    frame = Frame(snapshot, end.at, Health(), "LIVE")
    pushes = f"{end.pushes} pushes"
    assert pushes in plain(banner_line(frame, 200))
    assert pushes in plain(BatchesPanel(id="batches").summary(frame))
    lines = ProgressLines()
    last = [line for event in events for line in lines.of(event)][-5:]
    assert sum(f"{pushes} for {totals.landed} tasks" in line for line in last) == 1
    batches = f"{end.batched_requests} requests in {end.batch_calls} batches"
    assert sum(f"{end.model_calls} calls, {batches}, 0 answers used again" in line for line in last) == 1
    assert sum(f"{batches}, " in plain(line) for line in batch_lines(frame, 42)) == 1
    # What is told by role, and what the history keeps by task, adds up to the run's sums.
    for name in ("model_calls", "batched_requests", "cache_hits"):
        assert sum(getattr(line, name) for line in snapshot.spend) == getattr(end, name)
        assert sum(getattr(view, name) for view in snapshot.tasks) == getattr(end, name)
    shown = [re.search(r"(\d+) calls \+ (\d+) batched", plain(line)) for line in spend_lines(snapshot, 42)]
    sums = [sum(int(found[part]) for found in shown if found is not None) for part in (1, 2)]
    assert sums == [end.model_calls, end.batched_requests]


def test_what_each_cause_saved_is_the_sum() -> None:
    events = recorded_demo.events()
    snapshot = RunState().apply_all(events).snapshot()
    totals = snapshot.totals
    parts = (totals.usd_saved_results, totals.usd_saved_prompts, totals.usd_saved_batches)
    assert totals.usd_saved_batches > 0
    assert totals.usd_saved_prompts > 0
    assert sum(parts) == pytest.approx(totals.usd_saved)
    frame = Frame(snapshot, snapshot.at, Health(), "LIVE")
    text = "\n".join(plain(line) for line in cache_lines(frame, 42))
    told = [float(each) for each in re.findall(r"(?:saved +|prompts |batches )\$(\d\.\d\d)", text)]
    assert len(told) == 3
    assert sum(told[1:]) == pytest.approx(told[0]), "so as they are rounded"
    assert all(abs(a - b) < 0.01 for a, b in zip(told, (totals.usd_saved, *parts[1:]), strict=True))


def test_no_call_is_in_flight_once_the_run_has_ended() -> None:
    events = recorded_demo.events()
    before, after = (
        "\n".join(plain(line) for line in limiter_lines(Frame(snapshot, snapshot.at, Health(), "LIVE"), 80))
        for snapshot in (RunState().apply_all(some).snapshot() for some in (events[:-1], events))
    )
    assert "in flight" in before
    assert after == ""


def test_all_causes_are_read_whole_in_the_side_panel() -> None:
    totals = Totals(usd_saved=18.0, usd_saved_results=10.2, usd_saved_prompts=3.3, usd_saved_batches=4.5)
    frame = Frame(Snapshot(totals=totals), 0.0, Health(), "LIVE")
    lines = [plain(line) for line in cache_lines(frame, 42)]
    assert max(map(len, lines)) <= 42
    assert "results $10.20, prompts $3.30, batches $4.50" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("claude-opus-5-5", "opus-5-5"),
        ("claude-haiku-4-5-20251001", "haiku-4-5"),
        ("us.anthropic.claude-sonnet-5", "sonnet-5"),
        ("my-model", "my-model"),
    ],
)
def test_a_model_has_one_short_name(model: str, words: str) -> None:
    assert short_model(model) == words


def test_the_limits_of_a_class_of_models_name_the_one_that_is_used() -> None:
    limiters = (LimiterFigures("opus-5", 8, 2, 1), LimiterFigures("sonnet-5", 8, 0, 2))
    roles = {"planner": "claude-opus-5-5", "implementer": "claude-sonnet-5", "judge": "claude-sonnet-5-5"}
    snapshot = Snapshot(run=replace(RUN, roles=roles), limiters=limiters)
    lines = [plain(line) for line in limiter_lines(Frame(snapshot, 2.0, Health(), "LIVE"), 120)]
    assert lines == ["in flight opus-5-5 2 of 8, 1 waits  all sonnet-5 0 of 8, 2 wait"]
    closer = [plain(line) for line in limiter_lines(Frame(snapshot, 2.0, Health(), "LIVE"), 60)]
    assert closer == ["in flight opus-5-5 2/8, 1 waits  all sonnet-5 0/8, 2 wait"]
    apart = [plain(line) for line in limiter_lines(Frame(snapshot, 2.0, Health(), "LIVE"), 42)]
    assert apart == ["in flight opus-5-5 2 of 8, 1 waits", "          all sonnet-5 0 of 8, 2 wait"]


def test_what_the_cache_calls_an_outcome_is_landed_work() -> None:
    assert miss_in_words("outcome T1: first time") == "landed work of T1: first time"
    assert miss_in_words("judge T1: the input changed") == "judge T1: the input changed"
