"""A loopback server that speaks the Messages protocol and plays a model from a script.

    with Simulator(load_scenario(Path("scenario.toml"))) as simulator:
        print(simulator.url)

For `taskyard demo` without a key, for `taskyard simulate`, and for tests. Nothing but the address differs from the
real service: wrong requests are refused, the prompt cache and the rate limits are modelled, and everything that can
go wrong on the wire can be made to. See `scenario` for the file that tells it what to say.
"""

from engine.llm.simulator.counters import Logged, Stats
from engine.llm.simulator.scenario import (
    Answer,
    Batches,
    Edit,
    Fault,
    Limits,
    Plan,
    RandomFaults,
    Scenario,
    ToolCall,
    Turn,
    Verdict,
    load_scenario,
    parse_scenario,
)
from engine.llm.simulator.server import Simulator

__all__ = [
    "Answer",
    "Batches",
    "Edit",
    "Fault",
    "Limits",
    "Logged",
    "Plan",
    "RandomFaults",
    "Scenario",
    "Simulator",
    "Stats",
    "ToolCall",
    "Turn",
    "Verdict",
    "load_scenario",
    "parse_scenario",
]
