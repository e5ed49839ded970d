"""A process that asks for three answers in a batch and may be killed on the way: `batch_child.py URL FOLDER MOMENT`.

Its journal and its answers are files in FOLDER, so that the next process can take over. At MOMENT it kills itself with
SIGKILL: before the batch is created, before its id is on disk, while it polls, or when the first answer is stored.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec

from engine.llm.batch_calls import BatchState
from engine.llm.batch_flights import Manifest, PollPolicy
from engine.llm.batches import LLMBatcher
from engine.llm.client import ModelClient
from tests.llm.conftest import request


class FileJournal:
    def __init__(self, folder: Path, moment: str) -> None:
        self._folder = folder
        self._moment = moment

    def reached(self, moment: str) -> None:
        if moment == self._moment:
            os.kill(os.getpid(), signal.SIGKILL)

    @property
    def open_manifests(self) -> list[Manifest]:
        found = [
            msgspec.json.decode(path.read_bytes(), type=Manifest) for path in self._folder.glob("*.batch")
        ]
        return [manifest for manifest in found if not (self._folder / f"{manifest.batch}.ended").exists()]

    async def creating(self, manifest: Manifest) -> None:
        (self._folder / f"{manifest.token}.batch").write_bytes(msgspec.json.encode(manifest))
        self.reached("creating")

    async def submitted(self, manifest: Manifest) -> None:
        self.reached("created")
        (self._folder / f"{manifest.token}.batch").write_bytes(msgspec.json.encode(manifest))

    def polled(self, batch: str, state: BatchState, next_poll_at: float | None) -> None:
        self.reached("polling")

    def ended(self, batch: str, succeeded: int, errored: int) -> None:
        (self._folder / f"{batch}.ended").touch()

    def notice(self, text: str) -> None:
        print(text, file=sys.stderr)


async def main(url: str, folder: Path, moment: str) -> None:
    journal = FileJournal(folder, moment)
    poll = PollPolicy(first=0.05, longest=0.1, listing=(0.0, 0.1, 0.2))
    async with ModelClient(url, "sk-ant-test", environ={}) as client:
        batcher = LLMBatcher(client, journal, max_size=3, max_age=1.0, poll=poll)
        batcher.resume(journal.open_manifests)

        async def one(number: int) -> None:
            stored = folder / f"T{number}.answer"
            if not stored.exists():
                answer = await batcher.submit(request(f"T{number}"))
                stored.write_text(answer.text)
            batcher.stored(request(f"T{number}"))
            journal.reached("stored")

        await asyncio.gather(*(one(number) for number in (1, 2, 3)))
        await batcher.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
