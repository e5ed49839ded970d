"""Every error Taskyard raises on purpose, as one tree.

    TaskyardError
    ├── UsageError               exit status 2: the user can mend it before anything was written
    │   ├── SettingsError        taskyard.toml, a flag or an environment variable
    │   ├── BoardError           the board file as a whole cannot be used
    │   └── PreflightError       the repository is in a state no run can start from
    ├── HaltedError              exit status 2: what every task needs is not there; nothing is given up
    ├── BudgetReachedError       exit status 3: the next call could pass the budget
    ├── GitError                 a git command answered with a failure
    │   ├── MergeConflictError   two sides changed the same lines
    │   └── PushRejectedError    the remote said no
    ├── ProcessError             a child process could not start, or overran its time
    ├── StageFailedError         an attempt ended without a commit to land; the next may do better
    ├── TemplateError            a prompt does not compile or misses a variable
    ├── StoreError               a database or file of ours cannot be read or written
    │   ├── RunBusyError         another live process owns this run
    │   └── LockStoreAwayError   the place where the locks are kept does not answer
    ├── LockBusyError            others held the lock for as long as we wanted to wait
    ├── LockLostError            the lease lapsed; the holder must not write
    └── LLMError                 a model call got no usable answer
        ├── AuthenticationError  the key is missing or refused
        ├── RequestRejectedError the service will never accept this request
        ├── RateLimitedError     429; carries the pause in seconds
        ├── OverloadedError      529
        ├── ServiceError         5xx, or an answer that is no answer (HTML, bad JSON, empty object)
        ├── TruncatedError       the stream ended before the message did
        ├── ConnectionFailedError  the endpoint could not be reached
        ├── DeadlineError        no (whole) answer within our own time limit
        └── BatchItemError       one item of a batch errored, expired, was cancelled or is missing

An error has a message (what happened) and, where there is one, a hint (what to do next); `str()` gives both
on one line, so that whatever prints it tells the user how to go on.
"""

from __future__ import annotations

from typing import Literal


class TaskyardError(Exception):
    """Base of the tree. `message` says what happened, `hint` what to do next."""

    exit_status = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message


class UsageError(TaskyardError):
    """The user asked for something that cannot be done as asked; nothing was written."""

    exit_status = 2


class SettingsError(UsageError):
    """A setting is unknown, has the wrong type, or contradicts another."""


class BoardError(UsageError):
    """The board cannot be read, or holds no table."""


class PreflightError(UsageError):
    """The repository (or the endpoint) is not in a state a run can start from."""


class HaltedError(TaskyardError):
    """What every task needs is not there: a valid key, the model, the agent, room on the disk.

    No task is to blame and none is given up: the run stops as it is, and the next one goes on from there.
    """

    exit_status = 2


class BudgetReachedError(TaskyardError):
    """The worst case of the next call would pass the budget of `scope` (run or task). Dollars."""

    exit_status = 3

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        scope: Literal["run", "task"] = "run",
        limit_usd: float = 0.0,
        spent_usd: float = 0.0,
        next_usd: float = 0.0,
    ) -> None:
        super().__init__(message, hint)
        self.scope = scope
        self.limit_usd = limit_usd
        self.spent_usd = spent_usd
        self.next_usd = next_usd


def budget_in_words(whose: str, *, limit_usd: float, spent_usd: float, next_usd: float) -> str:
    """How a budget was reached: "budget of the run reached: $2.95 of $3.00, next call up to $0.20".

    What a call of an agent command may cost nobody can say, and nothing is said of it.
    """
    digits = 2 if limit_usd >= 1 else 4  # of a small one, cents are no measure
    text = f"budget of {whose} reached: ${spent_usd:.{digits}f} of ${limit_usd:.{digits}f}"
    return f"{text}, next call up to ${next_usd:.{digits}f}" if next_usd >= 0.00005 else text


class GitError(TaskyardError):
    """A git command failed. `status` is its exit status, `stderr` its last words."""

    def __init__(self, message: str, hint: str = "", *, status: int = -1, stderr: str = "") -> None:
        super().__init__(message, hint)
        self.status = status
        self.stderr = stderr


class MergeConflictError(GitError):
    """Two sides changed the same lines; `paths` are the files concerned."""

    def __init__(self, message: str, paths: tuple[str, ...]) -> None:
        super().__init__(message)
        self.paths = paths


class PushRejectedError(GitError):
    """Nothing landed. `kind`: moved, hook, locked, unreachable, unknown, diverged or checked_out."""

    def __init__(self, message: str, hint: str = "", *, kind: str, stderr: str = "") -> None:
        super().__init__(message, hint, stderr=stderr)
        self.kind = kind


class ProcessError(TaskyardError):
    """A child process could not be started, or was ended because it overran a time limit."""


class StageFailedError(TaskyardError):
    """A stage of an attempt ended badly; another attempt may do better.

    `failure_type` is one word for the lesson (check_failed, verdict_refused, no_change, conflict, timeout …),
    `feedback` what the next attempt is told, in full.
    """

    def __init__(self, message: str, hint: str = "", *, failure_type: str, feedback: str = "") -> None:
        super().__init__(message, hint)
        self.failure_type = failure_type
        self.feedback = feedback or message


class TemplateError(TaskyardError):
    """A prompt template does not compile, or misses a variable; names file and line."""


class StoreError(TaskyardError):
    """A database or file of Taskyard's own cannot be read or written."""


class RunBusyError(StoreError):
    """Another live process is the orchestrator of this board."""

    exit_status = 2


class LockStoreAwayError(StoreError):
    """The place where the locks are kept (a file, or a Redis server) does not answer."""


class LockBusyError(TaskyardError):
    """Others held the lock for as long as we wanted to wait."""


class LockLostError(TaskyardError):
    """The lease of a lock lapsed while it was held; what it guarded must not be written."""


class LLMError(TaskyardError):
    """A model call got no usable answer. `retryable` says whether the same request may succeed later.

    `status` is the HTTP status of the service's answer, or 0 when there was none.
    """

    retryable = False
    status = 0


class AuthenticationError(LLMError):
    """No API key, or one that the service refuses."""


class RequestRejectedError(LLMError):
    """The service will never accept this request (400, 404, 413, 422, a spend limit)."""


class RateLimitedError(LLMError):
    """429. `retry_after` is the pause the service asks for, in seconds."""

    retryable = True

    def __init__(self, message: str, hint: str = "", *, retry_after: float = 0.0) -> None:
        super().__init__(message, hint)
        self.retry_after = retry_after


class OverloadedError(LLMError):
    """529: the service has no capacity now."""

    retryable = True


class ServiceError(LLMError):
    """The service failed (5xx), or answered with something that is not an answer."""

    retryable = True


class TruncatedError(LLMError):
    """The stream ended before the message was complete."""

    retryable = True


class ConnectionFailedError(LLMError):
    """The endpoint could not be reached, or the connection broke."""

    retryable = True


class DeadlineError(LLMError):
    """The call took longer than the total or idle limit we set for it."""

    retryable = True


class BatchItemError(LLMError):
    """One request of a batch got no answer. `kind`: errored, expired, canceled or missing."""

    def __init__(self, message: str, hint: str = "", *, kind: str) -> None:
        super().__init__(message, hint)
        self.kind = kind
