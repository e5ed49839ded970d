"""The endpoints: who may call them, and what each request gets."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec

from engine.llm.simulator import wire
from engine.llm.simulator.answers import Caller, Composed, caller_of, compose
from engine.llm.simulator.batch_file import BatchFile
from engine.llm.simulator.batches import BatchStore
from engine.llm.simulator.counters import Counters, Logged, digest_of
from engine.llm.simulator.delivery import Delivery, spoiled
from engine.llm.simulator.exchange import (
    MAX_BATCH_BYTES,
    MAX_MESSAGE_BYTES,
    ClientGoneError,
    Exchange,
    HangUp,
)
from engine.llm.simulator.faults import find_fault
from engine.llm.simulator.limits import RateLimits
from engine.llm.simulator.models import model_info, model_page
from engine.llm.simulator.prompt_cache import Prompt, PromptCache, Share, read_prompt
from engine.llm.simulator.scenario import ITEM_FAULTS, Endpoint, Fault, FaultKind, Scenario
from engine.llm.simulator.script import Script
from engine.llm.simulator.validation import check_batch, check_headers, check_message
from engine.llm.simulator.wire import Json, Refusal, Reply, invalid

FAULT_HEADER = "x-simulator-fault"  # a fault for this one message call, by its kind

_MODEL = re.compile(r"/v1/models/([^/]+)\Z")
_BATCH = re.compile(r"/v1/messages/batches/([^/]+?)(/results|/cancel)?\Z")
_METHODS = {
    "/v1/messages": ("POST",),
    "/v1/messages/count_tokens": ("POST",),
    "/v1/messages/batches": ("GET", "POST"),
    "/v1/messages/batches/{id}": ("DELETE", "GET"),
    "/v1/messages/batches/{id}/cancel": ("POST",),
    "/v1/messages/batches/{id}/results": ("GET",),
    "/v1/models": ("GET",),
    "/v1/models/{id}": ("GET",),
    "/_simulator/log": ("GET",),
    "/_simulator/stats": ("GET",),
}


class Service:
    """The simulated service behind the HTTP server. Safe to use from several threads."""

    def __init__(
        self,
        scenario: Scenario,
        pace: float,
        *,
        clock: Callable[[], float] = time.time,
        batch_file: Path | None = None,
    ) -> None:
        self.scenario = scenario
        self.clock = clock
        self.pace = pace * scenario.pace
        self.counters = Counters()
        self._script = Script(scenario.answers)
        self._cache = PromptCache(scenario.cache_minimum)
        self._limits = RateLimits(scenario.limits)
        self._batches = BatchStore(
            scenario.batches,
            scenario.batches.seconds * self.pace,
            self._item_result,
            clock=clock,
            seed=scenario.name,
            file=BatchFile(batch_file),
        )
        self._numbers = itertools.count(1)
        self._paused_until: dict[str, float] = {}

    def handle(self, exchange: Exchange) -> None:
        """Answer one request."""
        exchange.request_id = wire.identifier("req", self.scenario.name, next(self._numbers))
        exchange.status = 0
        path = exchange.route
        route, id = path, ""
        if path not in _METHODS:
            if found := _BATCH.match(path):
                route, id = f"/v1/messages/batches/{{id}}{found[2] or ''}", found[1]
            elif found := _MODEL.match(path):
                route, id = "/v1/models/{id}", found[1]
        self.counters.count("requests", f"{exchange.command} {route}")
        try:
            self._route(exchange, route, id)
        except Refusal as refusal:
            self._refuse(exchange, refusal)
        except HangUp:
            if not exchange.status:
                self.counters.count("statuses", "0")
            raise
        except (ClientGoneError, ConnectionError):
            raise
        except Exception as error:
            # Whoever tests against us should read what is wrong with us in the answer, not guess it from a silence.
            self.counters.count("faults", "of the simulator itself")
            if exchange.status:
                raise HangUp from error
            self._refuse(
                exchange, Refusal("api_error", f"the simulator failed: {type(error).__name__}: {error}")
            )

    def _route(self, exchange: Exchange, route: str, id: str) -> None:
        # The body has to be read even of a request that is refused: the next one follows it on the connection.
        most = MAX_BATCH_BYTES if route == "/v1/messages/batches" else MAX_MESSAGE_BYTES
        post = exchange.command in ("POST", "PUT", "PATCH")
        body = exchange.read_body(most) if post else b""
        if route not in _METHODS:
            raise Refusal("not_found_error", "Not Found")
        if exchange.command not in _METHODS[route]:
            raise Refusal("invalid_request_error", "Method Not Allowed", status=405)
        if not route.startswith("/_simulator"):
            check_headers(exchange.lower_headers, api_key=self.scenario.api_key, body=bool(body))
        if route.startswith("/v1/messages/batches") and not self.scenario.batches.offered:
            raise Refusal("not_found_error", "Not Found")
        match exchange.command, route:
            case _, "/_simulator/stats":
                exchange.send(200, wire.encode(self.counters.stats()))
            case _, "/_simulator/log":
                exchange.send(200, wire.encode(self.counters.log))
            case _, "/v1/messages":
                self._messages(exchange, _decode(body))
            case _, "/v1/messages/count_tokens":
                self._plain(exchange, "count_tokens", lambda: self._count_tokens(_decode(body)))
            case _, "/v1/models":
                self._plain(exchange, "models", lambda: model_page(self.scenario.models))
            case _, "/v1/models/{id}":
                self._plain(exchange, "models", lambda: model_info(id, self.scenario.models))
            case "POST", "/v1/messages/batches":
                self._create_batch(exchange, _decode(body))
            case "GET", "/v1/messages/batches":
                self._plain(
                    exchange, "batches.list", lambda: self._batches.page(exchange.query, exchange.base_url)
                )
            case "GET", "/v1/messages/batches/{id}":
                self._plain(
                    exchange, "batches.retrieve", lambda: self._batches.retrieve(id, exchange.base_url)
                )
            case "DELETE", _:
                self._plain(exchange, "batches.cancel", lambda: self._batches.delete(id))
            case "POST", _:
                self._plain(exchange, "batches.cancel", lambda: self._batches.cancel(id, exchange.base_url))
            case _:
                self._plain(exchange, "batches.results", lambda: self._batches.results(id))

    def _refuse(self, exchange: Exchange, refusal: Refusal) -> None:
        headers = {}
        if refusal.retry_after is not None:
            headers["retry-after"] = f"{refusal.retry_after:g}"
        if refusal.code:
            headers["x-should-retry"] = "false"  # a spend limit does not pass by itself
        exchange.send_json(refusal.status, refusal.body(exchange.request_id), headers)

    def _plain(self, exchange: Exchange, endpoint: Endpoint, answer: Callable[[], Json | bytes]) -> None:
        """Give an answer (JSON, or lines of it) unless a fault comes first; faults in its middle give half of it."""
        key = exchange.route
        fault = find_fault(self.scenario, endpoint, key, self.counters.arrival(f"{endpoint} {key}"))
        if fault is not None:
            self.counters.count("faults", fault.kind)
            if spoiled(exchange, fault):
                return
        value = answer()
        body, kind = (
            (value, "application/x-jsonl")
            if isinstance(value, bytes)
            else (wire.encode(value), "application/json")
        )
        if fault is not None:
            exchange.send_part(body, len(body) // 2, {}, kind=kind)
        exchange.send(200, body, kind=kind)

    def _messages(self, exchange: Exchange, params: Any) -> None:
        check_message(params, self.scenario.models)
        caller, digest = caller_of(params), digest_of(params)
        arrival = self.counters.arrival(digest)
        if kind := exchange.headers.get(FAULT_HEADER):
            fault: Fault | None = _forced(kind)
        else:
            fault = find_fault(
                self.scenario, "messages", digest, arrival, caller=caller, model=params["model"]
            )
        self._log(params, caller, digest, arrival, fault, exchange.request_id)
        abandoned = True
        try:
            if self.counters.enter() > self.scenario.limits.concurrent:
                raise Refusal("overloaded_error", "Overloaded")
            prompt = read_prompt(params)
            if not spoiled(exchange, fault):
                self._answer(exchange, params, prompt, caller, digest, fault)
            abandoned = False
        except Refusal as refusal:
            abandoned = False
            if refusal.retry_after is not None:
                self._paused_until[params["model"]] = self.clock() + refusal.retry_after
            raise
        except HangUp:
            abandoned = False
            raise
        finally:
            self.counters.leave(abandoned=abandoned)

    def _answer(
        self,
        exchange: Exchange,
        params: Json,
        prompt: Prompt,
        caller: Caller,
        digest: str,
        fault: Fault | None,
    ) -> None:
        model = params["model"]
        self._limits.take(model, prompt.tokens, self.clock())
        composed = compose(params, caller, self._script)
        share = self._cache.look_up(prompt, self.clock())
        latency = self.scenario.latency if composed.latency is None else composed.latency
        exchange.pause(latency * self.pace)
        self._cache.begin(share, self.clock())
        self._limits.spend_output(model, composed.output_tokens, self.clock())
        delivery = Delivery(
            exchange,
            _reply(digest, model, composed, share),
            digest=digest,
            fault=fault,
            headers=self._limits.headers(model, self.clock()),
            speed=self.scenario.tokens_per_second / self.pace if self.pace else 0.0,
            counters=self.counters,
        )
        if params.get("stream"):
            delivery.stream()
        else:
            delivery.send()

    def _create_batch(self, exchange: Exchange, body: Any) -> None:
        check_batch(body)
        key = "batches.create"
        fault = find_fault(self.scenario, "batches.create", key, self.counters.arrival(key))
        if fault is not None:
            self.counters.count("faults", fault.kind)
            if fault.kind != "unanswered" and spoiled(exchange, fault):
                return
        batch = self._batches.create(body["requests"], exchange.base_url)
        self.counters.batch(batch["id"], len(body["requests"]))
        if fault is not None:  # the batch exists, and nobody is told
            if fault.kind == "stalled":
                exchange.stall()
            raise HangUp
        exchange.send_json(200, batch)

    def _item_result(self, params: Json) -> Json | None:
        """Run one item of a batch; gives its result, or None when it gets lost."""
        request_id = wire.identifier("req", self.scenario.name, next(self._numbers))
        try:
            check_message(params, self.scenario.models, batch=True)
        except Refusal as refusal:
            return {"type": "errored", "error": refusal.body(request_id)}
        caller, digest = caller_of(params), digest_of(params)
        arrival = self.counters.arrival(digest)
        model = params["model"]
        fault = find_fault(self.scenario, "batch_item", digest, arrival, caller=caller, model=model)
        self._log(params, caller, digest, arrival, fault)
        match fault.kind if fault is not None else None:
            case "errored":
                return {
                    "type": "errored",
                    "error": Refusal("api_error", "Internal server error").body(request_id),
                }
            case "expired" | "canceled" as kind:
                return {"type": kind}
            case "missing":
                return None
        composed = compose(params, caller, self._script)
        share = self._cache.look_up(read_prompt(params), self.clock())
        self._cache.begin(share, self.clock())
        reply = _reply(digest, model, composed, share, batch=True)
        self.counters.answered(digest, reply.usage)
        return {"type": "succeeded", "message": reply.message()}

    def _count_tokens(self, params: Any) -> Json:
        check_message(params, self.scenario.models, counting=True)
        return {"input_tokens": read_prompt(params).tokens}

    def _log(
        self,
        params: Json,
        caller: Caller,
        digest: str,
        arrival: int,
        fault: Fault | None,
        request: str = "",
    ) -> None:
        kind = fault.kind if fault is not None else ""
        if kind:
            self.counters.count("faults", kind)
        now, model = self.clock(), params["model"]
        paused = max(0.0, self._paused_until.get(model, now) - now)
        self.counters.logged(
            Logged(now, model, caller.name, caller.step, digest, arrival, kind, paused, request)
        )


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise invalid(f"The request body is not valid JSON: {error}") from None


def _forced(kind: str) -> Fault:
    if kind not in get_args(FaultKind) or kind in ITEM_FAULTS:
        raise invalid(f"{FAULT_HEADER}: '{kind}' is no fault of a message call")
    return Fault(kind=kind)  # type: ignore[arg-type]


def _reply(digest: str, model: str, composed: Composed, share: Share, *, batch: bool = False) -> Reply:
    return Reply(
        id=wire.identifier("msg", digest),
        model=model,
        content=composed.blocks,
        stop_reason=composed.stop_reason,
        usage=share.usage(composed.output_tokens, batch=batch),
        stop_sequence=composed.stop_sequence,
        cut=composed.cut,
    )
