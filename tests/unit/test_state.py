"""The reducer: whatever comes, in whatever order, it stays consistent, bounded, and the same after a restore."""

from __future__ import annotations

import typing

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import events as ev
from engine import state as state_module
from engine.figures import PeerFigures, ResultCacheFigures
from engine.model import (
    AnswerSource,
    Role,
    Stage,
    TaskState,
)
from engine.reducing import trains
from engine.state import RunState
from engine.task_view import TaskView
from tests.random_events import TASKS, events
from tests.unit.run_events import (
    A,
    after,
    answer,
    attempt,
    call,
    consistent,
    encoded,
    landed_run,
    restored,
    stage,
)
from tui.trends import hit_rates


def test_every_event_has_a_handler() -> None:
    assert set(state_module._HANDLERS) == set(typing.get_args(ev.AnyEvent))


@given(st.lists(events, max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_events_in_any_order_leave_a_consistent_state(given_events: list[ev.Event]) -> None:
    state = after()
    for event in given_events:
        state.apply(event)
        consistent(state.snapshot())


@given(st.lists(events, max_size=30), st.lists(events, max_size=30))
@settings(max_examples=200, deadline=None)
def test_a_state_goes_on_from_its_snapshot_as_if_nothing_had_been(
    before: list[ev.Event], later: list[ev.Event]
) -> None:
    whole = after(*before)
    again = restored(whole)
    assert encoded(again.snapshot()) == encoded(whole.snapshot())
    assert encoded(again.apply_all(later).snapshot()) == encoded(whole.apply_all(later).snapshot())


@given(st.lists(events, max_size=30))
@settings(max_examples=200, deadline=None)
def test_a_view_is_replaced_when_its_task_changed_and_only_then(given_events: list[ev.Event]) -> None:
    state = after()
    for event in given_events:
        before = {view.id: view for view in state.snapshot().tasks}
        state.apply(event)
        for view in state.snapshot().tasks:
            old = before.get(view.id)
            if old is not None:
                same = msgspec.json.encode(old) == msgspec.json.encode(view)
                assert (view is old) == same, event


def test_an_event_of_an_unknown_task_changes_no_view() -> None:
    state = after()
    views = state.snapshot().tasks
    for event in (attempt(task="nobody"), answer(1, at=102.0), ev.TaskQueued(at=102.0, task="nobody")):
        state.apply(msgspec.structs.replace(event, task="nobody"))
    assert all(new is old for new, old in zip(state.snapshot().tasks, views, strict=True))


def test_memory_is_bounded_however_long_a_run_goes_on() -> None:
    state = after(attempt())

    def round_of_events(n: int) -> None:
        at = 200.0 + n
        for event in (
            stage(Stage.VERIFY, at=at, attempt=n),
            ev.StageFinished(at=at, task="A-1", attempt=n, stage=Stage.VERIFY, ok=True),
            call(n, at=at, batched=True),
            answer(n, at=at, source=AnswerSource.BATCH),
            ev.Noticed(at=at, level="info", text=f"notice {n}"),
            ev.LessonRecorded(at=at, task=f"gone{n}", lesson=f"l{n}", text="another each time"),
            ev.LessonRecorded(at=at, task="A-1", lesson=f"own{n}", text="another each time"),
            ev.TrainDeparted(at=at, train=n, tasks=("A-1",)),
            ev.TrainArrived(at=at, train=n, landed=(), sent_back=()),
            ev.BatchCreating(at=at, token=f"lost{n}", role=Role.JUDGE, model="m", custom_ids=(), tasks=()),
            ev.BatchSubmitted(
                at=at, token=f"t{n}", batch=f"b{n}", role=Role.JUDGE, model="m", custom_ids=(), tasks=()
            ),
            ev.BatchEnded(at=at, batch=f"b{n}", succeeded=1, errored=0),
        ):
            state.apply(event)

    for n in range(1, 301):
        round_of_events(n)
    early = len(encoded(state.snapshot()))
    for n in range(301, 901):
        round_of_events(n)
    consistent(state.snapshot())
    assert len(encoded(state.snapshot())) < early * 1.05
    assert state.snapshot().notice_count == 900
    assert state.totals.batch_calls == 900


def test_trains_and_batches_in_motion_are_never_forgotten() -> None:
    state = after(ev.TrainDeparted(at=101.0, train=1, tasks=("A-1",)))
    for n in range(2, 200):
        state.apply(ev.TrainDeparted(at=102.0, train=n, tasks=()))
        state.apply(ev.TrainArrived(at=103.0, train=n, landed=(), sent_back=()))
    numbers = [train.number for train in state.snapshot().trains]
    assert numbers[0] == 1
    assert len(numbers) == trains.MAX_TRAINS


def test_the_locks_that_are_away_are_known_until_they_are_back() -> None:
    state = after(ev.LocksChanged(at=101.0, problem="the lock server does not answer"))
    assert state.run.locks_away == "the lock server does not answer"
    assert [(n.level, n.text) for n in state.notices] == [
        ("error", "the lock server does not answer: no task is claimed and nothing lands until it is back")
    ]
    state.apply(ev.LocksChanged(at=102.0))
    assert state.run.locks_away == ""
    assert state.notices[-1].level == "info"
    state.apply(ev.LocksChanged(at=103.0, problem="away again"))
    state.apply(ev.RunResumed(at=200.0, host="there", pid=8))
    assert state.run.locks_away == "", "the one who takes the run up asks anew"


def test_who_takes_a_run_up_works_by_the_settings_of_now() -> None:
    """A run that went on with a larger budget, and with a remote, was told by those of its first start."""
    state = after()
    setup = ev.RunSetup(
        target="main", remote="", max_concurrency=3, max_attempts=5, max_batch=7, max_age=1.0,
        budget_usd=None, roles={"judge": "none"}, economy=False,
    )  # fmt: skip
    before = state.run
    state.apply(ev.RunResumed(at=150.0, host="there", pid=8))
    assert (state.run.budget_usd, state.run.remote) == (before.budget_usd, before.remote), "an older journal"
    state.apply(ev.decode(ev.encode(ev.RunResumed(at=200.0, host="there", pid=8, setup=setup))))
    for name, value in msgspec.structs.asdict(setup).items():
        assert getattr(state.run, name) == value
        assert getattr(before, name) != value, "the test sees no change"
    assert (state.run.run, state.run.base, state.run.started) == (before.run, before.base, before.started)


def test_how_the_figures_went_leaves_out_the_time_between_two_processes() -> None:
    """Of a run that was taken up the next day the curves were one step at their end."""

    def measured(at: float, misses: int) -> ev.Measured:
        return ev.Measured(at=at, results=ResultCacheFigures(hits=misses, misses=misses))

    state = after(*(measured(100.0 + 10 * n, n) for n in range(1, 5)))  # started at 100
    state.apply(ev.RunResumed(at=10_040.0, host="there", pid=8))
    state.apply_all(measured(10_040.0 + 10 * n, 4 + n) for n in range(1, 5))
    begin = state.run.since
    assert begin == 10_000.0
    assert hit_rates(state.samples, begin, 10_080.0, 8) == [0.5] * 8


def test_what_all_have_spent_counts_this_run_by_its_own_books() -> None:
    peers = tuple(PeerFigures("h", pid, f"r{pid}", 100.0, usd=0.5) for pid in (1, 2, 3))
    state = after(ev.Measured(at=101.0, peers=peers))
    snapshot = state.snapshot()
    assert snapshot.run.run == "r1"
    assert [peer.pid for peer in snapshot.others] == [2, 3]
    assert snapshot.usd_of_all == snapshot.totals.usd + 1.0


def test_a_cycle_opens_with_the_whole_state() -> None:
    live = after(*landed_run())
    opened = ev.CycleStarted(at=live.snapshot().at, cycle=2, state=msgspec.Raw(encoded(live.begin_cycle())))
    replayed = RunState().apply_all([ev.decode(ev.encode(opened))])
    assert encoded(replayed.snapshot()) == encoded(live.snapshot())
    assert live.run.cycle == 2


def test_text_that_is_none_is_replaced_and_nothing_else() -> None:
    event = ev.StageFinished(at=1.0, task="A-1", attempt=1, stage=Stage.JUDGE, ok=True, note="caf\udce9 é")
    clean = ev.storable(event)
    assert clean == msgspec.structs.replace(event, note="caf? é")
    assert ev.decode(ev.encode(clean)) == clean
    fine = ev.TaskQueued(at=1.0, task="A-1")
    assert ev.storable(fine) is fine


def test_a_view_of_a_task_that_never_began_has_no_elapsed_time() -> None:
    assert TaskView(A, TaskState.WAITING).elapsed(1e9) == 0.0
    assert set(TASKS) > {"A-1", "B-2"}
