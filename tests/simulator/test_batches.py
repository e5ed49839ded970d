"""Message Batches from creation to results."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StoreError
from engine.llm.simulator import Answer, Batches, Fault, Scenario, Simulator
from tests.simulator.wire import Response, ask, prompt, request, send

BATCHES = "/v1/messages/batches"


class Clock:
    """Seconds since the epoch, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def items(count: int, **fields: Any) -> dict[str, Any]:
    """A batch of so many judgements."""
    return {
        "requests": [
            {"custom_id": f"id-{n}", "params": request(prompt("judge", f"T-{n}"), **fields)}
            for n in range(count)
        ]
    }


def create(simulator: Simulator, body: Any) -> dict[str, Any]:
    response = send(simulator, "POST", BATCHES, body)
    assert response.status == 200, response.body
    return dict(response.json)


def get(simulator: Simulator, id: str, what: str = "") -> Response:
    return send(simulator, "GET", f"{BATCHES}/{id}{what}")


def results(simulator: Simulator, id: str) -> dict[str, Any]:
    """The results by custom id, in the order they came."""
    response = get(simulator, id, "/results")
    assert response.status == 200, response.body
    lines = [json.loads(line) for line in response.body.splitlines()]
    return {line["custom_id"]: line["result"] for line in lines}


def test_a_batch_from_creation_to_results(simulate: Callable[..., Simulator], clock: Clock) -> None:
    simulator = simulate(batches=Batches(seconds=10, results="reversed"), pace=1.0, clock=clock)
    made = create(simulator, items(3))
    id = made["id"]
    assert made["processing_status"] == "in_progress"
    assert made["request_counts"] == {
        "processing": 3,
        "succeeded": 0,
        "errored": 0,
        "canceled": 0,
        "expired": 0,
    }
    assert (made["results_url"], made["ended_at"]) == (None, None)
    assert made["created_at"] == "2027-01-15T08:00:00Z"
    assert made["expires_at"] == "2027-01-16T08:00:00Z"
    assert get(simulator, id, "/results").status == 404
    clock.now += 9.9
    assert get(simulator, id).json["processing_status"] == "in_progress"
    clock.now += 0.1
    ended = get(simulator, id).json
    assert ended["processing_status"] == "ended"
    assert ended["request_counts"] == {
        "processing": 0,
        "succeeded": 3,
        "errored": 0,
        "canceled": 0,
        "expired": 0,
    }
    assert ended["results_url"] == f"{simulator.url}/v1/messages/batches/{id}/results"
    found = results(simulator, id)
    assert list(found) == ["id-2", "id-1", "id-0"]
    message = found["id-1"]["message"]
    assert message["role"] == "assistant"
    assert message["usage"]["service_tier"] == "batch"
    assert set(simulator.stats().answered.values()) == {1}
    results(simulator, id)
    assert set(simulator.stats().answered.values()) == {1}, "fetching results again answers nothing again"


