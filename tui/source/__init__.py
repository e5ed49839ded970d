"""Where the dashboard gets its snapshots from: a run of this process, of another one, of the past, or of a test."""

from tui.source.live import LiveSource
from tui.source.lookups import Lookups
from tui.source.protocol import Choice, Control, Health, Mode, Playback, Source
from tui.source.recorded import RecordedSource
from tui.source.replay import ReplaySource
from tui.source.runs import Runs, end_of
from tui.source.watch import WatchSource

__all__ = [
    "Choice",
    "Control",
    "Health",
    "LiveSource",
    "Lookups",
    "Mode",
    "Playback",
    "RecordedSource",
    "ReplaySource",
    "Runs",
    "Source",
    "WatchSource",
    "end_of",
]
