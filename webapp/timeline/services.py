"""Storage of batches and of device utilisation."""

import orjson
import zstandard

from webapp.runs.models import Phase, Run
from webapp.timeline.models import Batch, Utilisation
from webapp.transcripts.services import staleness_store
from workers.telemetry.events import BatchEvent, PhaseEvent, UtilisationEvent


def batches_store(run: Run, cursor: int, events: list[BatchEvent]) -> None:
    """One row per event."""
    Batch.objects.bulk_create(
        Batch(
            run=run,
            attempt=event.attempt,
            cursor=cursor,
            iteration=event.iteration,
            consumed=event.consumed,
            learnt=event.learnt,
            data=zstandard.compress(
                orjson.dumps(
                    [episode.model_dump(mode="json", exclude_defaults=True) for episode in event.episodes]
                )
            ),
        )
        for event in events
    )
    staleness_store(
        run, {episode.episode: episode.staleness for event in events for episode in event.episodes}
    )


def utilisation_store(run: Run, cursor: int, events: list[UtilisationEvent]) -> None:
    """One row per event."""
    Utilisation.objects.bulk_create(
        Utilisation(
            run=run,
            attempt=event.attempt,
            cursor=cursor,
            worker=event.worker,
            device=event.device,
            start=min(moment for moment, _ in event.samples),
            end=max(moment for moment, _ in event.samples),
            data=zstandard.compress(orjson.dumps(event.samples)),
        )
        for event in events
    )


def phases_store(run: Run, cursor: int, events: list[PhaseEvent]) -> None:
    """Store spans of work."""
    Phase.objects.bulk_create(
        Phase(
            run=run,
            attempt=event.attempt,
            cursor=cursor,
            worker=event.worker,
            phase=event.phase,
            policy=event.policy,
            iteration=event.iteration,
            start=event.start,
            end=event.end,
            flops=event.flops,
            peak=event.peak,
        )
        for event in events
    )
