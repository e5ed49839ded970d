"""What the simulated model answers, and what goes wrong: read from a TOML file anybody can write.

A scenario is a list of answers and a list of faults. The simulator keeps no conversation: it reads from each request
whose call it is (the lines `Role:`, `Task:` and `Attempt:` of the prompt), how far the tool loop has come (the number
of assistant turns) and what the model has been shown, and picks the answer by that alone.

    pace = 1.0                      # multiplies all waiting but retry_after; 0 means none

    [[answers]]
    task = "CART-4"                 # or a pattern: "CART-*"
    role = "implementer"
    attempt = 2                     # from this attempt on; default 1
    when = "def subtotal"           # only when the request shows this text; preferred to an answer without it
    summary = "Round half up, to the cent."
    edits = [{ path = "src/money.py", old = "round(value)", new = "quantize(value)" }]

    [[faults]]
    kind = "rate_limited"
    role = "judge"
    times = 2                       # the first two tries of each such request
    retry_after = 1.5

`{task}` and `{slug}` (its id as a Python name) may stand in the texts of an answer. `edits` serve both lanes: as one
structured answer, or as a loop that reads the files, edits them and runs the check.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import msgspec

from engine.errors import SettingsError
from engine.llm.simulator.models import MODELS
from engine.toml import parse_toml

RoleName = Literal["planner", "implementer", "judge"]
Endpoint = Literal[
    "messages",
    "count_tokens",
    "models",
    "batches.create",
    "batches.retrieve",
    "batches.list",
    "batches.results",
    "batches.cancel",
    "batch_item",
]
FaultKind = Literal[
    "rate_limited",  # 429 with retry-after
    "spend_limit",  # 429 that no retry helps
    "overloaded",  # 529
    "server_error",  # 500
    "timeout",  # 504
    "unauthorized",  # 401
    "not_found",  # 404
    "unanswered",  # taken in, then the connection closes without a byte
    "dropped",  # the connection breaks in the middle of the answer
    "stalled",  # the answer stops coming, the connection stays
    "truncated",  # the stream ends in good order before the message does
    "error_event",  # a stream that turns into an error
    "bad_json",  # status 200 and JSON that is none
    "html",  # status 200 and a page of some proxy
    "empty_object",  # status 200 and {}
    "errored",  # these four are how one item of a batch ends
    "expired",
    "canceled",
    "missing",
]
ITEM_FAULTS = frozenset({"errored", "expired", "canceled", "missing"})


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change of a file. An empty `old` makes the whole file."""

    path: str
    new: str
    old: str = ""


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool the model asks for, with its input."""

    tool: str
    input: dict[str, str] = {}


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a planner answers."""

    steps: tuple[str, ...]
    files: tuple[str, ...] = ()
    type: str = "feature"


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a judge answers."""

    approved: bool
    reason: str
    findings: tuple[str, ...] = ()


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a tool loop: some words, some calls; a turn without calls ends the loop."""

    say: str = ""
    calls: tuple[ToolCall, ...] = ()


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the model. It holds exactly one of `plan`, `verdict`, `edits`, `turns` and `say`.

    `latency` is seconds to the first token, `think` what it thinks first where the request allows it, and with
    `check = false` the implementer does not run the check before it says that it is done.
    """

    task: str = "*"
    role: RoleName | None = None
    attempt: int = 1
    when: str = ""
    plan: Plan | None = None
    verdict: Verdict | None = None
    edits: tuple[Edit, ...] = ()
    summary: str = ""
    turns: tuple[Turn, ...] = ()
    say: str = ""
    think: str = ""
    check: bool = True
    latency: float | None = None


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Something that goes wrong with the first `times` tries of each request it matches. Seconds."""

    kind: FaultKind
    endpoint: Endpoint = "messages"
    task: str = "*"
    role: RoleName | None = None
    attempt: int | None = None
    step: int | None = None
    model: str = "*"
    times: int = 1
    retry_after: float = 1.0


class RandomFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Faults drawn at random, always the same ones for one seed, at most `times` for one request.

    `rate` is the share of tries they hit. They come on top of the scripted ones.
    """

    rate: float
    seed: int = 0
    kinds: tuple[FaultKind, ...] = (
        "rate_limited",
        "overloaded",
        "server_error",
        "unanswered",
        "dropped",
        "truncated",
        "error_event",
        "bad_json",
        "html",
        "empty_object",
    )
    endpoint: Endpoint = "messages"
    times: int = 1
    retry_after: float = 1.0


class Batches(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How Message Batches behave. `seconds` from creation to end; `offered` false answers 404 like a small gateway."""

    seconds: float = 6.0
    results: Literal["in_order", "reversed", "shuffled"] = "shuffled"
    offered: bool = True


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the service allows: for each model in a minute, and at once over all. Past them it says 429 or 529."""

    requests_per_minute: int = 50_000
    input_tokens_per_minute: int = 50_000_000
    output_tokens_per_minute: int = 10_000_000
    concurrent: int = 100_000


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything a simulator is told. Durations in seconds; `pace` multiplies all of them but `retry_after`."""

    name: str = "scenario"
    pace: float = 1.0
    latency: float = 0.8
    tokens_per_second: float = 80.0
    cache_minimum: int = 512
    api_key: str = ""
    models: tuple[str, ...] = MODELS
    answers: tuple[Answer, ...] = ()
    faults: tuple[Fault, ...] = ()
    random_faults: RandomFaults | None = None
    batches: Batches = Batches()
    limits: Limits = Limits()


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file. Raises `SettingsError` that says where it is wrong and what would be right."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"the scenario {path} cannot be read ({error.strerror})", "name a readable TOML file"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"the scenario {path} is not UTF-8 (byte {error.start})", "save it as UTF-8"
        ) from error
    return parse_scenario(text, str(path))


def parse_scenario(text: str, source: str = "scenario") -> Scenario:
    """Read a scenario from TOML text; `source` names it in errors. Raises `SettingsError`."""
    try:
        scenario = msgspec.convert(parse_toml(text, source), Scenario)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{source}: {_in_words(str(error))}", _hint(str(error))) from error
    check_scenario(scenario, source)
    return scenario


def check_scenario(scenario: Scenario, source: str = "scenario") -> None:
    """Check what types alone cannot say. Raises `SettingsError` naming the entry."""

    def wrong(what: str, hint: str) -> SettingsError:
        return SettingsError(f"{source}: {what}", hint)

    if scenario.pace < 0 or scenario.latency < 0 or scenario.tokens_per_second <= 0:
        raise wrong(
            "pace and latency cannot be negative, and tokens_per_second must be positive", "mend them"
        )
    for at, answer in enumerate(scenario.answers, 1):
        given = [
            name
            for name in ("plan", "verdict", "edits", "turns", "say")
            if getattr(answer, name) not in (None, (), "")
        ]
        if len(given) != 1:
            raise wrong(
                f"answer {at} (task {answer.task}) holds {' and '.join(given) or 'nothing to answer'}",
                "give it exactly one of plan, verdict, edits, turns, say",
            )
        if answer.attempt < 1:
            raise wrong(
                f"answer {at} (task {answer.task}) has attempt {answer.attempt}", "attempts count from 1"
            )
    for at, fault in enumerate(scenario.faults, 1):
        if (fault.kind in ITEM_FAULTS) != (fault.endpoint == "batch_item"):
            raise wrong(
                f"fault {at} is {fault.kind} at {fault.endpoint}",
                'errored, expired, canceled and missing belong to endpoint = "batch_item", all others elsewhere',
            )
    chance = scenario.random_faults
    if chance is not None and not 0 <= chance.rate <= 1:
        raise wrong(f"random_faults.rate is {chance.rate}", "give a share from 0 to 1")
    if chance is not None and any(
        (kind in ITEM_FAULTS) != (chance.endpoint == "batch_item") for kind in chance.kinds
    ):
        raise wrong("random_faults.kinds do not fit its endpoint", "name kinds that can happen there")


def _hint(message: str) -> str:
    """Name the field that an unknown one was probably meant to be."""
    import difflib  # only for messages

    unknown = re.search(r"unknown field `(.*?)`", message)
    if unknown is None:
        return "mend that entry"
    kinds = (Scenario, Answer, Edit, Plan, Verdict, Turn, ToolCall, Fault, RandomFaults, Batches, Limits)
    known = {name for kind in kinds for name in kind.__struct_fields__}
    nearest = difflib.get_close_matches(unknown[1], sorted(known), n=1, cutoff=0.0)
    return f"the nearest known one is {nearest[0]}"


def _in_words(message: str) -> str:
    """Turn msgspec's path (`$.answers[2]`) into the way people count."""
    return re.sub(
        r" - at `\$\.?(.*?)`",
        lambda found: (
            " in " + re.sub(r"\[(\d+)\]", lambda at: f" {int(at[1]) + 1}", found[1]) if found[1] else ""
        ),
        message,
    )
