"""What a person does to the run: each command asks first where it cannot be undone, and says what it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.model import Lane, TaskState
from engine.snapshot import BoardOffer
from engine.task_view import TaskView
from tui.edits import taking
from tui.format import safe_text
from tui.plain import count
from tui.screens.dialogs import ConfirmScreen
from tui.source import Control
from tui.source.protocol import Mode
from tui.source.replay import SPEEDS

if TYPE_CHECKING:
    from tui.app import DashboardApp

_RETRIED = (TaskState.FAILED, TaskState.CANCELLED)


class Steering:
    """The commands of one dashboard. On a run that can only be looked at, each says so."""

    def __init__(self, app: DashboardApp) -> None:
        self._app = app

    def refuse(self, wanted: Mode = "LIVE") -> None:
        """Say why a command of the mode `wanted` does nothing here."""
        reasons = {
            "LIVE": "read-only: this is a replay"
            if self._app.source.mode == "REPLAY"
            else "read-only: this run belongs to another process",
            "WATCH": "that is for taskyard watch, which looks at one run or another",
            "REPLAY": "that is for replays",
        }
        self._app.tell(reasons[wanted], "warning")

    def _control(self) -> Control | None:
        source = self._app.source
        if source.control is None:
            self.refuse()
            return None
        if self._app.frame.snapshot.run.started is None:
            self._app.tell("the run is still starting", "warning")
            return None
        return source.control

    def retry(self, views: Sequence[TaskView]) -> None:
        """Try failed and cancelled tasks again."""
        control = self._control()
        if control is None:
            return
        again = [view.id for view in views if view.state in _RETRIED]
        if not again:
            self._app.tell("retry is for tasks that failed or were cancelled", "warning")
            return
        control.retry(again)
        self._app.tell(f"retrying {_names(again)}")

    def cancel(self, views: Sequence[TaskView], done: Callable[[], None] | None = None) -> None:
        """Cancel tasks that have not ended, after a question."""
        control = self._control()
        if control is None:
            return
        open_ = [view for view in views if not view.state.ended]
        running = [view.id for view in open_ if view.state is not TaskState.ELSEWHERE]
        if not running:
            where = "; ".join(
                f"{safe_text(v.id, 40)} is worked on {safe_text(v.last, 80)}" for v in open_[:3]
            )
            ended = "nothing to cancel: the task has ended"
            self._app.tell(f"{where}: cancel it there" if where else ended, "warning")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                control.cancel([view.id for view in open_])  # of those elsewhere the engine says where
                self._app.tell(f"cancelling {_names(running)}")
                if done is not None:
                    done()

        def settled() -> bool:
            snapshot = self._app.frame.snapshot
            return all((view := snapshot.task(name)) is None or view.state.ended for name in running)

        self._app.ask(
            ConfirmScreen(
                f"Cancel {_names(running)}?",
                "The attempt stops now. What waits for it does not start. r tries it again.",
                "Cancel it",
                "Keep it",
                settled=settled,
            ),
            answered,
        )

    def change_lane(self, views: Sequence[TaskView]) -> None:
        """Move tasks to the other lane; what they have queued for a batch goes out singly."""
        control = self._control()
        if control is None:
            return
        moved = [view for view in views if not view.state.ended]
        if not moved:
            self._app.tell("nothing to move: the task has ended", "warning")
            return
        lane = Lane.FAST if moved[0].task.lane is Lane.ECONOMY else Lane.ECONOMY
        if lane is Lane.ECONOMY and not self._app.frame.snapshot.run.economy:
            nothing = "the economy lane saves nothing here: it is for models, and for [llm] batch = auto"
            self._app.tell(nothing, "warning")
            return
        for view in moved:
            control.set_lane(view.id, lane)
        self._app.tell(f"{_names([view.id for view in moved])} to the {lane} lane, from the next attempt on")

    def toggle_pause(self) -> None:
        """Start no more tasks, or start them again."""
        control = self._control()
        if control is None:
            return
        snapshot = self._app.frame.snapshot
        if snapshot.run.finished is not None:
            if snapshot.count(TaskState.QUEUED):  # a drain or the budget left them
                control.resume()
                self._app.tell("the run goes on")
            else:
                self._app.tell("the run has finished: nothing is left to start; r tries again", "warning")
        elif snapshot.run.dispatch == "running":
            control.pause()
            self._app.tell("paused: what runs goes on, nothing new starts; p goes on")
        else:
            control.resume()
            self._app.tell("starting tasks again")

    def drain(self) -> None:
        """Start no more tasks and let the run end, after a question."""
        control = self._control()
        if control is None:
            return
        run = self._app.frame.snapshot.run
        if run.finished is not None:
            self._app.tell("the run has finished already", "warning")
            return
        if run.dispatch == "draining":
            self._app.tell("draining already: p takes it back", "warning")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                control.drain()
                self._app.tell("draining: the run ends when what runs has ended")

        self._app.ask(
            ConfirmScreen(
                "Drain the run?",
                "No more tasks start; the run ends when those that run have landed. p takes it back.",
                "Drain",
                "Go on",
                settled=lambda: self._app.frame.snapshot.run.finished is not None,
            ),
            answered,
        )

    def answer_board(self, offer: BoardOffer, yes: bool) -> None:
        """Take edits of the board in, or leave them to the next run."""
        control = self._control()
        if control is None:
            return
        if yes:
            control.take_board(offer.number)
            self._app.tell(taking(offer.change, self._app.frame.snapshot))
        else:
            control.leave_board(offer.number)
            self._app.tell("left to the next run; another edit asks again")

    def land_now(self) -> None:
        """Let the train leave with what is ready."""
        control = self._control()
        if control is None:
            return
        snapshot = self._app.frame.snapshot
        aboard = {name for train in snapshot.trains if train.ended_at is None for name in train.tasks}
        verified = [view.id for view in snapshot.tasks if view.state is TaskState.TO_LAND]
        if not verified:
            self._app.tell("nothing waits for a train", "warning")
        elif aboard.issuperset(verified):
            self._app.tell("nothing else waits for a train: the one on its way has all", "warning")
        else:
            control.land_now()
            self._app.tell("the train leaves now")

    def step_concurrency(self, direction: int) -> None:
        """One slot more or fewer."""
        control = self._control()
        if control is not None:
            limit = max(1, self._app.frame.snapshot.run.max_concurrency + direction)
            control.set_concurrency(limit)
            self._app.tell(f"at most {count(limit, 'task')} at once")

    def toggle_play(self) -> None:
        """Play the tape, or pause it."""
        tape = self._app.source.playback
        if tape is not None:
            tape.toggle()

    def step_speed(self, direction: int) -> None:
        """Play the tape at the next speed up or down."""
        tape = self._app.source.playback
        if tape is not None:
            further = [speed for speed in SPEEDS if (speed - tape.speed) * direction > 0]
            if further:
                tape.set_speed(further[0] if direction > 0 else further[-1])

    def seek_by(self, seconds: float) -> None:
        """Jump on the tape, by seconds of the run."""
        tape = self._app.source.playback
        if tape is not None:
            tape.seek(tape.position + seconds)


def _names(task_ids: Sequence[str]) -> str:
    if len(task_ids) > 3:
        return count(len(task_ids), "task")
    return ", ".join(safe_text(task_id, 40) for task_id in task_ids)
