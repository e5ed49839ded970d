"""`taskyard simulate`: the simulated model service by itself, for trying things out without a key."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from tui.cli.console import flush, say


def simulate(
    scenario: Annotated[
        Path | None,
        typer.Option("--scenario", metavar="FILE", help="What it answers; by default something sensible."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8788,
    pace: Annotated[
        float, typer.Option("--pace", min=0.0, metavar="X", help="Answer X times as slowly; 0 at once.")
    ] = 1.0,
) -> int:
    """Serve simulated models on this machine.

    They speak the real wire protocol, with scripted answers, until Ctrl+C.
    """
    from engine.llm.simulator import Scenario, Simulator, load_scenario

    script = load_scenario(scenario) if scenario is not None else Scenario()
    simulator = Simulator(script, port=port, pace=pace)
    say(f"serving at {simulator.url}; stop with Ctrl+C")
    say(f"use it with: TASKYARD_LLM_BASE_URL={simulator.url} taskyard run")
    flush()
    with contextlib.suppress(KeyboardInterrupt):
        simulator.serve_forever()
    simulator.stop()
    return 0
