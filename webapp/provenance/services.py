"""Storage of the provenance of launches and attempts."""

from typing import Any

from training_core.errors import ConfigError
from webapp.provenance.models import Provenance
from webapp.provenance.reported import Reported, provenance_read
from webapp.runs.logs import server_says
from webapp.runs.models import Run

LAUNCH = 0
"""Number of the record of a launch; attempts count from 1."""


def provenance_store(run: Run, attempt: int, reported: Reported) -> None:
    """Store a record. A second report of the same attempt adds its fields to the first."""
    facts = reported.model_dump(mode="json", exclude_unset=True)
    diffs = {}
    for repository in facts.get("repositories", []):
        if diff := repository.pop("diff", ""):
            diffs[repository["folder"]] = diff
    record = Provenance.objects.filter(run=run, attempt=attempt).first()
    if record is None:
        Provenance.objects.create(run=run, attempt=attempt, facts=facts, diffs=diffs)
        return
    record.facts = record.facts | facts
    record.save(update_fields=["facts"])
    if "repositories" in facts:
        Provenance.objects.filter(pk=record.pk).update(diffs=diffs)


def provenance_report(run: Run, attempt: int, reported: Any) -> None:
    """Store a driver's report; an invalid one is described in the run's log."""
    try:
        provenance_store(run, attempt, provenance_read(reported))
    except ConfigError as error:
        server_says(run, attempt, f"The provenance of this attempt was rejected: {error}")
