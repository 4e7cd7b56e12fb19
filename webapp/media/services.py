"""Media of a run: storage, their names, their steps, the values at one step, heat maps of histograms.

A step that a later attempt has reached again replaces the values of earlier attempts from there on.
"""

from collections.abc import Collection, Mapping
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import orjson
import zstandard
from django.db.models import BinaryField, Case, Count, F, Max, Min, Q, QuerySet, When

from troupe_client.documents import media as documents
from webapp.media.models import MediaValue
from webapp.runs.models import Run
from workers.telemetry.events import AnyMedia, ImageMedia, MediaEvent
from workers.telemetry.limits import image_type

MOST_STEPS = 1000
"""Positions of the slider."""
COLUMNS, BINS = 200, 64
"""Steps and bins of a heat map."""


Shown = tuple[str, str, str]
"""Run, name and kind."""


def values_of(*runs: Run) -> QuerySet[MediaValue]:
    """Return the values of the runs that no later attempt has replaced."""
    rows = MediaValue.objects.filter(run__in=[run.pk for run in runs])
    begun: dict[str, dict[int, int]] = {}
    for run, attempt, first in (
        rows.order_by("run", "-attempt").values_list("run", "attempt").annotate(Min("step"))
    ):
        begun.setdefault(run, {})[attempt] = first
    if all(len(attempts) == 1 for attempts in begun.values()):
        return rows
    return rows.filter(reduce(or_, (Q(run=run) & _kept(attempts) for run, attempts in begun.items())))


def _kept(begun: Mapping[int, int]) -> Q:
    """Return the condition of attempts, newest first with their first step, that each ends where a later one begins."""
    conditions, end = [], None
    for attempt, first in begun.items():
        conditions.append(Q(attempt=attempt) if end is None else Q(attempt=attempt, step__lt=end))
        end = first if end is None else min(end, first)
    return reduce(or_, conditions)


def names_of(rows: QuerySet[MediaValue], words: str = "") -> dict[str, list[documents.MediaName]]:
    """Return the names that contain each of the words by run, in the order of their first values."""
    for word in words.split():
        rows = rows.filter(name__icontains=word)
    figures = (
        rows.order_by()
        .values("run", "name", "kind")
        .annotate(values=Count("pk"), first_step=Min("step"), last_step=Max("step"), first=Min("pk"))
    )
    names: dict[str, list[documents.MediaName]] = {}
    fields = documents.MediaName.model_fields
    for row in figures.order_by("first").values("run", *fields):
        names.setdefault(row.pop("run"), []).append(documents.MediaName(**row))
    return names


def steps_of(rows: QuerySet[MediaValue]) -> list[int]:
    """Return the steps with media, in order; of more than MOST_STEPS, evenly chosen ones with the first and the last."""
    return _chosen(list(rows.order_by("step").values_list("step", flat=True).distinct()), MOST_STEPS)


def values_at(
    rows: QuerySet[MediaValue], names: Collection[str], step: int | None
) -> dict[Shown, list[MediaValue]]:
    """Return the values of names at their last step up to `step` (None: the last one), by run, name and kind. Images are without `data`."""
    until = rows.filter(name__in=names) if step is None else rows.filter(name__in=names, step__lte=step)
    shown = ("run", "name", "kind")
    newest = until.order_by(*shown, "-step", "-attempt", "-time").distinct(*shown)
    same = [Q(**key) for key in newest.values(*shown, "step", "attempt", "time")]
    content = Case(When(~Q(kind="image"), then=F("data")), output_field=BinaryField(null=True))
    values: dict[Shown, list[MediaValue]] = {}
    if same:
        for value in rows.filter(reduce(or_, same)).defer("data").annotate(shown=content).order_by("pk"):
            value.data = value.shown or b""
            values.setdefault((value.run_id, value.name, value.kind), []).append(value)
    return values


def heat_map(run: Run, name: str) -> documents.HeatMap:
    """Return the histograms of a name over the steps on a common grid; the values of an original bin are spread evenly over it."""
    rows = values_of(run).filter(name=name, kind="histogram", position=0)
    latest = dict(rows.order_by("step", "attempt", "pk").values_list("step", "pk"))
    chosen = _chosen(list(latest), COLUMNS)
    stored = MediaValue.objects.in_bulk([latest[step] for step in chosen])
    histograms = [
        (np.asarray(content["edges"]), np.asarray(content["counts"]))
        for step in chosen
        for content in [stored[latest[step]].content]
    ]
    if not histograms:
        return documents.HeatMap(steps=[], edges=[], shares=[], counts=[])
    edges = np.linspace(min(old[0] for old, _ in histograms), max(old[-1] for old, _ in histograms), BINS + 1)
    return documents.HeatMap.model_construct(
        steps=chosen,
        edges=edges.tolist(),
        shares=[_shares(old, counts, edges).round(5).tolist() for old, counts in histograms],
        counts=[float(counts.sum()) for _, counts in histograms],
    )


def _shares(old: "np.ndarray[Any, Any]", counts: "np.ndarray[Any, Any]", new: "np.ndarray[Any, Any]") -> Any:
    """Return the share of the values between neighbouring edges of `new`."""
    below = np.concatenate([[0.0], np.cumsum(counts)])
    return np.diff(np.interp(new, old, below)) / (below[-1] or 1.0)


def _chosen(steps: list[int], most: int) -> list[int]:
    """Return at most `most` of the steps, evenly spread, with the first and the last."""
    if len(steps) <= most:
        return steps
    return [steps[round(index * (len(steps) - 1) / (most - 1))] for index in range(most)]


def media_store(run: Run, cursor: int, events: list[MediaEvent]) -> None:
    """Store one row per value."""
    rows = MediaValue.objects.bulk_create(
        _row(run, event, position, value) for event in events for position, value in enumerate(event.values)
    )
    run.media_count += len(rows)
    run.save(update_fields=["media_count"])


def _row(run: Run, event: MediaEvent, position: int, value: AnyMedia) -> MediaValue:
    if isinstance(value, ImageMedia):
        data = value.content
        facts = {"media_type": image_type(data[:16]), "width": value.width, "height": value.height}
    else:
        data = zstandard.compress(orjson.dumps(value.model_dump(mode="json", exclude={"kind", "caption"})))
        facts = {}
    return MediaValue(
        run=run,
        attempt=event.attempt,
        step=event.step,
        time=event.time,
        name=event.name,
        kind=value.kind,
        position=position,
        caption=value.caption,
        data=data,
        size=len(data),
        **facts,
    )
