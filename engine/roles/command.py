"""A role as an agent command: any CLI that reads a prompt from stdin and works in the current folder.

Its exit status alone never decides: the change it made and our own verification do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from engine.capped_log import MAX_LOG
from engine.errors import HaltedError, ProcessError, StageFailedError
from engine.model import Usage
from engine.process import run_process
from engine.roles.agent_output import AgentReader
from engine.roles.verifier import readable
from engine.scarcity import scarcity

MAX_SUMMARY = 1_000  # characters


class AgentReport(msgspec.Struct, frozen=True):
    """What an agent command said. `usd` is None where it reports no cost; `complaint` is its own error, if any."""

    text: str
    usage: Usage = Usage()
    usd: float | None = None
    complaint: str = ""

    @property
    def summary(self) -> str:
        """Its last paragraph, which is where an agent says what it did."""
        paragraphs = [part.strip() for part in re.split(r"\n\s*\n", self.text) if part.strip()]
        return paragraphs[-1][-MAX_SUMMARY:].strip() if paragraphs else ""


async def run_agent(
    argv: Sequence[str],
    prompt: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    timeout: float,
    idle_timeout: float | None,
    max_log: int = MAX_LOG,
    reader: AgentReader,
) -> AgentReport:
    """Run the command in `cwd`, the prompt on its stdin, its output in `log` and read by a `reader` of its own.

    The reader knows what was used by a turn that came to no report as well. Raises HaltedError when it cannot start,
    StageFailedError when it overruns a limit (seconds).
    """
    try:
        result = await run_process(
            argv,
            cwd=cwd,
            env=env,
            log=log,
            stdin=prompt.encode("utf-8", "replace"),
            timeout=timeout,
            idle_timeout=idle_timeout,
            max_log=max_log,
            on_line=reader.line,
        )
    except ProcessError as error:
        raise scarcity(error) or HaltedError(error.message, error.hint) from error
    if result.overran:
        limit, what = (timeout, "ran") if result.overran == "timeout" else (idle_timeout or 0.0, "was silent")
        raise StageFailedError(
            f"{argv[0]} {what} for more than {limit:.0f} s and was ended",
            failure_type="timeout",
            feedback=f"The last attempt {what} for more than {limit:.0f} s and was ended. Work in smaller steps.",
        )
    complaint = reader.complaint
    if result.status != 0 and not complaint:
        last = readable(result.tail).strip().splitlines()[-1:] or ["no output"]
        complaint = f"{argv[0]} ended with status {result.status}: {last[0][:200]}"
    text = reader.text or readable(result.tail).strip()
    return AgentReport(text, reader.usage, reader.usd, complaint)
