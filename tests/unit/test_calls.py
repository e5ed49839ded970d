"""The one way to a model, over real HTTP: nothing is asked twice, and an answer is kept before anybody hears of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine import events as ev
from engine.activities import Attempt
from engine.bus import Bus
from engine.calls import CallRecord, ModelCalls
from engine.errors import BudgetReachedError, OverloadedError, RequestRejectedError, TruncatedError
from engine.llm.blocks import Text, Tool, user
from engine.llm.budget import Budget
from engine.llm.client import ModelClient
from engine.llm.messages import ModelAnswer, ModelRequest, Progress, Thinking
from engine.llm.money import Money
from engine.llm.retries import RetryPolicy
from engine.llm.sdk import Deadlines
from engine.llm.simulator import Answer, Fault, Scenario, Simulator
from engine.model import AnswerSource, Role, Task
from engine.state import RunState
from engine.store.cache import ResultCache

MODEL = "claude-opus-5-5"


SCHEMA = (
    '{"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], '
    '"additionalProperties": false}'
)


def attempt(task: str = "T1", number: int = 1) -> Attempt:
    return Attempt(Task(task, "Do it."), number, f"task/{task}", "base", "/tree")


def request(text: str = "Do it.", task: str = "T1", **fields: Any) -> ModelRequest:
    prompt = f"{text}\nRole: judge\nTask: {task}\nAttempt: 1"
    return ModelRequest(
        role=Role.JUDGE,
        model=MODEL,
        messages=(user(Text(prompt)),),
        max_tokens=500,
        task_id=task,
        **fields,
    )


LOOKING = request(tools=(Tool("look", "Look.", SCHEMA),))


class Office:
    """A client, a cache and a bus around one simulator; `ask` as a role does."""

    def __init__(self, url: str, folder: Path, *, budget: Budget | None = None) -> None:
        self.folder = folder
        self.client = ModelClient(
            url,
            "sk-ant-test-0123456789abcdef",
            budget=budget,
            retry=RetryPolicy(attempts=3, first_wait=0.01, longest_wait=0.02, patience=20.0),
            deadlines=Deadlines(total=20.0, idle=15.0, connect=15.0, quick=15.0),
            environ={},
        )
        self.cache = ResultCache(folder / "cache.db")
        self.bus = Bus(lambda: 50.0)
        self.heard: list[ev.Event] = []
        self.bus.subscribe(self.heard.append)
        self.bus.emit(ev.TasksAdded(at=1.0, tasks=(Task("T1", "Do it."), Task("T2", "Do it."))))
        ids = itertools.count(1)
        self.calls = ModelCalls(self.client, self.cache, self.bus, new_id=lambda: f"c{next(ids)}")

    async def ask(self, asked: ModelRequest, *, tree: str = "tree", **options: Any) -> ModelAnswer:
        return await self.calls.ask(
            attempt(asked.task_id), asked, base_tree=tree, records=self.folder / "records", **options
        )

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.heard if isinstance(event, kind)]

    async def close(self) -> None:
        await self.client.close()
        self.cache.close()


@pytest.fixture
def simulate() -> Iterator[Callable[..., Simulator]]:
    running: list[Simulator] = []

    def start(**scenario: Any) -> Simulator:
        simulator = Simulator(Scenario(**scenario), pace=0.0)
        simulator.start()
        running.append(simulator)
        return simulator

    yield start
    for simulator in running:
        simulator.stop()


@pytest.fixture
async def office(simulate: Callable[..., Simulator], tmp_path: Path) -> Any:
    offices: list[Office] = []

    def furnish(folder: str = "one", *, budget: Budget | None = None, **scenario: Any) -> Any:
        simulator = simulate(**({"answers": (Answer(say="Yes."),)} | scenario))
        made = Office(simulator.url, tmp_path / folder, budget=budget)
        offices.append(made)
        return made, simulator

    yield furnish
    for made in offices:
        await made.close()


def asked(simulator: Simulator) -> int:
    return sum(simulator.stats().calls.values())


async def test_an_answer_is_paid_for_once_and_told_with_all_its_figures(office: Any) -> None:
    desk, simulator = office()
    seen: list[Progress] = []
    answer = await desk.ask(request(), on_progress=seen.append)
    again = await desk.ask(request())
    assert answer.text == again.text == "Yes."
    assert asked(simulator) == 1
    assert seen[0].kind == "started"
    paid, free = desk.of(ev.CallAnswered)
    assert (paid.source, free.source) == (AnswerSource.CALL, AnswerSource.CACHE)
    assert paid.usage == free.usage == answer.usage
    assert paid.usd > 0
    assert (paid.usd_saved, free.usd_saved) == (0.0, paid.usd)
    assert len(desk.of(ev.CallStarted)) == 1
    view = desk.bus.state.view("T1")
    assert (view.usd, view.usd_saved, view.model_calls, view.cache_hits) == (paid.usd, paid.usd, 1, 1)
    assert desk.cache.stats().usd_saved == pytest.approx(paid.usd)


async def test_the_exact_prompt_and_answer_are_kept_for_reading(office: Any) -> None:
    desk, _ = office()
    answer = await desk.ask(request("Was it well done? 世界"))
    record = msgspec.json.decode(Path(desk.of(ev.CallAnswered)[0].record).read_bytes(), type=CallRecord)
    assert record == CallRecord(request("Was it well done? 世界"), answer)


async def test_a_record_that_cannot_be_written_stops_nothing(office: Any) -> None:
    desk, _ = office()
    (desk.folder / "records").write_text("in the way")
    assert (await desk.ask(request())).text == "Yes."
    assert desk.of(ev.CallAnswered)[0].record == ""


async def test_many_who_ask_the_same_at_once_make_one_call(office: Any) -> None:
    desk, simulator = office()
    answers = await asyncio.gather(*(desk.ask(request()) for _ in range(8)))
    assert {answer.text for answer in answers} == {"Yes."}
    assert asked(simulator) == 1
    sources = [event.source for event in desk.of(ev.CallAnswered)]
    assert sorted(sources) == [AnswerSource.CACHE] * 7 + [AnswerSource.CALL]


async def test_an_answer_is_in_the_file_before_anybody_hears_of_it(office: Any) -> None:
    desk, _ = office()
    found: list[int] = []

    def look(event: ev.Event) -> None:
        if isinstance(event, ev.CallAnswered):
            other = ResultCache(desk.folder / "cache.db")
            found.append(len(other.entries(task="T1")))
            other.close()

    desk.bus.subscribe(look)
    await desk.ask(request())
    assert found == [1]


async def test_another_run_finds_the_answer(office: Any, tmp_path: Path) -> None:
    desk, simulator = office()
    await desk.ask(request())
    desk.cache.close()
    later = Office(simulator.url, tmp_path / "one")
    assert (await later.ask(request())).text == "Yes."
    await later.close()
    assert asked(simulator) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"asked": request("Something else.")},
        {"asked": request(task="T2")},
        {"asked": msgspec.structs.replace(request(), max_tokens=501)},
        {"asked": msgspec.structs.replace(request(), model="claude-sonnet-5-5")},
        {"asked": request(system=(Text("Be strict."),))},
        {"asked": request(thinking=Thinking())},
        {"asked": request(tools=(Tool("look", "Look.", SCHEMA.replace("path", "file")),)), "first": LOOKING},
        {"asked": request(tools=(Tool("look", "Look closely.", SCHEMA),)), "first": LOOKING},
        {"asked": request(output_schema=SCHEMA)},
        {"asked": request(), "tree": "another tree"},
    ],
    ids=[
        "words",
        "task",
        "max_tokens",
        "model",
        "system",
        "thinking",
        "a tool's schema",
        "a tool's text",
        "the answer's schema",
        "tree",
    ],
)
async def test_whatever_could_change_the_answer_makes_another_call(office: Any, other: Any) -> None:
    desk, simulator = office()
    first = other.pop("first", request())
    await desk.ask(first)
    await desk.ask(first)
    assert asked(simulator) == 1
    await desk.ask(**other)
    assert asked(simulator) == 2
    assert [event.source for event in desk.of(ev.CallAnswered)].count(AnswerSource.CACHE) == 1


async def test_a_failed_call_is_told_and_not_kept(office: Any) -> None:
    desk, simulator = office(faults=(Fault(kind="overloaded", times=4),))
    with pytest.raises(OverloadedError):
        await desk.ask(request())
    told = desk.of(ev.CallFailed)
    assert [event.retry_in is None for event in told] == [False, False, True]
    assert desk.of(ev.CallAnswered) == []
    assert (await desk.ask(request())).text == "Yes."
    assert asked(simulator) == 5


async def test_a_call_that_is_given_up_tells_what_its_broken_answers_cost(office: Any) -> None:
    desk, _ = office(faults=(Fault(kind="truncated", times=9),))
    with pytest.raises(TruncatedError):
        await desk.ask(request())
    *before, last = desk.of(ev.CallFailed)
    assert [event.usage.total for event in before] == [0, 0]
    assert last.retry_in is None
    assert last.usage.input > 0
    spent = desk.client.money.budget.spent
    assert spent == pytest.approx(last.usd)
    snapshot = desk.bus.state.snapshot()
    assert [snapshot.totals.usd, snapshot.task("T1").usd, snapshot.spend[0].usd] == [last.usd] * 3
    assert snapshot.totals.usage == snapshot.task("T1").usage == snapshot.spend[0].usage == last.usage


async def test_an_answer_that_was_kept_but_not_booked_before_a_kill_is_booked_once(office: Any) -> None:
    desk, simulator = office()
    await desk.ask(request())
    (paid,) = desk.of(ev.CallAnswered)
    # What a process knows that is started again after a kill between the cache and the journal.
    known = [event for event in desk.heard if not isinstance(event, ev.CallAnswered)]
    desk.bus.state = RunState().apply_all([*known, ev.RunResumed(at=2.0, host="here", pid=2)])
    desk.client.money = Money(desk.client.money.prices, Budget(1.0), desk.client.count_tokens)
    await desk.ask(request())
    await desk.ask(request())
    assert asked(simulator) == 1
    booked, cached = desk.of(ev.CallAnswered)[1:]
    assert (booked.call, booked.source, booked.usage, booked.usd) == (
        paid.call,
        AnswerSource.CALL,
        paid.usage,
        paid.usd,
    )
    assert cached.source is AnswerSource.CACHE
    assert desk.client.money.budget.spent == pytest.approx(paid.usd)
    assert desk.bus.state.view("T1").usd == pytest.approx(paid.usd)


async def test_a_cancelled_call_is_not_kept_and_can_be_asked_again(office: Any) -> None:
    desk, simulator = office(faults=(Fault(kind="stalled", times=1),))
    asking = asyncio.ensure_future(desk.ask(request()))
    # Earlier, the second call would meet the fault and wait for what never comes.
    assert await asyncio.to_thread(simulator.wait, lambda stats: bool(stats.calls))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await desk.ask(request())).text == "Yes."


async def test_a_call_over_the_budget_is_not_made_and_is_told(office: Any) -> None:
    desk, simulator = office(budget=Budget(0.000001))
    with pytest.raises(BudgetReachedError):
        await desk.ask(request())
    assert asked(simulator) == 0
    (told,) = desk.of(ev.BudgetReached)
    assert (told.scope, told.limit_usd, told.task) == ("run", 0.000001, "T1")
    assert told.next_usd > 0


async def test_without_a_client_a_call_says_what_to_set(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "cache.db")
    calls = ModelCalls(None, cache, Bus(), new_id=lambda: "c1")
    with pytest.raises(RequestRejectedError, match="anthropic"):
        await calls.ask(attempt(), request(), base_tree="t", records=tmp_path)
    cache.close()
