"""Deliver a model's answer: whole or streamed, at a model's speed, and broken where a fault says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from engine.llm.simulator import wire
from engine.llm.simulator.counters import Counters
from engine.llm.simulator.exchange import Exchange, HangUp
from engine.llm.simulator.faults import BAD_JSON, HTML, refusal_of
from engine.llm.simulator.scenario import Fault, FaultKind
from engine.llm.simulator.wire import Refusal, Reply

_DELTAS_PER_SECOND = 12  # pieces of one stream, in which a client sees an answer grow


def spoiled(exchange: Exchange, fault: Fault | None) -> bool:
    """Do what a fault does instead of an answer; gives whether it did. Faults in the middle of an answer come later.

    Raises `Refusal` for the errors among them and `HangUp` for a connection that just closes.
    """
    if fault is None:
        return False
    refusal = refusal_of(fault)
    if refusal is not None:
        raise refusal
    match fault.kind:
        case "unanswered":
            raise HangUp
        case "html":
            exchange.send(200, HTML, kind="text/html")
        case "empty_object":
            exchange.send(200, b"{}")
        case _:
            return False
    return True


class Delivery:
    """One answer on its way. `speed` is tokens a second, 0 for at once; `digest` names the call in the counts."""

    def __init__(
        self,
        exchange: Exchange,
        reply: Reply,
        *,
        digest: str,
        fault: Fault | None,
        headers: dict[str, str],
        speed: float,
        counters: Counters,
    ) -> None:
        self._exchange = exchange
        self._reply = reply
        self._digest = digest
        self._fault: FaultKind | None = None if fault is None else fault.kind
        self._headers = headers
        self._speed = speed
        self._counters = counters

    def stream(self) -> None:
        """Send the answer as a stream of events."""
        tokens = self._reply.usage["output_tokens"]
        piece = max(8, round(self._speed / _DELTAS_PER_SECOND) if self._speed else tokens)
        events = list(wire.stream(self._reply, piece))
        if self._fault is not None:
            events = events[: len(events) // 2]
        self._exchange.begin_stream(self._headers)
        for name, data in events:
            if name == "content_block_delta" and self._speed:
                self._exchange.pause(wire.tokens_of_delta(data) / self._speed)
            if name == "message_stop":
                self._count(partial(self._exchange.write, wire.sse(name, data)))
            else:
                self._exchange.write(wire.sse(name, data))
        if self._fault is not None:
            self._break(self._fault)
        self._exchange.end_stream()

    def send(self) -> None:
        """Send the answer as one message."""
        if self._speed:
            self._exchange.pause(self._reply.usage["output_tokens"] / self._speed)
        body = wire.encode(self._reply.message())
        match self._fault:
            case None:
                self._count(partial(self._exchange.send, 200, body, self._headers))
            case "stalled":
                self._exchange.stall()
            case "error_event":
                raise Refusal("overloaded_error", "Overloaded")
            case "bad_json":
                self._exchange.send(200, BAD_JSON, self._headers)
            case _:
                self._exchange.send_part(body, len(body) // 2, self._headers)

    def _break(self, fault: FaultKind) -> None:
        """Spoil a stream in its middle."""
        match fault:
            case "truncated":
                pass  # it ends in good order, only too early
            case "stalled":
                self._exchange.stall()
            case "error_event":
                error = Refusal("overloaded_error", "Overloaded").body(self._exchange.request_id)
                self._exchange.write(wire.sse("error", error))
            case "bad_json":
                self._exchange.write(wire.sse("content_block_delta", BAD_JSON.decode()))
            case _:
                raise HangUp(reset=True)

    def _count(self, send: Callable[[], None]) -> None:
        """Count the answer just before its last bytes leave, so that whoever has it finds it counted."""
        self._counters.answered(self._digest, self._reply.usage)
        try:
            send()
        except BaseException:
            self._counters.answered(self._digest, self._reply.usage, times=-1)
            raise
