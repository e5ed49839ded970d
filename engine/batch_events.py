"""What the batcher tells, as events: what a restart needs is on disk before the batcher goes on."""

from __future__ import annotations

from collections.abc import Iterable

from engine import events as ev
from engine.bus import Bus
from engine.llm.batch_calls import BatchState
from engine.llm.batch_flights import Manifest


class BatchEvents:
    """The batcher's hooks over the bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def creating(self, manifest: Manifest) -> None:
        """Journal that a batch is about to be created."""
        await self._bus.commit(
            ev.BatchCreating(
                at=manifest.created_at,
                token=manifest.token,
                role=manifest.role,
                model=manifest.model,
                custom_ids=manifest.custom_ids,
                tasks=manifest.tasks,
            )
        )

    async def submitted(self, manifest: Manifest) -> None:
        """Journal the id the service gave."""
        await self._bus.commit(
            ev.BatchSubmitted(
                at=self._bus.clock(),
                token=manifest.token,
                batch=manifest.batch,
                role=manifest.role,
                model=manifest.model,
                custom_ids=manifest.custom_ids,
                tasks=manifest.tasks,
            )
        )

    def polled(self, batch: str, state: BatchState, next_poll_at: float | None) -> None:
        """Tell how far a batch is."""
        self._bus.emit(
            ev.BatchPolled(
                at=self._bus.clock(),
                batch=batch,
                status=state.status,
                succeeded=state.succeeded,
                errored=state.errored + state.expired + state.canceled,
                next_poll_at=next_poll_at,
            )
        )

    def ended(self, batch: str, succeeded: int, errored: int) -> None:
        """Tell that all results were handed over."""
        self._bus.emit(ev.BatchEnded(at=self._bus.clock(), batch=batch, succeeded=succeeded, errored=errored))

    def notice(self, text: str) -> None:
        """Tell a person."""
        self._bus.notice("warning", text)


def manifests(open_batches: Iterable[ev.BatchCreating | ev.BatchSubmitted]) -> tuple[Manifest, ...]:
    """Give the manifests of the batches that an interrupted run left open."""
    return tuple(
        Manifest(
            token=event.token,
            role=event.role,
            model=event.model,
            custom_ids=event.custom_ids,
            tasks=event.tasks,
            created_at=event.at,
            batch=event.batch if isinstance(event, ev.BatchSubmitted) else "",
        )
        for event in open_batches
    )
