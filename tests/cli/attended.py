"""A run with somebody there, for tests: prints one event a line, and takes answers about the board on its stdin."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from engine.events import Event, encode
from engine.settings import load_settings
from engine.thread import EngineThread


def main() -> None:
    def told(event: Event) -> None:
        print(encode(event).decode(), flush=True)

    engine = EngineThread(load_settings(Path.cwd(), environ=os.environ), os.environ, listener=told)
    engine.start()
    for line in sys.stdin:
        answer, _, number = line.partition(" ")
        if answer == "take":
            engine.control.take_board(int(number))
        else:
            engine.control.leave_board(int(number))
    engine.stop()


if __name__ == "__main__":
    main()
