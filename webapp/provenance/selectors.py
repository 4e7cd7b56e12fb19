"""Reading the provenance of runs."""

from collections.abc import Iterable, Mapping
from typing import Any

from webapp.provenance.models import Provenance
from webapp.runs.models import Run
from webapp.runs.selectors import packages_of
from workers.provenance.repository import unpacked_diff

SHORT = 12
"""Characters of a hash in comparisons."""


def provenance_document(run: Run) -> dict[str, Any]:
    """Return {"launch": record or None, "attempts": [record, oldest first], "packages"}; a record is webapp.provenance.reported.Reported
    with the attempt's number, its time, and diffs as text.
    """
    records = [_document(row) for row in Provenance.objects.filter(run=run).defer(None)]
    launch = records.pop(0) if records and records[0]["attempt"] == 0 else None
    return {"run": run.pk, "launch": launch, "attempts": records, "packages": packages_of(run)}


def _document(row: Provenance) -> dict[str, Any]:
    repositories = [
        repository | {"diff": unpacked_diff(row.diffs.get(repository["folder"], ""))}
        for repository in row.facts.get("repositories", [])
    ]
    return {
        "attempt": row.attempt,
        "time": row.created_at,
        **row.facts,
        "repositories": repositories,
    }


def provenance_flat(runs: Iterable[Run]) -> dict[str, dict[str, Any]]:
    """Return run -> dotted field -> value, for comparisons: commit and changes of each repository, hashes of code and data,
    Python and machine. Values are of the last attempt; the code of the launch is included where it is another repository.
    """
    merged: dict[str, dict[str, Any]] = {}
    for row in Provenance.objects.filter(run__in=list(runs)).order_by("run", "attempt"):
        merged.setdefault(row.run_id, {}).update(_flat(row.facts))
    return merged


def _flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for repository in facts.get("repositories", []):
        if repository.get("commit"):
            changes = repository.get("diff_sha256") or ""
            flat[f"code.{repository['name']}.commit"] = repository["commit"][:SHORT]
            flat[f"code.{repository['name']}.uncommitted"] = changes[:SHORT] or "none"
    for part in ("code", "data"):
        for item in facts.get(part, []):
            flat[f"{part}.{item['field']}"] = item.get("sha256", "")[:SHORT] or item.get("note", "")
    machine = facts.get("machine")
    if machine and "installed" in facts:  # the launch's machine only sent the request
        flat["machine.python"] = machine.get("python", "")
        flat["machine.processor"] = machine.get("processor", "")
        flat["machine.gpus"] = ", ".join(gpu.get("name", "") for gpu in machine.get("gpus", [])) or "none"
    return flat