@pytest.mark.parametrize("order", ["in_order", "reversed", "shuffled"])
def test_results_come_in_the_order_that_was_asked_for(order: Any, simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(batches=Batches(results=order))
    ids = list(results(simulator, create(simulator, items(50))["id"]))
    assert sorted(ids) == sorted(f"id-{n}" for n in range(50))
    assert (ids == [f"id-{n}" for n in range(50)]) is (order == "in_order")
    assert (ids == [f"id-{n}" for n in reversed(range(50))]) is (order == "reversed")


def test_items_end_in_every_way(simulate: Callable[..., Simulator]) -> None:
    kinds = ("errored", "expired", "canceled", "missing")
    simulator = simulate(
        faults=tuple(Fault(kind=kind, endpoint="batch_item", task=f"T-{n}") for n, kind in enumerate(kinds)),
        batches=Batches(results="in_order"),
    )
    id = create(simulator, items(5))["id"]
    found = results(simulator, id)
    assert {key: value["type"] for key, value in found.items()} == {
        "id-0": "errored",
        "id-1": "expired",
        "id-2": "canceled",
        "id-4": "succeeded",
    }
    assert found["id-0"]["error"]["error"]["type"] == "api_error"
    counts = get(simulator, id).json["request_counts"]
    assert counts == {"processing": 0, "succeeded": 2, "errored": 1, "canceled": 1, "expired": 1}
    assert len(simulator.stats().answered) == 1


def test_a_wrong_item_is_found_out_only_at_the_end(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    body = items(2)
    body["requests"][0]["params"]["temperature"] = 0.5
    body["requests"][1]["params"]["stream"] = True
    found = results(simulator, create(simulator, body)["id"])
    assert "temperature" in found["id-0"]["error"]["error"]["message"]
    assert "stream" in found["id-1"]["error"]["error"]["message"]


def test_a_call_has_one_digest_by_itself_and_in_a_batch(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    results(simulator, create(simulator, items(1))["id"])
    block = {
        "type": "text",
        "text": prompt("judge", "T-0"),
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
    }
    plain = request(
        messages=[{"role": "user", "content": [{"type": "text", "text": prompt("judge", "T-0")}]}]
    )
    send(simulator, "POST", "/v1/messages", plain | {"stream": True})
    send(simulator, "POST", "/v1/messages", plain | {"messages": [{"role": "user", "content": [block]}]})
    assert sorted(simulator.stats().answered.values()) == [1, 2]


def test_a_cancelled_batch_ends_soon_without_answers(
    simulate: Callable[..., Simulator], clock: Clock
) -> None:
    simulator = simulate(batches=Batches(seconds=100), pace=1.0, clock=clock)
    id = create(simulator, items(2))["id"]
    clock.now += 5
    asked = send(simulator, "POST", f"{BATCHES}/{id}/cancel", {}).json
    assert asked["processing_status"] == "canceling"
    assert asked["cancel_initiated_at"] == "2027-01-15T08:00:05Z"
    assert send(simulator, "DELETE", f"{BATCHES}/{id}").status == 400
    clock.now += 10
    assert get(simulator, id).json["request_counts"]["canceled"] == 2
    assert {result["type"] for result in results(simulator, id).values()} == {"canceled"}
    assert simulator.stats().answered == {}
    assert send(simulator, "DELETE", f"{BATCHES}/{id}").json == {"id": id, "type": "message_batch_deleted"}
    assert get(simulator, id).status == 404


def test_cancelling_what_has_ended_changes_nothing(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    id = create(simulator, items(1))["id"]
    assert send(simulator, "POST", f"{BATCHES}/{id}/cancel", {}).json["processing_status"] == "ended"
    assert results(simulator, id)["id-0"]["type"] == "succeeded"


def test_the_list_is_paged_from_the_newest(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    ids = [create(simulator, items(1))["id"] for _ in range(5)][::-1]

    def page(query: str) -> tuple[list[int], bool]:
        body = send(simulator, "GET", f"{BATCHES}?{query}").json
        assert body["first_id"] == (body["data"][0]["id"] if body["data"] else None)
        assert body["last_id"] == (body["data"][-1]["id"] if body["data"] else None)
        return [ids.index(batch["id"]) for batch in body["data"]], body["has_more"]

    assert page("") == ([0, 1, 2, 3, 4], False)
    assert page("limit=2") == ([0, 1], True)
    assert page(f"limit=2&after_id={ids[1]}") == ([2, 3], True)
    assert page(f"limit=2&after_id={ids[3]}") == ([4], False)
    assert page(f"limit=2&before_id={ids[3]}") == ([1, 2], True)
    assert page(f"limit=2&before_id={ids[0]}") == ([], False)


def test_a_creation_that_is_never_answered_made_its_batch(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(faults=(Fault(kind="unanswered", endpoint="batches.create"),))
    with pytest.raises(http.client.RemoteDisconnected):
        send(simulator, "POST", BATCHES, items(3))
    (listed,) = send(simulator, "GET", BATCHES).json["data"]
    assert simulator.stats().batches == (listed["id"],)
    assert len(results(simulator, listed["id"])) == 3
    create(simulator, items(1))
    assert len(simulator.stats().batches) == 2


def test_a_refused_creation_made_none(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(faults=(Fault(kind="overloaded", endpoint="batches.create"),))
    assert send(simulator, "POST", BATCHES, items(3)).status == 529
    assert simulator.stats().batches == ()


def test_a_fresh_batch_can_be_missing_for_a_moment(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(
        faults=(
            Fault(kind="not_found", endpoint="batches.retrieve", times=2),
            Fault(kind="not_found", endpoint="batches.results"),
        )
    )
    first, second = (create(simulator, items(1))["id"] for _ in range(2))
    for id in (first, second):
        assert [get(simulator, id).status for _ in range(3)] == [404, 404, 200]
        assert [get(simulator, id, "/results").status for _ in range(2)] == [404, 200]


def test_results_can_break_off_in_the_middle(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(faults=(Fault(kind="dropped", endpoint="batches.results"),))
    id = create(simulator, items(10))["id"]
    with pytest.raises(http.client.IncompleteRead) as cut:
        get(simulator, id, "/results")
    assert len(cut.value.partial.splitlines()) >= 5
    assert len(results(simulator, id)) == 10
    assert set(simulator.stats().answered.values()) == {1}


def test_an_endpoint_without_batches(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate(batches=Batches(offered=False))
    assert send(simulator, "POST", BATCHES, items(1)).status == 404
    assert send(simulator, "GET", BATCHES).status == 404
    assert ask(simulator).status == 200


def test_three_thousand_items_are_one_call(simulate: Callable[..., Simulator]) -> None:
    answers = (Answer(task="T-*", role="judge", say="I have seen {task}."),)
    simulator = simulate(Scenario(answers=answers, batches=Batches(results="shuffled")))
    found = results(simulator, create(simulator, items(3000))["id"])
    assert len(found) == 3000
    assert found["id-1234"]["message"]["content"] == [{"type": "text", "text": "I have seen T-1234."}]
    stats = simulator.stats()
    assert (stats.requests[f"POST {BATCHES}"], stats.batch_items, len(stats.answered)) == (1, 3000, 3000)
    assert stats.calls["judge T-7 1"] == 1


def test_batches_outlive_the_server(simulate: Callable[..., Simulator], clock: Clock, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batches": Batches(seconds=10), "pace": 1.0, "clock": clock}
    file = tmp_path / "batches.jsonl"
    first = simulate(batch_file=file, **options)
    ids = [create(first, items(2))["id"] for _ in range(3)]
    send(first, "POST", f"{BATCHES}/{ids[1]}/cancel", {})
    clock.now += 5
    assert send(first, "DELETE", f"{BATCHES}/{ids[1]}").status == 200
    first.stop()
    with file.open("ab") as torn:
        torn.write(b'{"type":"made","id":"msgb')

    second = simulate(batch_file=file, **options)
    assert get(second, ids[0]).json["processing_status"] == "in_progress"
    assert get(second, ids[1]).status == 404
    clock.now += 5
    assert len(results(second, ids[0])) == 2
    assert get(second, ids[2]).json["results_url"].startswith(second.url)
    fresh = create(second, items(1))["id"]
    assert fresh not in ids
    assert get(simulate(batch_file=file, **options), fresh).status == 200


def test_a_batch_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "batches.jsonl").write_text("not json\n")
    with pytest.raises(StoreError, match=r"batches\.jsonl cannot be read"):
        Simulator(batch_file=tmp_path / "batches.jsonl")
