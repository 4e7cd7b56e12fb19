"""Storage of batches of events: each event once, in order, a batch completely or not at all.

The batches come from running jobs, and from the spools that dead runs left on disk.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import DataError, connection, transaction
from django.db.models import Q
from django.utils import timezone

from webapp.checkpoints import services as checkpoints
from webapp.common.compiled import CompiledQuery
from webapp.ingest.batches import EventBatch, IngestRejected, Room, batch_read, full, gap, invalid
from webapp.ingest.models import Producer
from webapp.media import services as media
from webapp.metrics import services as metrics
from webapp.quotas.services import storage_held
from webapp.runs.lifecycle import run_announce, run_locked, run_reason_set
from webapp.runs.logs import log_lines_store, server_says
from webapp.runs.models import Attempt, Run
from webapp.runs.selectors import LOST_EVENTS, attempts_from, facts_add, facts_of
from webapp.scheduling.attempts import command_for, is_at_work, status_apply
from webapp.scheduling.client_runs import QUIET, client_run_revive
from webapp.timeline import services as timeline
from webapp.transcripts import services as transcripts
from workers.telemetry.delivery import ServerResponse, SpoolUploader, Undelivered
from workers.telemetry.events import (
    AnyEvent,
    BatchEvent,
    CheckpointEvent,
    EpisodeAnnotationEvent,
    EpisodeEvent,
    Event,
    HeartbeatEvent,
    LogEvent,
    MediaEvent,
    MetricsEvent,
    PhaseEvent,
    StatusEvent,
    UtilisationEvent,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class IngestAnswer:
    """The response to the sender."""

    acknowledged: int
    """Last stored seq of the producer."""
    command: str | None
    """stop, pause, exit or nothing."""
    held: str = ""
    """Reason for not storing the batch now; the sender must send it again."""


KEPT: dict[type[Event], Callable[[Run, int, list[Any]], None]] = {
    MediaEvent: media.media_store,
    EpisodeEvent: transcripts.episodes_store,
    EpisodeAnnotationEvent: transcripts.annotations_store,
    BatchEvent: timeline.batches_store,
    CheckpointEvent: checkpoints.checkpoints_store,
    PhaseEvent: timeline.phases_store,
    UtilisationEvent: timeline.utilisation_store,
    LogEvent: log_lines_store,
}
"""Functions that store events, in this order."""


_PRODUCER = CompiledQuery(
    lambda run_id, producer: Producer.objects.filter(run=run_id).filter(producer=producer)
)
# Raw SQL because three saves by the ORM take ten times as long.
_SAVE = """
WITH attempt AS (UPDATE runs_attempt SET heartbeat_at = %s, unreachable_since = NULL WHERE id = %s),
  producer AS (UPDATE ingest_producer SET acknowledged = %s, updated_at = %s WHERE id = %s)
UPDATE runs_run SET event_count = %s, iteration = %s WHERE id = %s
"""


def batch_store(run_id: str, body: bytes, encoding: str, room: Room | None = None) -> IngestAnswer:
    """Validate a request's body and store its new events. Raises IngestRejected, also if the project's storage quota is
    reached: the sender keeps the batch and tries again.

    room: already contains the claim of the raw body.
    """
    with room or Room() as claimed:
        return _store_read(run_id, batch_read(run_id, body, encoding, claimed))


def _store_read(run_id: str, batch: EventBatch) -> IngestAnswer:
    try:
        with transaction.atomic():
            answer = _store_locked(run_id, batch)
    except DataError as error:
        raise invalid(None, {"": f"a value does not fit: {str(error)[:200]}"}) from error
    if answer.held:
        raise full(answer.held, answer.command)
    return answer


def events_append(run: Run, sender: str, events: list[AnyEvent]) -> IngestAnswer:
    """Store events of the latest attempt from a sender without seqs, after those that it has sent. The caller holds the run's lock.

    The events are valid, and have no envelope, except for the attempt of media. `held` of the result: nothing is stored.
    """
    attempt = attempts_from(run, 1)[-1]
    producer = _producer(run, EventBatch(attempt.number, f"{sender}-{attempt.number}", 1, events))
    return _store_fresh(run, attempt, producer, events, newest=True)


def _store_locked(run_id: str, batch: EventBatch) -> IngestAnswer:
    """Store under the run's row lock, so that cursors are committed in increasing order."""
    run = run_locked(run_id)
    if run is None:
        raise IngestRejected(404, {"code": "unknown_run", "detail": f"there is no run {run_id}"})
    attempts = attempts_from(run, batch.attempt)
    if not attempts or attempts[0].number != batch.attempt:
        # Not 400, for which a reporter drops events: the attempt may be about to be recorded.
        detail = f"run {run_id} has no attempt {batch.attempt}"
        raise IngestRejected(404, {"code": "unknown_attempt", "detail": detail})
    producer = _producer(run, batch)
    if batch.first > producer.acknowledged + 1:
        raise gap(producer.acknowledged + 1)
    fresh = batch.events[producer.acknowledged + 1 - batch.first :]
    return _store_fresh(run, attempts[0], producer, fresh, newest=len(attempts) == 1)


def _store_fresh(
    run: Run, attempt: Attempt, producer: Producer, fresh: list[AnyEvent], *, newest: bool
) -> IngestAnswer:
    """Store the events after those of the producer. newest: whether the run has no later attempt."""
    leads = _leads(run, producer)
    if leads:
        client_run_revive(run, attempt)
        attempt.heartbeat_at, attempt.unreachable_since = timezone.now(), None
    held = storage_held(run.project_id) if fresh else ""
    if fresh and (held or run.events_held):
        run.events_held = bool(held)
        run.save(update_fields=["events_held"])
        run_reason_set(run, held)
    if fresh and not held:
        run.event_count += len(fresh)
        producer.acknowledged += len(fresh)
        _store(run, attempt, fresh)
        _lost_note(run, producer, fresh)
        if leads:
            _progress_note(run, attempt, fresh, newest=newest)
        else:
            _failure_note(run, producer, fresh)
        run_announce(run)
    _progress_save(run, attempt, producer, leads=leads)
    return IngestAnswer(producer.acknowledged, command_for(run, attempt, newest=newest), held)


def _producer(run: Run, batch: EventBatch) -> Producer:
    """Return the producer's row; may be created under the run's lock."""
    producer = _PRODUCER.first(run.pk, batch.producer) or Producer.objects.create(
        run=run, producer=batch.producer, attempt=batch.attempt, **_part(batch.events[0])
    )
    if producer.attempt != batch.attempt:
        raise invalid(
            batch.first, {"attempt": f"producer {batch.producer} belongs to attempt {producer.attempt}"}
        )
    return producer


def _part(first: AnyEvent) -> dict[str, Any]:
    """Return the fields `program` and `role` of a new producer, which the first event of a custom program states."""
    if not isinstance(first, StatusEvent) or first.facts.get("client") is not True:
        return {}
    return {"program": True, "role": str(first.facts.get("role", ""))[:60]}


def _leads(run: Run, producer: Producer) -> bool:
    """Whether the run's state follows this producer.

    Of several custom programs in one attempt, it is the first one without a role, else the first one; one that has not reported
    for a while is left out.
    """
    if not run.is_custom or not producer.program:
        return True
    programs = Producer.objects.filter(run=run, attempt=producer.attempt, program=True)
    alive = programs.filter(Q(updated_at__gte=timezone.now() - QUIET) | Q(pk=producer.pk))
    first = min(alive.values_list("role", "pk"), key=lambda program: (program[0] != "", program[1]))
    return bool(first[1] == producer.pk)


def _progress_save(run: Run, attempt: Attempt, producer: Producer, *, leads: bool) -> None:
    """Save the numbers of events and of completed iterations, and the time of this message by the server's clock."""
    now = timezone.now()
    of_producer: list[Any] = [producer.acknowledged, now, producer.pk]
    of_run: list[Any] = [run.event_count, run.iteration, run.pk]
    with connection.cursor() as cursor:
        cursor.execute(_SAVE, [now, attempt.pk if leads else None, *of_producer, *of_run])


def _store(run: Run, attempt: Attempt, events: list[AnyEvent]) -> None:
    """Pass each kind of event to the app that stores it. Events of an old attempt are stored too, except for its state."""
    cursor = run.event_count
    if points := [event for event in events if isinstance(event, MetricsEvent)]:
        metrics.points_store(run, attempt.number, cursor, points)
    for kind, store in KEPT.items():
        if some := [event for event in events if isinstance(event, kind)]:
            store(run, cursor, some)


def _failure_note(run: Run, producer: Producer, events: list[AnyEvent]) -> None:
    """Write the failure of a program that does not decide over the run's state to the log."""
    for event in events:
        if isinstance(event, StatusEvent) and event.state == "failed":
            name = f"The program {producer.role!r}" if producer.role else "Another program"
            server_says(run, producer.attempt, f"{name} of this run failed: {event.message}", "error")


def _lost_note(run: Run, producer: Producer, events: list[AnyEvent]) -> None:
    """Keep the number of events that a producer has lost on a full disk among the run's facts, for its health."""
    lost = max((event.lost for event in events if isinstance(event, HeartbeatEvent)), default=0)
    if lost:
        earlier = facts_of(run).get(LOST_EVENTS)
        counts = (earlier if isinstance(earlier, dict) else {}) | {producer.producer: lost}
        facts_add(run, producer.attempt, {LOST_EVENTS: counts})
        run.save(update_fields=["facts"])


def _progress_note(run: Run, attempt: Attempt, events: list[AnyEvent], *, newest: bool) -> None:
    """Update state and completed iterations, event by event in the driver's order.

    Heartbeats of an attempt that was superseded, has not started or has ended do not change the run's progress.
    """
    for event in events:
        if isinstance(event, StatusEvent):
            status_apply(run, attempt, event)
        elif isinstance(event, HeartbeatEvent) and newest and is_at_work(attempt):
            run.iteration = event.iteration


class DirectChannel:
    """Stores batches directly, without a server in between."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def post(self, data: bytes) -> ServerResponse:
        """Store one batch in the database; the response is that of the HTTP endpoint."""
        try:
            answer = batch_store(self._run_id, data, "zstd")
        except IngestRejected as rejected:
            return ServerResponse(rejected.status, rejected.payload)
        return ServerResponse(200, {"acknowledged": answer.acknowledged, "command": answer.command})

    def close(self) -> None:
        """Do nothing: there is no connection."""


def spool_store(run_id: str, folder: Path) -> bool:
    """Store every event of the spools in `folder` that is not stored yet. Events that cannot be stored stay on disk;
    returns whether there are none.
    """
    whole = True
    for path in sorted(folder.glob("*.jsonl")):
        if path.name.endswith(".rejected.jsonl"):
            continue
        courier = SpoolUploader(path, DirectChannel(run_id))
        try:
            while courier.step():
                pass
        except (Undelivered, OSError) as error:
            whole = False
            log.warning("run %s: the spool %s was not stored completely: %s", run_id, path.name, error)
        finally:
            courier.close()
    return whole
